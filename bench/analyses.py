"""What the analyses cost, each number beside its limit: verdicts, checks, simplification, and how checks grow."""

from __future__ import annotations

import gc
import itertools
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import tirlower as tl
from bench import kernels
from bench.passes import loops, straight_line
from examples.jacobi import jacobi
from examples.layer_norm import layer_norm
from examples.matmul import tiled
from examples.softmax import softmax
from tests.arith.index_expressions import CASES, Problem
from tirlower import demo, poly
from tirlower.arith import Analyzer
from tirlower.ir import Expr, IRModule, PrimFunc
from tirlower.legality.check import check_legality
from tirlower.poly import isl
from tirlower.script import parse

VERDICT_LIMIT = 10e-3
CHECK_LIMIT = 0.30
CHANGED_LIMIT = 25e-6
SIMPLE_LIMIT = 3e-6
GROWTH_LIMIT = 2.5

TILED = """
@T.prim_func
def tiled(a: T.handle, b: T.handle, c: T.handle, n: T.int32, m: T.int32, l: T.int32):
    A = T.match_buffer(a, {a})
    B = T.match_buffer(b, {b})
    C = T.match_buffer(c, {c})
    for io, jo, ko, ii, ji, ki in T.grid((n + 15) // 16, (m + 31) // 32, (l + 7) // 8, 16, 32, 8):
        if io * 16 + ii < n and jo * 32 + ji < m and ko * 8 + ki < l:
            {c_at} = {c_at} + {a_at} * {b_at}
"""
"""A matmul in six loops, its three sizes symbolic and none a multiple of its tile."""

_I, _J, _K = "(io * 16 + ii)", "(jo * 32 + ji)", "(ko * 8 + ki)"
TILED_FORMS = {
    "two dimensions": TILED.format(
        a="(n, l)", b="(l, m)", c="(n, m)", c_at=f"C[{_I}, {_J}]", a_at=f"A[{_I}, {_K}]", b_at=f"B[{_K}, {_J}]"
    ),
    "flattened": TILED.format(
        a="(n * l,)", b="(l * m,)", c="(n * m,)",
        c_at=f"C[{_I} * m + {_J}]", a_at=f"A[{_I} * l + {_K}]", b_at=f"B[{_K} * m + {_J}]",
    ),
}  # fmt: skip
TILED_ANSWERS = {"io": True, "jo": True, "ko": False, "ii": True, "ji": True, "ki": False}


@contextmanager
def _quiet() -> Iterator[None]:
    collecting = gc.isenabled()
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        if collecting:
            gc.enable()


def _fresh_solver() -> None:
    """What isl was asked before is forgotten: every measurement is a first one."""
    isl._DEFAULT.solver = None


def seconds_of(fn: Callable[[], object], repeat: int, before: Callable[[], object] | None = None) -> float:
    """The least of some runs, each after ``before`` (not counted)."""
    best = float("inf")
    with _quiet():
        for _ in range(repeat):
            if before is not None:
                before()
            start = time.perf_counter()
            fn()
            best = min(best, time.perf_counter() - start)
    return best


def verdicts(repeat: int = 9) -> dict[str, float]:
    """Seconds of a cold verdict, extraction included, for each question on the six-loop matmul."""
    found = {}
    questions: dict[str, Callable[..., poly.Verdict]] = {
        "is_parallel": poly.is_parallel,
        "is_vectorizable": poly.is_vectorizable,
    }
    for form, text in TILED_FORMS.items():
        func = parse(text)
        for name, ask in questions.items():
            for loop, legal in TILED_ANSWERS.items():
                found[f"{name}({loop}), {form}"] = seconds_of(
                    lambda ask=ask, loop=loop, func=func: ask(func, loop), repeat, _fresh_solver
                )
                assert ask(func, loop).proved == legal, (form, name, loop)
        orders = {"can_reorder(io jo ko ii ji ki -> jo io ko ki ii ji)": ["jo", "io", "ko", "ki", "ii", "ji"]}
        for name, order in orders.items():
            found[f"{name}, {form}"] = seconds_of(
                lambda order=order, func=func: poly.can_reorder(func, order), repeat, _fresh_solver
            )
    return found


def programs() -> dict[str, PrimFunc]:
    """The kernels of the benchmarks."""
    found: dict[str, PrimFunc] = {"exp": kernels.exp_kernel(1 << 24), "matmul, tiled by hand": tiled(1024, 1024, 1024)}
    for kind in ("serial", "parallel"):
        found[f"elementwise, {kind}"] = kernels.elementwise(1 << 22, kind)
        found[f"softmax, {kind}"] = softmax(2048, 2048, kind=kind)
        found[f"layer norm, {kind}"] = layer_norm(2048, 2048, kind=kind)
        found[f"jacobi, {kind}"] = jacobi(2048, kind)
    for case in demo.cases(quick=True):
        found[f"{case.name} (demo)"] = case.func
    for form, text in TILED_FORMS.items():
        # Reduction loops stay serial; the outermost is parallel, the innermost has lanes.
        found[f"matmul, six loops, {form}"] = parse(text)
    return found


