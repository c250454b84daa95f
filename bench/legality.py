"""The legality table beside the peers: ``python -m bench.legality`` writes docs/legality_table.md.

Each program of ``tests/poly/legality_table.py`` is asked what the table asks: may this loop be parallel, or vectorized;
may these loops be reordered; may this loop be a GPU thread. Ours is asked through ``tl.build`` (parallel, vectorized)
and through ``tirlower.poly`` (reorder, bind). TVM is given the same program in its own script, with the loop marked, and
as a block to its schedule primitives; Numba is given it as Python with a ``prange``. What compiles is run on two
threads, several times, and compared with the program run serially by the interpreter.

A peer that is not installed is left out. Each peer runs in a process of its own, which may die of a program.
"""

from __future__ import annotations

import argparse
import collections
import importlib.metadata
import importlib.util
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

import tirlower as tl
from bench.peer_programs import NotExpressed, numba_text, tvm_block_text, tvm_text
from tests.poly.legality_table import TABLE, Program, Question
from tirlower import ir, poly
from tirlower.diagnostics import LegalityError, TirError
from tirlower.ir import For, ForKind, PrimFunc

PAGE = Path(__file__).resolve().parents[1] / "docs" / "legality_table.md"
RUNS = 40
THREADS = 2
SIZE = 16
COLUMNS = {
    "ours": "tirlower",
    "tvm": "TVM, loop marked",
    "schedule": "TVM, schedule primitive",
    "numba": "Numba, prange",
}
Answer = tuple[str, str]
"""A word and a remark."""


# -- the programs -----------------------------------------------------------------------------------------------------
def questions() -> list[tuple[Program, Question]]:
    """Every program with every question."""
    return [(program, question) for program in TABLE for question in program.questions]


def loop_named(func: PrimFunc, name: str) -> For:
    """The loop of that name."""
    found: list[For] = []

    def look(op: Any) -> bool:
        if isinstance(op, For) and op.loop_var.name == name:
            found.append(op)
        return not isinstance(op, ir.Expr)

    ir.pre_order_visit(func.body, look)
    return found[0]


def sizes_of(func: PrimFunc, verdict: poly.Verdict) -> dict[Any, int]:
    """Numbers for the parameters that are no buffers: those of the witness where there is one, else 16."""
    known = dict(verdict.witness.parameters) if verdict.witness is not None else {}
    handles = {p for p in func.params if p.dtype.is_handle}
    return {p: max(known.get(p.name, SIZE), 1) for p in func.params if p not in handles and p not in func.buffers}


def _is_parallel(op: Any) -> bool:
    return isinstance(op, For) and op.kind is ForKind.PARALLEL


def fixed(func: PrimFunc, question: Question) -> PrimFunc:
    """The program with its sizes fixed (a peer is given numbers) and no loop parallel yet."""
    sizes = sizes_of(func, ask(func, question))
    func = func.specialize(sizes) if sizes else func
    # The question is about one loop: the others run serially.
    body = ir.ir_transform(func.body, None, lambda op: op.with_(kind=ForKind.SERIAL) if _is_parallel(op) else op)
    return func.with_(body=body)


def ask(func: PrimFunc, question: Question) -> poly.Verdict:
    """The verdict of the analysis."""
    if question.kind == "parallel":
        return poly.is_parallel(func, question.loops[0])
    if question.kind == "vectorized":
        return poly.is_vectorizable(func, question.loops[0])
    if question.kind == "bind":
        return poly.can_bind(func, *question.loops)
    return poly.can_reorder(func, question.loops)


def arguments(func: PrimFunc) -> list[np.ndarray[Any, Any]]:
    """Random arrays: floats about 1, integers that are indices of the smallest extent."""
    rng = np.random.default_rng(1)
    shapes = [tuple(extent.value for extent in buffer.shape) for buffer in func.buffers]  # type: ignore[attr-defined]
    least = min([extent for shape in shapes for extent in shape] + [8])
    made = []
    for buffer, shape in zip(func.buffers, shapes, strict=True):
        if buffer.dtype.is_float:
            made.append(rng.uniform(0.5, 1.5, shape).astype(str(buffer.dtype)))
        else:
            made.append(
                np.sort(rng.integers(0, max(least, 1), shape), axis=None).reshape(shape).astype(str(buffer.dtype))
            )
    return made


def serial_result(func: PrimFunc) -> tuple[list[np.ndarray[Any, Any]], list[np.ndarray[Any, Any]]] | None:
    """Arguments, and what they are after the program ran serially; None where it cannot be run."""
    given = arguments(func)
    after = [array.copy() for array in given]
    try:
        tl.interpret(func, *after)
    except TirError:
        return None
    return given, after


