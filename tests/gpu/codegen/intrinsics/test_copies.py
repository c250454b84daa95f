from __future__ import annotations

import re

import pytest

from tests.gpu.codegen.building import build, check, has, kernel
from tirlower.diagnostics import CodegenError, TirError

A = 'A: T.Buffer((4096,), "{0}")'
SHARED = 's = T.alloc_buffer((1024,), "{0}", scope="shared")\n'


@pytest.mark.parametrize("dtype", ["float16", "float32", "int8", "float64", "bfloat16"])
@pytest.mark.parametrize("size", [4, 8, 16])
def test_cp_async(size, dtype):
    body = SHARED + f'T.ptx_cp_async("{{0}}", s.data, tx * {size}, A.data, tx * {size} + 32, {size})'
    body += "\nT.ptx_commit_group()\nT.ptx_wait_group(0)"
    module = build(kernel(A.format(dtype), body.format(dtype)))
    kind = "cg" if size == 16 else "ca"
    assert re.search(rf"cp\.async\.{kind}\.shared\.global \[%r\d+\], \[%rd\d+\], {size};", module.ptx)
    assert has(module, "cp.async.commit_group", "cp.async.wait_group")
    assert not has(module, "ld.global", "st.shared")
    check(module)


def test_a_copy_that_may_not_be_reads_no_bytes():
    body = SHARED + 'T.ptx_cp_async("{0}", s.data, tx * 4, A.data, tx * 4, 16, tx < 20)'
    module = build(kernel(A.format("float32"), body.format("float32")))
    assert re.search(r"selp\.b32\s+(%r\d+), 16, 0, %p\d+", module.ptx)
    assert re.search(r"cp\.async\.cg\.shared\.global \[%r\d+\], \[%rd\d+\], 16, %r\d+;", module.ptx)
    check(module)


def test_offsets_into_global_memory_have_64_bits():
    params = 'A: T.Buffer((T.int64(4294967296),), "float32"), P: T.Buffer((64,), "int32")'
    body = SHARED.format("float32") + (
        "for i in range(65536):\n"
        '    T.ptx_cp_async("float32", s.data, tx * 4, A.data, i * 65536 + tx * 4, 16)\n'
        "T.ptx_commit_group()\nT.ptx_wait_group(0)"
    )
    module = build(kernel(params, body))
    # 4 * 65536 bytes a step: an addition to a 64-bit address, no product of 32 bits that would wrap.
    assert re.search(r"add\.s64\s+%rd\d+, %rd\d+, 262144", module.ptx)
    assert not re.search(r"shl\.b32\s+%r\d+, %r\d+, 16", module.ptx)
    check(module)


@pytest.mark.parametrize("left", [0, 1, 3])
def test_groups_that_may_be_left(left):
    module = build(kernel(A.format("int32"), f"T.ptx_commit_group()\nT.ptx_wait_group({left})\nA[tx] = tx"))
    assert re.search(rf"cp\.async\.wait_group\s+{left};", module.ptx)
    check(module)


def test_loads_stay_behind_the_wait():
    body = SHARED.format("float32") + (
        "x = s[5]\n"
        'T.ptx_cp_async("float32", s.data, tx * 4, A.data, tx * 4, 16)\n'
        "T.ptx_commit_group()\nT.ptx_wait_group(0)\n"
        "A[tx] = s[tx * 4] + x"
    )
    text = build(kernel(A.format("float32"), body)).ptx
    assert text.index("cp.async.wait_group") < text.rindex("ld.shared")


BARRIER = "T.create_barriers(1)\nif tx == 0:\n    T.ptx_init_barrier_thread_count(0, 1)\n"


@pytest.mark.parametrize("arch", ["sm_90", "sm_100a", "sm_120"])
def test_bulk_copies(arch):
    body = (
        SHARED.format("float16")
        + BARRIER
        + (
            "if tx == 0:\n    T.ptx_arrive_barrier_expect_tx(0, 2048)\n"
            '    T.ptx_cp_async_bulk("float16", s.data, 0, A.data, 1024, 2048, 0)\n'
            "T.ptx_wait_barrier(0, 0)\nA[tx] = s[tx]"
        )
    )
    module = build(kernel(A.format("float16"), body), arch)
    assert re.search(
        r"cp\.async\.bulk\.shared::cluster\.global\.mbarrier::complete_tx::bytes \[%r\d+\], \[%rd\d+\], %r\d+, \[%r\d+\];",
        module.ptx,
    )
    check(module)


