from __future__ import annotations

import re

import pytest

from tests.gpu.codegen.building import build, check, kernel
from tests.sampling import in_pairs
from tirlower.diagnostics import CodegenError

BUFFERS = {
    "fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2",
    "int8": "int8", "uint8": "uint8",
}  # fmt: skip
PTX = {
    "fp16": "f16", "bf16": "bf16", "tf32": "tf32", "e4m3": "e4m3", "e5m2": "e5m2", "int8": "s8", "uint8": "u8",
    "float32": "f32", "float16": "f16", "int32": "s32",
}  # fmt: skip


def wgmma(
    n: int,
    depth: int,
    a: str,
    b: str = "",
    swizzle: int = 128,
    scale: str = "True",
    trans: str = "False, False",
    sums: str = "float32",
):
    b = b or a
    body = f"""
    s = T.alloc_buffer((16384,), "{BUFFERS[a]}", scope="shared.dyn")
    acc = T.alloc_buffer(({n // 2},), "{sums}", scope="local")
    for i in T.unroll({n // 2}):
        acc[i] = C[tx, i]
    s[tx] = A[tx]
    T.ptx_fence_proxy_async()
    T.tvm_storage_sync("shared.dyn")
    T.ptx_wgmma_fence()
    T.ptx_wgmma("{sums}", "m64n{n}k{depth}", "{a}", "{b}", acc.data, 0, s.data, 0, s.data, 4096, {swizzle}, {scale}, {trans})
    T.ptx_wgmma_commit_group()
    T.ptx_wgmma_wait_group(0)
    for i in T.unroll({n // 2}):
        C[tx, i] = acc[i]
    """
    params = f'A: T.Buffer((128,), "{BUFFERS[a]}"), C: T.Buffer((128, {max(n // 2, 1)}), "{sums}")'
    return kernel(params, body, threads=128)


PRODUCTS = [
    ("fp16", 16, "float32"), ("bf16", 16, "float32"), ("tf32", 8, "float32"), ("e4m3", 32, "float32"),
    ("e5m2", 32, "float32"), ("fp16", 16, "float16"), ("e4m3", 32, "float16"), ("int8", 32, "int32"), ("uint8", 32, "int32"),
]  # fmt: skip


@pytest.mark.parametrize(("product", "n"), in_pairs(PRODUCTS, [8, 64, 256]))
def test_products_of_every_type(product, n):
    kind, depth, sums = product
    module = build(wgmma(n, depth, kind, sums=sums), "sm_90a")
    count = n // 4 if sums == "float16" else n // 2  # registers of 32 bits
    signs = "" if sums == "int32" else ", 1, 1"
    turned = ", 0, 0" if kind in ("fp16", "bf16") else ""
    found = re.search(
        rf"wgmma\.mma_async\.sync\.aligned\.m64n{n}k{depth}\.{PTX[sums]}\.{PTX[kind]}\.{PTX[kind]} "
        rf"\{{([^}}]*)\}}, (%rd\d+), (%rd\d+), keep{signs}{turned};",
        module.ptx,
    )
    assert found
    assert len(found[1].split(",")) == count
    assert ".local" not in module.ptx
    for each in check(module).values():
        assert (each.spill_stores, each.stack, each.remarks) == (0, 0, ())


