"""Random value steps on random chains of nests: what is taken computes the same bits, a witness happens in a run.

``python -m tests.fuzz.values FIRST COUNT`` takes steps on the programs of so many seeds and prints how they ended.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable
from typing import Any

import tirlower as tl
from tests.checking import executes_alike, roundtrips
from tests.fuzz.seeds import is_a_refusal, run_seeds
from tests.generate.flat import flattened
from tests.poly.brute import events
from tests.schedule.stepping import witness_is_true
from tirlower.diagnostics import IllegalStep, InterpreterError, ScheduleError, UnprovedStep
from tirlower.ir.query import each
from tirlower.ir.stmt import Bind, Block, BufferStore, For
from tirlower.ir.structural import assert_structural_equal
from tirlower.schedule.draft import AFTERWARDS
from tirlower.script import parse

__all__ = ["VERBS", "chain", "program", "run_one"]

STEPS = 4
SIZE = 6


def chain(seed: int) -> str:
    """A program of nests that write buffers of the function or of its own, and read what others wrote, shifted, under
    guards, in place, or as sums; some of them blocks."""
    rng = random.Random(seed)
    outer = ["A", "X"]
    inner = ["B", "D"][: rng.randint(1, 2)]
    lines = [f'    {name} = T.alloc_buffer(({SIZE}, {SIZE}), "int32")' for name in inner]
    filled: list[str] = list(outer)
    for number in range(rng.randint(2, 4)):
        fresh = [name for name in inner if name not in filled]
        target = rng.choice(fresh) if fresh and rng.random() < 0.8 else rng.choice([*filled])
        lines += _nest(rng, number, target, filled)
        if target not in filled:
            filled.append(target)
    lines += _nest(rng, 9, "X", filled)
    head = f'def f(A: T.Buffer(({SIZE}, {SIZE}), "int32"), X: T.Buffer(({SIZE}, {SIZE}), "int32")):'
    return "\n".join(["@T.prim_func", head, *lines])


NAMED = re.compile(r"^( *)(\w+\[[^]]*\]) = (.*) \+ (\d+)$", re.MULTILINE)
"""A statement whose value is a sum with a number."""


def program(seed: int) -> str:
    """The program of a seed: a chain, now and then of floats, with names for some of its values, or of a flat array."""
    rng, text = random.Random(f"form {seed}"), chain(seed)
    if rng.random() < 0.3:
        text = text.replace("int32", "float32")
    if rng.random() < 0.4:
        text = NAMED.sub(lambda found: "{0}n{3} = {2}\n{0}{1} = n{3} + {3} * n{3}".format(*found.groups()), text)
    if rng.random() < 0.3:
        name = rng.choice("AX")
        text = text.replace(f"{name}: T.Buffer(({SIZE}, {SIZE})", f"{name}: T.Buffer(({SIZE * SIZE},)")
        text = flattened(text, {name: (str(SIZE), str(SIZE))})
    return text


def _nest(rng: random.Random, number: int, target: str, filled: list[str]) -> list[str]:
    """A nest of two loops, or of three where it sums."""
    names = [f"{letter}{number}" for letter in "ijk"]
    whole = target not in filled or rng.random() < 0.7
    low = [0 if whole else rng.randint(0, 2) for _ in range(2)]
    count = [SIZE if whole else rng.randint(1, SIZE - start) for start in low]
    is_sum, as_block = rng.random() < 0.3, rng.random() < 0.5
    i, j, k = names
    at = f"{i}, {j}" if whole or rng.random() < 0.8 else f"{j}, {i}"
    sources = [name for name in filled if name != target or rng.random() < 0.2] or ["A"]
    reads = " + ".join(_read(rng, rng.choice(sources), i, j, low, count) for _ in range(rng.randint(1, 2)))
    lines = [f"    for {i} in range({low[0]}, {low[0] + count[0]}):"]
    lines += [f"        for {j} in range({low[1]}, {low[1] + count[1]}):"]
    if is_sum and target not in reads and whole:
        lines += [f"            for {k} in range(3):"]
        term = reads.replace("[", "[", 1)
        if as_block:
            lines += [
                f'                with T.block("{target}{number}"):',
                f'                    v0, v1, v2 = T.axis.remap("SSR", [{i}, {j}, {k}])',
                "                    with T.init():",
                f"                        {target}[v0, v1] = {rng.randint(0, 3)}",
                f"                    {target}[v0, v1] += ({_renamed(term, i, j)}) * v2",
            ]
        else:
            lines += [
                f"                if {k} == 0:",
                f"                    {target}[{i}, {j}] = 0",
                f"                {target}[{i}, {j}] = {target}[{i}, {j}] + ({term}) * {k}",
            ]
    elif as_block:
        lines += [
            f'            with T.block("{target}{number}"):',
            f'                v0, v1 = T.axis.remap("SS", [{i}, {j}])',
            f"                {target}[{_renamed(at, i, j)}] = {_renamed(reads, i, j)}",
        ]
    else:
        lines += [f"            {target}[{at}] = {reads} + {number}"]
    return lines


def _renamed(text: str, i: str, j: str) -> str:
    return text.replace(i, "v0").replace(j, "v1")


def _read(rng: random.Random, name: str, i: str, j: str, low: list[int], count: list[int]) -> str:
    """A load inside the buffer: shifted where the loops leave room, mirrored, or of one element."""
    parts: list[str] = []
    for var, start, extent in zip((i, j), low, count, strict=True):
        room = [by for by in (-1, 1) if start + by >= 0 and start + extent + by <= SIZE]
        kind = rng.random()
        if kind < 0.2 and room:
            parts.append(f"{var} + {rng.choice(room)}")
        elif kind < 0.3:
            parts.append(f"{SIZE - 1} - {var}")
        elif kind < 0.35:
            parts.append(str(rng.randint(0, SIZE - 1)))
        else:
            parts.append(var)
    return f"{name}[{', '.join(parts if rng.random() < 0.9 else parts[::-1])}]"


def _loop(sch: Any, rng: random.Random) -> Any:
    names = [loop.loop_var.name for loop in each(For, sch.mod["main"].body)]
    at = rng.randrange(len(names))
    return sch.loop(f"{names[at]}#{names[:at].count(names[at])}")


def _stage(sch: Any, rng: random.Random) -> str:
    body = sch.mod["main"].body
    names = [block.name for block in each(Block, body)] + [store.buffer.name for store in each(BufferStore, body)]
    return rng.choice(names)


def _block(sch: Any, rng: random.Random) -> str:
    names = [block.name for block in each(Block, sch.mod["main"].body)]
    return rng.choice(names) if names else "none"


def _buffer(sch: Any, rng: random.Random) -> str:
    return rng.choice([store.buffer.name for store in each(BufferStore, sch.mod["main"].body)] + ["A"])


def _name(sch: Any, rng: random.Random) -> str:
    names = [bind.var.name for bind in each(Bind, sch.mod["main"].body)]
    return rng.choice(names) if names else "x"


def _specialize(sch: Any, rng: random.Random) -> None:
    where, upto = _loop(sch, rng), rng.choice([None, None, _loop(sch, rng)])
    conditions = [["1 < 2"], [f"{sch.get(_loop(sch, rng)).loop_var.name} < 3"], ["i0 == 3", "j0 < 2"]]
    sch.specialize(where, *rng.choice(conditions), upto=upto)


def _unflatten(sch: Any, rng: random.Random) -> None:
    flat = [buffer.name for buffer in sch.mod["main"].buffers if len(buffer.shape) == 1]
    shapes = [f"{SIZE}, {SIZE}"] * 3 + [f"2, {SIZE // 2}, {SIZE}", f"{SIZE * SIZE}"]
    sch.unflatten(rng.choice([*flat, *flat, "A"]), rng.choice(shapes))


def _located(sch: Any, rng: random.Random) -> None:
    stage = _stage(sch, rng)
    sch.compute_at(stage, sch.sample_compute_location(stage))


VERBS: dict[str, Callable[[Any, random.Random], Any]] = {
    "compute_inline": lambda sch, rng: sch.compute_inline(_stage(sch, rng)),
    "decompose_reduction": lambda sch, rng: sch.decompose_reduction(_stage(sch, rng), _loop(sch, rng)),
    "stage_mem": lambda sch, rng: sch.stage_mem(_loop(sch, rng), _buffer(sch, rng), inside=rng.random() < 0.5),
    "pack": lambda sch, rng: sch.pack(
        _buffer(sch, rng),
        at=_loop(sch, rng) if rng.random() < 0.7 else None,
        layout=rng.choice([None, lambda i, j: [j, i], lambda i, j: [i // 4, j, i % 4]]),
    ),
    "register_tile": lambda sch, rng: sch.register_tile(
        _buffer(sch, rng),
        [_loop(sch, rng)],
        at=_loop(sch, rng),
        order=rng.choice(["keep", "add"]),
        store=rng.choice(["auto", "auto", True, False]),
    ),
    "materialize": lambda sch, rng: sch.materialize(_name(sch, rng), *[_loop(sch, rng)][: rng.randint(0, 1)]),
    "inline_bind": lambda sch, rng: sch.inline_bind(_name(sch, rng), *[_loop(sch, rng)][: rng.randint(0, 1)]),
    "specialize": _specialize,
    "unflatten": _unflatten,
    "reverse_compute_inline": lambda sch, rng: sch.reverse_compute_inline(_stage(sch, rng)),
    "compute_at": lambda sch, rng: sch.compute_at(
        _stage(sch, rng),
        _loop(sch, rng),
        preserve_unit_loops=rng.random() < 0.3,
        index=rng.choice([-1, -1, -2, 0, 1]),
    ),
    "reverse_compute_at": lambda sch, rng: sch.reverse_compute_at(
        _stage(sch, rng),
        _loop(sch, rng),
        preserve_unit_loops=rng.random() < 0.3,
        index=rng.choice([-1, -1, -2, 0, 1]),
    ),
    "cache_read": lambda sch, rng: sch.cache_read(_stage(sch, rng), rng.choice([0, 0, "A", "B"]), "local"),
    "cache_write": lambda sch, rng: sch.cache_write(_stage(sch, rng), 0, "local", copy_in=rng.random() < 0.3),
    "cache_inplace": lambda sch, rng: sch.cache_inplace(_stage(sch, rng), 0, "local"),
    "rfactor": lambda sch, rng: sch.rfactor(_loop(sch, rng), rng.choice([0, 0, 1, -1])),
    "vectorize": lambda sch, rng: sch.vectorize(
        _loop(sch, rng), rng.choice([2, 4]), tail=rng.choice(["mask", "scalar", "predicate", "shift"])
    ),
    "reindex": lambda sch, rng: sch.reindex(_block(sch, rng), (rng.choice(["read", "write"]), 0)),
    "reindex_cache_read": lambda sch, rng: sch.reindex_cache_read(
        _block(sch, rng),
        0,
        "local",
        rng.choice([lambda *at: list(at)[::-1], lambda *at: [one // 2 for one in at[:1]] + list(at)]),
    ),
    "privatize": lambda sch, rng: sch.privatize(_buffer(sch, rng), _loop(sch, rng)),
    "expand": lambda sch, rng: sch.expand(_buffer(sch, rng), _loop(sch, rng)),
    "lift_alloc": lambda sch, rng: sch.lift_alloc(_buffer(sch, rng), _loop(sch, rng)),
    "set_scope": lambda sch, rng: sch.set_scope(_stage(sch, rng), 0, rng.choice(["local", "shared"])),
    "cache_index": lambda sch, rng: sch.cache_index(_stage(sch, rng), "local", rng.choice([0, 0, 1, 2])),
    "read_at": lambda sch, rng: sch.read_at(_loop(sch, rng), _stage(sch, rng), 0, "local"),
    "write_at": lambda sch, rng: sch.write_at(_loop(sch, rng), _stage(sch, rng), 0, "local"),
    "rolling_buffer": lambda sch, rng: sch.rolling_buffer(_stage(sch, rng), 0),
    "fuse_epilogue": lambda sch, rng: sch.fuse_epilogue(_stage(sch, rng), _stage(sch, rng)),
    "contract": lambda sch, rng: sch.contract(_buffer(sch, rng), rng.choice([0, 1, -1])),
    "reuse": lambda sch, rng: sch.reuse(_buffer(sch, rng), _buffer(sch, rng)),
    "recompute": lambda sch, rng: sch.recompute(_stage(sch, rng)),
    "bind_expr": lambda sch, rng: sch.bind_expr(rng.choice(["A[_, _]", "_ + _", "B[_, _]"]), "x"),
    "pad_einsum": lambda sch, rng: sch.pad_einsum(
        _stage(sch, rng), [rng.choice([1, 2, 4]) for _ in range(rng.choice([2, 2, 3]))]
    ),
    "sample_compute_location": lambda sch, rng: _located(sch, rng),
    "as_block": lambda sch, rng: sch.as_block(_loop(sch, rng) if rng.random() < 0.3 else _buffer(sch, rng)),
    "as_loops": lambda sch, rng: sch.as_loops(_block(sch, rng)),
    "split": lambda sch, rng: sch.split(_loop(sch, rng), [None, rng.choice([2, 4])]),
    "peel": lambda sch, rng: sch.peel(_loop(sch, rng), beyond=rng.choice([2, 3, 4]), tail="shift"),
}


def run_one(seed: int, counts: Counter[str] | None = None, verbs: Any = None) -> None:
    """Take some steps on the program of a seed. Raises AssertionError or Mismatch where something is wrong."""
    counts = Counter() if counts is None else counts
    rng = random.Random(seed)
    before = parse(program(seed))
    try:
        executes_alike(before, before, samples=1)
    except InterpreterError:
        counts["reads what nothing wrote"] += 1
        return
    sch: Any = tl.Schedule(before, debug_mask="all", reassociate=False)
    for _ in range(STEPS):
        module, trace = sch.mod, len(sch.steps)
        verb = rng.choice(verbs or list(VERBS))
        try:
            VERBS[verb](sch, rng)
        except UnprovedStep as error:
            counts[f"{verb} unknown: {str(error.message)[:70]}"] += 1
            assert sch.mod is module
            continue
        except ScheduleError as error:
            is_a_refusal(error)
            counts[f"{verb} {type(error).__name__}"] += 1
            assert sch.mod is module
            assert all(record.instruction.kind.pure for record in sch.steps[trace:]), "a refused step was recorded"
            afterwards = AFTERWARDS in error.message
            if isinstance(error, IllegalStep) and not afterwards and _stands_in(error, module["main"]):
                assert witness_is_true(module["main"], error.witness), f"{verb}: {error}"
                counts["witnesses looked for"] += 1
            continue
        counts[f"{verb} taken"] += 1
        try:
            executes_alike(before, sch.mod["main"], samples=1, seed=seed)
        except Exception as error:
            raise AssertionError(f"{verb} on\n{module['main']}\nto\n{sch.mod['main']}\n{error}") from error
    roundtrips(sch.mod["main"])
    again: Any = tl.Schedule(before, reassociate=False)
    sch.trace.apply_json_to_schedule(sch.trace.as_json(dialect="tirlower"), again)
    assert_structural_equal(again.mod, sch.mod)


def _stands_in(error: IllegalStep, func: Any) -> bool:
    """Whether a witness is of a program itself, not of what a bigger step had made of it."""
    inside = {id(event.statement) for event in events(func)}
    return all(id(point.statement) in inside for point in error.witness.points)


if __name__ == "__main__":
    raise SystemExit(run_seeds(run_one))
