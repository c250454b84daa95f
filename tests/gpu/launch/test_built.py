"""From ``tl.build`` to results: examples through all passes and code generation, launched on the fake device."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import tirlower as tl
from examples.gpu import layer_norm, matmul_hopper, prefix_sum, reduction, vector_add
from tests.gpu.launch.fake_cuda import FakeCuda, driver_of
from tirlower.diagnostics import ArgumentValueError
from tirlower.gpu.launch import device_of, to_device
from tirlower.ir import PrimFunc
from tirlower.script import tir as T

RNG = np.random.default_rng(3)


def run(func: PrimFunc, target: str, *arrays: np.ndarray[Any, Any]) -> tuple[Any, FakeCuda]:
    """Build, and call with an allocated last argument; the result is checked to be all that is left."""
    kernel: Any = tl.build(func, target=target, outputs=[func.buffers[-1].name])
    cuda = FakeCuda()
    kernel._driver = driver_of(cuda)
    cuda.kernels.update({name: (image, kernel.lowered) for name, image in kernel.module.kernels.items()})
    given = [to_device(array, device=device_of(0, kernel._driver)) for array in arrays]
    made = kernel(*given)
    result = made.numpy()
    del made, given
    assert not cuda.memory
    return result, cuda


def test_vector_add() -> None:
    a, b = RNG.random(1300, np.float32), RNG.random(1300, np.float32)
    result, _ = run(vector_add.vector_add(1300), "nvptx -arch=sm_80", a, b)
    np.testing.assert_array_equal(result, a + b)


@pytest.mark.parametrize("n", [32 * 4, 40 * 32 * 4])
def test_prefix_sum_of_three_kernels_and_a_temporary(n: int) -> None:
    a = RNG.integers(-9, 9, n).astype(np.int32)
    result, cuda = run(prefix_sum.prefix_sum(n, threads=32, items=4), "nvptx -arch=sm_75", a)
    np.testing.assert_array_equal(result, np.cumsum(a))
    assert len(cuda.calls("cuLaunchKernel")) == 3
    assert len(cuda.calls("cuMemFreeAsync")) == len(cuda.calls("cuMemAllocAsync"))


def test_reduction_of_two_kernels() -> None:
    a = RNG.standard_normal(1900, np.float32)
    result, cuda = run(reduction.reduction(1900, blocks=3, threads=64), "nvptx -arch=sm_80", a)
    np.testing.assert_allclose(result, a.astype(np.float64).sum(keepdims=True), rtol=1e-5, atol=1e-4)
    assert len(cuda.calls("cuLaunchKernel")) == 2


def test_layer_norm() -> None:
    x, g, b = RNG.random((2, 256), np.float32), RNG.random(256, np.float32), RNG.random(256, np.float32)
    result, _ = run(layer_norm.layer_norm(2, 256, threads=64), "nvptx -arch=sm_90", x, g, b)
    np.testing.assert_allclose(result, layer_norm.reference(x, g, b), rtol=2e-5, atol=2e-5)


def test_hopper_matmul_with_tensor_maps() -> None:
    a, b = (RNG.standard_normal(shape).astype(ml_dtypes.bfloat16) for shape in ((70, 136), (40, 136)))
    func = matmul_hopper.hopper_matmul(70, 40, 136, BM=64, BN=32, stages=2)
    result, cuda = run(func, "nvptx -arch=sm_90a", a, b)
    left, right = a.astype(np.float64), b.astype(np.float64).T
    bound = 136 * np.finfo(np.float32).eps * (abs(left) @ abs(right))
    assert (abs(result - left @ right) <= bound).all()
    # bfloat16, rank 2, extents and boxes from the innermost, strides in bytes, swizzle of 128 bytes
    assert [(m[0], m[1], *m[3:6], m[7][1]) for m in cuda.maps] == [
        (9, 2, [136, 70], [272], [64, 64], 3), (9, 2, [136, 40], [272], [64, 32], 3),
    ]  # fmt: skip
    (launch,) = cuda.calls("cuLaunchKernel")
    assert launch[2] == 4 and launch[8] > 0


def built(func: PrimFunc) -> tuple[Any, FakeCuda, list[Any]]:
    """A build on a fake device, and three arrays there."""
    kernel: Any = tl.build(func, target="nvptx -arch=sm_80")
    cuda = FakeCuda()
    kernel._driver = driver_of(cuda)
    cuda.kernels.update({name: (image, kernel.lowered) for name, image in kernel.module.kernels.items()})
    arrays = [to_device(RNG.random(1300, np.float32), device=device_of(0, kernel._driver)) for _ in range(3)]
    return kernel, cuda, arrays


def test_arrays_of_one_memory_are_refused_unless_the_kernel_works_in_place() -> None:
    kernel, cuda, (a, b, c) = built(vector_add.vector_add(1300).without_attr("tir.noalias"))
    total = a.numpy() + b.numpy()
    kernel(a, b, c)
    np.testing.assert_array_equal(c.numpy(), total)
    assert kernel.signature.in_place == {("A", "C"), ("B", "C")}
    kernel, cuda, (a, b, c) = built(reversed_copy)
    for _ in range(2):
        with pytest.raises(ArgumentValueError, match=r"does not overlap `A` \(threads run in any order"):
            kernel(a, a)
    assert not cuda.calls("cuLaunchKernel")
    kernel(a, b)
    np.testing.assert_array_equal(b.numpy(), a.numpy()[::-1])


@T.prim_func
def reversed_copy(A: T.Buffer((1300,), "float32"), B: T.Buffer((1300,), "float32")):
    for bx in T.thread_binding(13, thread="blockIdx.x"):
        for tx in T.thread_binding(100, thread="threadIdx.x"):
            B[bx * 100 + tx] = A[1299 - bx * 100 - tx]


def test_loads_of_an_array_that_may_be_written_in_place_use_the_common_cache() -> None:
    func: PrimFunc = vector_add.vector_add(1300).without_attr("tir.noalias")
    assert "ld.global.nc" not in tl.build(func, target="nvptx -arch=sm_80").source("ptx")
    assert "ld.global.nc" in tl.build(func.with_attr("tir.noalias", True), target="nvptx -arch=sm_80").source("ptx")
    assert "ld.global.nc" in tl.build(reversed_copy, target="nvptx -arch=sm_80").source("ptx")
