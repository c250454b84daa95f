"""Kernels without barriers, and the fewest that order each of them, reasoned by hand.

A kernel stores its result in B, from A; both have a row for each of two blocks. ``expected`` says in NumPy what a
kernel means: its statements one after another, each done by all threads before the next begins.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

Meaning = Callable[[np.ndarray], np.ndarray]

TRIPS = 3
"""What the parameter ``m`` of the kernels is in the tests."""


@dataclass(frozen=True)
class SyncKernel:
    """A kernel: its text, the fewest barriers, the reason, the scopes to order in turn, its meaning, the threads of a block."""

    text: str
    barriers: int
    why: str
    scopes: tuple[str, ...]
    expected: Meaning
    threads: int
    crosses_blocks: bool
    """Whether a block reads what another one writes; such blocks must run in their own order where they run in turn."""


KERNELS: dict[str, SyncKernel] = {}

_LINE = 'for tx in T.thread_binding(32, thread="threadIdx.x"):'
_TILE = 'for ty in T.thread_binding(4, thread="threadIdx.y"):\n    for tx in T.thread_binding(8, thread="threadIdx.x"):'
_WARPS = 'for tx in T.thread_binding(64, thread="threadIdx.x"):'
_CUBE = (
    'for tz in T.thread_binding(2, thread="threadIdx.z"):\n'
    '    for ty in T.thread_binding(4, thread="threadIdx.y"):\n'
    '        for tx in T.thread_binding(4, thread="threadIdx.x"):'
)


def kernel(
    name: str,
    barriers: int,
    why: str,
    expected: Meaning,
    body: str,
    *,
    threads: str = _LINE,
    n: int = 32,
    scopes: tuple[str, ...] = ("shared",),
    blocks: int = 2,
) -> None:
    """Add a kernel of ``n`` threads a block; s, r and q are memory of the (last) scope, l and c a thread's own."""
    scope = scopes[-1] if scopes[-1] != "global" else "shared"
    head = [
        "@T.prim_func",
        f'def kernel(A: T.Buffer((2, {n}), "int32"), B: T.Buffer((2, {n}), "int32"), W: T.Buffer((2, {n}), "int32"),',
        "           m: T.int32):",
        f'    for bx in T.thread_binding({blocks}, thread="blockIdx.x"):',
    ]
    lines = ["        " + line for line in threads.splitlines()]
    indent = " " * (len(lines[-1]) - len(lines[-1].lstrip()) + 4)
    inside = [f'{b} = T.alloc_buffer(({4 * n},), "int32", scope="{scope}")' for b in "srq"]
    inside += ['l = T.alloc_buffer((4,), "int32", scope="local")', "l[0] = 0"]
    inside += ['c = T.alloc_buffer((1,), "int32", scope="local")', "c[0] = 0"]
    inside += body.strip("\n").splitlines()
    text = "\n".join([*head, *lines, *(indent + line for line in inside)]) + "\n"
    KERNELS[name] = SyncKernel(text, barriers, why, scopes, expected, n, scopes == ("global",) and blocks > 1)


def _flip(a: np.ndarray) -> np.ndarray:
    return a[:, ::-1]


def _next(a: np.ndarray, by: int = 1) -> np.ndarray:
    return np.roll(a, -by, axis=1)


# Straight lines: the fewest points that stab all intervals between a write and what depends on it.