def runs(call: Callable[[list[Any]], list[Any]], func: PrimFunc, legal: bool) -> Answer:
    """Run what was compiled, several times: right, wrong, or (for an illegal loop) not seen to be wrong."""
    expected = serial_result(func)
    if expected is None:
        return "accepted", "not run"
    given, after = expected
    wrong = 0
    for _ in range(RUNS):
        results = call([array.copy() for array in given])
        wrong += not all(np.allclose(x, y, rtol=1e-4, atol=1e-5) for x, y in zip(results, after, strict=True))
    if wrong:
        return "WRONG", f"{wrong} of {RUNS} runs" if wrong < RUNS else ""
    return ("right", "") if legal else ("accepted", "no wrong run seen")


# -- ours -------------------------------------------------------------------------------------------------------------
def marked(func: PrimFunc, question: Question) -> PrimFunc:
    """The program with the loop parallel or vectorized."""
    loop = loop_named(func, question.loops[0])
    kind = ForKind.PARALLEL if question.kind == "parallel" else ForKind.VECTORIZED
    body = ir.ir_transform(func.body, None, lambda op: op.with_(kind=kind) if _is(op, loop) else op)
    return func.with_(body=body)


def _is(op: Any, loop: For) -> bool:
    return isinstance(op, For) and op.loop_var is loop.loop_var


def ours(program: Program, question: Question) -> Answer:
    """What tirlower says; what it accepts is compiled and run."""
    verdict = ask(program.func, question)
    if not verdict.proved:
        shown = f"{verdict.witness}" if verdict.witness is not None else verdict.reason
        word = "refuses" if verdict.refuted else "refuses: not known"
        if question.kind in ("parallel", "vectorized"):
            try:
                tl.build(marked(program.func, question), schedule="none")
            except LegalityError:
                return word, shown
            except TirError as error:
                return "not compiled", _short(error)
            return "WRONG", "the build accepts what the analysis refuses"
        return word, shown
    if question.kind in ("reorder", "bind"):
        return "accepts", ""
    func = fixed(program.func, question)
    try:
        with tl.Target("llvm", num_threads=THREADS):
            kernel = tl.build(marked(func, question), schedule="none")
    except LegalityError as error:
        return "refuses", _short(error)
    except TirError as error:
        if "unknown external function" in str(error):
            return "accepts", "not run: it calls a function that is not there"
        return "not compiled", _short(error)

    def call(arrays: list[Any]) -> list[Any]:
        kernel(*arrays)
        return arrays

    return runs(call, func, True)


def _short(error: BaseException) -> str:
    text = " ".join(str(error).split("\n")[0].split())
    return text if len(text) <= 140 else text[:137] + "..."


# -- TVM --------------------------------------------------------------------------------------------------------------
def tvm_loop(program: Program, question: Question) -> Answer:
    """TVM given the loop marked in its script."""
    import tvm
    import tvm.script
    from tvm.script import tirx

    if question.kind not in ("parallel", "vectorized"):
        return "-", "a matter of schedules"
    func = fixed(program.func, question)
    text = tvm_text(func, loop_named(func, question.loops[0]).loop_var, question.kind)
    try:
        made = tvm.script.from_source(text, extra_vars={"S": tirx})
    except Exception as error:
        raise NotExpressed(f"its script: {_last(error)}") from error
    try:
        kernel = tvm.compile(tvm.IRModule({"main": made}), target="llvm")["main"]
    except Exception as error:
        return "refuses", _last(error)

    def call(arrays: list[Any]) -> list[Any]:
        given = [tvm.runtime.tensor(array) for array in arrays]
        kernel(*given)
        return [tensor.numpy() for tensor in given]

    return runs(call, func, question.answer == "proved")


def tvm_schedule(program: Program, question: Question) -> Answer:
    """TVM's schedule primitive on the program as a block."""
    import tvm
    import tvm.script
    from tvm.script import tirx

    func = fixed(program.func, question)
    names = {}
    loops: Any = func.body
    while isinstance(loops, For):
        names[loops.loop_var.name] = len(names)
        loops = loops.body
    text = tvm_block_text(func)
    try:
        made = tvm.script.from_source(text, extra_vars={"S": tirx})
        schedule = tvm.s_tir.Schedule(tvm.IRModule({"main": made}))
        block = schedule.get_sblock("it")
    except Exception as error:
        raise NotExpressed(f"its script: {_last(error)}") from error
    found = schedule.get_loops(block)
    if any(name not in names for name in question.loops[: None if question.kind == "reorder" else 1]):
        raise NotExpressed("a loop that is not around the block")
    chosen = [found[names[name]] for name in question.loops if name in names]
    try:
        if question.kind == "parallel":
            schedule.parallel(chosen[0])
        elif question.kind == "vectorized":
            schedule.vectorize(chosen[0])
        elif question.kind == "bind":
            schedule.bind(chosen[0], question.loops[1])
        else:
            schedule.reorder(*chosen)
    except Exception as error:
        return "refuses", _last(error)
    return "accepts", ""


