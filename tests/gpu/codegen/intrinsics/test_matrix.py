from __future__ import annotations

import re

import pytest

from tests.gpu.codegen.building import build, check, kernel
from tirlower.diagnostics import CodegenError, TirError

BUFFERS = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "fp64": "float64", "int8": "int8", "uint8": "uint8",
    "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2", "int4": "uint32", "uint4": "uint32", "int1": "uint32",
    "fp32": "float32", "int32": "int32",
}  # fmt: skip
PTX = {
    "fp16": "f16", "bf16": "bf16", "tf32": "tf32", "fp64": "f64", "int8": "s8", "uint8": "u8", "e4m3": "e4m3",
    "e5m2": "e5m2", "int4": "s4", "uint4": "u4", "int1": "b1", "fp32": "f32", "int32": "s32",
}  # fmt: skip
BITS = {
    "fp16": 16,
    "bf16": 16,
    "tf32": 32,
    "fp64": 64,
    "int8": 8,
    "uint8": 8,
    "e4m3": 8,
    "e5m2": 8,
    "int4": 4,
    "uint4": 4,
    "int1": 1,
}
PACKED = ("int4", "uint4", "int1")


def mma(
    shape: str,
    a: str,
    b: str,
    c: str,
    saturate: bool = False,
    more: str = "",
    layouts: tuple[str, str] = ("row", "col"),
):
    """A warp's product: fragments come from memory and the sums go back there."""
    m, n, k = map(int, re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape).groups())
    sizes = {"a": m * k // 32, "b": n * k // 32, "c": m * n // 32}
    kinds = {"a": a, "b": b, "c": c}
    body, params = "", ""
    for name, kind in kinds.items():
        size = sizes[name] * BITS[kind] // 32 if kind in PACKED else sizes[name]
        params += f'{name.upper()}: T.Buffer((32, {size}), "{BUFFERS[kind]}"), '
        body += f'{name} = T.alloc_buffer(({size},), "{BUFFERS[kind]}", scope="local")\n'
        body += f"for i in T.unroll({size}):\n    {name}[i] = {name.upper()}[tx, i]\n"
    c_type = BUFFERS[c]
    body += (
        f'T.ptx_mma("{c_type}", "{shape}", "{layouts[0]}", "{layouts[1]}", "{a}", "{b}", "{c}", '
        f"a.data, 0, b.data, 0, c.data, 0, {saturate}{more})\n"
    )
    body += f"for i in T.unroll({sizes['c']}):\n    C[tx, i] = c[i]"
    return kernel(params.rstrip(", "), body)


SHAPES = [
    ("m16n8k8", "fp16", "fp16", "fp16", "sm_75"), ("m16n8k8", "fp16", "fp16", "fp32", "sm_75"),
    ("m16n8k16", "fp16", "fp16", "fp16", "sm_80"), ("m16n8k16", "fp16", "fp16", "fp32", "sm_80"),
    ("m16n8k8", "bf16", "bf16", "fp32", "sm_80"), ("m16n8k16", "bf16", "bf16", "fp32", "sm_80"),
    ("m16n8k4", "tf32", "tf32", "fp32", "sm_80"), ("m16n8k8", "tf32", "tf32", "fp32", "sm_80"),
    ("m8n8k4", "fp64", "fp64", "fp64", "sm_80"),
    ("m8n8k16", "int8", "int8", "int32", "sm_75"), ("m16n8k16", "int8", "uint8", "int32", "sm_80"),
    ("m16n8k32", "int8", "int8", "int32", "sm_80"), ("m16n8k32", "uint8", "int8", "int32", "sm_80"),
    ("m8n8k32", "int4", "uint4", "int32", "sm_75"), ("m16n8k32", "int4", "int4", "int32", "sm_80"),
    ("m16n8k64", "uint4", "int4", "int32", "sm_80"),
    ("m16n8k128", "int1", "int1", "int32", "sm_80"), ("m16n8k256", "int1", "int1", "int32", "sm_80"),
    ("m16n8k32", "e4m3", "e4m3", "fp32", "sm_89"), ("m16n8k32", "e4m3", "e5m2", "fp32", "sm_89"),
    ("m16n8k32", "e5m2", "e4m3", "fp32", "sm_89"), ("m16n8k32", "e5m2", "e5m2", "fp32", "sm_89"),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "a", "b", "c", "least"), SHAPES)
