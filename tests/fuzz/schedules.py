"""Random schedules of random programs: what is taken computes the same bits, what is refused changes nothing.

``python -m tests.fuzz.schedules FIRST COUNT`` takes steps on the programs of so many seeds and prints how they ended.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import tirlower as tl
from tests.checking import roundtrips
from tests.fuzz.oracle import Expected, arguments_for
from tests.fuzz.seeds import is_a_refusal, run_seeds
from tests.generate.programs import generate
from tirlower.diagnostics import IllegalStep, ScheduleError
from tirlower.ir import IRModule
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, BufferStore, For, Seq
from tirlower.ir.structural import assert_structural_equal
from tirlower.poly import extract, other_copies
from tirlower.script import parse

__all__ = ["run_one"]

STEPS = 6
AXES = ("blockIdx.x", "threadIdx.x", "vthread")


def _loops(sch: Any, rng: random.Random) -> list[Any]:
    """Handles of all loops of the function."""
    func = sch.mod["main"]
    names = [loop.loop_var.name for loop in each(For, func.body)]
    return [sch.loop(f"{name}#{n}") for name, count in Counter(names).items() for n in range(count)]


def _nest(sch: Any, loops: list[Any], loop: Any) -> list[Any]:
    """The loops that stand directly in each other from one on."""
    found, node = [loop], sch.get(loop)
    by_node = {sch.get(one): one for one in loops}
    while node.body in by_node:
        node = node.body
        found.append(by_node[node])
    return found


def _two(sch: Any, rng: random.Random, loops: list[Any]) -> list[Any]:
    """Two loops in the order of the text, mostly of one nest or neighbours."""
    at = rng.randrange(len(loops))
    other = at + rng.choice([1, 1, 1, 2, -1]) if rng.random() < 0.8 else rng.randrange(len(loops))
    return [loops[at], loops[other % len(loops)]]


def _beside(sch: Any, rng: random.Random, loops: list[Any]) -> list[Any]:
    """Two loops of one sequence, where there are such."""
    by_node = {sch.get(one): one for one in loops}
    pairs = [
        (by_node[a], by_node[b])
        for seq in each(Seq, sch.mod["main"].body)
        for a, b in itertools.combinations([stmt for stmt in seq.stmts if stmt in by_node], 2)
    ]
    return list(rng.choice(pairs)) if pairs else _two(sch, rng, loops)


def _cut(sch: Any, rng: random.Random, loop: Any) -> Any:
    """Where to cut a loop's body: a number, or a gap in it or elsewhere."""
    which = rng.choice(["all", "all", "number", "number", "gap"])
    if which != "gap":
        return None if which == "all" else rng.choice([1, 2])
    stmt = rng.choice([loop, *loop.body])
    return rng.choice([stmt.before, stmt.after])


def _merge(sch: Any, rng: random.Random, loops: list[Any], loop: Any) -> None:
    pair = _beside(sch, rng, loops)
    down = rng.randint(0, 1)
    nests = [_nest(sch, loops, one) for one in pair]
    sch.merge(*[nest[min(down, len(nest) - 1)] for nest in nests])


def _partition(sch: Any, rng: random.Random, loops: list[Any], loop: Any) -> None:
    sch.loop_partition(loop, rng.choice([[2, None], [1], [None, 3], [2, 3, None], [1, 1]]))


def _blocks(sch: Any) -> list[Any]:
    """The names of the blocks of the function that no other one has."""
    count = Counter(block.name for block in each(Block, sch.mod["main"].body))
    return [name for name, number in count.items() if number == 1 and name != "root"]