@pytest.mark.parametrize(
    ("n", "swizzle", "trans", "turned"),
    [
        (64, 128, "True, True", "1, 1"), (8, 128, "False, True", "0, 1"), (256, 128, "True, False", "1, 0"),
        (32, 64, "False, True", "0, 1"), (16, 32, "False, True", "0, 1"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("kind", ["fp16", "bf16"])
def test_tiles_with_rows_along_k(kind, n, swizzle, trans, turned):
    """Groups of eight rows are as far apart as without: the descriptors stay what they are (PTX ISA, strides)."""
    module = build(wgmma(n, 16, kind, swizzle=swizzle, trans=trans), "sm_90a")
    assert re.search(rf"keep, 1, 1, {turned};", module.ptx)
    plain = build(wgmma(n, 16, kind, swizzle=swizzle), "sm_90a")
    assert re.sub(r"keep, 1, 1, \d, \d", "", plain.ptx) == re.sub(r"keep, 1, 1, \d, \d", "", module.ptx)
    for each in check(module).values():
        assert each.remarks == ()


def test_sums_of_16_bits_are_used_behind_the_wait():
    text = build(wgmma(64, 16, "fp16", sums="float16"), "sm_90a").ptx
    wait = text.index("wgmma.wait_group")
    results = re.search(r"wgmma\.mma_async[^{]*\{([^}]*)\}", text)[1].split(", ")
    start = text.index(";", text.index("wgmma.mma_async"))
    assert not [register for register in results if re.search(rf"{re.escape(register)}\b", text[start:wait])]


def test_8_bit_types_may_differ():
    module = build(wgmma(32, 32, "e4m3", "e5m2"), "sm_90a")
    assert ".f32.e4m3.e5m2 " in module.ptx
    check(module)


@pytest.mark.parametrize(("swizzle", "code"), [(128, 1), (64, 2), (32, 3)])
def test_descriptors(swizzle, code):
    """PTX ISA, matrix descriptor: the address in 16 bytes, 8 rows' distance from bit 32 on, the swizzle from bit 62 on."""
    text = build(wgmma(64, 16, "bf16", swizzle=swizzle), "sm_90a").ptx
    fixed = code << 62 | (8 * swizzle >> 4) << 32 | 1 << 16
    signed = fixed - (1 << 64) if fixed >> 63 else fixed
    assert str(signed) in text
    check(build(wgmma(64, 16, "bf16", swizzle=swizzle), "sm_90a"))


def test_whether_sums_are_kept_is_a_predicate():
    text = build(wgmma(64, 16, "bf16", scale="A[0] > T.bfloat16(0)"), "sm_90a").ptx
    assert re.search(r"setp\.ne\.b32 keep, %r\d+, 0;", text)
    for scale, made in (
        ("True", "mov.b32 \t{}, 1;"),
        ("False", "mov.b32 \t{}, 0;"),
        ("A[0] > T.bfloat16(0)", "selp.b32 \t{}, "),
    ):
        text = build(wgmma(64, 16, "bf16", scale=scale), "sm_90a").ptx
        assert made.format(re.search(r"setp\.ne\.b32 keep, (%r\d+), 0;", text)[1]) in text


def test_sums_are_used_behind_the_wait():
    """To LLVM the product is there at once: what uses it must still stand behind the wait."""
    func = wgmma(64, 16, "bf16")
    text = build(func, "sm_90a").ptx
    wait = text.index("wgmma.wait_group")
    results = re.search(r"wgmma\.mma_async[^{]*\{([^}]*)\}", text)[1].split(", ")
    for register in results:
        for place in re.finditer(rf"{re.escape(register)}\b", text):
            line = text[text.rindex("\n", 0, place.start()) : text.index("\n", place.start())]
            between = text.index("wgmma.mma_async") < place.start() < wait
            assert not between or "wgmma.mma_async" in line


@pytest.mark.parametrize("left", [0, 1, 2])
def test_groups_that_may_be_left(left):
    body = f"T.ptx_wgmma_fence()\nT.ptx_wgmma_commit_group()\nT.ptx_wgmma_wait_group({left})\nC[tx] = 1"
    module = build(kernel('C: T.Buffer((128,), "int32")', body, threads=128), "sm_90a")
    assert re.search(rf"wgmma\.wait_group\.sync\.aligned\s+{left};", module.ptx)
    check(module)


@pytest.mark.parametrize("arch", ["sm_75", "sm_89", "sm_90", "sm_100a", "sm_120"])
def test_hopper_alone_has_it(arch):
    body = "T.ptx_wgmma_fence()\nC[tx] = 1"
    with pytest.raises(CodegenError, match=f"wgmma needs sm_90a, and the target is {arch}"):
        build(kernel('C: T.Buffer((128,), "int32")', body, threads=128), arch)


@pytest.mark.parametrize(
    ("arguments", "more", "message"),
    [
        ((64, 8, "bf16"), {}, "of shape 'm64n64k8' on bf16"),
        ((512, 16, "bf16"), {}, "of shape 'm64n512k16'"),
        ((12, 16, "bf16"), {}, "12 columns"),
        ((64, 16, "bf16", "fp16"), {}, "of bf16 and f16"),
        ((64, 16, "bf16"), {"swizzle": 16}, "a swizzle of 16"),
        ((128, 16, "bf16"), {"trans": "False, True"}, "B transposed: its 128 columns are 256 bytes, the swizzle 128"),
        ((64, 16, "bf16"), {"swizzle": 64, "trans": "True, False"}, "A transposed: its 64 columns are 128 bytes"),
        ((64, 8, "tf32"), {"trans": "False, True"}, "B of tf32 transposed"),
        ((64, 32, "e4m3"), {"trans": "True, False"}, "A of e4m3 transposed"),
        ((64, 16, "bf16"), {"sums": "float16"}, "of bf16 with sums of float16"),
        ((64, 32, "int8"), {}, "of s8 with sums of float32"),
        ((40, 32, "int8"), {"sums": "int32"}, "of s8 with 40 columns"),
        ((64, 32, "int8", "e4m3"), {}, "of s8 and e4m3"),
    ],
)
def test_products_that_are_none(arguments, more, message):
    with pytest.raises(CodegenError, match=message):
        build(wgmma(*arguments, **more), "sm_90a")