def test_products_of_every_shape(shape, a, b, c, least):
    module = build(mma(shape, a, b, c), least)
    bit = ".xor.popc" if a == "int1" else ""
    found = re.search(
        rf"mma\.sync\.aligned\.{shape}\.row\.col\.{PTX[c]}\.{PTX[a]}\.{PTX[b]}\.{PTX[c]}{re.escape(bit)} "
        r"\{(.*?)\}, \{(.*?)\}, \{(.*?)\}, \{(.*?)\};",
        module.ptx,
    )
    assert found
    # The registers of each operand, from the numbers of elements and bits (32 a register, 64 for f64).
    m, n, k = map(int, re.fullmatch(r"m(\d+)n(\d+)k(\d+)", shape).groups())
    unit = 64 if a == "fp64" else 32
    sums = m * n // 32 * (16 if c == "fp16" else unit) // unit
    counts = [sums, m * k // 32 * BITS[a] // unit, n * k // 32 * BITS[b] // unit, sums]
    assert [len(group.split(",")) for group in found.groups()] == counts
    assert ".local" not in module.ptx
    for each in check(module).values():
        assert each.stack == 0


@pytest.mark.parametrize(
    ("shape", "a", "b", "c", "arch", "need"),
    [
        ("m16n8k16", "fp16", "fp16", "fp32", "sm_75", "sm_80"),
        ("m16n8k8", "bf16", "bf16", "fp32", "sm_75", "sm_80"),
        ("m8n8k4", "fp64", "fp64", "fp64", "sm_75", "sm_80"),
        ("m16n8k32", "int8", "int8", "int32", "sm_75", "sm_80"),
        ("m16n8k32", "e4m3", "e4m3", "fp32", "sm_80", "sm_89"),
        ("m16n8k32", "e5m2", "e4m3", "fp32", "sm_86", "sm_89"),
    ],
)
def test_older_architectures(shape, a, b, c, arch, need):
    with pytest.raises(CodegenError, match=rf"mma.{shape} on {PTX[a]} needs {need} or newer, and the target is {arch}"):
        build(mma(shape, a, b, c), arch)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("m16n8k16", "bf16", "fp16", "fp32"), "of bf16 and f16"),
        (("m16n8k16", "bf16", "bf16", "fp16"), "sums of f16"),
        (("m16n8k8", "tf32", "tf32", "fp16"), "sums of f16"),
        (("m16n8k32", "int8", "int8", "fp32"), "sums of f32"),
        (("m16n8k32", "fp16", "fp16", "fp32"), "of shape 'm16n8k32' on f16"),
    ],
)
def test_types_that_do_not_go_together(arguments, message):
    with pytest.raises(CodegenError, match=message):
        build(mma(*arguments))


def test_other_layouts():
    with pytest.raises(CodegenError, match="layouts"):
        build(mma("m16n8k16", "fp16", "fp16", "fp32", layouts=("row", "row")))


def test_saturation_of_integers():
    assert ".row.col.satfinite.s32.s8.s8.s32" in build(mma("m16n8k32", "int8", "int8", "int32", True)).ptx
    check(build(mma("m16n8k32", "int8", "int8", "int32", True)))


def test_bit_operations():
    module = build(mma("m16n8k256", "int1", "int1", "int32", False, ', "and"'))
    assert ".s32.b1.b1.s32.and.popc" in module.ptx
    check(module)


def test_fragments_in_buffers_of_another_type():
    body = """
    a = T.alloc_buffer((8,), "int8", scope="local")
    b = T.alloc_buffer((4,), "float16", scope="local")
    c = T.alloc_buffer((4,), "float32", scope="local")
    T.ptx_mma("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", a.data, 0, b.data, 0, c.data, 0, False)
    A[tx] = c[0]
    """
    with pytest.raises(CodegenError, match="a fragment of f16 in a buffer of int8"):
        build(kernel('A: T.Buffer((32,), "float32")', body))
    four = body.replace('(8,), "int8"', '(32,), "int4"').replace('(4,), "float16"', '(16,), "int4"')
    four = (
        four.replace('"float32"', '"int32"')
        .replace("m16n8k16", "m16n8k64")
        .replace('"fp16"', '"int4"')
        .replace("fp32", "int32")
    )
    with pytest.raises(CodegenError, match=r"a fragment of s4 in a buffer of int4.*"):
        build(kernel('A: T.Buffer((32,), "int32")', four))


