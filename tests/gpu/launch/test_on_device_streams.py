"""The order of streams on a real GPU: a kernel that spins for some milliseconds, and what may not overtake it.

Each test here replays a fault that the launch once had; :mod:`tests.gpu.launch.test_order` has it without a device.
"""

from __future__ import annotations

import dataclasses
import gc
from typing import Any

import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import device_module, split
from tests.gpu.launch.foreign import Dlpack, Interface
from tests.gpu.on_device.device import needs_a_device
from tirlower.driver.gpu_host import host_code
from tirlower.gpu.launch import GpuKernel, Stream, device_of, empty, to_device

pytestmark = needs_a_device

N = 1 << 18
SLOW_MS = 30

# C[i] = A[i] + B[i], with both read and C written only after the time has passed.
SLOW_ADD = """
.version 6.5
.target sm_70
.address_size 64
.visible .entry vector_add_kernel(%s)
{
  .reg .pred %%p; .reg .b32 %%r<6>; .reg .b64 %%d<8>; .reg .f32 %%f<4>;
  mov.u64 %%d5, %%globaltimer;
  add.u64 %%d5, %%d5, %d;
again:
  mov.u64 %%d6, %%globaltimer;
  setp.lt.u64 %%p, %%d6, %%d5;
  @%%p bra again;
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


def adding(ms: float, **options: Any) -> GpuKernel:
    """The kernel, each of whose blocks takes so many milliseconds."""
    lowered = split(programs.vector_add)
    module = device_module(lowered)
    (image,) = module.kernels.values()
    params = ", ".join(f".param .{'u64' if p.pointer else 'u32'} {p.name}" for p in image.params)
    module = dataclasses.replace(module, ptx=SLOW_ADD % (params, int(ms * 1e6)))
    return GpuKernel(programs.vector_add, lowered, host_code(lowered, "main", module), module, **options)


class Bed:
    """A slow kernel and a fast one, both loaded, so that no compilation is in between."""

    def __init__(self) -> None:
        # All blocks of N elements do not run at once everywhere: a few waves of them take a part of the time each.
        self.slow, self.fast = adding(SLOW_MS / 4), adding(0)
        self.making = adding(SLOW_MS / 4, outputs=("C",))
        warm = [self.array(0) for _ in range(3)]
        self.slow(*warm)
        self.fast(*warm)
        self.making(*warm[:2]).numpy()

    def array(self, value: float) -> Any:
        return to_device(np.full(N, value, np.float32))


@pytest.fixture(scope="module")
def bed() -> Bed:
    return Bed()


def is_full(array: Any, value: float, **options: Any) -> bool:
    found = array.numpy(**options)
    return bool((found == value).all())


def test_the_kernel_is_slow(bed: Bed) -> None:
    a, b, c, s = bed.array(1), bed.array(2), bed.array(0), Stream()
    first = s.record()
    bed.slow(a, b, c, stream=s)
    last = s.record()
    last.wait()
    assert last.ms_since(first) > SLOW_MS / 8


def test_a_copy_to_the_host_waits_for_the_stream_that_wrote(bed: Bed) -> None:
    a, b, c = bed.array(1), bed.array(2), bed.array(0)
    bed.slow(a, b, c, stream=Stream())
    assert is_full(c, 3)
    bed.slow(c, b, a, stream=Stream())
    assert is_full(a, 5, stream=Stream())


def test_a_copy_waits_where_the_array_was_made_in_another_stream(bed: Bed) -> None:
    c = empty(N, stream=Stream())
    bed.slow(bed.array(1), bed.array(2), c)
    assert is_full(c, 3)


def test_a_copy_to_the_device_waits_for_those_who_read(bed: Bed) -> None:
    a, b, c = bed.array(1), bed.array(2), bed.array(0)
    bed.slow(a, b, c, stream=Stream())
    a.copy_from(np.full(N, 9, np.float32))
    assert is_full(c, 3) and is_full(a, 9)


def test_memory_is_given_back_after_its_last_use(bed: Bed) -> None:
    a, c, s = bed.array(1), bed.array(0), Stream()
    x = bed.array(5)
    bed.slow(a, x, c, stream=s)
    del x
    # The pool hands the memory out again, to be written at once in another stream.
    others = [bed.array(100 + i) for i in range(4)]
    assert is_full(c, 6) and all(is_full(other, 100 + i) for i, other in enumerate(others))


def test_memory_that_two_streams_read_is_given_back_after_both(bed: Bed) -> None:
    x, results = bed.array(5), [bed.array(0) for _ in range(2)]
    for c in results:
        bed.slow(x, x, c, stream=Stream())
    del x
    others = [bed.array(100 + i) for i in range(4)]
    assert all(is_full(c, 10) for c in results)
    assert all(is_full(other, 100 + i) for i, other in enumerate(others))


def test_a_launch_in_a_stream_waits_for_the_default_stream(bed: Bed) -> None:
    a, b, c, d = bed.array(1), bed.array(2), bed.array(0), bed.array(0)
    bed.slow(a, b, c)
    bed.fast(c, c, d, stream=Stream())
    assert is_full(d, 6)


def test_the_default_stream_waits_for_a_launch_in_another(bed: Bed) -> None:
    a, b, c, d = bed.array(1), bed.array(2), bed.array(0), bed.array(0)
    bed.slow(a, b, c, stream=Stream())
    bed.fast(c, c, d)
    assert is_full(d, 6)


def test_a_launch_waits_for_readers_of_what_it_writes(bed: Bed) -> None:
    a, b, c = bed.array(1), bed.array(2), bed.array(0)
    bed.slow(a, b, c, stream=Stream())
    bed.fast(b, b, a, stream=Stream())
    assert is_full(c, 3) and is_full(a, 4)


@pytest.mark.parametrize("kind", [Interface, Dlpack])
def test_arrays_of_others_may_be_written_in_the_default_stream(bed: Bed, kind: Any) -> None:
    a, b, c, d = bed.array(1), bed.array(2), bed.array(0), bed.array(0)
    theirs = kind(c)
    bed.slow(a, b, c)
    bed.fast(theirs, b, d, stream=Stream())
    assert is_full(d, 5)


def test_the_stream_may_be_gone_before_its_arrays(bed: Bed) -> None:
    a, b = bed.array(1), bed.array(2)
    c = bed.making(a, b, stream=Stream())
    gc.collect()
    others = [Stream() for _ in range(4)]
    d = bed.making(c, c, stream=others[0])
    assert is_full(c, 3) and is_full(d, 6)
    del c, d
    e = bed.array(0)
    bed.slow(a, b, e, stream=Stream())
    gc.collect()
    assert is_full(e, 3)


def test_the_interface_is_behind_the_stream_that_wrote(bed: Bed) -> None:
    a, b, c = bed.array(1), bed.array(2), bed.array(0)
    driver = device_of().driver
    for stream in (Stream(), None):
        bed.slow(a, b, c, stream=stream)
        told: Any = c.__cuda_array_interface__
        out = np.zeros(N, np.float32)
        named = 0 if told["stream"] == 1 else told["stream"]
        driver.copy_to_host(out.ctypes.data, told["data"][0], out.nbytes, named)
        driver.synchronize_stream(named)
        assert (out == 3).all()
        bed.fast(b, b, c)


def test_a_kernel_that_is_dropped_outlives_its_launches(bed: Bed) -> None:
    c = bed.array(0)
    kernel = adding(SLOW_MS / 4)
    kernel(bed.array(1), bed.array(2), c, stream=Stream())
    del kernel
    gc.collect()
    assert is_full(c, 3)


def test_another_librarys_context_is_put_aside(bed: Bed) -> None:
    a, b, c = bed.array(1), bed.array(2), bed.array(0)
    device = device_of()
    for stream in (None, Stream(), None):
        device.driver.set_context(0)  # as a library does that takes its own away
        bed.fast(a, b, c, stream=stream)
        assert is_full(c, 3)
        bed.fast(a, a, c)


def test_results_go_from_stream_to_stream(bed: Bed) -> None:
    a, b, streams = bed.array(1), bed.array(2), [Stream() for _ in range(3)]
    making = adding(0, outputs=("C",))
    kept: list[Any] = []
    for i in range(300):
        kept = [*kept[-2:], making(a, b if not kept else kept[-1], stream=streams[i % 3])]
    assert is_full(kept[-1], 2 + 300)
