"""Whether an intrinsic's implementation does what it is described as: run, or said not to be."""

from __future__ import annotations

import pytest

from tests.schedule.blocks.test_tensorize import DESC, IMPL, tiled
from tirlower.diagnostics import BadArgument
from tirlower.ir import TensorIntrin
from tirlower.schedule.blocks.intrin_runs import agreement
from tirlower.script import parse

UPDATE = "C[i, j] += A[i, k] * B[k, j]"


def made(update: str, dtype: str = "int32") -> TensorIntrin:
    return TensorIntrin(
        parse(DESC.replace("int32", dtype)),  # type: ignore[arg-type]
        parse(IMPL.replace(UPDATE, update).replace('"int32"', f'"{dtype}"')),  # type: ignore[arg-type]
    )


@pytest.mark.parametrize("dtype", ["int8", "int32", "float16", "float32"])
def test_what_agrees(dtype: str) -> None:
    assert agreement(made(UPDATE, dtype), "it") == "the implementation of it agrees with its description in 2 runs"


@pytest.mark.parametrize("wrong", ["C[i, j] += A[i, k] * B[j, k]", "C[i, j] = A[i, k] * B[k, j]", "C[i, j] += A[i, k]"])
@pytest.mark.parametrize("dtype", ["int32", "float32"])
def test_what_does_not(wrong: str, dtype: str) -> None:
    with pytest.raises(BadArgument, match="is not what its description says"):
        agreement(made(wrong, dtype), "it")


def test_what_cannot_be_run_is_said() -> None:
    foreign = made("T.evaluate(T.call_extern('int32', 'nobody_has_it', A.data))")
    assert "was not run" in agreement(foreign, "it")


def test_a_step_says_it_and_leaves_all_as_it_was_where_they_differ() -> None:
    sch, inner = tiled("Z[vi, vj] + X[vi, vk] * Y[vk, vj]")
    before = sch.mod
    with pytest.raises(BadArgument, match="the description gives"):
        sch.tensorize(inner, made("C[i, j] += A[i, k] * B[j, k]"))
    assert sch.mod is before
    sch, inner = tiled("Z[vi, vj] + X[vi, vk] * Y[vk, vj]")
    sch.tensorize(inner, made(UPDATE))
    step = sch.steps[-1]
    assert step.verdict == "trusted" and "agrees with its description in 2 runs" in step.why