kernel(
    "one thread adds up", 2, "all write before thread 0 reads them, and it writes before all read",
    lambda a: np.repeat(a.sum(1, keepdims=True), 32, 1),
    "s[tx] = A[bx, tx]\nif tx == 0:\n    for i in range(31):\n        s[0] = s[0] + s[i + 1]\nB[bx, tx] = s[0]",
)  # fmt: skip
kernel(
    "around three buffers and back", 4, "four hand-overs in a chain; s is written again two barriers after its reads",
    lambda a: _next(a, 4),
    "s[tx] = A[bx, tx]\nr[tx] = s[(tx + 1) % 32]\nq[tx] = r[(tx + 1) % 32]\ns[tx] = q[(tx + 1) % 32]\n"
    "B[bx, tx] = s[(tx + 1) % 32]",
)  # fmt: skip
kernel(
    "intervals that overlap", 2, "the barrier before the read of s orders r too, so only q needs another",
    lambda a: _flip(a) + _flip(a * 2) + _flip(a * 3),
    "s[tx] = A[bx, tx]\nr[tx] = A[bx, tx] * 2\nl[0] = s[31 - tx]\nq[tx] = A[bx, tx] * 3\nl[0] = l[0] + r[31 - tx]\n"
    "B[bx, tx] = l[0] + q[31 - tx]",
)  # fmt: skip
kernel(
    "intervals within each other", 1, "the innermost interval's barrier stabs all three",
    lambda a: _flip(a) * 6,
    "s[tx] = A[bx, tx]\nr[tx] = A[bx, tx] * 2\nq[tx] = A[bx, tx] * 3\nl[0] = q[31 - tx]\nl[0] = l[0] + r[31 - tx]\n"
    "B[bx, tx] = l[0] + s[31 - tx]",
)  # fmt: skip
kernel(
    "a halo", 1, "neighbours read what two edge threads and all threads wrote: one barrier orders both",
    lambda a: np.pad(a, ((0, 0), (1, 1)))[:, :-2] + np.pad(a, ((0, 0), (1, 1)))[:, 2:],
    "s[tx + 1] = A[bx, tx]\nif tx == 0:\n    s[0] = 0\nif tx == 31:\n    s[33] = 0\nB[bx, tx] = s[tx] + s[tx + 2]",
)  # fmt: skip
kernel(
    "producers and consumers", 1, "the upper half reads what the lower half wrote",
    lambda a: np.concatenate([np.zeros_like(a[:, :16]), a[:, 15::-1]], 1),
    "if tx < 16:\n    s[tx] = A[bx, tx]\nB[bx, tx] = 0\nif tx >= 16:\n    B[bx, tx] = s[31 - tx]",
)  # fmt: skip
kernel(
    "a stride that permutes", 0, "5 is prime to 32, so each thread reads its own element back",
    lambda a: a,
    "s[tx * 5 % 32] = A[bx, tx]\nB[bx, tx] = s[tx * 5 % 32]",
)  # fmt: skip
kernel(
    "a stride that permutes, read in order", 1, "thread 1 wrote element 5, which thread 5 reads",
    lambda a: a[:, [x * 13 % 32 for x in range(32)]],
    "s[tx * 5 % 32] = A[bx, tx]\nB[bx, tx] = s[tx]",
)  # fmt: skip
kernel(
    "an index from memory", 1, "which element is read is not known: any write may have been another thread's",
    lambda a: np.take_along_axis(a, np.abs(a) % 32, 1),
    "s[tx] = A[bx, tx]\nB[bx, tx] = s[T.abs(A[bx, tx]) % 32]",
)  # fmt: skip
kernel(
    "tickets", 2, "the counter is zeroed before it is drawn from, and the drawn places are written before they are read",
    lambda a: np.full_like(a, 496),
    "if tx == 0:\n    s[0] = 0\nl[1] = T.atomic_add(T.address_of(s[0]), 1)\nr[l[1]] = tx\nfor i in range(32):\n"
    "    l[0] = l[0] + r[i]\nB[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "a table for each thread, then by column", 1, "counts stand in the thread's own two places until they are added up",
    lambda a: np.where(np.arange(32) < 2, np.stack([(a % 2 == 0).sum(1), (a % 2 == 1).sum(1)] * 16, 1), 0),
    "s[2 * tx] = 0\ns[2 * tx + 1] = 0\ns[2 * tx + A[bx, tx] % 2] = 1\nB[bx, tx] = 0\nif tx < 2:\n"
    "    for i in range(32):\n        B[bx, tx] = B[bx, tx] + s[2 * i + tx]",
)  # fmt: skip
kernel(
    "a view from the middle, one's own", 0, "element tx of the view is element 32 + tx of the buffer",
    lambda a: a,
    "v = T.Buffer((32,), 'int32', data=s.data, elem_offset=32, scope='shared')\nv[tx] = A[bx, tx]\nB[bx, tx] = s[tx + 32]",
)  # fmt: skip
kernel(
    "a view from the middle, another's", 1, "element 63 - tx of the buffer is the view's 31 - tx",
    _flip,
    "v = T.Buffer((32,), 'int32', data=s.data, elem_offset=32, scope='shared')\nv[tx] = A[bx, tx]\nB[bx, tx] = s[63 - tx]",
)  # fmt: skip
kernel(
    "pairs as vectors, one's own", 0, "a vector store covers exactly the two elements that the thread reads",
    lambda a: a * 2,
    "s[2 * tx:2 * tx + 2] = T.Broadcast(A[bx, tx], 2)\nB[bx, tx] = s[2 * tx] + s[2 * tx + 1]",
)  # fmt: skip
kernel(
    "pairs as vectors, another's", 1, "element tx is in the pair of thread tx // 2",
    lambda a: a[:, np.arange(32) // 2],
    "s[2 * tx:2 * tx + 2] = T.Broadcast(A[bx, tx], 2)\nB[bx, tx] = s[tx]",
)  # fmt: skip
kernel(
    "butterflies", 3, "pairs of distance 1 are the thread's own; before 2, before 4 and before the result they change hands",
    lambda a: np.stack([_butterflies(np.repeat(row, 2), 3)[:32] for row in a]),
    "s[2 * tx] = A[bx, tx]\ns[2 * tx + 1] = A[bx, tx]\n" + "".join(
        f"l[2] = s[tx // {h} * {2 * h} + tx % {h}]\nl[3] = s[tx // {h} * {2 * h} + tx % {h} + {h}]\n"
        f"s[tx // {h} * {2 * h} + tx % {h}] = l[2] + l[3]\ns[tx // {h} * {2 * h} + tx % {h} + {h}] = l[2] - l[3]\n"
        for h in (1, 2, 4)
    ) + "B[bx, tx] = s[tx]",
)  # fmt: skip
kernel(
    "a scan from one buffer to the other", 5, "each of five steps reads what another thread wrote in the one before",
    lambda a: np.cumsum(a, 1),
    "s[tx] = A[bx, tx]\n" + "".join(
        f"{y}[tx] = {x}[tx] + T.if_then_else(tx >= {h}, {x}[T.max(tx - {h}, 0)], 0)\n"
        for x, y, h in (("s", "r", 1), ("r", "s", 2), ("s", "r", 4), ("r", "s", 8), ("s", "r", 16))
    ) + "B[bx, tx] = r[tx]",
)  # fmt: skip
kernel(
    "an interleaved tree", 3, "one before each step; thread 0 keeps what it read last, so the result needs none",
    lambda a: np.where(np.arange(32) % 8 == 0, np.repeat(a.reshape(2, 4, 8).sum(2), 8, 1), 0),
    "s[tx] = A[bx, tx]\nB[bx, tx] = 0\n" + "".join(
        f"if tx % {2 * h} == 0:\n    s[tx] = s[tx] + s[tx + {h}]\n" for h in (1, 2, 4)
    ) + "if tx % 8 == 0:\n    B[bx, tx] = s[tx]",
)  # fmt: skip


def _butterflies(row: np.ndarray, steps: int) -> np.ndarray:
    row = row.copy()
    for step in range(steps):
        pairs = row.reshape(-1, 2, 1 << step)
        row = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], 1).reshape(-1)
    return row


