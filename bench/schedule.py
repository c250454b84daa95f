"""What a step of a schedule costs in modules of 10, 100 and 1000 blocks, beside TVM's C++ where it is installed.

Every block is a nest of three loops that reads what the one before wrote. A step is measured on copies of one schedule, with
nothing remembered of earlier answers, so that its proof is in the time.
"""

from __future__ import annotations

import importlib.util
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import tirlower as tl
from tirlower.diagnostics import ScheduleError
from tirlower.schedule.facts import Facts
from tirlower.script import parse

__all__ = ["STEPS", "Cost", "measure", "module_text", "report"]

SIZES = (10, 100, 1000)
REPEATS = 15


def module_text(blocks: int) -> str:
    """The script of a module of so many blocks in a row."""
    lines = [
        "@T.prim_func",
        'def main(X: T.Buffer((64, 64), "float32"), Y: T.Buffer((64, 64), "float32")):',
        '    with T.block("root"):',
        "        T.reads()",
        "        T.writes()",
        *(f'        B{k} = T.alloc_buffer((64, 64), "float32")' for k in range(blocks - 1)),
    ]
    before = "X"
    for k in range(blocks):
        after = f"B{k}" if k < blocks - 1 else "Y"
        lines += [
            f"        for i{k}, j{k}, k{k} in T.grid(64, 64, 4):",
            f'            with T.block("C{k}"):',
            f'                vi, vj, vk = T.axis.remap("SSR", [i{k}, j{k}, k{k}])',
            "                with T.init():",
            f"                    {after}[vi, vj] = T.float32(0)",
            f"                {after}[vi, vj] = {after}[vi, vj] + {before}[vi, vk]",
        ]
        before = after
    return "\n".join(lines)


def chain_text(blocks: int) -> str:
    """The script of a module of so many blocks in a row, each of which reads an element of the one before."""
    lines = module_text(blocks).splitlines()
    head = [line for line in lines if line.startswith(("@", "def", "    with", "        T.")) or "alloc" in line]
    before = "X"
    for k in range(blocks):
        after = f"B{k}" if k < blocks - 1 else "Y"
        head += [
            f"        for i{k}, j{k} in T.grid(64, 64):",
            f'            with T.block("C{k}"):',
            f'                vi, vj = T.axis.remap("SS", [i{k}, j{k}])',
            f"                {after}[vi, vj] = {before}[vi, vj] + T.float32({k})",
        ]
        before = after
    return "\n".join(head)


@dataclass(frozen=True)
class Cost:
    """A step that is measured: what is timed, its budget in milliseconds (0: none), whether the blocks are no sums but a ``chain``
    of elements, and whether TVM has it."""

    name: str
    budget: float
    run: Callable[[Any, dict[str, Any]], object]
    chain: bool = False
    tvm: bool = True


def _handles(sch: Any, middle: int) -> dict[str, Any]:
    """The handles of the block in the middle and of its loops, split and not."""
    block, before = sch.get_block(f"C{middle}"), sch.get_block(f"C{middle - 1}")
    i, j, *rest = sch.get_loops(block)
    i_0, i_1 = sch.split(i, [None, 8])
    j_0, j_1 = sch.split(j, [None, 8])
    found = {"name": f"C{middle}", "block": block, "i0": i_0, "i1": i_1, "j0": j_0, "j1": j_1, "before": before}
    found |= {"outer": sch.get_loops(before)[0], "next": sch.get_block(f"C{middle + 1}")}
    found |= {"written": f"B{middle}", "read": f"B{middle - 1}"}
    return found | ({"k": rest[0]} if rest else {})