def tile(
    load: bool, dtype: str, swizzle: int, box: tuple[int, ...], extents: tuple, strides: tuple, data: str = "A"
) -> str:
    rank = len(box)
    numbers = ", ".join(map(str, (rank, *(f"{i + 1} * tx" for i in range(rank)), *box, *extents, *strides)))
    if load:
        call = f'T.ptx_cp_async_bulk_tensor("{dtype}", s.data, 0, {data}.data, {swizzle}, 0, {numbers})'
    else:
        call = f'T.ptx_cp_async_bulk_tensor_store("{dtype}", {data}.data, s.data, 0, {swizzle}, {numbers})'
    memory = f's = T.alloc_buffer((8192,), "{dtype}", scope="shared.dyn")\n'
    return memory + BARRIER + "if tx == 0:\n    " + call + "\n"


TILES = [
    ("float16", 128, (64, 64), (256, 128), (128,)),
    ("bfloat16", 64, (16, 32), (256, 128), (128,)),
    ("float32", 32, (16, 8), (256, 128), (128,)),
    ("int8", 0, (256,), (4096,), ()),
    ("float32", 0, (2, 4, 8), (8, 16, 32), (512, 32)),
    ("float16", 0, (2, 2, 4, 8), (2, 4, 16, 32), (2048, 512, 32)),
    ("uint8", 0, (1, 2, 2, 4, 16), (2, 2, 4, 16, 16), (2048, 1024, 256, 16)),
]


@pytest.mark.parametrize("tile_", TILES)
def test_tiles_by_tensor_map(tile_):
    dtype, swizzle, box, extents, strides = tile_
    rank = len(box)
    func = kernel(A.format(dtype), tile(True, *tile_) + "T.ptx_wait_barrier(0, 0)\nA[tx] = s[tx]")
    module = build(func, "sm_90")
    # Coordinates in the order of the instruction: innermost first, so factors rank, ..., 1 of tx.
    places = ", ".join([r"%r\d+"] * rank)
    assert re.search(
        rf"cp\.async\.bulk\.tensor\.{rank}d\.shared::cluster\.global\.tile\.mbarrier::complete_tx::bytes "
        rf"\[%r\d+\], \[%rd\d+, \{{{places}\}}\], \[%r\d+\];",
        module.ptx,
    )
    assert re.search(r"\.param \.align 64 \.b8 \w+\[128\]", module.ptx)
    ((spec,),) = (image.tensor_maps for image in module.kernels.values())
    assert (str(spec.dtype), spec.rank, spec.box, spec.swizzle) == (dtype, rank, box, swizzle)
    assert [int(str(e)) for e in spec.extents] == list(extents)
    assert [int(str(e)) for e in spec.strides] == list(strides)
    check(module)


def test_coordinates_are_innermost_first():
    body = (
        's = T.alloc_buffer((8192,), "float32", scope="shared.dyn")\n' + BARRIER + "if tx == 0:\n"
        '    T.ptx_cp_async_bulk_tensor("float32", s.data, 0, A.data, 0, 0, 3, 11, 22, 33, 2, 4, 8, 8, 16, 32, 512, 32)\n'
    )
    text = build(kernel(A.format("float32"), body), "sm_90").ptx
    order = re.search(r"tensor\.3d.*\{(%r\d+), (%r\d+), (%r\d+)\}", text).groups()
    constants = [re.search(rf"mov\.b32\s+{re.escape(r)}, (\d+);", text)[1] for r in order]
    assert constants == ["33", "22", "11"]


