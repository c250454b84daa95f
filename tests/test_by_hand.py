"""The kernels scheduled by hand: proved legal, and equal to the interpreter's results and NumPy's at sizes that leave rests."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

import bench.by_hand
import tirlower as tl
from bench.__main__ import main
from bench.by_hand.case import Maker
from bench.by_hand.machine import Machine
from bench.by_hand.report import table
from tests.sampling import in_pairs
from tirlower.machine.cpu import features_of, host_cpu

SMALL: dict[str, Maker] = {}
for _name in bench.by_hand.CLASSES:
    SMALL |= importlib.import_module(f"bench.by_hand.{_name}").SMALL

MACHINES = ("haswell", "znver4")
"""Sixteen registers of 256 bits, and 32 of 512: their tiles differ."""


@pytest.mark.parametrize(("name", "mcpu"), in_pairs(SMALL, MACHINES))
def test_a_kernel_is_proved_and_computes_what_the_interpreter_and_numpy_compute(name: str, mcpu: str) -> None:
    case = SMALL[name](Machine.named(mcpu))
    # Contraction is a permission to round otherwise than the interpreter.
    kernel = tl.build(case.func, f"llvm -mcpu={mcpu} -num_threads=2 -fast-math-contract=0 {case.target}")
    report = kernel.report()
    assert (report.assumed, report.trusted, report.guarded) == ((), (), ())
    assert all(note.status == "proved" for note in report.loops)
    tl.interpret(case.func, *case.args)
    case.check()
    plain = case.args[-1].copy()
    if host_cpu().enabled >= features_of(mcpu):
        case.args[-1].fill(0)
        kernel(*case.args)
        case.check()
        if case.ordered:
            assert plain.tobytes() == case.args[-1].tobytes()


#: vectors of a tile: the most rows that leave registers, or fewer that divide the rows of the result
TILES = [
    ("product float32 512³", "haswell", 12), ("product float32 512³", "znver4", 16),
    ("convolution 3×3, 64→64, 56²", "haswell", 12), ("convolution 3×3, 64→64, 56²", "znver4", 28),
]  # fmt: skip


@pytest.mark.parametrize(("name", "mcpu", "sums"), TILES)
def test_the_tile_stays_in_registers(name: str, mcpu: str, sums: int) -> None:
    case = bench.by_hand.cases([name])[name](Machine.named(mcpu))
    kernel = tl.build(case.func, f"llvm -mcpu={mcpu} -num_threads=1")
    loops = kernel.report().inner_loops
    steps = [loop for loop in loops if sum(line.startswith("vfmadd") for line in loop.lines) >= sums]
    assert steps, kernel.source("asm")
    for loop in steps:
        lines = [line for line in loop.lines if line.startswith("vfmadd")]
        assert len({line.split(",")[-1].strip() for line in lines}) == sums and len(lines) % sums == 0, loop.lines
        assert not [line for line in loop.lines if re.match(r"vmov\w+\s+%[xyz]mm\d+,\s*-?\w*\(", line)], loop.lines


@pytest.mark.parametrize("mcpu, register", [("haswell", "ymm"), ("znver4", "zmm")])
@pytest.mark.parametrize(
    "name",
    [
        "softmax 3×256",
        "layer norm 3×256",
        "rms norm 3×256",
        "gelu 3×144",
        "bias + gelu + residual 3×144",
        "blur 3×3 4×64",
        "transpose 67²",
        "jacobi 80², 2 steps",
        "scan 1153, 1 at a time",
    ],
)
@pytest.mark.by_day
def test_results_that_nobody_reads_soon_are_written_past_the_caches(name: str, mcpu: str, register: str) -> None:
    case = SMALL[name](Machine.named(mcpu))
    text = tl.build(case.func, f"llvm -mcpu={mcpu} -num_threads=1").source("asm")
    assert re.search(rf"vmovntps\s+%{register}", text), text
    assert "sfence" in text


def test_no_kernel_asks_to_be_believed() -> None:
    for path in Path(bench.by_hand.__file__).parent.glob("*.py"):
        assert not [word for word in ("tir.unchecked", "T.assume", "unproved_bounds") if word in path.read_text()], path


def test_classes_and_parts_of_names_choose_cases() -> None:
    assert set(bench.by_hand.cases(["512³"])) == {"product float32 512³"}
    assert set(bench.by_hand.cases(["product"])) >= set(bench.by_hand.cases(["product float32"])) != set()


def test_the_table_shows_the_best_peer_and_the_part_of_the_limit() -> None:
    row = {
        "seconds": 2e-3,
        "peers": {"a": 4e-3, "b": 3e-3},
        "limit": "copy",
        "rate": 2e10,
        "part": 0.93,
        "reached": 0.9,
    }
    lines = table({1: {"k": row}, 2: {}}).splitlines()  # type: ignore[dict-item]
    assert lines[-1] == "| k | copy | 0.90 | 2 ms | b 3 ms (1.50) | 0.93 of 20 (1.03) | – | – | – |"
    assert len({line.count("|") for line in lines}) == 1


def test_what_stands_behind_only_is_no_section(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["by_hands", "--only", "product"]) == 2
    assert "unknown section 'by_hands'" in capsys.readouterr().out


@pytest.mark.parametrize(("words", "wanted"), [(["--only"], "wants a word"), (["--only", "prodcut"], "named prodcut")])
def test_what_is_not_there_is_named(words: list[str], wanted: str) -> None:
    with pytest.raises(SystemExit, match=wanted):
        main(["by_hand", *words])