# Loops: the fewest points that stab all intervals around the circle.

kernel(
    "read in a loop, written before", 1, "the loop only reads, so the barrier stands before it",
    lambda a: sum((_next(a, k) for k in range(4)), np.zeros_like(a)),
    "s[tx] = A[bx, tx]\nfor k in range(4):\n    l[0] = l[0] + s[(tx + k) % 32]\nB[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "written in a loop, read behind", 1, "each thread adds to its own element; only the read behind the loop is another's",
    lambda a: _flip(a) + 6,
    "s[tx] = A[bx, tx]\nfor k in range(4):\n    s[tx] = s[tx] + k\nB[bx, tx] = s[31 - tx]",
)  # fmt: skip
kernel(
    "a stage for each iteration", 1, "no stage is written twice, so only its read waits for its write",
    lambda a: _flip(a) * 3 + 12,
    "for k in range(3, 6):\n    s[(k - 3) * 32 + tx] = A[bx, tx] + k\n    l[0] = l[0] + s[(k - 3) * 32 + 31 - tx]\n"
    "B[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "stages filled first", 1, "the loop fills elements that are read behind it only",
    lambda a: _flip(a) * 3 + 3,
    "for k in range(3):\n    s[k * 32 + tx] = A[bx, tx] + k\nB[bx, tx] = s[31 - tx] + s[63 - tx] + s[95 - tx]",
)  # fmt: skip
kernel(
    "a chain in a loop", 2, "s to r, and r to the result; each is written again behind the other's barrier",
    lambda a: a * 4 + 6,
    "for k in range(4):\n    s[tx] = A[bx, tx] + k\n    r[tx] = s[31 - tx]\n    l[0] = l[0] + r[31 - tx]\nB[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "the next stage is filled ahead", 1, "one barrier an iteration orders the last fill before its reads and these before the next",
    lambda a: _flip(a) * 4 + 6,
    "s[tx] = A[bx, tx]\nfor k in range(4):\n    s[(k + 1) % 2 * 32 + tx] = A[bx, tx] + k + 1\n"
    "    l[0] = l[0] + s[k % 2 * 32 + 31 - tx]\nB[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "two of three stages ahead", 1, "a stage's reads come just before it is filled again: a barrier between iterations",
    lambda a: _flip(a) * 4 + 6,
    "s[tx] = A[bx, tx]\ns[tx + 32] = A[bx, tx] + 1\nfor k in range(4):\n    s[(k + 2) % 3 * 32 + tx] = A[bx, tx] + k + 2\n"
    "    l[0] = l[0] + s[k % 3 * 32 + 31 - tx]\nB[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "relaxation in place", 2, "neighbours are read before they are overwritten, and overwritten before they are read again",
    lambda a: _relaxed(a, 3),
    "s[tx + 1] = A[bx, tx]\nif tx == 0:\n    s[0] = 0\n    s[33] = 0\nfor t in range(3):\n    l[0] = s[tx] + s[tx + 2]\n"
    "    s[tx + 1] = l[0]\nB[bx, tx] = s[tx + 1]",
)  # fmt: skip
kernel(
    "relaxation between two halves", 1, "what is written is another half than what is read: only iterations are kept apart",
    lambda a: _relaxed(a, 3),
    "s[tx + 1] = A[bx, tx]\nif tx == 0:\n    s[0] = 0\n    s[33] = 0\n    s[34] = 0\n    s[67] = 0\nfor t in range(3):\n"
    "    s[(t + 1) % 2 * 34 + tx + 1] = s[t % 2 * 34 + tx] + s[t % 2 * 34 + tx + 2]\nB[bx, tx] = s[34 + tx + 1]",
)  # fmt: skip
kernel(
    "rotated in place, then read", 3, "two in the loop, as no place in it is behind the last write, and one behind it",
    lambda a: _next(a, 4) + 3,
    "s[tx] = A[bx, tx]\nfor k in range(3):\n    l[0] = s[(tx + 1) % 32]\n    s[tx] = l[0] + 1\nB[bx, tx] = s[(tx + 1) % 32]",
)  # fmt: skip
kernel(
    "filled every second time", 2, "the fill comes before the reads of its iteration and behind those of the iteration before",
    lambda a: _flip(a) * 4 + 4,
    "for k in range(4):\n    if k % 2 == 0:\n        s[tx] = A[bx, tx] + k\n    l[0] = l[0] + s[31 - tx]\nB[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "a triangle of loops", 2, "write and read in the inner body: one between them, one before the next write",
    lambda a: _flip(a) * 10 + 10,
    "for i in range(4):\n    for j in range(i + 1):\n        s[tx] = A[bx, tx] + j\n        l[0] = l[0] + s[31 - tx]\n"
    "B[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "any number of double-buffered steps", 1, "as with a known number: the other stage is written behind the barrier",
    lambda a: _flip(a) * TRIPS + 3,
    "for k in range(m):\n    s[k % 2 * 32 + tx] = A[bx, tx] + k\n    l[0] = l[0] + s[k % 2 * 32 + 31 - tx]\nB[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "a chain in a while loop", 2, "as in a for loop: s to r and r to the result",
    lambda a: a * 3 + 3,
    "while c[0] < 3:\n    s[tx] = A[bx, tx] + c[0]\n    r[tx] = s[31 - tx]\n    l[0] = l[0] + r[31 - tx]\n    c[0] = c[0] + 1\n"
    "B[bx, tx] = l[0]",
)  # fmt: skip
kernel(
    "two loops that hand on", 2, "s changes hands between the loops and q behind them; r stays with its thread",
    lambda a: np.repeat((a + 1).sum(1, keepdims=True), 32, 1) * 2,
    "for k in range(2):\n    s[tx] = A[bx, tx] + k\nfor k in range(32):\n    r[tx] = s[k]\n    l[0] = l[0] + r[tx]\n"
    "q[tx] = l[0]\nB[bx, tx] = q[31 - tx] + q[tx]",
)  # fmt: skip
kernel(
    "the owner changes by parity", 1, "iteration k writes what thread tx + 1 wrote before: iterations are kept apart",
    lambda a: np.full_like(a, 3),
    "for k in range(4):\n    s[(tx + k) % 32] = k\nB[bx, tx] = s[(tx + 3) % 32]",
)  # fmt: skip