@dataclass(frozen=True)
class Share:
    """Seconds of the checks and of the whole cold compilation."""

    checks: float
    whole: float

    @property
    def ratio(self) -> float:
        """The checks' part of the whole."""
        return self.checks / self.whole


def shares(repeat: int = 7) -> dict[str, Share]:
    """The checks' part in the compilation of every kernel of the benchmarks, nothing taken from a cache."""
    before = os.environ.get("TIRLOWER_CACHE_DIR")
    found: dict[str, Share] = {}
    try:
        for name, func in programs().items():
            runs = []
            for _ in range(repeat):
                with tempfile.TemporaryDirectory() as folder:
                    os.environ["TIRLOWER_CACHE_DIR"] = folder
                    _fresh_solver()
                    timings = tl.build(func, schedule="none").report().timings
                runs.append(Share(timings["legality"] / 1e3, timings["whole"] / 1e3))
            found[name] = sorted(runs, key=lambda run: run.ratio)[len(runs) // 2]
    finally:
        if before is None:
            os.environ.pop("TIRLOWER_CACHE_DIR", None)
        else:
            os.environ["TIRLOWER_CACHE_DIR"] = before
    return found


def _nodes(root: Expr) -> set[Expr]:
    found: set[Expr] = set()
    stack = [root]
    while stack:
        op = stack.pop()
        if op not in found:
            found.add(op)
            stack += op.children()  # type: ignore[arg-type]
    return found


@dataclass(frozen=True)
class Simplification:
    """Seconds a node, averaged over the fixed set of index expressions; every expression meets a new analyzer.

    ``changed``: all that simplifying costs for expressions that change, shared among the nodes that change: those of
    the original that are not in the result. ``inner``: the same, shared among the operations alone that become
    something else (no leaves). ``simple``: for expressions that are simple already, among all their nodes.
    ``again``: the same expressions in the analyzer that has seen them.
    """

    changed: float
    inner: float
    simple: float
    again: float


def simplification(repeat: int = 7) -> Simplification:
    """The cost of ``Analyzer.simplify`` a node."""
    total: dict[str, float] = dict.fromkeys(("changed", "simple", "again"), 0.0)
    nodes: dict[str, int] = dict.fromkeys(("changed", "inner", "simple", "again"), 0)
    for case in CASES:
        problem = Problem(case)
        result = problem.analyzer.simplify(problem.expr)
        analyzers = [Problem(case) for _ in range(repeat)]
        if result is not problem.expr:
            gone = _nodes(problem.expr) - _nodes(result)
            total["changed"] += min(_once(p.analyzer, p.expr) for p in analyzers)
            nodes["changed"] += len(gone)
            nodes["inner"] += sum(problem.analyzer.simplify(op) is not op for op in gone if not op.is_leaf)
        if result.is_leaf:
            continue
        analyzers = [Problem(case) for _ in range(repeat)]
        total["simple"] += min(_once(p.analyzer, p.expected) for p in analyzers)
        total["again"] += min(_once(p.analyzer, p.expected) for p in analyzers)
        nodes["simple"] += len(_nodes(result))
        nodes["again"] += len(_nodes(result))
    return Simplification(
        total["changed"] / nodes["changed"],
        total["changed"] / nodes["inner"],
        total["simple"] / nodes["simple"],
        total["again"] / nodes["again"],
    )


def _once(analyzer: Analyzer, expr: Expr) -> float:
    start = time.perf_counter()
    analyzer.simplify(expr)
    return time.perf_counter() - start


def one_loop(count: int) -> str:
    """A script of ``count`` statements in one parallel loop, each of its own buffer element."""
    head = f'@T.prim_func\ndef main(A: T.Buffer((64, {count}), "float32"), B: T.Buffer((64, {count}), "float32")):\n'
    body = "".join(f"        B[i, {k}] = A[i, {k}] + B[i, {(k * 7) % count}]\n" for k in range(count))
    return f"{head}    for i in T.parallel(64):\n{body}"


def parallel_loops(count: int) -> str:
    """A script of ``count`` parallel loops in sequence, of symbolic extents, all over the same buffers."""
    head = (
        '@T.prim_func\ndef main(A: T.Buffer(("n", "n"), "float32"), B: T.Buffer(("n", "n"), "float32"), n: T.int32):\n'
    )
    loop = "    for i in T.parallel(n):\n        for j in range(n):\n            B[i, j] = A[i, j] + T.float32({})\n"
    return head + "".join(loop.format(k) for k in range(count))


def deep(count: int) -> str:
    """A script of ``count`` nested loops around one statement."""
    count = max(count // 16, 1)
    shape = ", ".join(["2"] * count)
    names = [f"i{k}" for k in range(count)]
    index = ", ".join(names)
    lines = ["@T.prim_func", f'def main(A: T.Buffer(({shape},), "float32")):']
    for level, name in enumerate(names):
        lines.append("    " * (level + 1) + f"for {name} in T.{'parallel' if level == 0 else 'serial'}(2):")
    lines.append("    " * (count + 1) + f"A[{index}] = A[{index}] + T.float32(1)")
    return "\n".join(lines) + "\n"


def guarded(count: int) -> str:
    """A script of ``count`` loops in sequence whose accesses stand behind guards."""
    head = '@T.prim_func\ndef main(A: T.Buffer((100,), "float32"), B: T.Buffer((100,), "float32")):\n'
    loop = (
        "    for i in T.parallel(7):\n        for j in range(16):\n            if i * 16 + j < 100:\n"
        "                B[i * 16 + j] = A[99 - (i * 16 + j)] + T.float32({})\n"
    )
    return head + "".join(loop.format(k) for k in range(count))


SHAPES: dict[str, Callable[[int], str]] = {
    "statements in sequence": straight_line,
    "loops in sequence": loops,
    "parallel loops in sequence": parallel_loops,
    "guarded parallel loops": guarded,
    "statements in one parallel loop": one_loop,
    "nested loops (a sixteenth)": deep,
}


def growth(sizes: Iterable[int] = (64, 128, 256, 512), repeat: int = 5) -> dict[str, list[tuple[int, float]]]:
    """Seconds of checking functions of growing size, by shape."""
    found: dict[str, list[tuple[int, float]]] = {}
    for name, make in SHAPES.items():
        rows = []
        for size in sizes:
            mod = IRModule({"main": parse(make(size))})
            ctx = tl.PassContext()
            rows.append((size, seconds_of(lambda mod=mod, ctx=ctx: check_legality(mod, ctx), repeat, _fresh_solver)))
        found[name] = rows
    return found


def _line(label: str, value: str, limit: str, ok: bool) -> str:
    return f"{label:<64}{value:>14}   limit {limit:<10}{'' if ok else 'MISSED'}"


def report() -> str:
    """Every number with its limit."""
    lines = ["verdicts on a six-loop tiled matmul with symbolic sizes, cold, extraction included"]
    cold = verdicts()
    worst = max(cold, key=lambda name: cold[name])
    middle = statistics.median(cold.values())
    lines.append(_line("slowest: " + worst, f"{cold[worst] * 1e3:.2f} ms", "10 ms", cold[worst] <= VERDICT_LIMIT))
    lines.append(_line(f"median of {len(cold)}", f"{middle * 1e3:.2f} ms", "10 ms", middle <= VERDICT_LIMIT))
    lines += ["", "checks of loops and accesses: part of the cold compilation (checks of whole)"]
    for name, share in shares().items():
        text = f"{name} ({share.checks * 1e3:.2f} of {share.whole * 1e3:.1f} ms)"
        lines.append(_line(text, f"{share.ratio:.1%}", "30%", share.ratio <= CHECK_LIMIT))
    lines += ["", f"Analyzer.simplify on the {len(CASES)} index expressions, new analyzers, a node"]
    cost = simplification()
    lines += [
        _line("that changes", f"{cost.changed * 1e6:.2f} us", "25 us", cost.changed <= CHANGED_LIMIT),
        _line("that changes, operations alone", f"{cost.inner * 1e6:.2f} us", "25 us", cost.inner <= CHANGED_LIMIT),
        _line("that is simple", f"{cost.simple * 1e6:.2f} us", "3 us", cost.simple <= SIMPLE_LIMIT),
        _line("that the analyzer knows to be simple", f"{cost.again * 1e6:.2f} us", "3 us", cost.again <= SIMPLE_LIMIT),
    ]
    lines += ["", "checks of functions of growing size (ms)"]
    for name, rows in growth().items():
        times = " ".join(f"{seconds * 1e3:8.1f}" for _, seconds in rows)
        most = max(b[1] / a[1] for a, b in itertools.pairwise(rows))
        sizes = ", ".join(str(size) for size, _ in rows)
        lines.append(_line(f"{name} ({sizes}): {times}", f"{most:.2f}x", "2.5x", most <= GROWTH_LIMIT))
    return "\n".join(lines)