def _last(error: BaseException) -> str:
    """The telling line of an error."""
    lines = [line.strip() for line in str(error).split("\n") if line.strip()]
    for telling in ("violates", "Check failed", "rror:"):
        for line in lines:
            if telling in line:
                return line[:140]
    return (lines[0] if lines else type(error).__name__)[:140]


# -- Numba ------------------------------------------------------------------------------------------------------------
def numba_loop(program: Program, question: Question) -> Answer:
    """Numba given the loop as a ``prange``."""
    import math

    import numba

    if question.kind != "parallel":
        return "-", "no such request"
    func = fixed(program.func, question)
    text = numba_text(func, loop_named(func, question.loops[0]).loop_var)
    scope: dict[str, Any] = {"np": np, "prange": numba.prange, "math": math}
    exec(compile(text, f"<{program.name}>", "exec"), scope)
    _check_text(func, text)
    kernel = numba.njit(parallel=True)(scope["main"])
    numba.set_num_threads(THREADS)
    try:
        kernel(*arguments(func))
    except Exception as error:
        return "refuses", _last(error)

    def call(arrays: list[Any]) -> list[Any]:
        kernel(*arrays)
        return arrays

    return runs(call, func, question.answer == "proved")


def _check_text(func: PrimFunc, text: str) -> None:
    """The Python that Numba is given computes what the program computes, when Python runs it serially."""
    expected = serial_result(func)
    if expected is None:
        return
    given, after = expected
    scope: dict[str, Any] = {"np": np, "prange": range}
    exec(compile(text, f"<{func.name}>", "exec"), scope)
    arrays = [array.copy() for array in given]
    scope["main"](*arrays)
    for mine, wanted in zip(arrays, after, strict=True):
        np.testing.assert_allclose(mine, wanted, rtol=1e-4, atol=1e-5, err_msg=text)


# -- processes --------------------------------------------------------------------------------------------------------
WORKERS: dict[str, tuple[str, Callable[[Program, Question], Answer]]] = {
    "ours": ("tirlower", ours),
    "tvm": ("tvm", tvm_loop),
    "schedule": ("tvm", tvm_schedule),
    "numba": ("numba", numba_loop),
}


def work(name: str, start: int, path: str) -> None:
    """Answer the questions from one on; each answer is a line of the file."""
    answer = WORKERS[name][1]
    with open(path, "a", buffering=1) as out:
        for program, question in questions()[start:]:
            try:
                word, remark = answer(program, question)
            except NotExpressed as reason:
                word, remark = "-", f"not expressed: {reason}"
            print(json.dumps([word, remark]), file=out)


def collect(name: str) -> list[Answer] | None:
    """One column; None where the peer is not installed."""
    if importlib.util.find_spec(WORKERS[name][0]) is None:
        print(f"(no {WORKERS[name][0]}; its column is left out)")
        return None
    total = len(questions())
    environment = {
        **os.environ, "TVM_NUM_THREADS": str(THREADS), "NUMBA_NUM_THREADS": str(THREADS), "TIRLOWER_CACHE": "0",
    }  # fmt: skip
    with tempfile.TemporaryDirectory() as folder:
        path = os.path.join(folder, "answers")
        answers: list[Answer] = []
        while len(answers) < total:
            command = [sys.executable, "-m", "bench.legality", "--work", name, str(len(answers)), path]
            limit = 60 + 4 * (total - len(answers))
            try:
                subprocess.run(command, env=environment, timeout=limit, capture_output=True, check=False)
                word = "crashes"
            except subprocess.TimeoutExpired:
                word = "does not end"
            with open(path) as file:
                answers = [(word_, remark) for word_, remark in map(json.loads, file)]
            if len(answers) < total:
                with open(path, "a") as file:
                    print(json.dumps([word, ""]), file=file)
                answers.append((word, ""))
    return answers


# -- the page ---------------------------------------------------------------------------------------------------------
def version(module: str) -> str:
    """A peer's version."""
    for distribution in {"tvm": ("apache-tvm", "tvm"), "tirlower": ("tirlower",)}.get(module, (module,)):
        try:
            return importlib.metadata.version(distribution)
        except importlib.metadata.PackageNotFoundError:
            continue
    return ""


