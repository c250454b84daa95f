"""PTX checked and measured by NVIDIA's assembler, where one is installed: registers, spills, shared memory.

Nothing needs it to run a kernel (the driver assembles PTX itself); it is how PTX is tested without a GPU. It comes with
the wheel ``nvidia-cuda-nvcc``, with Triton, or with a CUDA toolkit.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from tirlower.diagnostics import CodegenError, DeviceError

__all__ = ["Assembled", "assemble", "cubin_of", "find_ptxas", "find_tool"]

_VARIABLE = "TIRLOWER_PTXAS"


def _candidates(tool: str, variable: str) -> Iterator[Path]:
    named = os.environ.get(variable)
    if named:
        yield Path(named)
    for package, patterns in (
        ("nvidia", (f"cu*/bin/{tool}*", f"cuda_*/bin/{tool}*")),
        ("triton", (f"backends/nvidia/bin/{tool}",)),
    ):
        found = find_spec(package)
        for root in (found.submodule_search_locations if found is not None else None) or ():
            for pattern in patterns:
                yield from sorted(Path(root).glob(pattern))
    on_path = shutil.which(tool)
    if on_path:
        yield Path(on_path)


def find_tool(tool: str, variable: str) -> Path | None:
    """A program of NVIDIA's: the one that an environment variable names, a wheel's, or the one on the path; None without any."""
    return next((path for path in _candidates(tool, variable) if path.is_file() and os.access(path, os.X_OK)), None)


def find_ptxas() -> Path | None:
    """The assembler: the one that ``TIRLOWER_PTXAS`` names, a wheel's, or the one on the path; None without any."""
    return find_tool("ptxas", _VARIABLE)


@dataclass(frozen=True, slots=True)
class Assembled:
    """What the assembler says of one kernel: registers a thread, bytes spilled (stored and loaded), stack, and shared.

    ``remarks`` are its warnings, such as that a wait was put among the products of a warpgroup.
    """

    kernel: str
    registers: int
    spill_stores: int
    spill_loads: int
    stack: int
    shared: int
    barriers: int
    remarks: tuple[str, ...] = ()


_REMARK = re.compile(r"\bwarning\b|\(C\d+\)")  # numbered ones are of performance
_KERNEL = re.compile(r"Compiling entry function '([^']+)'")
_SPILLS = re.compile(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads")
_USED = re.compile(r"Used (\d+) registers")
_SHARED = re.compile(r"(\d+) bytes smem")
_BARRIERS = re.compile(r"used (\d+) barriers")


def cubin_of(ptx: str, arch: str) -> bytes:
    """The machine code of PTX for an architecture. Raises as :func:`assemble`."""
    return _assembled(ptx, arch)[1]


def _assembled(ptx: str, arch: str) -> tuple[str, bytes]:
    """The words of the assembler, and the machine code."""
    tool = find_ptxas()
    if tool is None:
        raise DeviceError(
            "there is no ptxas to assemble PTX with",
            help=f"install the wheel nvidia-cuda-nvcc, or name the assembler by {_VARIABLE}",
        )
    with tempfile.TemporaryDirectory(prefix="tirlower-ptx-") as folder:
        source, target = Path(folder) / "module.ptx", Path(folder) / "module.cubin"
        source.write_text(ptx)
        command = [str(tool), "-v", f"-arch={arch}", str(source), "-o", str(target)]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        code = target.read_bytes() if target.is_file() else b""
    said = done.stdout + done.stderr
    if done.returncode:
        raise CodegenError(
            f"ptxas refuses the PTX for {arch}",
            origin="ptxas",
            notes=[line for line in said.replace(str(source), "module.ptx").splitlines() if line.strip()][:10],
        )
    return said, code


def assemble(ptx: str, arch: str) -> dict[str, Assembled]:
    """Assemble PTX for an architecture; what each kernel needs.

    Raises:
        DeviceError: there is no assembler.
        CodegenError: the assembler refuses the PTX; the message has its words.
    """
    said, _ = _assembled(ptx, arch)
    out: dict[str, Assembled] = {}
    remarks = [line.strip() for line in said.splitlines() if _REMARK.search(line)]
    for part in re.split(r"(?=ptxas info\s*: Compiling entry function)", said):
        kernel, spills, used = _KERNEL.search(part), _SPILLS.search(part), _USED.search(part)
        if kernel is None or spills is None or used is None:
            continue
        shared, barriers = _SHARED.search(part), _BARRIERS.search(part)
        stack, stores, loads = (int(value) for value in spills.groups())
        out[kernel[1]] = Assembled(
            kernel[1],
            int(used[1]),
            stores,
            loads,
            stack,
            int(shared[1]) if shared else 0,
            int(barriers[1]) if barriers else 0,
            tuple(line for line in remarks if f"'{kernel[1]}'" in line or "'" not in line),
        )
    return out