@pytest.mark.parametrize("tile_", TILES)
def test_tiles_stored_by_tensor_map(tile_):
    rank = len(tile_[2])
    body = tile(False, *tile_) + "T.ptx_bulk_commit_group()\nT.ptx_bulk_wait_group(0)\ns[tx] = A[tx]"
    module = build(kernel(A.format(tile_[0]), body), "sm_90")
    places = ", ".join([r"%r\d+"] * rank)
    assert re.search(
        rf"cp\.async\.bulk\.tensor\.{rank}d\.global\.shared::cta\.tile\.bulk_group \[%rd\d+, \{{{places}\}}\], \[%r\d+\];",
        module.ptx,
    )
    assert has(module, "cp.async.bulk.commit_group;", "cp.async.bulk.wait_group 0;")
    check(module)


def test_one_map_for_each_distinct_tile():
    first, same, other = ('"float16", s.data, {0}, A.data, 128, 0, 2, {0}, tx, {1}, 64, 256, 128, 128'.format(*each)
                          for each in ((0, 64), (64, 64), (0, 32)))  # fmt: skip
    body = (
        SHARED.format("float16")
        + BARRIER
        + "".join(f"T.ptx_cp_async_bulk_tensor({each})\n" for each in (first, same, other))
    )
    module = build(kernel(A.format("float16"), body), "sm_90")
    (image,) = module.kernels.values()
    assert [spec.box for spec in image.tensor_maps] == [(64, 64), (32, 64)]
    assert len(re.findall(r"\.param \.align 64 \.b8 \w+\[128\]", module.ptx)) == 2
    check(module)


@pytest.mark.parametrize(
    ("tile_", "message"),
    [
        (("float16", 128, (64, 128), (256, 128), (128,)), "rows of 256 bytes with a swizzle of 128"),
        (("float16", 16, (64, 8), (256, 128), (128,)), "swizzle of 16"),
        (("float16", 0, (64, 4), (256, 128), (128,)), "rows of 8 bytes"),
        (("float16", 0, (512, 8), (512, 128), (128,)), "a box of shape"),
        (("float16", 0, (64, 8), (256, 128), (100,)), "a stride of 100 elements"),
        (("float16", 0, (64, 8), ("A[0]", 128), (128,)), "is loaded from memory"),
        (("float16", 0, ("tx", 8), (256, 128), (128,)), "the box is tx"),
    ],
)
def test_tiles_that_no_tensor_map_describes(tile_, message):
    with pytest.raises((CodegenError, TirError), match=message):
        build(kernel(A.format(tile_[0]), tile(True, *tile_)), "sm_90")


@pytest.mark.parametrize(
    ("body", "arch", "message"),
    [
        ('T.ptx_cp_async("float32", s.data, tx, A.data, tx, 4)', "sm_75", "cp.async needs sm_80 or newer"),
        ('T.ptx_cp_async("float32", s.data, tx, A.data, tx, 32)', "sm_80", "of 32 bytes"),
        ('T.ptx_cp_async("float32", s.data, tx, A.data, tx, tx)', "sm_80", "takes a constant"),
        ("T.ptx_wait_group(tx)", "sm_80", "takes a constant"),
        ("T.ptx_commit_group()", "sm_75", "cp.async needs sm_80 or newer"),
        ('T.ptx_cp_async_bulk("float32", s.data, 0, A.data, 0, 64, 0)', "sm_80", "cp.async.bulk needs sm_90 or newer"),
        ('T.ptx_cp_async_bulk("float32", s.data, 0, A.data, 0, 24, 0)', "sm_90", "a multiple of 16 bytes"),
        ("T.ptx_bulk_commit_group()", "sm_89", "cp.async.bulk needs sm_90"),
        (
            'T.ptx_cp_async_bulk_tensor("float32", s.data, 0, A.data, 0, 0, 1, 0, 64, 4096)',
            "sm_89",
            "a tile copy by tensor map needs sm_90",
        ),
    ],
)
def test_errors(body, arch, message):
    body = SHARED.format("float32") + (BARRIER if arch != "sm_75" else "") + body
    with pytest.raises((CodegenError, TirError), match=message):
        build(kernel(A.format("float32"), body), arch)
