"""Parsing, each pass and code generation by size: ``pytest bench/bench_passes.py --benchmark-enable``."""

from __future__ import annotations

import functools

import pytest

import tirlower as tl
from bench.passes import loops, straight_line
from tirlower.driver.pipelines import pipeline_for
from tirlower.ir import IRModule
from tirlower.machine.target import Target
from tirlower.rewrite.base import run_pass
from tirlower.script import parse

PROGRAMS = {"statements": straight_line, "loops": loops}
SIZES = (1_000, 10_000, 100_000)
STEPS = [(position, step.name) for position, step in enumerate(pipeline_for(Target("llvm")))]


@functools.cache
def before(program: str, size: int, position: int) -> IRModule:
    """The module as a pass of the pipeline meets it."""
    mod = IRModule({"main": parse(PROGRAMS[program](size))})
    for step in list(pipeline_for(Target("llvm")))[:position]:
        mod = run_pass(step.pass_, mod, tl.PassContext())
    return mod


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("program", PROGRAMS)
def test_parse(benchmark, program, size):
    benchmark.group = f"parse {program}"
    text = PROGRAMS[program](size)
    benchmark.pedantic(parse, args=(text,), rounds=3)


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("program", PROGRAMS)
@pytest.mark.parametrize(("position", "name"), STEPS, ids=[f"{p}-{n}" for p, n in STEPS])
def test_pass(benchmark, program, size, position, name):
    benchmark.group = f"{name} on {program}"
    mod = before(program, size, position)
    one = list(pipeline_for(Target("llvm")))[position].pass_
    benchmark.pedantic(run_pass, args=(one, mod, tl.PassContext()), rounds=3)
