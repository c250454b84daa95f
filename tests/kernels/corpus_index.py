"""Indices that are data: gathers, scatters, sparse matrices, searching and sorting."""

from __future__ import annotations

import bisect

import numpy as np

from tests.kernels.base import Ulps, kernel, put
from tirlower.script import tir as T


@kernel(
    lambda g, n, m: [g.floats(m), g.ints(n, low=0, high=m - 1), g.blank(n)],
    lambda a, p, b: put(b, a[p]),
    sizes=[{"n": 0, "m": 3}, {"n": 7, "m": 4}],
    large=[{"n": 1009, "m": 100}],
    dynamic=True,
)
def gather():
    @T.prim_func
    def gather(a: T.handle, p: T.handle, b: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (m,), "float32")
        P = T.match_buffer(p, (n,), "int32")
        B = T.match_buffer(b, (n,), "float32")
        for i in range(n):
            B[i] = A[P[i]]

    return gather


@kernel(
    lambda g, n, rows, dim: [
        g.floats(rows, dim, dtype="bfloat16"),
        g.ints(n, dtype="int64", low=0, high=rows - 1),
        g.blank(n, dim, dtype="bfloat16"),
    ],
    lambda table, ids, out: put(out, table[ids]),
    sizes=[{"n": 3, "rows": 5, "dim": 7}],
    large=[{"n": 40, "rows": 100, "dim": 33}],
)
def embedding_lookup(n, rows, dim):
    @T.prim_func
    def embedding(
        table: T.Buffer((rows, dim), "bfloat16"), ids: T.Buffer((n,), "int64"), out: T.Buffer((n, dim), "bfloat16")
    ):
        for i, j in T.grid(n, dim):
            with T.block("lookup"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads(ids[vi], table[0:rows, vj])
                T.writes(out[vi, vj])
                out[vi, vj] = table[ids[vi], vj]

    return embedding


@kernel(
    lambda g, n, m: [g.ints(n, low=0, high=m - 1), g.ints(n, dtype="int32"), g.ints(m, dtype="int32")],
    lambda p, v, out: np.add.at(out, p, v),
    sizes=[{"n": 0, "m": 1}, {"n": 9, "m": 3}],
    large=[{"n": 500, "m": 17}],
    dynamic=True,
)
def scatter_add():
    @T.prim_func
    def scatter(p: T.handle, v: T.handle, o: T.handle):
        n, m = T.int32(), T.int32()
        P = T.match_buffer(p, (n,), "int32")
        V = T.match_buffer(v, (n,), "int32")
        O = T.match_buffer(o, (m,), "int32")
        for i in range(n):
            O[P[i]] = O[P[i]] + V[i]

    return scatter


@kernel(
    lambda g, n: [g.ints(n, dtype="uint8"), g.blank(256, dtype="int32")],
    lambda a, h: put(h, np.bincount(a, minlength=256)),
    sizes=[{"n": n} for n in (0, 1, 50)],
    large=[{"n": 4000}],
    dynamic=True,
)
def histogram():
    @T.prim_func
    def histogram(a: T.handle, H: T.Buffer((256,), "int32")):
        n = T.int32()
        A = T.match_buffer(a, (n,), "uint8")
        for i in range(256):
            H[i] = 0
        for i in range(n):
            H[T.Cast("int32", A[i])] += 1

    return histogram


def _csr_arguments(g, n, m, density):
    mask = g.rng.random((n, m)) < density / 100
    indptr = np.concatenate([[0], np.cumsum(mask.sum(1))]).astype(np.int32)
    indices = np.nonzero(mask)[1].astype(np.int32)
    return [indptr, indices, g.floats(len(indices)), g.floats(m), g.blank(n)]


def _csr(indptr, indices, data, x, y):
    for i in range(len(y)):
        part = slice(indptr[i], indptr[i + 1])
        y[i] = np.dot(data[part].astype(np.float64), x[indices[part]].astype(np.float64))


@kernel(
    _csr_arguments,
    _csr,
    sizes=[{"n": 4, "m": 6, "density": 40}, {"n": 3, "m": 2, "density": 0}],
    large=[{"n": 97, "m": 53, "density": 20}],
    within=lambda n, m, density: Ulps(m + 1, scale=m + 1),
    dynamic=True,
)
def csr_matvec():
    @T.prim_func
    def spmv(p: T.handle, c: T.handle, d: T.handle, x: T.handle, y: T.handle):
        n, m, nnz = T.int32(), T.int32(), T.int32()
        Y = T.match_buffer(y, (n,), "float32")
        X = T.match_buffer(x, (m,), "float32")
        D = T.match_buffer(d, (nnz,), "float32")
        C = T.match_buffer(c, (nnz,), "int32")
        P = T.match_buffer(p, (n + 1,), "int32")
        for i in T.parallel(n):
            Y[i] = T.float32(0)
            for j in range(P[i], P[i + 1]):
                Y[i] = Y[i] + D[j] * X[C[j]]

    return spmv


@kernel(
    lambda g, n: [g.permutation(n), g.blank(n, dtype="int32")],
    lambda p, q: put(q, np.argsort(p)),
    sizes=[{"n": n} for n in (0, 1, 9)],
    large=[{"n": 509}],
    dynamic=True,
)
def inverse_permutation():
    @T.prim_func
    def inverse(p: T.handle, q: T.handle):
        n = T.int32()
        P = T.match_buffer(p, (n,), "int32")
        Q = T.match_buffer(q, (n,), "int32")
        for i in T.parallel(n, annotations={"tir.unchecked": "P is a permutation"}):
            Q[P[i]] = i

    return inverse


def _compact(a, out, count):
    kept = a[a > 0]
    out[: len(kept)] = kept
    count[0] = len(kept)


@kernel(
    lambda g, n: [g.ints(n, low=-3, high=3), g.blank(n, dtype="int32"), g.blank(1, dtype="int32")],
    _compact,
    sizes=[{"n": n} for n in (0, 1, 12)],
    large=[{"n": 700}],
    dynamic=True,
)
def compaction():
    @T.prim_func
    def compact(a: T.handle, o: T.handle, count: T.Buffer((1,), "int32")):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int32")
        O = T.match_buffer(o, (n,), "int32")
        count[0] = 0
        for i in range(n):
            if A[i] > 0:
                O[count[0]] = A[i]
                count[0] = count[0] + 1

    return compact


def _list_arguments(g, n):
    order = g.permutation(n)
    following = np.empty(n, np.int32)
    following[order] = np.append(order[1:], -1)
    return [following, int(order[0]), g.ints(n, dtype="int64"), g.blank(2, dtype="int64")]


def _walk(following, head, values, out):
    total, steps, at = 0, 0, head
    while at >= 0:
        total, steps, at = total + int(values[at]) * (steps + 1), steps + 1, int(following[at])
    out[0] = np.array([total % 2**64], dtype=np.uint64).astype(np.int64)[0]
    out[1] = steps


@kernel(
    _list_arguments,
    _walk,
    sizes=[{"n": 1}, {"n": 8}],
    large=[{"n": 600}],
    dynamic=True,
)
def linked_list_walk():
    @T.prim_func
    def walk(f: T.handle, head: T.int32, v: T.handle, out: T.Buffer((2,), "int64")):
        n = T.int32()
        F = T.match_buffer(f, (n,), "int32")
        V = T.match_buffer(v, (n,), "int64")
        at = T.alloc_buffer((1,), "int32", scope="local")
        at[0] = head
        out[0] = T.int64(0)
        out[1] = T.int64(0)
        while at[0] >= 0:
            out[1] = out[1] + T.int64(1)
            out[0] = out[0] + V[at[0]] * out[1]
            at[0] = F[at[0]]

    return walk


@kernel(
    lambda g, n, m: [np.sort(g.ints(n, low=-50, high=50)), g.ints(m, low=-60, high=60), g.blank(m, dtype="int32")],
    lambda a, q, out: put(out, [bisect.bisect_left(a.tolist(), x) for x in q.tolist()]),
    sizes=[{"n": 0, "m": 2}, {"n": 1, "m": 3}, {"n": 10, "m": 9}],
    large=[{"n": 1000, "m": 77}],
    dynamic=True,
)
def binary_search():
    @T.prim_func
    def search(a: T.handle, q: T.handle, o: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n,), "int32")
        Q = T.match_buffer(q, (m,), "int32")
        O = T.match_buffer(o, (m,), "int32")
        for i in range(m):
            low = T.alloc_buffer((1,), "int32", scope="local")
            high = T.alloc_buffer((1,), "int32", scope="local")
            low[0] = 0
            high[0] = n
            while low[0] < high[0]:
                mid: T.int32 = (low[0] + high[0]) // 2
                if A[mid] < Q[i]:
                    low[0] = mid + 1
                else:
                    high[0] = mid
            O[i] = low[0]

    return search


