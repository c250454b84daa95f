"""Loops tiled by the description of an intrinsic."""

from __future__ import annotations

from typing import Any

from tests.checking import executes_alike
from tests.schedule.test_intrin_mapping import DESC, DOT, MATMUL
from tirlower import Schedule
from tirlower.ir import TensorIntrin
from tirlower.schedule.transform import tile_with_tensor_intrin
from tirlower.script import parse


def registered(name: str, text: str) -> str:
    if TensorIntrin.get(name, allow_missing=True) is None:
        TensorIntrin.register(name, parse(text), parse(text))  # type: ignore[arg-type]
    return name


def test_tiles_stand_innermost_and_are_tensorized() -> None:
    func = parse(MATMUL.replace("({k}, {n})", "({n}, {k})").replace("B[vk, vj]", "B[vj, vk]").format(m=8, n=32, k=8))
    sch: Any = Schedule(func, debug_mask="all")
    loop = tile_with_tensor_intrin(sch, "C", registered("test_transform_dot", DOT))
    assert [one.extent.value for one in sch.get_loops("C")] == [8, 2, 2, 16, 4]
    assert sch.get(loop) is sch.get(sch.get_loops("C")[3])
    init = sch.decompose_reduction("C", sch.get_loops("C")[2])
    assert init is not None
    sch.tensorize(loop, "test_transform_dot")
    executes_alike(func, sch.mod["main"])


def test_what_does_not_lie_on_the_block_changes_nothing() -> None:
    sch: Any = Schedule(parse(MATMUL.format(m=7, n=32, k=8)))
    before = sch.mod
    assert tile_with_tensor_intrin(sch, "C", registered("test_transform_product", DESC.format(m=4, n=4, k=4))) is None
    assert sch.mod is before


def test_padded_to_the_intrinsic() -> None:
    text = MATMUL.replace("({k}, {n})", "({n}, {k})").replace("B[vk, vj]", "B[vj, vk]").format(m=3, n=20, k=6)
    func = parse(text)
    sch: Any = Schedule(func, debug_mask="all")
    name = registered("test_transform_dot", DOT)
    assert tile_with_tensor_intrin(sch, "C", name) is None
    loop = tile_with_tensor_intrin(sch, "C", name, allow_padding=True)
    assert [one.extent.value for one in sch.get_loops("C")] == [3, 2, 2, 16, 4]
    sch.decompose_reduction("C", sch.get_loops("C")[2])
    sch.tensorize(loop, name)
    executes_alike(func, sch.mod["main"])
