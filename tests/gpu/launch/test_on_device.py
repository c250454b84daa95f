"""The launch on a real GPU, where one is at hand: kernels in PTX written here, so that only the launch is under test."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import device_module, split
from tests.gpu.on_device.device import needs_a_device
from tirlower.diagnostics import DeviceError
from tirlower.driver.gpu_host import host_code
from tirlower.gpu.launch import Event, GpuKernel, Stream, device_of, to_device

VECTOR_ADD = """
.version 6.5
.target sm_70
.address_size 64
.visible .entry vector_add_kernel(%s)
{
  .reg .pred %%p; .reg .b32 %%r<6>; .reg .b64 %%d<8>; .reg .f32 %%f<4>;
  mov.u32 %%r1, %%ctaid.x; mov.u32 %%r2, %%ntid.x; mov.u32 %%r3, %%tid.x;
  mad.lo.s32 %%r4, %%r1, %%r2, %%r3;
  ld.param.u32 %%r5, [n];
  setp.ge.s32 %%p, %%r4, %%r5;
  @%%p bra done;
  ld.param.u64 %%d1, [A]; ld.param.u64 %%d2, [B]; ld.param.u64 %%d3, [C];
  mul.wide.s32 %%d4, %%r4, 4;
  add.s64 %%d1, %%d1, %%d4; add.s64 %%d2, %%d2, %%d4; add.s64 %%d3, %%d3, %%d4;
  ld.global.f32 %%f1, [%%d1]; ld.global.f32 %%f2, [%%d2];
  add.f32 %%f3, %%f1, %%f2;
  st.global.f32 [%%d3], %%f3;
done:
  ret;
}
"""


pytestmark = needs_a_device


def vector_add(**options: Any) -> GpuKernel:
    lowered = split(programs.vector_add)
    module = device_module(lowered)
    (image,) = module.kernels.values()
    params = ", ".join(f".param .{'u64' if p.pointer else 'u32'} {p.name}" for p in image.params)
    module = dataclasses.replace(module, ptx=VECTOR_ADD % params)
    return GpuKernel(programs.vector_add, lowered, host_code(lowered, "main", module), module, **options)


@pytest.mark.parametrize("n", [1, 33, 100_000])
def test_vector_add(n: int) -> None:
    kernel = vector_add(outputs=("C",))
    rng = np.random.default_rng(n)
    a, b = rng.random(n, np.float32), rng.random(n, np.float32)
    np.testing.assert_array_equal(kernel(to_device(a), to_device(b)).numpy(), a + b)


def test_streams_events_and_the_report() -> None:
    kernel = vector_add(outputs=("C",))
    stream = Stream()
    a = to_device(np.ones(1 << 20, np.float32), stream=stream)
    first = stream.record()
    c = kernel(a, a, stream=stream)
    last = stream.record()
    last.wait()
    assert last.ms_since(first) > 0 and (c.numpy() == 2).all()
    report = kernel.report().kernels[0]
    assert report.registers and report.blocks and report.occupancy and 0 < report.occupancy <= 1
    assert Event(device_of()).wait() is None


def test_a_mistake_in_ptx_shows_the_compilers_words() -> None:
    kernel = vector_add()
    kernel.module = dataclasses.replace(kernel.module, ptx=kernel.module.ptx.replace("add.f32 ", "add.f33 "))
    with pytest.raises(DeviceError, match=r"(?s)PTX failed.*f33"):
        kernel.load()