@kernel(
    lambda g, n, m: [np.sort(g.ints(n)), np.sort(g.ints(m)), g.blank(n + m, dtype="int32")],
    lambda a, b, out: put(out, np.sort(np.concatenate([a, b]))),
    sizes=[{"n": 0, "m": 0}, {"n": 3, "m": 0}, {"n": 4, "m": 5}],
    large=[{"n": 150, "m": 207}],
    dynamic=True,
)
def merge_sorted():
    @T.prim_func
    def merge(a: T.handle, b: T.handle, o: T.handle):
        n, m = T.int32(), T.int32()
        A = T.match_buffer(a, (n,), "int32")
        B = T.match_buffer(b, (m,), "int32")
        O = T.match_buffer(o, (n + m,), "int32")
        at = T.alloc_buffer((2,), "int32", scope="local")
        at[0] = 0
        at[1] = 0
        for i in range(n + m):
            if at[1] >= m or (at[0] < n and A[at[0]] <= B[at[1]]):
                O[i] = A[at[0]]
                at[0] += 1
            else:
                O[i] = B[at[1]]
                at[1] += 1

    return merge


@kernel(
    lambda g, n: [g.ints(n, dtype="int64")],
    lambda a: a.sort(),
    sizes=[{"n": 2}, {"n": 8}],
    large=[{"n": 64}, {"n": 256}],
)
def bitonic_sorting_network(n):
    steps = [(1 << p, 1 << q) for p in range(1, n.bit_length()) for q in reversed(range(p))]

    @T.macro
    def exchange(A, i, k, j):
        if (i ^ j) > i:
            x = T.bind(A[i])
            y = T.bind(A[i ^ j])
            if (((i & k) == 0) and x > y) or (((i & k) != 0) and x < y):
                A[i] = y
                A[i ^ j] = x

    table = [value for step in steps for value in step]
    count = len(steps)

    @T.prim_func
    def bitonic(A: T.Buffer((n,), "int64")):
        data = T.allocate_const(table, "int32", [count * 2])
        S = T.decl_buffer((count * 2,), "int32", data=data)
        for s in range(count):
            for i in range(n):
                exchange(A, i, S[s * 2], S[s * 2 + 1])

    return bitonic