STEPS = (
    Cost("get_block", 0.02, lambda s, h: s.get_block(h["name"])),
    Cost("get_loops", 0.02, lambda s, h: s.get_loops(h["block"])),
    Cost("split", 0.5, lambda s, h: s.split(h["k"], [None, 2])),
    Cost("fuse", 0.5, lambda s, h: s.fuse(h["i0"], h["i1"])),
    Cost("reorder", 0.5, lambda s, h: s.reorder(h["k"], h["j1"])),
    Cost("parallel", 0.5, lambda s, h: s.parallel(h["i0"])),
    Cost("vectorize", 0.5, lambda s, h: s.vectorize(h["j1"])),
    Cost("unroll", 0.5, lambda s, h: s.unroll(h["k"])),
    Cost("bind", 0.5, lambda s, h: s.bind(h["i0"], "blockIdx.x")),
    Cost("add_unit_loop", 0.5, lambda s, h: s.add_unit_loop(h["block"])),
    Cost("annotate", 0.5, lambda s, h: s.annotate(h["block"], "key", 1)),
    Cost("cache_read", 2, lambda s, h: s.cache_read(h["block"], 0, "local")),
    Cost("cache_write", 2, lambda s, h: s.cache_write(h["block"], 0, "local")),
    Cost("reindex", 2, lambda s, h: s.reindex(h["block"], ("read", 0))),
    Cost("compute_inline", 2, lambda s, h: s.compute_inline(h["before"]), chain=True),
    Cost("reverse_compute_inline", 2, lambda s, h: s.reverse_compute_inline(h["next"]), chain=True),
    Cost("compute_at", 2, lambda s, h: s.compute_at(h["before"], h["i0"])),
    Cost("reverse_compute_at", 2, lambda s, h: s.reverse_compute_at(h["block"], h["outer"]), chain=True),
    Cost("decompose_reduction", 2, lambda s, h: s.decompose_reduction(h["block"], h["k"])),
    Cost("rfactor", 2, lambda s, h: s.rfactor(h["k"], 0)),
    Cost("set_scope", 2, lambda s, h: s.set_scope(h["block"], 0, "shared")),
    Cost("storage_align", 2, lambda s, h: s.storage_align(h["block"], 0, 0, 8, 1)),
    Cost("transform_layout", 2, lambda s, h: s.transform_layout(h["block"], ("write", 0), lambda a, b: [b, a])),
    Cost("transform_block_layout", 2, lambda s, h: s.transform_block_layout(h["next"], lambda a, b, c: [b, a, c])),
    Cost("blockize", 2, lambda s, h: s.blockize(h["i1"])),
    Cost("stage_mem", 2, lambda s, h: s.stage_mem(h["i1"], h["written"], inside=True), tvm=False),
    Cost("pack", 2, lambda s, h: s.pack(h["read"], at=h["i0"], layout=lambda a, b: [b, a]), tvm=False),
    Cost("register_tile", 10, lambda s, h: s.register_tile(h["name"], [h["j1"]], at=h["j0"]), tvm=False),
    Cost("copy", 0.02, lambda s, h: s.copy()),
    Cost("undo", 0.02, lambda s, h: s.undo()),
)


PRODUCT = """
@T.prim_func
def main(A: T.Buffer((512, 512), "float32"), B: T.Buffer((512, 512), "float32"), C: T.Buffer((512, 512), "float32")):
    for i, j, k in T.grid(512, 512, 512):
        with T.block("C"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            with T.init():
                C[vi, vj] = T.float32(0)
            C[vi, vj] = C[vi, vj] + A[vi, vk] * B[vk, vj]
"""
REPLAYED, REPLAY_BUDGET = "replay of 20 steps", 10.0
"""10,000 replays of a product's schedule within 100 s: what a tuner does."""


def product_schedule(sch: Any) -> None:
    """A product in tiles, with sampled sizes and a copy of its result: 20 instructions."""
    block = sch.get_block("C")
    i, j, k = sch.get_loops(block)
    i_0, i_1, i_2 = sch.split(i, sch.sample_perfect_tile(i, 3, decision=[16, 4, 8]))
    j_0, j_1, j_2 = sch.split(j, sch.sample_perfect_tile(j, 3, decision=[8, 4, 16]))
    k_0, k_1 = sch.split(k, sch.sample_perfect_tile(k, 2, decision=[64, 8]))
    sch.reorder(i_0, j_0, i_1, j_1, k_0, k_1, i_2, j_2)
    out = sch.cache_write(block, 0, "local")
    sch.reverse_compute_at(out, j_1)
    fused = sch.fuse(i_0, j_0)
    sch.parallel(fused)
    sch.annotate(block, "tile", 4)
    sch.unroll(i_2)
    sch.vectorize(j_2)
    sch.decompose_reduction(block, k_0)
    sch.vectorize(sch.get_loops(out)[-1])
    sch.enter_postproc()


