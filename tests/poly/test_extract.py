from __future__ import annotations

import subprocess
import sys

import pytest

from tests.poly.brute import events
from tests.poly.nests import random_nest
from tirlower.ir import BufferStore, For, IRModule, Var
from tirlower.poly import Scop, extract
from tirlower.poly.forms import Product
from tirlower.script import ir as I
from tirlower.script import parse
from tirlower.script import tir as T


def forms(scop: Scop, write: bool = True) -> list[str]:
    return [str(a.coordinates) for a in scop.accesses if a.is_write == write]


def test_blocks_bindings_and_predicates():
    @T.prim_func
    def tiled(A: T.Buffer((61,), "float32")):
        for io, ii in T.grid(8, 8):
            with T.block("A"):
                T.where(io * 8 + ii < 61)
                v = T.axis.spatial(61, io * 8 + ii)
                A[v] = 1.0

    scop = extract(tiled)
    (store,) = scop.accesses
    assert str(store.coordinates) == "(8*io + ii,)" and str(store.conditions) == "(-8*io + -1*ii + 60 >= 0,)"
    assert [loop.name for loop in store.loops] == ["io", "ii"] and scop.exact(store)


def test_an_init_runs_at_the_start_of_its_reduction():
    @T.prim_func
    def total(A: T.Buffer((8,), "float32"), S: T.Buffer((1,), "float32")):
        for k in range(8):
            with T.block("S"):
                v = T.axis.reduce(8, k)
                with T.init():
                    S[0] = 0.0
                S[0] += A[v]

    init, *_, update = [a for a in extract(total).accesses if a.is_write]
    assert str(init.conditions) == "(k == 0,)" and update.conditions == ()
    assert init.statement.reduction is not None


def test_bounds_of_loops():
    @T.prim_func
    def loops(A: T.Buffer(("n",), "float32"), n: T.int32):
        for i in range(n):
            for j in range(T.max(0, i - 2), T.min(n, i + 3)):
                A[j] = 0.0
        for io in range((n + 7) // 8):
            A[io] = 0.0
        for s in range(1, 20, 4):
            A[s] = 0.0

    scop = extract(loops)
    conditions = {loop.name: [str(c) for c in loop.conditions] for loop in scop.loops}
    assert conditions["io"] == ["io >= 0", "-8*io + n + -1 >= 0"]  # io < ceil(n / 8)
    assert all(loop.regular for loop in scop.loops) and all(scop.exact(a) for a in scop.accesses)
    assert str(scop.accesses[-1].coordinates) == "(4*s + 1,)" and str(scop.loops[-1].extent) == "5"


def test_guards_arms_and_short_circuits():
    @T.prim_func
    def guarded(A: T.Buffer((9,), "int32"), B: T.Buffer((9,), "int32")):
        for i in range(9):
            if i < 4:
                B[i] = 1
            elif i != 6:
                B[i] = T.if_then_else(i > 0, A[i - 1], A[0])
            if i > 0 and A[i - 1] > 0:
                B[i] = 2

    scop = extract(guarded)
    loads = [a for a in scop.accesses if not a.is_write]
    assert [str(a.conditions[-1]) for a in loads[:2]] == ["i + -1 >= 0", "-1*i >= 0"]
    assert str(loads[2].conditions) == "(i + -1 >= 0,)"  # read only where the first operand holds
    assert not scop.exact(scop.accesses[-1])  # under a guard that reads memory


def test_bindings_are_substituted():
    m = Var("m")

    @T.prim_func
    def bound(A: T.Buffer((64,), "int32"), B: T.Buffer((8,), "int32")):
        for i in range(8):
            k: T.int32 = i * 4 + 1
            inside: T.bool = k < 20
            if inside:
                A[k] = T.Let(B[m], where={m: i})

    scop = extract(bound)
    store = scop.accesses[-1]
    assert str(store.coordinates) == "(4*i + 1,)" and str(store.conditions) == "(-4*i + 18 >= 0,)"
    assert str(scop.accesses[0].coordinates) == "(i,)"


def test_what_is_not_affine_is_marked():
    @T.prim_func
    def opaque(A: T.Buffer((64,), "int32"), P: T.Buffer((8,), "int32"), n: T.int32):
        for i in range(8):
            A[P[i] % 4 + i * 4] = 0
            A[i * i] = 0
            while A[i] > 0:
                A[i] = A[i] - 1
            if P[i] > 0:
                A[i] = 1

    scop = extract(opaque)
    stores = [a for a in scop.accesses if a.is_write]
    assert [scop.exact(a) for a in stores] == [False, False, False, False]
    assert isinstance(next(iter(stores[1].coordinates[0].terms)), Product)


def test_equal_loads_of_constant_memory_are_one_value_and_of_changing_memory_not():
    @T.prim_func
    def loads(A: T.Buffer((64,), "int32"), P: T.Buffer((8,), "int32"), Q: T.Buffer((8,), "int32")):
        for i in range(8):
            T.assume(P[i] < 63)  # else P[i] + 1 might wrap, and differ by anything
            A[P[i]] = A[P[i] + 1]
            Q[i] = 0
            A[Q[i]] = A[Q[i]]

    stores = [a for a in extract(loads).accesses if a.buffer is not None and a.buffer.name == "A"]
    (read, write, read2, write2) = stores
    assert (read.coordinates[0] - write.coordinates[0]).is_constant
    assert not (read2.coordinates[0] - write2.coordinates[0]).is_constant


def test_vectors_have_a_lane():
    @T.prim_func
    def vector(A: T.Buffer((64,), "float32")):
        for i in range(8):
            A[T.Ramp(i * 8, 2, 4)] = T.Broadcast(T.float32(0), 4)

    (store,) = extract(vector).accesses
    assert str(store.coordinates) == "(8*i + 2*lane,)"


def test_views_are_compared_by_address():
    @T.prim_func
    def views(A: T.Buffer((4, 8), "int32")):
        flat = T.decl_buffer((32,), "int32", data=A.data)
        octets = T.decl_buffer((64,), "int16", data=A.data)
        for i in range(4):
            A[i, 1] = 0
            flat[i] = 0
            octets[i] = T.int16(0)

    assert [str(c).replace("lane", "b") for c in forms(extract(views))] == [
        "(32*i + b + 4,)",
        "(4*i + b,)",
        "(2*i + b,)",
    ]


def test_matched_regions_count_from_their_source():
    @T.prim_func
    def matched(A: T.Buffer((16, 16), "float32")):
        for i, j in T.grid(4, 4):
            with T.block("tile"):
                vi, vj = T.axis.remap("SS", [i, j])
                T.reads()
                T.writes(A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4])
                tile = T.match_buffer(
                    A[vi * 4 : vi * 4 + 4, vj * 4 : vj * 4 + 4], (4, 4), strides=[16, 1], offset_factor=1
                )
                for x, y in T.grid(4, 4):
                    tile[x, y] = 0.0

    (store,) = extract(matched).accesses
    assert str(store.coordinates) == "(4*i + x, 4*j + y)" and store.data is matched.buffers[0].data


