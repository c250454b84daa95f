from __future__ import annotations

import ctypes
import dataclasses
import threading
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import FakeCuda, driver_of, fake_kernel
from tests.gpu.launch.foreign import Interface
from tirlower.diagnostics import BoundsError, DeviceError, DivisionByZeroError, RuntimeAssertError
from tirlower.driver.gpu_host import host_code
from tirlower.gpu.artifact import DeviceModule, KernelImage, KernelParam, ReportSite, TensorMapSpec
from tirlower.gpu.launch import GpuKernel, device_of, to_device
from tirlower.ir import Call, DataType, Evaluate, IRModule, Op, PrimFunc, Var
from tirlower.ir.expr import StringImm, as_expr


def changed(**fields: Any) -> Any:
    """A change of every kernel's image."""

    def change(module: DeviceModule) -> DeviceModule:
        kernels = {name: dataclasses.replace(image, **fields) for name, image in module.kernels.items()}
        return dataclasses.replace(module, kernels=kernels)

    return change


def arrays(cuda: FakeCuda, count: int, array: np.ndarray[Any, Any]) -> list[Any]:
    return [to_device(array, device=device_of(0, driver_of(cuda))) for _ in range(count)]


def test_clusters_are_launched_with_their_shape() -> None:
    kernel, cuda = fake_kernel(programs.vector_add, change=changed(cluster=(2, 1, 1)))
    A, B, C = arrays(cuda, 3, np.ones(128, np.float32))
    kernel(A, B, C, stream=44)
    np.testing.assert_array_equal(C.numpy(), np.full(128, 2))
    assert ("cluster", 2, 1, 1, 44) in cuda.log and not cuda.calls("cuLaunchKernel")
    cuda.fail["cuLaunchKernelEx"] = 1
    with pytest.raises(DeviceError, match=r"dynamic shared memory, cluster \(2, 1, 1\), stream 0x2c"):
        kernel(A, B, C, stream=44)
    big, other = fake_kernel(programs.vector_add, change=changed(cluster=(16, 1, 1)))
    big(*arrays(other, 3, np.ones(512, np.float32)))
    assert [c[2:] for c in other.calls("cuFuncSetAttribute")] == [(14, 1)]


def test_blocks_of_clusters_are_counted_together() -> None:
    names = ("clusterIdx.x", "clusterCtaIdx.x")
    kernel, cuda = fake_kernel(programs.vector_add, change=changed(launch_params=names, cluster=(2, 1, 1)))
    kernel(*arrays(cuda, 3, np.ones(150, np.float32)))
    assert ("shape", 5 * 32, 1, 1, 1, 1, 1) in cuda.log
    with pytest.raises(DeviceError, match=r"launch parameter 'vthread', which no launch has"):
        fake_kernel(programs.vector_add, change=changed(launch_params=("vthread", "threadIdx.x")))[0].load()


def test_tensor_maps_follow_the_arguments() -> None:
    def with_map(module: DeviceModule) -> DeviceModule:
        (image,) = module.kernels.values()
        n = next(p.var for p in image.params if not p.pointer)
        params = image.params
        data = next(i for i, p in enumerate(params) if p.pointer)
        spec = TensorMapSpec(data, DataType("float16"), 2, (4, 8), (n, as_expr(8)), (as_expr(8),), 64)
        twice = dataclasses.replace(image, tensor_maps=(spec, dataclasses.replace(spec, swizzle=0, box=(2, 8))))
        return dataclasses.replace(module, kernels={image.symbol: twice})

    kernel, cuda = fake_kernel(programs.dynamic, change=with_map)
    a = np.random.default_rng(1).random((6, 8)).astype(np.float16)
    A, B = arrays(cuda, 2, a)
    kernel(A, B)
    np.testing.assert_array_equal(B.numpy(), np.roll(a, -3, axis=1))
    base = next(p for p in (A.pointer, B.pointer) if p == cuda.maps[0][2])
    # Dimensions from the innermost, strides in bytes without the innermost, modes: interleave, swizzle, L2, fill.
    assert cuda.maps == [
        (6, 2, base, [8, 6], [16], [8, 4], [1, 1], (0, 2, 3, 0)),
        (6, 2, base, [8, 6], [16], [8, 2], [1, 1], (0, 0, 3, 0)),
    ]
    assert cuda.log[-1][0] == "maps" or ("maps", [b"\1" * 128, b"\2" * 128]) in cuda.log
    kernel(A, B)
    assert len(cuda.maps) == 2  # kept
    kernel(*arrays(cuda, 2, a[:3]))
    assert len(cuda.maps) == 4 and cuda.maps[2][3] == [8, 3]