# -- moves of fragments ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_ldmatrix(count, trans):
    body = f"""
    s = T.alloc_buffer((1024,), "float16", scope="shared")
    r = T.alloc_buffer(({2 * count},), "float16", scope="local")
    s[tx] = A[tx, 0]
    T.tvm_storage_sync("shared")
    T.ptx_ldmatrix("float16", {trans}, {count}, ".b16", r.data, 0, s.data, tx * 8)
    for i in T.unroll({2 * count}):
        A[tx, i] = r[i]
    """
    module = build(kernel('A: T.Buffer((32, 8), "float16")', body), "sm_75")
    places = ", ".join([r"%r\d+"] * count)
    middle = r"\.trans" if trans else ""
    assert re.search(
        rf"ldmatrix\.sync\.aligned\.m8n8\.x{count}{middle}\.shared\.b16 \{{{places}\}}, \[%r\d+\];", module.ptx
    )
    assert ".local" not in module.ptx
    check(module)


@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix(count, trans):
    body = f"""
    s = T.alloc_buffer((1024,), "bfloat16", scope="shared")
    r = T.alloc_buffer(({2 * count},), "bfloat16", scope="local")
    for i in T.unroll({2 * count}):
        r[i] = A[tx, i]
    T.ptx_stmatrix("bfloat16", {trans}, {count}, ".b16", s.data, tx * 8, r.data, 0)
    T.tvm_storage_sync("shared")
    A[tx, 0] = s[tx]
    """
    func = kernel('A: T.Buffer((32, 8), "bfloat16")', body)
    module = build(func, "sm_90")
    places = ", ".join([r"%r\d+"] * count)
    middle = r"\.trans" if trans else ""
    assert re.search(
        rf"stmatrix\.sync\.aligned\.m8n8\.x{count}{middle}\.shared\.b16 \[%r\d+\], \{{{places}\}};", module.ptx
    )
    check(module)
    with pytest.raises(CodegenError, match="stmatrix needs sm_90 or newer, and the target is sm_89"):
        build(func, "sm_89")


@pytest.mark.parametrize(("count", "kind"), [(3, ".b16"), (4, ".b8")])
def test_matrices_that_cannot_be_moved(count, kind):
    body = (
        's = T.alloc_buffer((1024,), "float16", scope="shared")\nr = T.alloc_buffer((8,), "float16", scope="local")\n'
        f's[tx] = A[tx]\nT.ptx_ldmatrix("float16", False, {count}, "{kind}", r.data, 0, s.data, tx * 8)\nA[tx] = r[0]'
    )
    with pytest.raises((CodegenError, TirError), match=rf"{count} matrices of '{kind}'"):
        build(kernel('A: T.Buffer((32,), "float16")', body))


@pytest.mark.parametrize("dtype", ["float32", "float16", "int32", "bfloat16"])
def test_fill_and_store(dtype):
    body = f"""
    r = T.alloc_buffer((8,), "{dtype}", scope="local")
    T.mma_fill("{dtype}", 8, r.data, 0)
    T.mma_store("{dtype}", 16, 16, T.address_of(A[0, 0]), r.data, 0, 64)
    """
    module = build(kernel(f'A: T.Buffer((16, 64), "{dtype}")', body), "sm_75")
    # Of this lane: rows r and r + 8, and elements c, c + 1, c + 8, c + 9 of each: five offsets from the first.
    size = 2 if dtype in ("float16", "bfloat16") else 4
    offsets = {
        int(found or 0) for found in re.findall(r"st\.global\.\w+(?:\.\w+)?\s+\[%rd\d+(?:\+(\d+))?\]", module.ptx)
    }
    assert len(re.findall(r"st\.global", module.ptx)) in (4, 8)
    assert {8 * size, 8 * 64 * size, (8 * 64 + 8) * size} <= offsets
    assert "laneid" in module.ptx
    check(module)


def test_sparse_products_say_that_they_are_not_there():
    with pytest.raises((CodegenError, TirError), match="sparse"):
        build(
            kernel(
                'A: T.Buffer((32,), "float32")',
                'r = T.alloc_buffer((8,), "float32", scope="local")\n'
                'T.ptx_mma_sp("float32", "m16n8k16", "row", "col", "fp16", "fp16", "fp32", r.data, 0, r.data, 0, r.data, 0, '
                "r.data, 0, 0, False)\nA[tx] = r[0]",
            )
        )
