"""A fixed number of random programs, with fixed seeds, half of them by day; ``python -m tests.fuzz`` runs any number."""

from __future__ import annotations

import pytest

from tests.fuzz.runner import Failure, has_native, run_many, run_one
from tests.fuzz.sequences import pool
from tests.generate.programs import SHAPES, generate
from tests.sampling import by_day
from tirlower.ir import BufferStore, Mutator, PrimFunc, const
from tirlower.ir.verify import verify_well_formed
from tirlower.script import parse
from tirlower.transforms import prim_func_pass

COUNT, EACH = 200, 20


@pytest.mark.parametrize("first", by_day(range(0, COUNT, EACH)))
def test_random_programs_through_random_passes(first: int) -> None:
    for seed in range(first, first + EACH):
        run_one(seed, native=has_native(seed))


@pytest.mark.nightly
def test_many_random_programs() -> None:
    report = run_many(1_000_000, seconds=1800, workers=2, reduce=20)
    assert not report.failures, "\n".join(map(str, report.failures))


def test_a_seed_makes_one_program_and_every_shape_occurs() -> None:
    programs = [generate(seed) for seed in range(200)]
    assert all(one.text == generate(one.seed).text for one in programs[:20])
    assert {shape for one in programs for shape in one.shape.split("+")} == {*SHAPES, "free", "moving"}
    kinds = "\n".join(one.text for one in programs)
    for form in ("T.vectorized", "T.parallel", "T.unroll", "while ", "T.block", "T.init", "T.decl_buffer", "T.match_buffer(",
                 "T.where", "T.likely", "assert ", "strides=", "'float16'", "'bfloat16'", "'bool'", "T.int64"):  # fmt: skip
        assert form in kinds, form
    for one in programs[:20]:
        verify_well_formed(parse(one.text))


def test_most_passes_are_drawn() -> None:
    names = pool()
    assert len(names) > 25
    assert {"Simplify", "StorageRewrite", "VectorizeLoop", "LoopPartition", "CompactBufferAllocation"} <= set(names)


def test_a_wrong_pass_is_found_and_reduced(monkeypatch: pytest.MonkeyPatch) -> None:
    @prim_func_pass(opt_level=0, name="Broken")
    def broken(func: PrimFunc, mod: object, ctx: object) -> PrimFunc:
        class Worker(Mutator):
            def visit_BufferStore(self, op: BufferStore) -> BufferStore:
                return op.with_(value=const(1, op.value.dtype)) if op.buffer.name == "O0" else op

        return func.with_body(Worker().visit(func.body))

    monkeypatch.setattr("tests.fuzz.runner.passes_for", lambda *_: [broken])
    with pytest.raises(Failure) as caught:
        run_one(3, reduce=5)
    failure = caught.value
    assert failure.seed == 3 and "pass 1 of 1" in failure.where and "Mismatch" in failure.what
    reduced = failure.program.partition("--- reduced")[2]
    assert reduced.count("O0[") == 1 and reduced.count("\n") < failure.program.count("\n") / 2
    assert "--seed 3 --count 1" in str(failure)


def test_bounds_that_are_taken_twice_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE", "off")  # what it builds wrong is for nobody else
    run_one(5_000_151, native=True)
    monkeypatch.setattr("tirlower.transforms.loops.unroll.bounds_once", lambda loop: ([], loop))
    with pytest.raises(Failure, match="native code"):
        run_one(5_000_151, native=True)


def test_a_process_that_dies_is_a_failure(monkeypatch: pytest.MonkeyPatch) -> None:
    import os

    def die(seed: int, **_: object) -> object:
        os._exit(3)

    monkeypatch.setattr("tests.fuzz.runner.run_one", die)
    report = run_many(5, count=2, workers=1)
    assert [failure.seed for failure in report.failures] == [5, 6] and report.programs == 2
