"""Parts of buffers that an implementation may have, and those that it may not: what is refused would have failed in a run."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tests.checking import executes_alike
from tests.schedule.blocks.test_tensorize import DESC, IMPL, TEXT
from tirlower.diagnostics import NotApplicable
from tirlower.ir import TensorIntrin
from tirlower.script import parse

PRODUCT = "Z[vi, vj] + X[vi, vk] * Y[vk, vj]"


def tensorized(impl: str, text: str = TEXT, sizes: tuple[int, ...] = (4, 4, 4)) -> Any:
    func = parse(text.format(update=PRODUCT))
    sch: Any = tl.Schedule(func, debug_mask="all")
    _, inner = sch.tile(sch.loops("Z"), list(sizes))
    sch.tensorize(inner[0], TensorIntrin(parse(DESC), parse(impl)))  # type: ignore[arg-type]
    executes_alike(func, sch.mod["main"])
    return sch


def test_strides_that_are_there() -> None:
    tensorized(IMPL.replace("[sa, 1]", "[12, 1]").replace("    sa = T.int32()\n", ""))
    for fixed in ("[4, 1]", "[1, 12]", "[12, 2]"):
        with pytest.raises(NotApplicable, match=r"part of X: it has strides \[12, 1\], wanted are"):
            tensorized(IMPL.replace("[sa, 1]", fixed).replace("    sa = T.int32()\n", ""))


def test_one_variable_for_two_strides() -> None:
    with pytest.raises(NotApplicable, match="wanted are"):
        tensorized(IMPL.replace("[sa, 1]", "[sa, sa]"))


def test_offsets_that_are_multiples() -> None:
    tensorized(IMPL.replace("offset_factor=1", "offset_factor=4"))
    with pytest.raises(NotApplicable, match="multiple of 8"):
        tensorized(IMPL.replace("offset_factor=1", "offset_factor=8"))


def test_memory_of_another_scope() -> None:
    shared = DESC.replace(
        'B = T.match_buffer(b, (4, 4), "int32"', 'B = T.match_buffer(b, (4, 4), "int32", scope="shared"'
    )
    impl = IMPL.replace(
        'B = T.match_buffer(b, (4, 4), "int32"', 'B = T.match_buffer(b, (4, 4), "int32", scope="shared"'
    )
    sch: Any = tl.Schedule(parse(TEXT.format(update=PRODUCT)))
    _, inner = sch.tile(sch.loops("Z"), [4, 4, 4])
    with pytest.raises(NotApplicable, match="'global' memory, described is 'shared'"):
        sch.tensorize(inner[0], TensorIntrin(parse(shared), parse(impl)))  # type: ignore[arg-type]


def test_symbolic_sizes() -> None:
    text = """
@T.prim_func
def f(n: T.int32, X: T.Buffer((8, n * 4), "int32"), Y: T.Buffer((n * 4, 16), "int32"), Z: T.Buffer((8, 16), "int32")):
    for i, j, k in T.grid(8, 16, n * 4):
        with T.block("Z"):
            vi, vj, vk = T.axis.remap("SSR", [i, j, k])
            Z[vi, vj] = {update}
"""
    tensorized(IMPL, text)
    with pytest.raises(NotApplicable, match="it has strides"):
        tensorized(IMPL.replace("[sa, 1]", "[12, 1]").replace("    sa = T.int32()\n", ""), text)
