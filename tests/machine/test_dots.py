from __future__ import annotations

import pytest

from tirlower.machine.dots import Dots
from tirlower.machine.processor import Processor


@pytest.mark.parametrize(
    ("target", "expected"),
    [
        ("llvm -mcpu=znver4", Dots(512, 512)),
        ("llvm -mcpu=cascadelake", Dots(512, 512)),
        ("llvm -mcpu=skylake-avx512", Dots(0, 512)),
        ("llvm -mcpu=alderlake", Dots(256, 256)),
        ("llvm -mcpu=haswell", Dots(0, 256)),
        ("llvm -mcpu=x86-64", Dots(0, 0)),
    ],
)
def test_what_processors_have(target: str, expected: Dots):
    assert Processor.of(target).dots == expected


def test_groups_by_the_types_of_operands():
    dots, pairs = Dots(512, 512), Dots(0, 256)
    assert [dots.group(a, "int8") for a in ("int8", "uint8", "int16", "uint16", "int32")] == [4, 4, 2, 1, 1]
    assert [pairs.group(a, "int8") for a in ("int8", "uint8", "int16", "uint16")] == [2, 2, 2, 1]
    assert Dots().group("int8", "int8") == 1
    assert Dots.of({"avx512bw", "avx512vl", "avx512vnni"}, 256) == Dots(256, 256)
