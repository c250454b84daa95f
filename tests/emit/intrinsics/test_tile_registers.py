"""Instructions on tile registers in machine code: their operands are checked here, for LLVM ends the process over wrong ones."""

from __future__ import annotations

import pytest

import tirlower as tl
from tirlower.diagnostics import CodegenError
from tirlower.script import parse

pytestmark = pytest.mark.by_day

TILES = "llvm -mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8,+amx-bf16"


def build(call: str, target: str = TILES) -> None:
    """Build a function that makes a call."""
    func = parse(f"""
def f(A: T.Buffer((1024,), "int8"), n: T.int32):
    T.evaluate({call})
""")
    tl.build(func, target, schedule="none")


@pytest.mark.parametrize(
    "call",
    [
        'T.call_llvm_intrin("void", "llvm.x86.tilezero", T.int8(8))',
        'T.call_llvm_intrin("void", "llvm.x86.tilezero", T.int8(-1))',
        'T.call_llvm_intrin("void", "llvm.x86.tilezero", n)',
        'T.call_llvm_intrin("void", "llvm.x86.tilezero")',
        'T.call_llvm_intrin("int32", "llvm.x86.tilezero", T.int8(0))',
        'T.call_llvm_intrin("void", "llvm.x86.tileloadd64", T.int8(0), T.address_of(A[0]))',
        'T.call_llvm_intrin("void", "llvm.x86.tileloadd64", T.int8(0), T.address_of(A[0]), 64)',
        'T.call_llvm_intrin("void", "llvm.x86.tileloadd64", T.int8(0), T.int64(0), T.int64(64))',
        'T.call_llvm_intrin("void", "llvm.x86.tdpbssd", T.int8(0), T.int8(1))',
        'T.call_llvm_intrin("void", "llvm.x86.tdpbssd", T.int8(0), T.int8(1), T.int8(1000 - 998), T.int8(3))',
        'T.call_llvm_intrin("void", "llvm.x86.ldtilecfg", T.int32(0))',
        'T.call_llvm_intrin("void", "llvm.x86.tilerelease", T.int8(0))',
    ],
)
def test_wrong_operands_are_refused_before_llvm_sees_them(call: str):
    with pytest.raises(CodegenError, match="takes"):
        build(call)


@pytest.mark.parametrize(
    ("target", "call", "lacks"),
    [
        ("llvm -mcpu=x86-64-v4", "tilezero", "amx-tile"),
        ("llvm -mcpu=sapphirerapids -mattr=+amx-tile", "tdpbssd", "amx-int8"),
        ("llvm -mcpu=sapphirerapids -mattr=+amx-tile,+amx-int8", "tdpbf16ps", "amx-bf16"),
    ],
)
def test_what_a_processor_lacks_is_said(target: str, call: str, lacks: str):
    with pytest.raises(CodegenError, match=lacks):
        build(f'T.call_llvm_intrin("void", "llvm.x86.{call}", T.int8(0), T.int8(1), T.int8(2))', target)