def replay_time() -> float:
    """Milliseconds of a replay of a trace of :func:`product_schedule`, with nothing remembered of earlier ones."""
    func = parse(PRODUCT)
    first: Any = tl.Schedule(func)
    product_schedule(first)
    times: list[float] = []
    for _ in range(REPEATS):
        sch: Any = tl.Schedule(func)
        start = time.perf_counter()
        first.trace.apply_to_schedule(sch, remove_postproc=False)
        times.append(time.perf_counter() - start)
    return _median(times)


def _median(times: list[float]) -> float:
    return statistics.median(times) * 1e3


def measure(blocks: int) -> dict[str, float | None]:
    """Milliseconds of each step in a module of so many blocks; None for one that is not there, or refused."""
    func = parse(module_text(blocks))
    start = time.perf_counter()
    sch: Any = tl.Schedule(func)
    found: dict[str, float | None] = {"Schedule(mod)": (time.perf_counter() - start) * 1e3}
    sums = sch, _handles(sch, blocks // 2)
    sch = tl.Schedule(parse(chain_text(blocks)))
    chain = sch, _handles(sch, blocks // 2)
    for step in STEPS:
        sch, handles = chain if step.chain else sums
        times: list[float] = []
        try:
            for _ in range(REPEATS):
                one = sch.copy()
                one.__dict__["_facts"] = _warm(sch)
                start = time.perf_counter()
                step.run(one, handles)
                times.append(time.perf_counter() - start)
        except (AttributeError, ScheduleError):
            found[step.name] = None
            continue
        found[step.name] = _median(times)
    return found


def _warm(sch: Any) -> Facts:
    """What is known of the nodes that are there, but no answer and no extraction."""
    facts: Facts = sch.__dict__["_facts"]
    facts.forget_answers()
    return facts


def tvm_times(blocks: int) -> dict[str, float | None]:
    """The same of TVM; nothing where it is not installed."""
    if importlib.util.find_spec("tvm") is None:
        return {}
    import tvm  # type: ignore[import-not-found]
    from tvm.script import from_source  # type: ignore[import-not-found]

    head = "from tvm.script import tir as T\n"
    text = head + module_text(blocks)
    mods = [tvm.IRModule({"main": from_source(one)}) for one in (text, head + chain_text(blocks))]
    mod = mods[0]
    schedule = tvm.tir.Schedule if hasattr(tvm.tir, "Schedule") else tvm.s_tir.Schedule
    start = time.perf_counter()
    sch = schedule(mod)
    found: dict[str, float | None] = {"Schedule(mod)": (time.perf_counter() - start) * 1e3}
    for step in STEPS:
        if not step.tvm:
            found[step.name] = None
            continue
        times: list[float] = []
        try:
            for _ in range(REPEATS):
                one = schedule(mods[step.chain])
                handles = _handles(one, blocks // 2)
                start = time.perf_counter()
                step.run(one, handles)
                times.append(time.perf_counter() - start)
        except Exception:  # whatever a peer raises: the row is left out
            found[step.name] = None
            continue
        found[step.name] = _median(times)
    del sch
    return found


def report() -> str:
    """A table: a row a step, milliseconds by the number of blocks, how they grow, the budget, and TVM at 100 blocks."""
    ours = {size: measure(size) for size in SIZES}
    peer = tvm_times(100)
    budget = {step.name: step.budget for step in STEPS} | {"Schedule(mod)": 10.0}
    head = f"{'schedule steps (median ms)':<26}" + "".join(f"{size:>9}" for size in SIZES)
    head += f"{'100/10':>9}{'1000/100':>10}{'budget':>9}" + (f"{'tvm 100':>10}" if peer else "")
    lines = [head]
    for name in ours[SIZES[0]]:
        row = [ours[size][name] for size in SIZES]
        if None in row:
            lines.append(f"{name:<26}" + f"{'-':>9}" * len(SIZES))
            continue
        times = [one for one in row if one is not None]
        line = f"{name:<26}" + "".join(f"{one:>9.3f}" for one in times)
        line += f"{times[1] / times[0]:>8.2f}x{times[2] / times[1]:>9.2f}x{budget[name]:>9.2f}"
        theirs = peer.get(name)
        lines.append(line + (f"{theirs:>10.3f}" if theirs is not None else ""))
    lines.append(f"{REPLAYED:<26}{replay_time():>9.3f}{'':>45}{REPLAY_BUDGET:>9.2f}")
    return "\n".join(lines)
