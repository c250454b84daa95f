"""The driver as a library of C: the arguments of each function arrive as C reads them. Needs a C compiler, no GPU."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import device_module, split
from tirlower.diagnostics import DeviceError
from tirlower.driver.gpu_host import host_code
from tirlower.gpu.launch import GpuKernel, Stream, driver, open_driver, to_device

COMPILER = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler here")

# Handles have more than 32 bits, so that an argument without its type would be cut; each function refuses others.
SOURCE = r"""
#include <stdlib.h>
#include <string.h>
typedef unsigned long long u64; typedef unsigned u;
#define CONTEXT ((void*)0x7f0000001234)
#define MODULE ((void*)0x7e0000000001)
#define FUNCTION ((void*)0x7d0000000002)
#define STREAM ((void*)0x7c0000000003)
#define EVENT ((void*)0x7b0000000004)
static void *current;
int cuInit(u flags) { return flags; }
int cuDriverGetVersion(int *v) { *v = 12040; return 0; }
int cuGetErrorName(int code, const char **s) { *s = "CUDA_ERROR_OF_STUB"; return 0; }
int cuGetErrorString(int code, const char **s) { *s = "words of the stub"; return 0; }
int cuDeviceGetCount(int *n) { *n = 1; return 0; }
int cuDeviceGet(int *d, int ordinal) { *d = ordinal; return 0; }
int cuDeviceGetName(char *s, int n, int d) { strncpy(s, "Stub", n); return 0; }
int cuDeviceGetAttribute(int *o, int a, int d) { *o = a == 75 ? 9 : a == 76 ? 0 : a == 115 ? 1 : 2048; return d; }
int cuDevicePrimaryCtxRetain(void **c, int d) { *c = CONTEXT; return d; }
int cuCtxGetCurrent(void **c) { *c = current; return 0; }
int cuCtxSynchronize(void) { return current != CONTEXT; }
int cuCtxSetCurrent(void *c) { current = c; return c != CONTEXT; }
int cuModuleLoadDataEx(void **m, const char *text, u n, int *options, void **values) {
  if (n != 4 || options[0] != 3 || (size_t)values[1] < 1000 || strncmp(text, ".version", 8)) return 1;
  strcpy((char *)values[0], "words of the compiler"); *m = MODULE; return 0; }
int cuModuleUnload(void *m) { return m != MODULE; }
int cuModuleGetFunction(void **f, void *m, const char *name) {
  *f = FUNCTION; return m != MODULE || strcmp(name, "vector_add_kernel"); }
int cuFuncGetAttribute(int *o, int a, void *f) { *o = 100 + a; return f != FUNCTION; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *o, void *f, int threads, size_t shared) {
  *o = threads + (int)shared; return f != FUNCTION; }
int cuMemAllocAsync(u64 *p, size_t n, void *s) { return posix_memalign((void **)p, 256, n) || (s && s != STREAM); }
int cuMemFreeAsync(u64 p, void *s) { if (s && s != STREAM) return 1; free((void *)p); return 0; }
int cuMemcpyHtoDAsync_v2(u64 d, void *h, size_t n, void *s) { memcpy((void *)d, h, n); return 0; }
int cuMemcpyDtoHAsync_v2(void *h, u64 d, size_t n, void *s) { memcpy(h, (void *)d, n); return 0; }
int cuStreamSynchronize(void *s) { return s && s != STREAM; }
int cuStreamCreate(void **s, u flags) { *s = STREAM; return flags != 1; }
int cuStreamDestroy_v2(void *s) { return s != STREAM; }
int cuEventCreate(void **e, u flags) { *e = EVENT; return 0; }
int cuEventRecord(void *e, void *s) { return e != EVENT || (s && s != STREAM); }
int cuStreamWaitEvent(void *s, void *e, u flags) { return e != EVENT || (s && s != STREAM) || flags; }
int cuEventSynchronize(void *e) { return e != EVENT; }
int cuEventElapsedTime(float *ms, void *a, void *b) { *ms = 1.5f; return a != EVENT || b != EVENT; }
int cuEventDestroy_v2(void *e) { return e != EVENT; }
int cuLaunchKernel(void *f, u gx, u gy, u gz, u bx, u by, u bz, u shared, void *s, void **a, void **extra) {
  if (current != CONTEXT || f != FUNCTION || gy * gz * by * bz != 1 || shared || extra) return 77;
  if (s && s != STREAM) return 78;
  float *A = *(float **)a[0], *B = *(float **)a[1], *C = *(float **)a[2];
  int n = *(int *)a[3];
  for (u i = 0; i < gx * bx; i++) if ((int)i < n) C[i] = A[i] + B[i];
  return 0; }
"""


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("stub")
    (folder / "stub.c").write_text(SOURCE)
    made = folder / "libstub.so"
    assert COMPILER is not None
    subprocess.run([COMPILER, "-shared", "-fPIC", "-w", "-o", made, folder / "stub.c"], check=True, cwd=folder)
    return made


@pytest.fixture(autouse=True)
def stub(library: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv(driver.LIBRARY_VARIABLE, str(library))
    driver._opened.cache_clear()
    yield
    driver._opened.cache_clear()


def test_a_launch_through_a_c_library() -> None:
    lowered = split(programs.vector_add)
    module = device_module(lowered)
    (image,) = module.kernels.values()
    assert [p.name for p in image.params] == ["A", "B", "C", "n"]
    kernel = GpuKernel(programs.vector_add, lowered, host_code(lowered, "main", module), module, outputs=("C",))
    a, b = np.random.default_rng(1).random((2, 1000), np.float32)
    A, B = to_device(a), to_device(b)
    np.testing.assert_array_equal(kernel(A, B).numpy(), a + b)
    stream = Stream()
    np.testing.assert_array_equal(kernel(A, B, stream=stream).numpy(), a + b)
    first, last = stream.record(), stream.record()
    last.wait()
    assert last.ms_since(first) == 1.5
    one = kernel.report().kernels[0]
    assert (one.registers, one.local_bytes, one.static_shared, one.max_threads, one.blocks) == (104, 103, 101, 100, 32)
    assert kernel.report().log == "words of the compiler" and "Stub, sm_90" in str(kernel.report())
    with pytest.raises(DeviceError, match=r"CUDA_ERROR_OF_STUB \(78\): words of the stub"):
        GpuKernel(programs.vector_add, lowered, kernel.host, module)(A, B, to_device(a), stream=99)


def test_what_the_library_lacks() -> None:
    assert open_driver().ptx_version == (8, 4)
    with pytest.raises(DeviceError, match=r"no function cuTensorMapEncodeTiled"):
        open_driver().function("cuTensorMapEncodeTiled")
