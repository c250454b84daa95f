"""What an NVPTX target means to the code generator: architecture, PTX version, floating-point rules."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Final

from tirlower.diagnostics import CodegenError, nearest_name
from tirlower.emit.compile import CompileOptions
from tirlower.emit.machine import Machine, fast_math_of
from tirlower.machine.target import Target, rounds_dots

__all__ = [
    "ARCHITECTURES",
    "DATA_LAYOUT",
    "LLVM_PTX",
    "arch_number",
    "architecture",
    "architecture_of",
    "compile_options",
    "machine_of",
    "max_shared",
    "ptx_version",
]

ARCHITECTURES: Final[dict[str, int]] = {
    "sm_75": 63, "sm_80": 70, "sm_86": 71, "sm_87": 74, "sm_89": 78, "sm_90": 78, "sm_90a": 80,
    "sm_100": 86, "sm_100a": 86, "sm_103": 88, "sm_103a": 88, "sm_120": 87, "sm_120a": 87, "sm_121": 88, "sm_121a": 88,
}  # fmt: skip
"""The architectures, each with the first PTX version (times 10) that has it (PTX ISA, release notes)."""

_SHARED_KB: Final = {
    75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99, 121: 99,
}  # fmt: skip
"""The shared memory that one block may have, by architecture (CUDA C++ programming guide, compute capabilities)."""

LLVM_PTX: Final = 90
"""The newest PTX version that LLVM writes."""

_DEFAULT_PTX: Final = 84
"""Without a driver to ask: CUDA 12.4's, the first with all instructions that we use up to sm_90a."""

DATA_LAYOUT: Final = "e-p3:32:32-p4:32:32-p5:32:32-p6:32:32-p7:32:32-i64:64-i128:128-i256:256-v16:16-v32:32-n16:32:64"
"""LLVM's own with short pointers: those into shared (3), constant (4), local (5) and tensor (6) memory have 32 bits."""


def architecture(target: Target) -> str:
    """The architecture of a target; ``sm_75`` where it names none.

    Raises:
        CodegenError: there is no such architecture.
    """
    arch = str(target.get("arch") or target.get("mcpu") or "sm_75")
    if arch not in ARCHITECTURES:
        near = nearest_name(arch, list(ARCHITECTURES))
        raise CodegenError(
            f"no code can be generated for the architecture {arch!r}",
            origin="target",
            help=f"did you mean {near!r}?" if near else f"use one of {', '.join(ARCHITECTURES)}",
        )
    return arch


def arch_number(arch: str) -> int:
    """The number of an architecture: 90 for ``sm_90a``.

    >>> arch_number("sm_90a")
    90
    """
    return int("".join(ch for ch in arch if ch.isdigit()))


def max_shared(arch: str) -> int:
    """The bytes of shared memory that a block may have on an architecture, static and dynamic together.

    >>> max_shared("sm_90a"), max_shared("sm_86")
    (232448, 101376)
    """
    return _SHARED_KB[arch_number(arch)] << 10


def architecture_of(archs: Sequence[str], ptx: int) -> str:
    """The architecture to write code of for some devices (``"sm_90"`` each) and a driver's PTX version, times ten.

    Devices of one kind get what that kind alone has, such as ``wgmma``; several get what the oldest of them runs, and
    devices that are not known what the newest known one before them runs.

    >>> architecture_of(["sm_90"], 84), architecture_of(["sm_90", "sm_80"], 84), architecture_of(["sm_110"], 90)
    ('sm_90a', 'sm_80', 'sm_103')
    """
    have = min(map(arch_number, archs))
    alone = f"sm_{have}a"
    if len(set(archs)) == 1 and ARCHITECTURES.get(alone, ptx + 1) <= ptx:
        return alone
    plain = {arch_number(name): first for name, first in ARCHITECTURES.items() if name[-1].isdigit()}
    return f"sm_{max((n for n, first in plain.items() if n <= have and first <= ptx), default=min(plain))}"


def ptx_version(arch: str, wanted: int = 0, driver: int | None = None) -> int:
    """The PTX version (times 10) to write: the lesser of the driver's and LLVM's, but one that has the architecture.

    ``wanted`` is the target's own ``ptx``, 0 for none; ``driver`` what the driver takes, None where there is none.

    >>> ptx_version("sm_80"), ptx_version("sm_80", driver=75), ptx_version("sm_100", driver=120)
    (84, 75, 90)

    Raises:
        CodegenError: the version asked for, or the driver's, does not have the architecture.
    """
    needed = ARCHITECTURES[arch]
    version = wanted or (max(_DEFAULT_PTX, needed) if driver is None else min(driver, LLVM_PTX))
    if not needed <= version <= LLVM_PTX:
        raise CodegenError(
            f"PTX {version / 10} cannot be written for {arch}",
            origin="target",
            help=f"use a version from {needed / 10} (the first with {arch}) to {LLVM_PTX / 10} (LLVM's newest)",
        )
    return version


@functools.lru_cache(maxsize=64)
def machine_of(target: Target) -> Machine:
    """The machine that a target of kind ``nvptx`` or ``cuda`` describes: ``-arch=sm_90a``, ``-ptx=84``.

    Raises:
        CodegenError: another kind of target, an unknown architecture, or a PTX version without it.
    """
    if target.kind not in ("nvptx", "cuda"):
        raise CodegenError(
            f"the GPU code generator does not make code for target {str(target)!r}",
            origin="target",
            help="use a target of kind 'nvptx'",
        )
    arch = architecture(target)
    version = ptx_version(arch, target.get("ptx", 0))
    text = f"+ptx{version}"
    return Machine(
        "nvptx64-nvidia-cuda",
        arch,
        text,
        frozenset(["fma", "fullfp16", *(["bf16"] if arch_number(arch) >= 80 else [])]),
        fast_math_of(target),
        rounds_dots(target),
        bool(target.get("fast-vector-math", False) or target.get("fast-math", False)),
        128,
        1,
        target.get("opt-level", 3),
    )


def compile_options(target: Target) -> CompileOptions:
    """How LLVM is to compile a module generated for a target.

    Loops are not vectorized: threads are the vectors of a GPU, and explicit vectors are kept.
    """
    machine = machine_of(target)
    return CompileOptions(
        machine.cpu,
        machine.feature_text,
        machine.triple,
        machine.opt_level,
        loop_vectorize=False,
        loop_interleave=False,
        slp_vectorize=False,
    )