def _block_step(sch: Any, rng: random.Random, loops: list[Any], loop: Any) -> None:
    """A step on a block, where there is one."""
    names = _blocks(sch)
    if len(names) > 1 and rng.random() < 0.2:
        at = rng.randrange(len(names) - 1)
        sch.blockize(names[at : at + rng.choice([2, 2, 3])], preserve_unit_iters=rng.random() < 0.7)
        return
    if not names or rng.random() < 0.3:
        sch.blockize(loop, preserve_unit_iters=rng.random() < 0.7)
        return
    block = sch.get_block(rng.choice(names))
    iters = len(sch.get(block).iters)
    maps = {1: [lambda i: [i // 2, i % 2], lambda i: [i]], 2: [lambda i, j: [j, i], lambda i, j: [i // 2, j, i % 2]]}
    which = rng.choice(["order", "map", "map", "hide"])
    if which == "map" and iters in maps:
        sch.transform_block_layout(block, rng.choice(maps[iters]))
    elif which == "hide":
        sch.unsafe_hide_buffer_access(block, rng.choice(["read", "write"]), [0])
    else:
        sch.reorder_block_iter_var(block, rng.sample(range(iters), iters))


LAYOUTS: dict[int, list[Callable[..., Any]]] = {
    1: [lambda i: [i // 3, i % 3], lambda i: [i // 2], lambda i: [i % 2, i // 2]],
    2: [lambda i, j: [j, i], lambda i, j: [i * 16 + j], lambda i, j: [i + j, j], lambda i, j: [j // 2, i, j % 2]],
    3: [lambda i, j, k: [k, i, j], lambda i, j, k: [i, j * 13 + k]],
}


def _layout(sch: Any, rng: random.Random, loops: list[Any], loop: Any) -> None:
    """Another layout of a buffer that a loop writes."""
    written = [store.buffer for store in each(BufferStore, sch.get(loop))]
    if not written:
        sch.add_unit_loop(loop)
        return
    buffer = rng.choice(written)
    maps = LAYOUTS.get(len(buffer.shape), [lambda *rest: [*rest]])
    pads = rng.choice([None, None, 3, lambda *at: at[0] * 2])
    sch.transform_layout(loop, buffer, rng.choice(maps), pad_value=pads)


CALCULUS: dict[str, Callable[[Any, random.Random, list[Any], Any], Any]] = {
    "merge": _merge,
    "interchange": lambda sch, rng, loops, loop: sch.interchange(*_two(sch, rng, loops)),
    "reverse": lambda sch, rng, loops, loop: sch.reverse(loop),
    "shift": lambda sch, rng, loops, loop: sch.shift(loop, rng.choice([-3, 1, 2, 1 << 31])),
    "skew": lambda sch, rng, loops, loop: sch.skew(*_two(sch, rng, loops), rng.choice([-1, 1, 1, 2])),
    "peel": lambda sch, rng, loops, loop: sch.peel(loop, rng.randint(0, 2), rng.randint(0, 2)),
    "loop_partition": _partition,
    "unroll_jam": lambda sch, rng, loops, loop: sch.unroll_jam(loop, rng.choice([2, 2, 3])),
    "reorder_stmts": lambda sch, rng, loops, loop: sch.reorder_stmts(*_beside(sch, rng, loops)),
    "sink": lambda sch, rng, loops, loop: sch.sink(*_beside(sch, rng, loops)),
    "hoist": lambda sch, rng, loops, loop: sch.hoist(*_two(sch, rng, loops)[::-1]),
    "specialize": lambda sch, rng, loops, loop: sch.specialize(
        loop, *rng.choice([["1 < 2"], [f"{sch.get(loop).loop_var.name} < 3"], ["k == 3", "k < 2"], ["n % 2 == 0"]])
    ),
    "simplify": lambda sch, rng, loops, loop: sch.simplify(loop if rng.random() < 0.8 else "root"),
    "block": _block_step,
    "layout": _layout,
    "fission": lambda sch, rng, loops, loop: sch.fission(loop, at=_cut(sch, rng, loop)),
    "as_block": lambda sch, rng, loops, loop: sch.as_block(rng.choice([loop, *loop.body])),
    "fuse_siblings": lambda sch, rng, loops, loop: sch.fuse_siblings(
        *_beside(sch, rng, loops), shift=rng.choice([0, 0, 1, 2, -1])
    ),
}
VERBS = [
    "split", "split", "fuse", "reorder", "reorder", "reorder", "parallel", "vectorize", "unroll", "bind", "unit",
    *CALCULUS, "fission", "fuse_siblings",
]  # fmt: skip


def step(sch: Any, rng: random.Random, verbs: Sequence[str] = VERBS) -> str:
    """Draw a step and take it; half of the arguments are sensible, half wild."""
    loops = _loops(sch, rng)
    if not loops:
        return "nothing"
    loop = rng.choice(loops)
    verb = rng.choice(verbs)
    if verb == "split":
        factors = [rng.choice([1, 2, 3, 4, 5, 8]) for _ in range(rng.choice([1, 2, 3]))]
        if rng.random() < 0.8:
            factors.insert(rng.randint(0, len(factors)), None)  # type: ignore[arg-type]
        sch.split(loop, factors, preserve_unit_iters=rng.random() < 0.7, disable_predication=rng.random() < 0.1)
    elif verb in ("fuse", "reorder"):
        nest = _nest(sch, loops, loop) if rng.random() < 0.8 else rng.sample(loops, min(2, len(loops)))
        nest = nest[: rng.randint(1, len(nest))]
        if verb == "reorder":
            rng.shuffle(nest)
            sch.reorder(*nest)
        else:
            sch.fuse(*nest, preserve_unit_iters=rng.random() < 0.7)
    elif verb == "bind":
        sch.bind(loop, rng.choice(AXES))
    elif verb == "unit":
        sch.add_unit_loop(loop)
    elif verb in CALCULUS:
        CALCULUS[verb](sch, rng, loops, loop)
    else:
        getattr(sch, verb)(loop)
    return verb


def run_one(seed: int, counts: Counter[str] | None = None, verbs: Sequence[str] = VERBS) -> None:
    """Take some steps on the program of a seed. Raises AssertionError or Mismatch where something is wrong."""
    counts = Counter() if counts is None else counts
    program, rng = generate(seed), random.Random(seed)
    parsed = parse(program.text)
    func = parsed["main"] if isinstance(parsed, IRModule) else parsed
    sch: Any = tl.Schedule(func, debug_mask="all", reassociate=False)
    before = IRModule({"main": func})
    expected = Expected(before, arguments_for(before, seed, empty=program.empty))
    for _ in range(STEPS):
        module, random_state = sch.mod, sch.copy().fork_seed()
        trace = len(sch.steps)
        try:
            verb = step(sch, rng, verbs)
        except ScheduleError as error:
            is_a_refusal(error)
            counts[type(error).__name__] += 1
            assert sch.mod is module and sch.copy().fork_seed() == random_state
            assert all(record.instruction.kind.pure for record in sch.steps[trace:]), "a refused step was recorded"
            if isinstance(error, IllegalStep):
                first, second = error.witness.points
                assert first.buffer != second.buffer or first.indices == second.indices, error
                assert first.is_write or second.is_write, error
                assert (
                    first.loops != second.loops
                    or first.statement is not second.statement
                    or first.node is not second.node
                )
            continue
        counts[f"{verb} taken"] += 1
        if any(loop.kind.value == "thread_binding" for loop in each(For, sch.mod["main"].body)):
            # The interpreter of loops runs threads one after the other, as the schedule found them before.
            counts["with threads"] += 1
            if any(True for _ in other_copies(extract(sch.mod["main"]))):
                counts["with threads that no build takes yet"] += 1
                continue
        expected.check(sch.mod)
    roundtrips(sch.mod["main"])
    again: Any = tl.Schedule(func, reassociate=False)
    sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect="tirlower"), again)
    assert_structural_equal(again.mod, sch.mod)
    counts["blocks"] += any(True for _ in each(Block, func.body))


if __name__ == "__main__":
    raise SystemExit(run_seeds(run_one))