@kernel(
    lambda g, n: [g.ints(n, dtype="int16")],
    lambda a: a.sort(),
    sizes=[{"n": n} for n in (0, 1, 2, 10)],
    large=[{"n": 200}],
    dynamic=True,
)
def insertion_sort():
    @T.prim_func
    def sort(a: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n,), "int16")
        j = T.alloc_buffer((1,), "int32", scope="local")
        for i in range(1, n):
            x = T.bind(A[i])
            j[0] = i
            while T.if_then_else(j[0] > 0, A[T.max(j[0] - 1, 0)] > x, T.bool(False)):
                A[j[0]] = A[j[0] - 1]
                j[0] = j[0] - 1
            A[j[0]] = x

    return sort


@kernel(
    lambda g, n, m: [g.floats(n, m), g.ints(n, dtype="int64", low=-m, high=m - 1), g.blank(n)],
    lambda a, p, out: put(out, a[np.arange(len(p)), p]),
    sizes=[{"n": 1, "m": 1}, {"n": 6, "m": 4}],
    large=[{"n": 301, "m": 12}],
    dynamic=True,
)
def take_along_axis_with_negative_indices():
    @T.prim_func
    def take(a: T.handle, p: T.handle, o: T.handle):
        n, m = T.int64(), T.int64()
        A = T.match_buffer(a, (n, m), "float32")
        P = T.match_buffer(p, (n,), "int64")
        O = T.match_buffer(o, (n,), "float32")
        for i in range(n):
            O[i] = A[i, T.Select(P[i] < T.int64(0), P[i] + m, P[i])]

    return take


def _breadth_first(adjacency, distance):
    n = len(distance)
    distance[:] = -1
    queue = [0]
    distance[0] = 0
    for at in queue:
        for to in range(n):
            if adjacency[at, to] and distance[to] < 0:
                distance[to] = distance[at] + 1
                queue.append(to)


@kernel(
    lambda g, n: [g.rng.random((n, n)) < 2.0 / n, g.blank(n, dtype="int32")],
    _breadth_first,
    sizes=[{"n": 1}, {"n": 7}],
    large=[{"n": 60}],
    dynamic=True,
)
def breadth_first_search():
    @T.prim_func
    def search(a: T.handle, d: T.handle):
        n = T.int32()
        A = T.match_buffer(a, (n, n), "bool")
        D = T.match_buffer(d, (n,), "int32")
        queue = T.alloc_buffer((n,), "int32")
        ends = T.alloc_buffer((2,), "int32", scope="local")
        for i in range(n):
            D[i] = -1
        D[0] = 0
        queue[0] = 0
        ends[0] = 0
        ends[1] = 1
        while ends[0] < ends[1]:
            at: T.int32 = queue[ends[0]]
            ends[0] += 1
            for to in range(n):
                if A[at, to] and D[to] < 0:
                    D[to] = D[at] + 1
                    queue[ends[1]] = to
                    ends[1] += 1

    return search
