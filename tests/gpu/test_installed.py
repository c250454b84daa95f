"""The devices that are here, told by stand-ins of NVML and of the driver in C; a build starts no driver in its process."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.gpu.launch.test_c_library import COMPILER
from tirlower.gpu import installed as module
from tirlower.gpu.installed import Installed, by_child, by_nvml, installed

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="there is no C compiler for the stand-ins")

NVML = """
static int open;
int nvmlInit_v2(void) { open += 1; return 0; }
int nvmlShutdown(void) { open -= 1; return 0; }
int stillOpen(void) { return open; }
int nvmlSystemGetCudaDriverVersion_v2(int *out) { *out = 12080; return !open; }
int nvmlDeviceGetCount_v2(unsigned *out) { *out = COUNT; return !open; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) { *out = (void *)(0x100000000L + i); return !open; }
int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
  static int majors[] = {9, 9, 8}, minors[] = {0, 0, 9};
  int i = (int)((long)device - 0x100000000L);
  *major = majors[i]; *minor = minors[i]; return FAILS; }
"""
CUDA = """
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
int cuInit(unsigned flags) {
  FILE *log = fopen(getenv("STARTED"), "a");
  fprintf(log, "%d\\n", getpid()); fclose(log); return FAILS; }
int cuDriverGetVersion(int *out) { *out = 12040; return 0; }
int cuDeviceGetCount(int *out) { *out = 1; return 0; }
int cuDeviceGet(int *out, int ordinal) { *out = ordinal + 7; return 0; }
int cuDeviceGetAttribute(int *out, int attribute, int device) {
  *out = attribute == 75 ? 9 : attribute == 76 ? 0 : -1; return device != 7; }
"""


def library(folder: Path, source: str, **macros: int) -> str:
    made = folder / f"stub{len(list(folder.iterdir()))}.so"
    text = "".join(f"#define {name} {value}\n" for name, value in macros.items()) + source
    assert COMPILER is not None
    command = [COMPILER, "-shared", "-fPIC", "-w", "-x", "c", "-", "-o", str(made)]
    subprocess.run(command, input=text, text=True, check=True, cwd=folder)
    return str(made)


@pytest.fixture(autouse=True)
def fresh(tmp_path, monkeypatch):
    monkeypatch.setenv("STARTED", str(tmp_path / "started"))
    monkeypatch.delenv("TIRLOWER_LIBCUDA", raising=False)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    module._installed.cache_clear()
    yield
    module._installed.cache_clear()


def started(tmp_path: Path) -> list[int]:
    """The processes in which the driver was started."""
    log = tmp_path / "started"
    return [int(line) for line in log.read_text().split()] if log.exists() else []


@needs_compiler
def test_nvml_is_asked_and_left(tmp_path, monkeypatch):
    nvml = library(tmp_path, NVML, COUNT=2, FAILS=0)
    assert by_nvml(nvml) == Installed(("sm_90", "sm_90"), 12080)
    assert module.ctypes.CDLL(nvml).stillOpen() == 0
    assert by_nvml(library(tmp_path, NVML, COUNT=2, FAILS=1)) is None  # and left all the same
    assert by_nvml(library(tmp_path, NVML, COUNT=0, FAILS=0)) is None
    assert by_nvml(library(tmp_path, "int nvmlInit_v2(void) { return 9; }")) is None
    assert by_nvml(str(tmp_path / "none.so")) is None
    monkeypatch.setattr(module, "_NVML", nvml)
    assert installed() == Installed(("sm_90", "sm_90"), 12080)
    assert started(tmp_path) == []


@needs_compiler
def test_the_driver_is_started_in_a_child(tmp_path, monkeypatch):
    cuda = library(tmp_path, CUDA, FAILS=0)
    assert by_child(cuda) == Installed(("sm_90",), 12040)
    assert len(started(tmp_path)) == 1 and os.getpid() not in started(tmp_path)
    assert by_child(library(tmp_path, CUDA, FAILS=100)) is None
    assert by_child(str(tmp_path / "none.so")) is None
    monkeypatch.setattr(module, "_PROGRAM", "import time; time.sleep(60)")
    monkeypatch.setattr(module, "_CHILD_SECONDS", 0.1)
    assert by_child(cuda) is None
    monkeypatch.setattr(sys, "executable", "")
    assert by_child(cuda) is None


@needs_compiler
def test_one_of_several_devices(tmp_path, monkeypatch):
    """NVML knows no choice among devices of several kinds: the driver is asked where there is one."""
    monkeypatch.setattr(module, "_NVML", library(tmp_path, NVML, COUNT=3, FAILS=0))
    monkeypatch.setattr(module, "library_name", lambda: library(tmp_path, CUDA, FAILS=0))
    assert installed() == Installed(("sm_90", "sm_90", "sm_89"), 12080)
    assert started(tmp_path) == []
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "1")
    assert installed() == Installed(("sm_90",), 12040)
    assert len(started(tmp_path)) == 1


def test_without_a_driver(monkeypatch):
    monkeypatch.setenv("TIRLOWER_LIBCUDA", "/nowhere/libcuda.so.1")
    assert installed() is None


BUILD = """
import os
import tirlower as tl
from tirlower.gpu.launch import driver
from tirlower.script import parse
driver.Driver.__init__ = None  # no driver may be opened
func = parse('''
@T.prim_func
def f(A: T.Buffer((64,), "float32")):
    for tx in T.thread_binding(64, thread="threadIdx.x"):
        A[tx] = A[tx] * T.float32(2)
''')
kernel = tl.build(func, target="nvptx")
print(kernel.target.get("arch"), kernel.target.get("ptx"), os.getpid())
"""


@needs_compiler
def test_a_build_leaves_its_process_without_cuda(tmp_path):
    """In a fresh process: the architecture is the device's, all of it, and the driver was started in another process."""
    environment = {**os.environ, "TIRLOWER_LIBCUDA": library(tmp_path, CUDA, FAILS=0)}
    done = subprocess.run([sys.executable, "-c", BUILD], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    arch, ptx, process = done.stdout.split()
    assert (arch, ptx) == ("sm_90a", "84")
    assert len(started(tmp_path)) == 1 and int(process) not in started(tmp_path)
