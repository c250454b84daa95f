"""What code generation for a device hands to the launch: PTX, and for each kernel what a launch must know. Values only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, TypeAlias

from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Expr, Var

__all__ = ["DeviceModule", "KernelImage", "KernelParam", "ReportKind", "ReportSite", "TensorMapSpec"]

ReportKind: TypeAlias = Literal["assert", "bounds", "division"]

REPORT_WORDS = 8
"""32-bit words of a kernel's report: the site's number plus 1 (0: none), then blockIdx x y z, threadIdx x y z, unused."""


@dataclass(frozen=True, slots=True)
class KernelParam:
    """A parameter of a kernel, in the order of its PTX: the prim func's variable, a pointer or a scalar.

    ``dtype`` is the scalar's, or that of the elements pointed to.
    """

    var: Var
    dtype: DataType
    pointer: bool = False

    @property
    def name(self) -> str:
        """The variable's name."""
        return self.var.name


@dataclass(frozen=True, slots=True)
class TensorMapSpec:
    """A tensor map that a launch encodes (cuTensorMapEncodeTiled) and passes by value: 128 bytes aligned to 64.

    ``param`` is the index of the pointer parameter with the tensor's base address. ``box`` and ``extents`` stand
    outermost first; ``strides`` count elements, of all dimensions but the last, whose stride is 1. Extents and strides
    are expressions of the kernel's parameters. ``swizzle`` is 0, 32, 64 or 128 bytes. Out-of-range elements are zero.
    """

    param: int
    dtype: DataType
    rank: int
    box: tuple[int, ...]
    extents: tuple[Expr, ...]
    strides: tuple[Expr, ...]
    swizzle: int = 0


@dataclass(frozen=True, slots=True)
class ReportSite:
    """A place of a kernel that can fail at run time: what kind of failure, and the message that it gives."""

    kind: ReportKind
    text: str


@dataclass(frozen=True)
class KernelImage:
    """A kernel in PTX.

    ``symbol`` is its ``.entry``. Its parameters are ``params``; then one tensor map (``.align 64 .b8 [128]``) for each
    of ``tensor_maps``; then, where ``reports``, a pointer to :data:`REPORT_WORDS` 32-bit words: the first thread that
    fails swaps the number of its site (index into ``sites``, plus 1) into word 0 with a compare-and-swap from 0, writes
    its indices to words 1 to 6, and exits. ``launch_params`` are the attribute ``tir.kernel_launch_params``: the names
    of the extents that the host gives after the kernel's own arguments. ``static_shared`` counts bytes;
    ``dynamic_shared`` says whether the kernel declares dynamic shared memory. ``cluster`` is the shape of its clusters.
    """

    name: str
    symbol: str
    params: tuple[KernelParam, ...]
    launch_params: tuple[str, ...]
    tensor_maps: tuple[TensorMapSpec, ...] = ()
    static_shared: int = 0
    dynamic_shared: bool = False
    reports: bool = False
    sites: tuple[ReportSite, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True)
class DeviceModule:
    """The kernels of a module for one architecture: PTX, the LLVM IR it came from, and an image by each symbol."""

    ptx: str
    llvm: str
    arch: str
    kernels: Mapping[str, KernelImage]
