"""What code generation hands to the launch: PTX, for each kernel what a launch must know, and the host functions that
launch them as machine code. Values only.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, Literal, TypeAlias

from tirlower.call.errors import ErrorSite
from tirlower.ir.dtype import Array, DataType
from tirlower.ir.expr import Expr, Var
from tirlower.ir.func import PrimFunc

__all__ = [
    "DeviceModule",
    "Failure",
    "FailureKind",
    "HostCode",
    "HostEntry",
    "KernelImage",
    "KernelParam",
    "ReportKind",
    "ReportSite",
    "Service",
    "TensorMapSpec",
]

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
    its indices to words 1 to 6, and exits, or, where ``traps``, ends the launch and loses the context. ``launch_params`` are the attribute ``tir.kernel_launch_params``: the names
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
    traps: bool = False
    sites: tuple[ReportSite, ...] = ()
    cluster: tuple[int, int, int] = (1, 1, 1)


@dataclass(frozen=True)
class DeviceModule:
    """The kernels of a module for one architecture: PTX, the LLVM IR it came from, and an image by each symbol."""

    ptx: str
    llvm: str
    arch: str
    kernels: Mapping[str, KernelImage]


# -- host functions ------------------------------------------------------------------------------------------------------


class Service(enum.IntEnum):
    """The places of the driver's functions in the table of addresses that a host function is given.

    Behind them stand the handles of the module's kernels in their order, then the constants that kernels read.
    """

    LAUNCH = 0
    LAUNCH_CLUSTERS = 1
    ALLOCATE = 2
    FREE = 3
    ENCODE_MAP = 4
    SYNCHRONIZE = 5
    GET_CONTEXT = 6
    SET_CONTEXT = 7
    RECORD = 8
    WAIT = 9
    CONTEXT = 10
    """No function: the context of the device."""


NO_OUTPUT: Final = -1
"""The code in the record of an error where an output could not be allocated; its values are the result and the bytes."""

SCRATCH_REPORT: Final = 0
"""Where the memory of a call has the address of the report that its kernels share, 0 where none reports."""
SCRATCH_MAPS: Final = 64
"""Where the tensor maps of a call's memory begin: a map, what it was made of, and whether it is there."""
MAP_SLOT: Final = 256
MAP_KEY: Final = 128
MAP_MADE: Final = 208

FailureKind: TypeAlias = Literal["extent", "launch", "wait", "report", "map", "allocate", "free"]


@dataclass(frozen=True, slots=True)
class Failure:
    """What a host function tells when the driver refuses: of which kernel, and of which of its tensor maps.

    The values of its record: the launch shape (seven numbers) for ``extent``; the driver's result and the stream before it
    for ``launch`` and ``wait``; the site, the block and the thread before it for ``report``. For ``map`` the result, the
    address, the extents and the strides; for ``allocate`` the result and the bytes; for ``free`` the result.
    """

    kind: FailureKind
    kernel: str = ""
    map: int = 0


@dataclass(frozen=True, slots=True)
class HostEntry:
    """Addresses of machine code, and what holds it: the host function's; and the same in every module, those that give
    memory back (table, address, stream) and order two streams (table, event, the one before, the one after).

    ``native`` is that of the function that Python calls for all kernels, ``native_give`` that for arrays at their end; both
    live as long as the process, and are 0 where there are none.
    """

    call: int
    give: int
    order: int
    owner: object
    native: int = 0
    native_give: int = 0


@dataclass(frozen=True)
class HostCode:
    """A host function compiled for this machine's processor, bound to no device.

    ``func`` is the function after LowerDeviceKernelLaunch, ``text`` its LLVM IR. ``link`` gives its machine code, compiled
    at the first call. The code, exported as ``symbol``, takes the function's arguments,
    a table (:class:`Service`), the stream, the memory of the call (``scratch`` bytes, aligned to 64) and the values of the
    function's symbols in slots of 64 bits, as :class:`~tirlower.call.slowpath.PackedKernel` does. Behind these stands how
    many outputs it is to allocate, and the slot of each, which has its bytes. ``failures`` are those of ``errors`` that the
    driver knows more of.
    """

    func: PrimFunc
    text: str
    symbol: str
    returns: str | None
    errors: tuple[ErrorSite, ...]
    failures: Mapping[int, Failure]
    services: frozenset[Service]
    constants: tuple[Array, ...]
    scratch: int
    reports: bool
    link: Callable[[], HostEntry]