def test_flattened_subscripts_are_taken_apart():
    @T.prim_func
    def flat(A: T.Buffer(("n * m * l",), "float32"), n: T.int32, m: T.int32, l: T.int32):
        for i, j, k in T.grid(n, m, l):
            A[(i * m + j) * l + k] = 0.0
        for i, j in T.grid(n, m):
            A[i * l + j] = 0.0

    first, second = extract(flat).accesses
    assert second.digits is None  # j < m says nothing about l
    assert first.digits is None or str(first.digits) == "(i, j, k)"

    @T.prim_func
    def alone(A: T.Buffer(("n * m * l",), "float32"), n: T.int32, m: T.int32, l: T.int32):
        for i, j, k in T.grid(n, m, l):
            A[(i * m + j) * l + k] = 0.0

    assert str(extract(alone).accesses[0].digits) == "(i, j, k)"


def test_allocations_know_their_loops():
    @T.prim_func
    def private(B: T.Buffer((8,), "float32")):
        for i in range(8):
            t = T.alloc_buffer((1,), "float32")
            t[0] = 1.0
            B[i] = t[0]

    scop = extract(private)
    t = next(a.data for a in scop.accesses if a.buffer is not None and a.buffer.name == "t")
    assert [loop.name for loop in scop.homes[t]] == ["i"] and t not in scop.planned


def test_pointers_and_masks():
    @T.prim_func
    def calls(A: T.Buffer((64,), "float32"), B: T.Buffer((64,), "float32")):
        for i in range(4):
            T.evaluate(T.call_extern("int32", "f", A.access_ptr("r", offset=i * 16, extent=16), T.address_of(B[i])))
            T.evaluate(T.call_pure_extern("float32", "g", A.access_ptr("r")))
            T.evaluate(T.call_extern("int32", "h"))
            T.evaluate(T.prefetch(T.address_of(A[i]), 0, 3, 1))

    @T.prim_func
    def masked(A: T.Buffer((64,), "float32"), m: T.int32):
        T.evaluate(T.call_extern("int32", "f", T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 64, m)))

    # Of a mask that is not known here any bit may be set.
    assert [(a.is_write, a.must) for a in extract(masked).accesses if a.data.name == "A"] == [
        (False, False),
        (True, False),
    ]
    found = [(a.data.name, a.is_write, a.must) for a in extract(calls).accesses]
    assert found == [
        ("A", False, False), ("B", False, False), ("B", True, False), ("A", False, False),
        ("the state of external functions", False, False), ("the state of external functions", True, False),
    ]  # fmt: skip


