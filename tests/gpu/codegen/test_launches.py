"""What machine code hands to the driver: shapes, arguments, maps, and what it says of shapes that no launch has."""

from __future__ import annotations

import ctypes
from typing import Any

import pytest

from tests.gpu.launch.fake_cuda import FakeCuda, driver_of
from tirlower.diagnostics import CodegenError, DeviceError, TirError
from tirlower.driver.gpu_host import host_code
from tirlower.gpu.artifact import DeviceModule, KernelImage, KernelParam, TensorMapSpec
from tirlower.gpu.launch import GpuKernel
from tirlower.ir import DataType, IRModule, PrimFunc
from tirlower.script import parse

NAMES = ("blockIdx.x", "blockIdx.y", "threadIdx.x", "tir.use_dyn_shared_memory")


class Recording(FakeCuda):
    """Launches are noted, and run nothing."""

    def __init__(self) -> None:
        super().__init__()
        self.shapes: list[tuple[int, ...]] = []

    def cuLaunchKernel(self, function: Any, *rest: Any) -> int:
        self.shapes.append(rest[:7])
        return 0

    def cuLaunchKernelEx(self, config: int, function: int, arguments: int, extra: int) -> int:
        words = (ctypes.c_uint32 * 14).from_address(config)
        self.shapes.append(tuple(words[:7]))
        return 0


def launching(params: str, launch: str, names: tuple[str, ...] = NAMES, **fields: Any) -> tuple[GpuKernel, Recording]:
    """A host function of one launch; ``launch`` are its extents, behind no argument or those of ``params``."""
    func: PrimFunc = parse(f"""
@T.prim_func
def f({params}):
    T.func_attr({{"global_symbol": "f"}})
    T.tvm_call_packed("k", {launch})
""")
    image = KernelImage("k", "k", fields.pop("given", ()), names, **fields)
    module, lowered, cuda = (
        DeviceModule(".version 8.0", "", "sm_90", {"k": image}),
        IRModule({"main": func}),
        Recording(),
    )
    cuda.kernels["k"] = (image, lowered)
    code = host_code(lowered, "main", module)
    return GpuKernel(func, lowered, code, module, driver=driver_of(cuda)), cuda


def test_shapes_of_every_width() -> None:
    kernel, cuda = launching("a: T.int8, b: T.uint32, c: T.int64, d: T.uint64", "a, b, c, d")
    kernel(5, 7, 32, 100)
    kernel(127, 2**31 - 1, 1024, 2**31 - 1)
    assert cuda.shapes == [(5, 7, 1, 32, 1, 1, 100), (127, 2**31 - 1, 1, 1024, 1, 1, 2**31 - 1)]
    for none in ((-1, 1, 1, 1), (1, 0, 1, 1), (1, 1, -(2**40), 1), (0, 2**32 - 1, 2**40, 1)):
        kernel(*none)
    assert len(cuda.shapes) == 2
    for beyond, shown in (
        ((1, 2**31, 1, 1), "grid (1, 2147483648, 1), block (1, 1, 1), 1 bytes"),
        ((1, 1, 2**40, 1), "block (1099511627776, 1, 1)"),
    ):
        with pytest.raises(DeviceError, match=r"kernel `k` has an extent of 2\*\*31 or more") as error:
            kernel(*beyond)
        assert shown in str(error.value)
    # The driver refuses such an amount: it is never taken for a smaller one.
    kernel(1, 1, 1, 2**32 + 5)
    kernel(1, 1, 1, 2**64 - 1)
    assert [shape[6] for shape in cuda.shapes[2:]] == [2**31 - 1] * 2


def test_a_grid_of_unsigned_numbers_beyond_the_signed_ones() -> None:
    kernel, cuda = launching("n: T.uint64", "n, 1, 1, 0")
    with pytest.raises(DeviceError, match=r"has an extent of 2\*\*31 or more"):
        kernel(2**63 + 1)
    kernel(0)
    kernel(9)
    assert cuda.shapes == [(9, 1, 1, 1, 1, 1, 0)]


def test_what_is_computed_from_data_wraps_under_another_name_too() -> None:
    body = '1, 1, 1, 0)\n    k: T.int32 = n + 1\n    T.tvm_call_packed("k", k * 65536 * 65536 + 3, 1, 1, 0'
    kernel, cuda = launching("n: T.int32", body)
    kernel(5)
    assert [shape[0] for shape in cuda.shapes] == [1, 3]


def test_constant_shapes_are_decided_when_they_are_compiled() -> None:
    kernel, cuda = launching("n: T.int32", "4, 2, 8, 0")
    assert "icmp sgt" not in kernel.host.text and [f.kind for f in kernel.host.failures.values()] == ["launch"]
    kernel(1)
    none, empty = launching("n: T.int32", "4, 0, 8, 0")
    none(1)
    assert cuda.shapes == [(4, 2, 1, 8, 1, 1, 0)] and not empty.shapes
    with pytest.raises(DeviceError, match=r"2\*\*31 or more"):
        launching("n: T.int32", "T.int64(4294967296), 1, 8, 0")[0](1)
    much, asked = launching("n: T.int32", "1, 1, 8, T.int64(4294967301)")
    much(1)
    assert asked.shapes == [(1, 1, 1, 8, 1, 1, 2**31 - 1)]


def test_grids_of_clusters_are_exact() -> None:
    names = ("clusterIdx.x", "clusterCtaIdx.x")
    kernel, cuda = launching("n: T.int64, m: T.int64", "n, m", names, cluster=(2, 1, 1))
    kernel(3, 2)
    assert cuda.shapes == [(6, 1, 1, 1, 1, 1, 0)]
    for n, m in ((2**30, 2), (2**40, 2**40), (2**62, 4)):
        with pytest.raises(DeviceError, match=r"2\*\*31 or more"):
            kernel(n, m)
    kernel(0, 2)
    assert len(cuda.shapes) == 1


def test_launches_share_memory() -> None:
    func = "\n    ".join(['T.tvm_call_packed("k", n, 1, 1, 1, 0)'] * 200)
    kernel, cuda = launching("n: T.int32", f'n, 1, 1, 1, 0)\n    {func}\n    T.tvm_call_packed("k", n, n, 1, 1, 0', given=(KernelParam(parse_var(), DataType("int32")),))  # fmt: skip
    kernel(2)
    assert len(cuda.shapes) == 202 and kernel.host.text.count("alloca") == 1


def parse_var() -> Any:
    func: PrimFunc = parse("@T.prim_func\ndef f(n: T.int32):\n    T.evaluate(0)\n")
    return func.params[0]


def test_elements_that_no_tensor_map_has() -> None:
    array: PrimFunc = parse('@T.prim_func\ndef f(A: T.handle("int16x2")):\n    T.evaluate(0)\n')
    given = (KernelParam(array.params[0], DataType("int16x2"), pointer=True),)
    spec = TensorMapSpec(0, DataType("int16x2"), 1, (8,), (array.params[0],), ())
    with pytest.raises(CodegenError, match=r"the tensor map of `A` in kernel `k` has elements of int16x2"):
        launching('A: T.handle("int16x2")', "A, 1, 1, 1, 0", given=given, tensor_maps=(spec,))


def test_launch_parameters_that_no_launch_has() -> None:
    with pytest.raises(TirError, match=r"launch parameter 'vthread', which no launch has"):
        launching("n: T.int32", "n", ("vthread",))
