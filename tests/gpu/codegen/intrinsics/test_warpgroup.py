from __future__ import annotations

import re

import pytest

from tests.gpu.codegen.building import build, check, kernel
from tirlower.diagnostics import CodegenError

BUFFERS = {"fp16": "float16", "bf16": "bfloat16", "tf32": "float32", "e4m3": "float8_e4m3fn", "e5m2": "float8_e5m2"}
PTX = {"fp16": "f16", "bf16": "bf16", "tf32": "tf32", "e4m3": "e4m3", "e5m2": "e5m2"}


def wgmma(
    n: int, depth: int, a: str, b: str = "", swizzle: int = 128, scale: str = "True", trans: str = "False, False"
):
    b = b or a
    body = f"""
    s = T.alloc_buffer((16384,), "{BUFFERS[a]}", scope="shared.dyn")
    acc = T.alloc_buffer(({n // 2},), "float32", scope="local")
    for i in T.unroll({n // 2}):
        acc[i] = C[tx, i]
    s[tx] = A[tx]
    T.ptx_fence_proxy_async()
    T.tvm_storage_sync("shared.dyn")
    T.ptx_wgmma_fence()
    T.ptx_wgmma("float32", "m64n{n}k{depth}", "{a}", "{b}", acc.data, 0, s.data, 0, s.data, 4096, {swizzle}, {scale}, {trans})
    T.ptx_wgmma_commit_group()
    T.ptx_wgmma_wait_group(0)
    for i in T.unroll({n // 2}):
        C[tx, i] = acc[i]
    """
    params = f'A: T.Buffer((128,), "{BUFFERS[a]}"), C: T.Buffer((128, {max(n // 2, 1)}), "float32")'
    return kernel(params, body, threads=128)


@pytest.mark.parametrize(("kind", "depth"), [("fp16", 16), ("bf16", 16), ("tf32", 8), ("e4m3", 32), ("e5m2", 32)])
@pytest.mark.parametrize("n", [8, 64, 256])
def test_products_of_every_type(kind, depth, n):
    module = build(wgmma(n, depth, kind), "sm_90a")
    count = n // 2
    turned = ", 0, 0" if kind in ("fp16", "bf16") else ""
    found = re.search(
        rf"wgmma\.mma_async\.sync\.aligned\.m64n{n}k{depth}\.f32\.{PTX[kind]}\.{PTX[kind]} "
        rf"\{{([^}}]*)\}}, (%rd\d+), (%rd\d+), keep, 1, 1{turned};",
        module.ptx,
    )
    assert found
    assert len(found[1].split(",")) == count
    assert ".local" not in module.ptx
    for each in check(module).values():
        assert (each.spill_stores, each.stack, each.remarks) == (0, 0, ())


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
        ((64, 16, "bf16"), {"trans": "False, True"}, "a transposed tile"),
    ],
)
def test_products_that_are_none(arguments, more, message):
    with pytest.raises(CodegenError, match=message):
        build(wgmma(*arguments, **more), "sm_90a")