def test_a_tensor_map_is_kept_for_the_same_array_alone() -> None:
    kernel, cuda = fake_kernel(programs.dynamic, change=mapped())
    A, B, C, D = arrays(cuda, 4, np.ones((6, 8), np.float16))
    for given in ((A, B), (A, B), (C, D), (C, D), (A, B)):
        kernel(*given)
    at = [{A.pointer: "A", B.pointer: "A", C.pointer: "C", D.pointer: "C"}[m[2]] for m in cuda.maps]
    assert at == ["A", "C", "A"]
    cuda.fail["cuTensorMapEncodeTiled"] = 1
    for _ in range(2):
        with pytest.raises(DeviceError, match=r"cannot be encoded"):
            kernel(C, D)
    cuda.fail.clear()
    kernel(C, D)
    kernel(C, D)
    assert [m[3] for m in cuda.maps[3:]] == [[8, 6]]
    # A kind of call has maps of its own.
    first = Interface(A, (3, 8)), Interface(B, (3, 8))
    for given in (first, first, (C, D)):
        kernel(*given)
    assert [m[3] for m in cuda.maps[4:]] == [[8, 3]]


def test_tensor_maps_stand_before_the_report() -> None:
    site = ReportSite("assert", "bad")
    kernel, cuda = fake_kernel(programs.dynamic, change=mapped(reports=True, sites=(site,)))
    A, B = arrays(cuda, 2, np.ones((6, 8), np.float16))
    kernel(A, B)
    assert ("maps", [b"\1" * 128]) in cuda.log and len(cuda.host) == 1


def test_a_tensor_map_of_three_dimensions() -> None:
    kernel, cuda = fake_kernel(programs.dynamic, change=mapped(extents=(2, 3, 8), strides=(48, 16)))
    kernel(*arrays(cuda, 2, np.ones((6, 8), np.float16)))
    assert [m[3:6] for m in cuda.maps] == [([8, 3, 2], [32, 96], [8, 4, 2])]


def mapped(extents: tuple[int, ...] = (), strides: tuple[int, ...] = (8,), **fields: Any) -> Any:
    """A change that gives the kernel a tensor map: of ``n`` rows of 8 elements, or of these extents."""

    def change(module: DeviceModule) -> DeviceModule:
        (image,) = module.kernels.values()
        n = next(p.var for p in image.params if not p.pointer)
        data = next(i for i, p in enumerate(image.params) if p.pointer)
        shape = tuple(map(as_expr, extents)) or (n, as_expr(8))
        box = (2, 4, 8)[-len(shape) :]
        spec = TensorMapSpec(data, DataType("float16"), len(shape), box, shape, tuple(map(as_expr, strides)), 64)
        changes = {"tensor_maps": (spec,), **fields}
        return dataclasses.replace(module, kernels={image.symbol: dataclasses.replace(image, **changes)})

    return change


def test_a_tensor_map_that_the_driver_refuses() -> None:
    def with_map(module: DeviceModule) -> DeviceModule:
        (image,) = module.kernels.values()
        data = next(i for i, p in enumerate(image.params) if p.pointer)
        spec = TensorMapSpec(data, DataType("bfloat16"), 1, (8,), (as_expr(8),), (), 128)
        return dataclasses.replace(module, kernels={image.symbol: dataclasses.replace(image, tensor_maps=(spec,))})

    kernel, cuda = fake_kernel(programs.dynamic, change=with_map)
    A, B = arrays(cuda, 2, np.ones((2, 8), np.float16))
    cuda.fail["cuTensorMapEncodeTiled"] = 1
    with pytest.raises(DeviceError) as error:
        kernel(A, B)
    text = str(error.value)
    assert "in kernel `dynamic_kernel` cannot be encoded: CUDA_ERROR_INVALID_VALUE (1)" in text
    assert "extents (8,), strides () elements, box (8,), swizzle 128 bytes" in text