# Conditions, axes, several kernels.

kernel(
    "a barrier in each branch", 2, "blocks take one branch each, and each has a hand-over of its own",
    lambda a: np.stack([a[0, ::-1], np.roll(a[1], -1)]),
    "if bx == 0:\n    s[tx] = A[bx, tx]\n    B[bx, tx] = s[31 - tx]\nelse:\n    r[tx] = A[bx, tx]\n    B[bx, tx] = r[(tx + 1) % 32]",
)  # fmt: skip
kernel(
    "one barrier behind both branches", 1, "whichever branch wrote, the read comes behind both",
    lambda a: np.stack([a[0, ::-1], a[1, ::-1] * 2]),
    "if bx == 0:\n    s[tx] = A[bx, tx]\nelse:\n    s[tx] = A[bx, tx] * 2\nB[bx, tx] = s[31 - tx]",
)  # fmt: skip
kernel(
    "one row of threads loads for all", 2, "behind the load, and before the next one",
    lambda a: np.tile(a[:, 7::-1], 4) * 3 + 3,
    "for k in range(3):\n    if ty == 0:\n        s[tx] = A[bx, tx] + k\n    l[0] = l[0] + s[7 - tx]\nB[bx, ty * 8 + tx] = l[0]",
    threads=_TILE,
)  # fmt: skip
kernel(
    "a padded tile, transposed", 1, "row ty and column tx change places",
    lambda a: a.reshape(2, 4, 8).transpose(0, 2, 1).reshape(2, 32),
    "s[ty * 9 + tx] = A[bx, ty * 8 + tx]\nB[bx, ty * 8 + tx] = s[(ty * 8 + tx) % 4 * 9 + (ty * 8 + tx) // 4]",
    threads=_TILE,
)  # fmt: skip
kernel(
    "a tiled product", 2, "tiles are filled before they are multiplied, and multiplied before they are filled again",
    lambda a: _product(a),
    "for k in range(2):\n    if tx < 4:\n        s[ty * 4 + tx] = A[bx, ty * 8 + k * 4 + tx]\n"
    "    r[ty * 8 + tx] = A[bx, ty * 8 + tx] + k\n    for i in range(4):\n"
    "        l[0] = l[0] + s[ty * 4 + i] * r[i * 8 + tx]\nB[bx, ty * 8 + tx] = l[0]",
    threads=_TILE,
)  # fmt: skip
kernel(
    "three axes, one's own", 0, "the linear index of a thread is its own",
    lambda a: a + 1,
    "s[(tz * 4 + ty) * 4 + tx] = A[bx, tz * 16 + ty * 4 + tx]\nB[bx, tz * 16 + ty * 4 + tx] = s[tz * 16 + ty * 4 + tx] + 1",
    threads=_CUBE,
)  # fmt: skip
kernel(
    "three axes, another layer's", 1, "layers change places",
    lambda a: np.roll(a, 16, 1),
    "s[(tz * 4 + ty) * 4 + tx] = A[bx, tz * 16 + ty * 4 + tx]\nB[bx, tz * 16 + ty * 4 + tx] = s[(1 - tz) * 16 + ty * 4 + tx]",
    threads=_CUBE,
)  # fmt: skip