def test_functions_of_the_module_are_looked_into():
    @I.ir_module
    class Module:
        @T.prim_func(private=True)
        def square(x: T.int32) -> T.int32:
            T.ret(x * x)

        @T.prim_func
        def main(A: T.Buffer((8,), "int32")):
            for i in range(8):
                A[i] = Module.square(i)

    assert isinstance(Module, IRModule)
    main = Module["main"]
    assert len(extract(main, Module).accesses) == 1
    assert len(extract(main).accesses) == 3  # the callee may touch a state of its own


def test_early_returns_make_everything_uncertain():
    @T.prim_func
    def early(A: T.Buffer((8,), "int32")):
        for i in range(8):
            if A[i] < 0:
                T.evaluate(T.ret(1))
            A[i] = 0

    scop = extract(early)
    assert scop.irregular and not any(scop.exact(a) for a in scop.accesses) and len(scop.loops[0].leaves) == 1


def test_a_scop_is_its_own_extraction_and_loops_are_found_by_node():
    func = random_nest(3)
    scop = extract(func)
    assert extract(scop) is scop
    assert all(scop.loop(loop.node) is loop for loop in scop.loops)
    assert isinstance(scop.loops[0].node, For)


@pytest.mark.parametrize("seed", range(40, 60))
def test_isl_objects_hold_the_instances_and_elements_of_a_run(seed: int):
    func = random_nest(seed)
    scop = extract(func)
    found = events(func)
    statements = {id(s.node): s.name for s in scop.statements if isinstance(s.node, BufferStore)}
    want: dict[str, set] = {name: set() for name in statements.values()}
    written: set = set()
    for event in found:
        name = statements.get(id(event.statement))
        if name is not None and event.is_write:
            at = tuple(value for _, value, _ in event.loops)
            want[name].add(at)
            written.add((name, at, event.statement.buffer.name, event.indices[0]))
    got: dict[str, set] = {name: set() for name in want}
    scop.domains.foreach_set(lambda part: _points(part, got))
    assert {k: got.get(k, set()) for k in want} == want
    relation: set = set()
    scop.writes.foreach_map(lambda part: _pairs(part, relation))
    assert relation == written
    times: dict[tuple, tuple] = {}
    scop.schedule.foreach_map(lambda part: _times(part, times))
    order = [
        (statements[id(e.statement)], tuple(v for _, v, _ in e.loops))
        for e in found
        if e.is_write and id(e.statement) in statements
    ]
    assert [times[key] for key in order] == sorted(times[key] for key in order)


def _values(point, kind, count: int) -> tuple[int, ...]:
    return tuple(point.get_coordinate_val(kind, n).to_python() for n in range(count))


def _points(part, into: dict[str, set]) -> None:
    import islpy as isl

    name, count = part.get_tuple_name(), part.n_dim()
    part.foreach_point(lambda p: into.setdefault(name, set()).add(_values(p, isl.dim_type.set, count)))


def _pairs(part, into: set) -> None:
    import islpy as isl

    kind = isl.dim_type
    names = part.get_tuple_name(kind.in_), part.get_tuple_name(kind.out)
    inputs = part.dim(kind.in_)
    flat = part.wrap().flatten()

    def take(p) -> None:
        values = _values(p, kind.set, flat.n_dim())
        into.add((names[0], values[:inputs], names[1].upper(), values[inputs:]))

    flat.foreach_point(take)


def _times(part, into: dict[tuple, tuple]) -> None:
    pairs: set = set()
    import islpy as isl

    kind = isl.dim_type
    name = part.get_tuple_name(kind.in_)
    inputs = part.dim(kind.in_)
    flat = part.wrap().flatten()
    flat.foreach_point(lambda p: pairs.add(_values(p, kind.set, flat.n_dim())))
    for values in pairs:
        into[name, values[:inputs]] = values[inputs:]


def test_extraction_does_not_import_islpy():
    code = (
        "import sys\nfrom tirlower.script import parse\nfrom tirlower.poly import extract, is_parallel\n"
        "f = parse('@T.prim_func\\ndef f(A: T.Buffer((8,), \"int32\")):\\n    for i in range(8):\\n        A[i] = A[i] + 1')\n"
        "assert is_parallel(extract(f), 'i').proved\nprint('islpy' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


def test_long_chains_and_deep_nests_are_no_trouble():
    terms = " + ".join(f"i * {n % 7}" for n in range(1500))  # what the parser of each CPython takes
    func = parse(
        f"@T.prim_func\ndef f(A: T.Buffer((8,), 'int32')):\n    for i in range(1):\n        A[({terms}) * 0 + i] = {terms}\n"
    )
    (store,) = [a for a in extract(func).accesses if a.is_write]
    assert str(store.coordinates) == "(i,)"