def test_arguments_of_every_width_are_packed() -> None:
    kinds = ["bool", "int8", "uint8", "int16", "uint16", "int32", "uint32", "int64", "uint64", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "int7"]  # fmt: skip
    values = [True, -5, 250, -300, 65000, -70000, 2**32 - 1, -(2**50), 2**64 - 1, 1.5, -2.25, 0.1, 0.1, 0.5, -3]
    params = tuple(Var(f"p{i}", k) for i, k in enumerate(kinds))
    launch = Evaluate(Call(Op.get("tir.tvm_call_packed"), (StringImm("k"), *params, as_expr(1)), "int32"))
    func = PrimFunc(params, {}, "void", {"global_symbol": "f"}, launch)
    given = tuple(KernelParam(p, p.dtype) for p in params)
    module = DeviceModule(".version 8.0", "", "sm_90", {"k": KernelImage("k", "k", given, ("threadIdx.x",))})
    lowered = IRModule({"main": func})
    found: list[list[float]] = []

    class Looking(FakeCuda):
        def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
            addresses = self.arguments_of(function).from_address(rest[-2])
            kinds_at = [(DataType(kind).numpy, address) for kind, address in zip(kinds, addresses, strict=True)]
            raw = [np.frombuffer(ctypes.string_at(address, t.itemsize), t) for t, address in kinds_at]
            found.append([float(value[0]) for value in raw])
            return 0

    cuda = Looking()
    cuda.kernels["k"] = (module.kernels["k"], lowered)
    kernel = GpuKernel(func, lowered, host_code(lowered, "main", module), module, driver=driver_of(cuda))
    kernel(*values)
    kernel(*[np.asarray(v).astype(DataType(k).numpy)[()] for v, k in zip(values, kinds, strict=True)])
    wanted = [float(np.asarray(v).astype(DataType(k).numpy)) for v, k in zip(values, kinds, strict=True)]
    assert found == [wanted, wanted]


@pytest.mark.parametrize("kind, error", [("bounds", BoundsError), ("division", DivisionByZeroError)])
def test_kinds_of_reports(kind: Any, error: type[Exception]) -> None:
    site = ReportSite(kind, "an element is 100 or more")
    kernel, cuda = fake_kernel(programs.checked, change=changed(reports=True, sites=(site,)))
    A, B = arrays(cuda, 2, np.full(8, 100, np.int32))
    with pytest.raises(error, match=r"an element is 100 or more"):
        kernel(A, B)


def test_a_kernel_that_ended_itself_took_the_context_along() -> None:
    """The report outlives the launch: which check failed, where, that all is lost, and what to do now."""
    site = ReportSite("bounds", "an element is 100 or more\nnote: the rest of the text")
    kernel, cuda = fake_kernel(programs.checked, change=changed(reports=True, traps=True, sites=(site,)))
    A, B = arrays(cuda, 2, np.arange(8, dtype=np.int32))
    kernel(A, B)  # nothing fails: nothing is said
    bad = arrays(cuda, 1, np.full(8, 100, np.int32))[0]
    with pytest.raises(DeviceError) as error:
        kernel(bad, B)
    text = str(error.value)
    assert "`checked_kernel` was ended" in text and "would have waited" in text and "an element is 100 or more" in text
    assert "note: the rest of the text" in text and "blockIdx (2, 0, 0), threadIdx (5, 0, 0)" in text
    assert "the CUDA context is lost" in text and "Start the process anew" in text and "tl.simulate" in text
    with pytest.raises(DeviceError, match=r"(?s)LAUNCH_FAILED \(719\).*an earlier launch's.*Start the process anew"):
        kernel(A, B)


def test_memory_of_arguments_is_reused() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    A, B, C = arrays(cuda, 3, np.ones(8, np.float32))
    for _ in range(3):
        kernel(A, B, C)
    (function,) = kernel._bound.values()
    kinds = 0 if kernel._native is None else len(kernel._native._rows)  # each keeps one
    assert len(function.pool) + kinds == 1


def test_calls_that_run_at_once_have_memory_of_their_own() -> None:
    meeting = threading.Barrier(2, timeout=60)
    seen: list[tuple[int, int]] = []

    class Waiting(FakeCuda):
        together = False

        def cuStreamSynchronize(self, stream: int) -> None:
            if self.together:
                meeting.wait()

        def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
            record = ctypes.c_uint64.from_address(self.arguments_of(function).from_address(rest[-2])[-1]).value
            seen.append((rest[-2], record))
            return super().cuLaunchKernel(function, *rest)

    cuda = Waiting()
    site = ReportSite("assert", "an element is 100 or more")
    kernel, _ = fake_kernel(programs.checked, cuda, change=changed(reports=True, sites=(site,)))
    A, B = arrays(cuda, 2, np.full(8, 7, np.int32))
    bad, C = arrays(cuda, 2, np.full(8, 100, np.int32))
    kernel(A, B)
    cuda.together = True
    errors: list[Exception] = []

    def fail() -> None:
        try:
            kernel(bad, C)
        except RuntimeAssertError as error:
            errors.append(error)

    thread = threading.Thread(target=fail)
    thread.start()
    kernel(A, B)
    thread.join(60)
    assert len(errors) == 1 and len(seen) == 3 and len({record for _, record in seen}) == 2
    assert seen[1][0] != seen[2][0]


def test_a_kernel_that_the_module_lacks() -> None:
    kernel, cuda = fake_kernel(programs.vector_add)
    cuda.kernels.clear()
    with pytest.raises(
        DeviceError, match=r"look-up of kernel 'vector_add_kernel' in its module failed: CUDA_ERROR_NOT_FOUND"
    ):
        kernel.load()
