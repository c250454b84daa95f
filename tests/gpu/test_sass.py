"""Machine code in instructions, loops and kinds: of texts as the disassembler writes them, and of kernels."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.gpu.codegen.building import build, kernel, needs_ptxas
from tirlower.diagnostics import DeviceError
from tirlower.gpu import ptxas, sass
from tirlower.gpu.sass import KINDS, Code, Instruction, disassemble, find_nvdisasm, parsed

needs_both = pytest.mark.usefixtures("tools")
HEAD = '\t.section\t.text.k,"ax",@progbits\n\t.align\t128\nk:\n.text.k:\n'


@pytest.fixture
def tools():
    if find_nvdisasm() is None or ptxas.find_ptxas() is None:
        pytest.skip("there is no ptxas, or no nvdisasm")


def code(*lines: str) -> Code:
    """A kernel of some lines: instructions without their addresses, and labels."""
    text, address = HEAD, 0
    for line in lines:
        if line.endswith(":"):
            text += f"{line}\n"
        else:
            text += f"        /*{address:04x}*/              {line} ;\n"
            address += 16
    return parsed(text)["k"]


def test_instructions_labels_and_branches():
    found = code("LDC R1, c[0x0][0x28]", ".L_x_1:", "@P0 BRA `(.L_x_2)", "@!PT BRA `(.L_x_1)", ".L_x_2:", "EXIT")
    assert [one.name for one in found.instructions] == ["LDC", "BRA", "BRA", "EXIT"]
    assert [one.target for one in found.instructions] == [None, 48, 16, None]
    assert [one.always for one in found.instructions] == [False, False, False, True]
    assert code("BRA.U !UP0, `(.L_x_0)", ".L_x_0:", "NOP").instructions[0].always is False


def test_other_sections_are_left_out():
    text = HEAD + "        /*0000*/  EXIT ;\n" + '\t.section\t.nv.info,"",@"SHT"\n        /*0000*/  .word 5 ;\n'
    assert list(parsed(text)) == ["k"] and len(parsed(text)["k"].instructions) == 1


def test_a_loop_is_what_leads_back():
    found = code(
        "MOV R0, 1", ".L_x_0:", "FFMA R1", ".L_x_1:", "LDG R2", "@P0 BRA `(.L_x_1)", "@P1 BRA `(.L_x_0)", "EXIT"
    )
    assert sorted(map(sorted, found.loops())) == [[16, 32, 48, 64], [32, 48]]
    # The outer loop has floating point, the inner one has none.
    assert found.main_loop() == {16, 32, 48, 64}
    assert found.mix(found.main_loop()) == Counter(float=1, **{"global": 1}, control=2)


def test_code_out_of_line_makes_no_loop_of_what_is_between():
    """A wait at the end of the text that goes back into the loop: the branch goes up, and what it jumps over is no loop."""
    found = code(
        ".L_x_0:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0", "@!P0 BRA `(.L_x_3)", ".L_x_1:", "HGMMA.64x256x16.F32.BF16 R24",
        "@P1 BRA `(.L_x_0)", "STG R0", "EXIT", ".L_x_3:", "SYNCS.PHASECHK.TRANS64.TRYWAIT P0", "@!P0 BRA `(.L_x_3)", "BRA `(.L_x_1)",
    )  # fmt: skip
    loops = {min(loop): loop for loop in found.loops()}
    assert loops[0] == {0, 16, 32, 48, 96, 112, 128} and loops[96] == {96, 112} and len(loops) == 2
    assert found.main_loop() == loops[0]
    assert found.mix(found.main_loop()) == Counter(barrier=2, control=4, tensor=1)


def test_code_without_loops():
    assert code("FADD R0", "EXIT").main_loop() == frozenset() and Code(()).loops() == []
    # An endless branch behind the end, as the assembler puts one, is never reached.
    assert code("EXIT", ".L_x_9:", "BRA `(.L_x_9)").loops() == []


def test_kinds():
    names = {
        "HMMA.16816.F32.BF16": "tensor", "IMMA.16832.S8.S8": "tensor", "DMMA.884": "tensor", "HFMA2.MMA": "float", "HFMA2.BF16_V2": "float",
        "FFMA.FTZ": "float", "FMNMX.NAN": "float", "DFMA": "float", "MUFU.EX2": "special", "F2FP.BF16.PACK_AB": "float", "I2FP.F32.S32": "convert",
        "SHFL.BFLY": "shuffle", "LDSM.16.M88.4": "shared", "LDGSTS.E.BYPASS.LTC128B.128": "copy", "UTMALDG.2D": "copy", "LDG.E.128.CONSTANT": "global",
        "LDL.LU": "local", "BAR.SYNC.DEFER_BLOCKING": "barrier", "WARPGROUP.DEPBAR.LE": "barrier", "BRA.U": "control", "UIADD3.X": "uniform",
        "IMAD.MOV.U32": "move", "IMAD.WIDE.U32": "integer", "ISETP.NE.U32.AND": "integer", "LEA.HI.X": "integer", "NOP": "nothing", "QQQ": "other",
    }  # fmt: skip
    assert {name: Instruction(0, name).kind for name in names} == names
    assert set(names.values()) == {*KINDS, "other"}


@needs_both
def test_a_kernels_loop():
    body = "T.assume(n <= 4096)\nfor i in range(n):\n    B[tx] = B[tx] * A[i]"
    params = 'A: T.Buffer((4096,), "float32"), B: T.Buffer((256,), "float32"), n: T.int32'
    module = build(kernel(params, body), "sm_90a")
    ((name, found),) = disassemble(module.ptx, "sm_90a").items()
    assert name == "k_kernel" and found.instructions[0].address == 0
    mix = found.mix(found.main_loop())
    assert mix["float"] >= 1 and mix["global"] >= 1 and mix["control"] >= 1
    assert sum(found.mix().values()) == len(found.instructions) and found.mix()["other"] == 0


@needs_ptxas
def test_without_a_disassembler(monkeypatch):
    monkeypatch.setattr(sass, "find_nvdisasm", lambda: None)
    with pytest.raises(DeviceError, match="no nvdisasm") as caught:
        disassemble(".version 8.0", "sm_80")
    assert "TIRLOWER_NVDISASM" in str(caught.value)
