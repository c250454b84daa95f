from __future__ import annotations

import re

import pytest

from tests.gpu.codegen.building import build, check, has, kernel
from tirlower.diagnostics import TirError

AB = 'A: T.Buffer((64,), "{0}"), B: T.Buffer((64,), "{0}")'
INTS = 'A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32")'


@pytest.mark.parametrize("scope", ["shared", "shared.dyn"])
def test_a_barrier_of_a_block(scope):
    module = build(kernel(INTS, f'B[tx] = A[tx]\nT.tvm_storage_sync("{scope}")\nB[tx + 32] = A[tx]'))
    assert has(module, "bar.sync")
    assert all(each.barriers == 1 for each in check(module).values())


def test_a_barrier_of_a_warp():
    module = build(kernel(INTS, 'B[tx] = A[tx]\nT.tvm_storage_sync("warp")\nT.ptx_syncwarp(T.uint32(0xFFFF))'))
    assert len(re.findall(r"bar\.warp\.sync", module.ptx)) == 2
    assert "65535" in module.ptx
    check(module)


def test_a_barrier_of_the_grid_is_refused():
    with pytest.raises(TirError, match="orders all blocks of a grid"):
        build(kernel(INTS, 'B[tx] = A[tx]\nT.tvm_storage_sync("global")\nB[tx + 32] = A[tx]'))


# PTX ISA, shfl.sync: c has the bound of lanes in bits 0 to 4 (31; 0 for up), and the mask of segments, 32 - width, from
# bit 8 on.
@pytest.mark.parametrize(
    ("op", "mode", "width", "clamp"),
    [
        ("", "idx", 32, 31),
        ("", "idx", 8, (24 << 8) | 31),
        ("_up", "up", 32, 0),
        ("_up", "up", 16, 16 << 8),
        ("_down", "down", 32, 31),
        ("_down", "down", 4, (28 << 8) | 31),
        ("_xor", "bfly", 32, 31),
        ("_xor", "bfly", 2, (30 << 8) | 31),
    ],
)
def test_shuffles(op, mode, width, clamp):
    body = f"B[tx] = T.tvm_warp_shuffle{op}(T.uint32(0xFFFFFFFF), A[tx], 1, {width}, 32)"
    module = build(kernel(INTS, body))
    assert re.search(rf"shfl\.sync\.{mode}\.b32\s+%r\d+(\|%p\d+)?, %r\d+, 1, {clamp}, -1;", module.ptx)
    check(module)


@pytest.mark.parametrize(
    ("dtype", "words"),
    [
        ("int8", 1), ("uint16", 1), ("float16", 1), ("bfloat16", 1), ("float8_e4m3fn", 1), ("bool", 1), ("float32", 1),
        ("int32", 1), ("float64", 2), ("int64", 2), ("uint64", 2), ("float16x2", 1), ("float32x4", 4), ("int8x8", 2),
    ],
)  # fmt: skip
def test_values_of_every_size_are_moved_by_words(dtype, words):
    body = "B[tx] = T.tvm_warp_shuffle_down(T.uint32(0xFFFFFFFF), A[tx], 4, 32, 32)"
    module = build(kernel(AB.format(dtype), body))
    assert module.ptx.count("shfl.sync.down.b32") == words
    check(module)


def test_a_lane_and_a_width_known_at_run_time():
    body = "B[tx] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), A[tx], A[0], A[1], 32)"
    module = build(kernel(INTS, body))
    assert has(module, "activemask.b32", "shfl.sync.idx.b32")
    check(module)


def test_shuffles_stay_where_they_are():
    """A shuffle is convergent: it is not moved into the branch that alone uses its result."""
    body = "x = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), A[tx], 1, 32, 32)\nif A[tx] > 5:\n    B[tx] = x"
    module = build(kernel(INTS, body))
    text = module.ptx
    branch = re.search(r"@!?%p\d+ bra", text)
    assert branch is None or text.index("shfl.sync") < branch.start()
    check(module)


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        ("T.cast(T.ptx_vote_ballot(T.uint32(0xFFFFFFFF), A[tx] > 0), 'int32')", r"vote\.sync\.ballot\.b32\s+%r\d+, %p\d+, -1;"),
        ("T.cast(T.ptx_vote_any(T.uint32(0xFF), A[tx] > 0), 'int32')", r"vote\.sync\.any\.pred\s+%p\d+, %p\d+, 255;"),
        ("T.cast(T.ptx_vote_all(T.uint32(0xFFFFFFFF), A[tx] > 0), 'int32')", r"vote\.sync\.all\.pred\s+%p\d+, %p\d+, -1;"),
    ],
)  # fmt: skip
def test_votes(call, expected):
    module = build(kernel(INTS, f"B[tx] = {call}"))
    assert re.search(expected, module.ptx)
    check(module)
