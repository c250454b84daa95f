"""Arrays of PyTorch, CuPy, Numba and JAX on a real GPU: given to kernels, and made of arrays of ours."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import tirlower as tl
from tests.gpu.on_device.device import built, needs_a_device
from tirlower.diagnostics import TirError
from tirlower.gpu.launch import Stream, to_device
from tirlower.script import tir as T

pytestmark = needs_a_device

N = 1000


@T.prim_func
def doubled(a: T.handle, b: T.handle):
    n = T.int32()
    A = T.match_buffer(a, (n,), "float32")
    B = T.match_buffer(b, (n,), "float32")
    for i in range(n):
        B[i] = A[i] * T.float32(2)


@T.prim_func
def transposed(a: T.handle, b: T.handle):
    n, m, s, t = T.int32(), T.int32(), T.int32(), T.int32()
    A = T.match_buffer(a, (n, m), "float32", strides=[s, t])
    B = T.match_buffer(b, (m, n), "float32")
    for i, j in T.grid(n, m):
        B[j, i] = A[i, j]


@T.prim_func
def narrow(A: T.Buffer((N,), "bfloat16"), B: T.Buffer((N,), "bfloat16")):
    for i in range(N):
        B[i] = A[i] + A[i]


def _torch() -> tuple[Callable[[np.ndarray], Any], Callable[[Any], np.ndarray]]:
    torch = pytest.importorskip("torch")
    return lambda a: torch.from_numpy(a).cuda(), lambda t: t.cpu().numpy()


def _cupy() -> tuple[Callable[[np.ndarray], Any], Callable[[Any], np.ndarray]]:
    cupy = pytest.importorskip("cupy")
    return cupy.asarray, cupy.asnumpy


def _numba() -> tuple[Callable[[np.ndarray], Any], Callable[[Any], np.ndarray]]:
    cuda = pytest.importorskip("numba.cuda")
    return cuda.to_device, lambda d: d.copy_to_host()


LIBRARIES = {"torch": _torch, "cupy": _cupy, "numba": _numba}


@pytest.fixture(scope="module")
def kernels() -> dict[str, Any]:
    return {name: built(func) for name, func in (("doubled", doubled), ("transposed", transposed), ("narrow", narrow))}


@pytest.mark.parametrize("library", LIBRARIES)
@pytest.mark.parametrize("n", [0, 1, 31, N, 100_003])
def test_their_arrays_are_taken(kernels: dict[str, Any], library: str, n: int) -> None:
    make, back = LIBRARIES[library]()
    values = np.arange(n, dtype="float32")
    a, b = make(values), make(np.zeros(n, "float32"))
    for _ in range(3):
        kernels["doubled"](a, b)
        np.testing.assert_array_equal(back(b), values * 2)


@pytest.mark.parametrize("library", LIBRARIES)
def test_their_views_are_taken_where_strides_are_asked(kernels: dict[str, Any], library: str) -> None:
    make, back = LIBRARIES[library]()
    values = np.arange(48, dtype="float32").reshape(6, 8)
    whole = make(values)
    for view in (np.s_[:, :], np.s_[1:5, 4:8], np.s_[::2, ::4]):
        out = make(np.zeros(values[view].shape[::-1], "float32"))
        kernels["transposed"](whole[view], out)
        np.testing.assert_array_equal(back(out), values[view].T)


@pytest.mark.parametrize("library", LIBRARIES)
def test_what_does_not_fit_is_refused_and_nothing_is_written(kernels: dict[str, Any], library: str) -> None:
    make, back = LIBRARIES[library]()
    good = make(np.ones(8, "float32"))
    bad = [make(np.ones(8, "float64")), make(np.ones(9, "float32")), make(np.ones((2, 4), "float32"))]
    bad.append(make(np.ones(16, "float32"))[::2])
    for wrong in bad:
        with pytest.raises(TirError):
            kernels["doubled"](good, wrong)
        assert (back(wrong) == 1).all()


def test_arrays_of_the_host_are_refused(kernels: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    for array in (np.ones(8, "float32"), torch.ones(8)):
        with pytest.raises(TirError, match=r"device|host|GPU"):
            kernels["doubled"](array, array)


def test_bfloat16_of_torch(kernels: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    a = torch.arange(N, device="cuda").to(torch.bfloat16)
    b = torch.zeros_like(a)
    kernels["narrow"](a, b)
    assert torch.equal(b, a + a)


def test_tensors_that_are_no_plain_memory_are_refused(kernels: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    a, b = torch.ones(8, device="cuda"), torch.zeros(8, device="cuda")
    for wrong in (a.clone().requires_grad_(), torch._neg_view(a), a.to_sparse(), a.to("meta")):
        with pytest.raises((TirError, TypeError, RuntimeError, ValueError)):
            kernels["doubled"](wrong, b)
        assert not b.any()


def test_work_of_torch_around_a_launch_is_ordered(kernels: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    big = torch.randn(4096, 4096, device="cuda")
    for stream in (torch.cuda.current_stream(), torch.cuda.Stream()):
        torch.cuda.synchronize()
        with torch.cuda.stream(stream):
            for k in range(20):
                slow = big @ big  # so that what follows waits for some milliseconds
                a = slow.flatten()[:N].clamp(0, 0) + k
                b = torch.full((N,), -1.0, device="cuda")
                kernels["doubled"](a, b)
                c = b + 1
            assert (c == 39).all()


def test_a_stream_of_theirs_may_be_named(kernels: dict[str, Any]) -> None:
    torch, cupy = pytest.importorskip("torch"), pytest.importorskip("cupy")
    for stream in (torch.cuda.Stream(), cupy.cuda.Stream(non_blocking=True), Stream()):
        a, b = to_device(np.arange(N, dtype="float32")), to_device(np.zeros(N, "float32"))
        kernels["doubled"](a, b, stream=stream)
        np.testing.assert_array_equal(b.numpy(), np.arange(N, dtype="float32") * 2)


def test_they_take_arrays_of_ours(kernels: dict[str, Any]) -> None:
    values = np.arange(N, dtype="float32")
    a, b = to_device(values), to_device(np.zeros(N, "float32"))
    kernels["doubled"](a, b, stream=Stream())
    torch = pytest.importorskip("torch")
    np.testing.assert_array_equal(torch.from_dlpack(b).cpu().numpy(), values * 2)
    np.testing.assert_array_equal(torch.as_tensor(b, device="cuda").cpu().numpy(), values * 2)
    cupy = pytest.importorskip("cupy")
    np.testing.assert_array_equal(cupy.asnumpy(cupy.asarray(b)), values * 2)
    np.testing.assert_array_equal(cupy.asnumpy(cupy.from_dlpack(b)), values * 2)
    cuda = pytest.importorskip("numba.cuda")
    np.testing.assert_array_equal(cuda.as_cuda_array(b).copy_to_host(), values * 2)


def test_what_they_hold_outlives_our_name(kernels: dict[str, Any]) -> None:
    torch = pytest.importorskip("torch")
    values = np.arange(N, dtype="float32")
    kept = []
    for k in range(50):
        kept.append(torch.from_dlpack(to_device(values + np.float32(k))))
    for k, tensor in enumerate(kept):
        np.testing.assert_array_equal(tensor.cpu().numpy(), values + np.float32(k))


def test_jax(kernels: dict[str, Any]) -> None:
    jax = pytest.importorskip("jax")
    if jax.default_backend() != "gpu":
        pytest.skip("JAX sees no GPU")
    a = jax.numpy.arange(N, dtype="float32")
    b = to_device(np.zeros(N, "float32"))
    kernels["doubled"](a, b)
    np.testing.assert_array_equal(b.numpy(), np.arange(N, dtype="float32") * 2)
    np.testing.assert_array_equal(np.asarray(jax.dlpack.from_dlpack(b)), np.arange(N, dtype="float32") * 2)


def test_many_threads_launch_one_kernel(kernels: dict[str, Any]) -> None:
    wrong: list[Any] = []

    def work(seed: int) -> None:
        try:
            values = np.arange(N, dtype="float32") + np.float32(seed)
            for k in range(100):
                a, b = to_device(values + np.float32(k)), to_device(np.zeros(N, "float32"))
                kernels["doubled"](a, b, **({} if k % 2 else {"stream": Stream()}))
                np.testing.assert_array_equal(b.numpy(), (values + np.float32(k)) * 2)
        except BaseException as error:
            wrong.append(error)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong, wrong[0]


def test_a_kernel_built_in_one_thread_runs_in_another() -> None:
    made: list[Any] = []
    thread = threading.Thread(target=lambda: made.append(tl.build(doubled, target="nvptx")))
    thread.start()
    thread.join()
    a, b = to_device(np.ones(N, "float32")), to_device(np.zeros(N, "float32"))
    made[0](a, b)
    assert (b.numpy() == 2).all()