def summary(columns: dict[str, list[Answer]]) -> Iterator[str]:
    """Counts by kind of question: of the legal, and of the others."""
    yield "| asked | loops | " + " | ".join(COLUMNS[name] for name in columns) + " |"
    yield "| --- | --- |" + " --- |" * len(columns)
    for kind in ("parallel", "vectorized", "reorder", "bind"):
        for legal in (True, False):
            rows = [n for n, (_, q) in enumerate(questions()) if q.kind == kind and (q.answer == "proved") == legal]
            cells = []
            for answers in columns.values():
                counts = collections.Counter(answers[n][0].split(":")[0] for n in rows)
                counts.pop("-", None)
                cells.append(", ".join(f"{count} {word}" for word, count in sorted(counts.items())) or "-")
            yield (
                f"| {kind}, {'legal' if legal else 'not legal, or not known'} | {len(rows)} | "
                + " | ".join(cells)
                + " |"
            )


def page(columns: dict[str, list[Answer]]) -> str:
    """The document."""
    peers = {WORKERS[name][0] for name in columns} - {"tirlower"}
    named = {"tvm": "TVM", "numba": "Numba"}
    versions = ", ".join(f"{named[peer]} {version(peer)}" for peer in sorted(peers, reverse=True)) or "no peer"
    lines = [
        "# The legality table",
        "",
        "<!-- Written by `python -m bench.legality`; change that, not this. -->",
        "",
        f"{len(TABLE)} programs with known answers (`tests/poly/legality_table.py`), {len(questions())} questions, and what became of each here",
        f"and with {versions}, all from pip. Write it anew with `python -m bench.legality` in an environment that has the peers (a missing one",
        "is left out).",
        "",
        "What is asked: may the iterations of a loop run at once (*parallel*), or in lanes (*vectorized*: each statement in turn runs for all lanes);",
        "may loops be *reordered*; may a loop *bind* to a GPU's block or thread. The right answer is that of the table, checked against brute force;",
        "*not known* are loops that depend on data (an index array, a condition), where refusing is right unless the program states a fact.",
        "",
        "- **tirlower**: `tl.build` of the program with its loop marked (parallel and vectorized), `tirlower.poly` (reorder and bind). A refusal shows two",
        "  iterations that touch one element, one of them writing it; a test runs both in the interpreter.",
        "- **TVM, loop marked**: the same program in TVM's script with `parallel` or `vectorized` on the loop, compiled for the processor.",
        "- **TVM, schedule primitive**: the program as a block, where it is a rectangular nest around one store, and `parallel`, `vectorize`, `reorder` or `bind`",
        "  of its schedule. The primitive asks whether the block is complete or a reduction with an `init`, not what its accesses are: that is why it refuses",
        "  legal loops too.",
        "- **Numba, prange**: the same program in Python with `prange` on the loop, `njit(parallel=True)`.",
        "",
        f"Sizes are fixed for the peers, and loops that are not asked about are serial. What compiles runs {RUNS} times on {THREADS} threads and is compared with the serial program: *right*, **WRONG**, or *accepted*:",
        "the loop is illegal, but so few iterations on two threads were not seen to go wrong this time. Which of the two an illegal parallel loop gets",
        "depends on the machine and the moment (a second thread that starts late finds the first one's half done, and the result right by luck); that",
        "nothing refused it does not.",
        "",
        "## In short",
        "",
        *summary(columns),
        "",
        "## Every question",
        "",
        "| program | theme | asked | answer | " + " | ".join(COLUMNS[name] for name in columns) + " |",
        "| --- | --- | --- | --- |" + " --- |" * len(columns),
    ]
    answer_words = {"proved": "legal", "refuted": "not legal", "structure": "not this shape", "unknown": "not known"}
    for n, (program, question) in enumerate(questions()):
        cells = []
        for name, answers in columns.items():
            word, remark = answers[n]
            word = f"**{word}**" if word in ("WRONG", "crashes", "does not end", "not compiled") else word
            keep = remark and (name == "ours" or word not in ("-",))
            cells.append(
                _cell(f"{word}: {remark}" if keep and name == "ours" else f"{word} ({remark})" if keep else word)
            )
        asked = f"{question.kind} {', '.join(question.loops)}"
        lines.append(
            f"| {program.name} | {program.theme} | {asked} | {answer_words[question.answer]} | "
            + " | ".join(cells)
            + " |"
        )
    return "\n".join(lines) + "\n"


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")


def main() -> None:
    """Ask everyone, write the page."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--work", nargs=3, metavar=("PEER", "FIRST", "FILE"), help=argparse.SUPPRESS)
    parser.add_argument("--output", type=Path, default=PAGE, help="the page (docs/legality_table.md)")
    chosen = parser.parse_args()
    if chosen.work:
        work(chosen.work[0], int(chosen.work[1]), chosen.work[2])
        return
    columns = {name: answers for name in COLUMNS if (answers := collect(name)) is not None}
    chosen.output.write_text(page(columns))
    print("\n".join(summary(columns)))


if __name__ == "__main__":
    main()
