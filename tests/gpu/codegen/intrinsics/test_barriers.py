from __future__ import annotations

import re

import pytest

from tests.gpu.codegen.building import build, check, has, kernel
from tirlower.diagnostics import CodegenError, TirError

A = 'A: T.Buffer((64,), "int32")'
START = "T.create_barriers(4)\nif tx == 0:\n    T.ptx_init_barrier_thread_count({0}, 32)\n"


@pytest.mark.parametrize(
    ("body", "arch", "expected"),
    [
        ("T.ptx_arrive_barrier(1)", "sm_80", "mbarrier.arrive.shared.b64"),
        ("T.ptx_wait_barrier(1)", "sm_80", "mbarrier.test_wait.parity.shared.b64"),
        ("T.ptx_wait_barrier(1, A[tx] % 2)", "sm_89", "mbarrier.test_wait.parity.shared.b64"),
        ("T.ptx_wait_barrier(1, 1)", "sm_90", "mbarrier.try_wait.parity.shared.b64"),
        ("T.ptx_cp_async_barrier(1)", "sm_80", "cp.async.mbarrier.arrive.shared.b64"),
        ("T.ptx_arrive_barrier_expect_tx(1, 4096)", "sm_90", "mbarrier.arrive.expect_tx.shared.b64"),
        ("T.ptx_fence_barrier_init()", "sm_90", "fence.mbarrier_init.release.cluster"),
        ("T.ptx_fence_proxy_async()", "sm_90", "fence.proxy.async.shared::cta"),
    ],
)
def test_instructions(body, arch, expected):
    module = build(kernel(A, START.format(1) + body), arch)
    assert has(module, "mbarrier.init.shared.b64", expected)
    check(module)
    check(build(kernel(A, START.format(1) + body), "sm_120"))


def test_each_barrier_has_its_place():
    """Barrier i stands 8 i bytes behind the first, also where i is known at run time only."""
    body = START.format(3) + "for i in range(4):\n    T.ptx_arrive_barrier(i)\nT.ptx_arrive_barrier(A[tx])"
    module = build(kernel(A, body))
    (image,) = module.kernels.values()
    assert image.static_shared == 32
    assert re.search(r"\.shared \.align 8 \.b8 \w+\[32\]", module.ptx)
    assert all(each.shared >= 32 for each in check(module).values())


def test_waiting_compares_with_the_parity_that_is_given():
    module = build(kernel(A, START.format(0) + "T.ptx_wait_barrier(0, 1)"), "sm_90")
    assert re.search(
        r"try_wait\.parity\.shared\.b64 done, \[%r\d+\], %r\d+; @done bra leave; bra again; leave:", module.ptx
    )


def test_waits_can_be_repeated():
    """Labels inside of the loops are their own: unrolled copies do not clash."""
    body = START.format(0) + "for i in T.unroll(4):\n    T.ptx_wait_barrier(i, i % 2)"
    module = build(kernel(A, body), "sm_90")
    assert module.ptx.count("try_wait") == 4
    check(module)


def test_barriers_made_in_a_branch_serve_behind_it():
    body = "if tx == 0:\n    T.create_barriers(2)\n    T.ptx_init_barrier_thread_count(0, 32)\nT.ptx_arrive_barrier(0)"
    module = build(kernel(A, body))
    assert module.ptx.count("mbarrier.init") == 1 and "mbarrier.arrive" in module.ptx
    check(module)


def test_counts_of_other_widths():
    body = (
        START.format(0) + "T.ptx_init_barrier_thread_count(T.int64(1), T.int64(32))\nT.ptx_wait_barrier(0, A[tx] > 3)"
    )
    module = build(kernel(A, body))
    assert "mbarrier.init" in module.ptx and "test_wait.parity" in module.ptx
    check(module)


@pytest.mark.parametrize(
    ("body", "arch", "message"),
    [
        (START.format(0), "sm_75", "a barrier in shared memory needs sm_80 or newer, and the target is sm_75"),
        (START.format(0) + "T.ptx_arrive_barrier_expect_tx(0, 16)", "sm_89", "a barrier that counts bytes needs sm_90"),
        (START.format(0) + "T.ptx_fence_barrier_init()", "sm_80", "fence.mbarrier_init needs sm_90"),
        ("T.ptx_fence_proxy_async()", "sm_80", "fence.proxy.async needs sm_90"),
        ("T.ptx_arrive_barrier(0)", "sm_80", "before the kernel's barriers are there"),
        ("T.create_barriers(2)\nT.create_barriers(2)", "sm_80", "creates its barriers twice"),
        ("T.create_barriers(A[0])", "sm_80", "takes a constant"),
    ],
)
def test_errors(body, arch, message):
    with pytest.raises((CodegenError, TirError), match=message):
        build(kernel(A, body), arch)