# Other memory: shared.dyn, that of a warp, and that of the device.

kernel(
    "dynamic: rotated in place", 2, "read before the overwrite, and kept apart from the next iteration",
    lambda a: _next(a, 3) + 3,
    "s[tx] = A[bx, tx]\nfor k in range(3):\n    l[0] = s[(tx + 1) % 32]\n    s[tx] = l[0] + 1\nB[bx, tx] = s[tx]",
    scopes=("shared.dyn",),
)  # fmt: skip
kernel(
    "static and dynamic", 1, "a barrier that orders the static memory orders the dynamic one as well",
    lambda a: _flip(a) * 3,
    "d = T.alloc_buffer((32,), 'int32', scope='shared')\nd[tx] = A[bx, tx]\ns[tx] = A[bx, tx] * 2\n"
    "B[bx, tx] = d[31 - tx] + s[31 - tx]",
    scopes=("shared", "shared.dyn"),
)  # fmt: skip
kernel(
    "a warp's chain", 2, "two hand-overs between lanes",
    lambda a: _next(a.reshape(4, 32)[:, ::-1]).reshape(2, 64),
    "s[tx % 32] = A[bx, tx]\nr[tx % 32] = s[31 - tx % 32]\nB[bx, tx] = r[(tx + 1) % 32]",
    threads=_WARPS, n=64, scopes=("warp",),
)  # fmt: skip
kernel(
    "a warp's memory in a loop", 2, "filled before it is read, read before it is filled again",
    lambda a: (a.reshape(4, 32)[:, ::-1] * 3 + 3).reshape(2, 64),
    "for k in range(3):\n    s[tx % 32] = A[bx, tx] + k\n    l[0] = l[0] + s[31 - tx % 32]\nB[bx, tx] = l[0]",
    threads=_WARPS, n=64, scopes=("warp",),
)  # fmt: skip
kernel(
    "a warp's two halves in turn", 1, "the other half is filled behind the barrier",
    lambda a: (a.reshape(4, 32)[:, ::-1] * 3 + 3).reshape(2, 64),
    "for k in range(3):\n    s[k % 2 * 32 + tx % 32] = A[bx, tx] + k\n    l[0] = l[0] + s[k % 2 * 32 + 31 - tx % 32]\n"
    "B[bx, tx] = l[0]",
    threads=_WARPS, n=64, scopes=("warp",),
)  # fmt: skip
kernel(
    "from block to block", 1, "a block reads what the one before wrote to memory of the device",
    lambda a: np.stack([a[0], a[0]]),
    "W[bx, tx] = A[bx, tx]\nB[bx, tx] = W[T.max(bx - 1, 0), tx]",
    scopes=("global",),
)  # fmt: skip
kernel(
    "memory of the device, in place", 2, "within a block too: read before the overwrite, overwritten before the next read",
    lambda a: np.concatenate([_next(a[:1], 3) + 3, np.zeros_like(a[:1])]),
    "W[bx, tx] = A[bx, tx]\nfor k in range(3):\n    l[0] = W[bx, (tx + 1) % 32]\n    W[bx, tx] = l[0] + 1\nB[bx, tx] = W[bx, tx]",
    scopes=("global",), blocks=1,
)  # fmt: skip


def _relaxed(a: np.ndarray, steps: int) -> np.ndarray:
    for _ in range(steps):
        wide = np.pad(a, ((0, 0), (1, 1)))
        a = wide[:, :-2] + wide[:, 2:]
    return a


def _product(a: np.ndarray) -> np.ndarray:
    rows = a.reshape(2, 4, 8)
    return (rows[:, :, :4] @ rows + rows[:, :, 4:] @ (rows + 1)).reshape(2, 32)
