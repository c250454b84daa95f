"""The parameters of a kernel in PTX; failures that end a launch, and code for other systems: tests/gpu/codegen/test_platform.py."""

from __future__ import annotations

import re

import pytest

import tirlower as tl
from tests.gpu.codegen.building import check
from tirlower.script import parse


@pytest.mark.parametrize(
    ("dtype", "bits"),
    [("bool", 8), ("int3", 8), ("uint8", 8), ("int12", 16), ("uint17", 32), ("int33", 64), ("int48", 64), ("uint63", 64), ("int64", 64)],
)  # fmt: skip
def test_a_scalar_of_any_width_is_passed_as_memory_holds_it(dtype: str, bits: int) -> None:
    func = parse(f"""@T.prim_func
def scale(x: T.{dtype}, B: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        B[tx] = B[tx] * T.Cast("float32", x)
""")
    module = tl.build(func, target="nvptx -arch=sm_80").module
    (entry,) = re.findall(r"\.visible \.entry \w+\((.*?)\)", module.ptx, re.S)
    assert sorted(re.findall(r"\.param \.[ub](\d+)", entry)) == sorted(["64", str(bits)])
    check(module)
