"""Whether a function's kernels keep within the limits of a device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tirlower.analysis.arguments import the_function
from tirlower.analysis.memory_use import allocation_bytes
from tirlower.diagnostics import ArgumentValueError, nearest_name
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.stmt import AllocBuffer, BufferStore, For, ForKind

__all__ = ["GPU_CONSTRAINTS", "gpu_code_errors", "verify_gpu_code"]

GPU_CONSTRAINTS = (
    "max_local_memory_per_block",
    "max_shared_memory_per_block",
    "max_threads_per_block",
    "max_thread_x",
    "max_thread_y",
    "max_thread_z",
    "max_vthread",
    "max_vector_bytes",
    "max_kernels",
)
"""The limits that can be asked for; memory and vectors in bytes."""


@dataclass
class _Kernel:
    """What one kernel uses."""

    threads: dict[str, int | None] = field(default_factory=dict)
    vthreads: int = 1
    memory: dict[str, int] = field(default_factory=dict)
    counted: set[Var] = field(default_factory=set)


def _memory_kind(scope: str) -> str | None:
    if scope == "local":
        return "local"
    return "shared" if scope in ("shared", "shared.dyn") else None


class _Verifier(Visitor):
    """Walks the kernels: each outermost loop over a thread axis is one."""

    def __init__(self, limits: Mapping[str, int]) -> None:
        self.limits = limits
        self.errors: dict[str, None] = {}
        self.kernel: _Kernel | None = None
        self.kernels = 0
        self.allocated: dict[Var, tuple[str, int]] = {}

    def limit(self, name: str, value: int | None, what: str) -> None:
        """Note an error where a value is over its limit, or not known."""
        most = self.limits.get(name)
        if most is None:
            return
        if value is None:
            self.errors.setdefault(f"{what} is not constant, so {name}={most} cannot be checked")
        elif value > most:
            self.errors.setdefault(f"{what} is {value}, over {name}={most}")

    def visit_For(self, op: For) -> None:
        """A thread axis; the outermost one begins a kernel."""
        if op.kind is not ForKind.THREAD_BINDING:
            self.generic(op)
            return
        outer = self.kernel
        if outer is None:
            self.kernels += 1
            self.kernel = _Kernel()
        kernel = self.kernel
        assert kernel is not None
        tag = op.thread_tag or ""
        extent = op.extent.value if isinstance(op.extent, IntImm) else None
        if tag.startswith("vthread"):
            self.limit("max_vthread", extent, f"the extent of {tag}")
        elif tag.startswith("threadIdx."):
            known = kernel.threads.setdefault(tag, extent)
            if known != extent:
                self.errors.setdefault(f"the extent of {tag} is {known} and {extent} in one kernel")
            self.limit(f"max_thread_{tag[-1]}", extent, f"the extent of {tag}")
        self.generic(op)
        if outer is None:
            self.finish(kernel)
            self.kernel = None

    def finish(self, kernel: _Kernel) -> None:
        """Check the totals of a kernel."""
        threads: int | None = 1
        for extent in kernel.threads.values():
            threads = None if threads is None or extent is None else threads * extent
        self.limit("max_threads_per_block", threads, "the number of threads in a block")
        for kind in ("local", "shared"):
            self.limit(f"max_{kind}_memory_per_block", kernel.memory.get(kind, 0), f"the {kind} memory in bytes")

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        """Memory of the kernel around, or of each kernel that uses it."""
        self.generic(op)
        kind = _memory_kind(op.buffer.scope)
        if kind is not None:
            self.allocated[op.buffer.data] = (kind, allocation_bytes(op.buffer))
            self.use(op.buffer)
        self.vector(op.buffer.dtype, f"buffer {op.buffer.name}")

    def use(self, buffer: Buffer) -> None:
        """Count an allocation for the kernel that it is used in, once."""
        kernel = self.kernel
        found = self.allocated.get(buffer.data)
        if kernel is None or found is None or buffer.data in kernel.counted:
            return
        kernel.counted.add(buffer.data)
        kind, size = found
        kernel.memory[kind] = kernel.memory.get(kind, 0) + size

    def visit_Expr(self, op: Expr) -> None:
        """The width of a vector value."""
        self.vector(op.dtype, f"the value {op}" if op.dtype.is_vector else "")

    def visit_Var(self, op: Var) -> None:
        """A data pointer that is used on its own counts as a use of the memory."""
        if self.kernel is not None and op in self.allocated and op not in self.kernel.counted:
            kind, size = self.allocated[op]
            self.kernel.counted.add(op)
            self.kernel.memory[kind] = self.kernel.memory.get(kind, 0) + size

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        """The width of a load."""
        self.use(op.buffer)
        self.vector(op.dtype, f"a load of {op.buffer.name}")

    def visit_BufferStore(self, op: BufferStore) -> None:
        """The width of a store."""
        self.use(op.buffer)
        self.vector(op.value.dtype, f"a store to {op.buffer.name}")
        self.generic(op)

    def vector(self, dtype: DataType, what: str) -> None:
        """Check the bytes of a vector."""
        if self.kernel is None or not dtype.is_vector or dtype.is_handle:
            return
        most = self.limits.get("max_vector_bytes")
        if most is not None:
            size = dtype.lanes * dtype.bytes if isinstance(dtype.lanes, int) and not dtype.scalable else None
            self.limit("max_vector_bytes", size, f"the width in bytes of {what}")


def gpu_code_errors(func: PrimFunc, constraints: Mapping[str, int]) -> list[str]:
    """What a function's kernels exceed, in words; empty where they keep within the limits.

    See :func:`verify_gpu_code`. Raises :class:`ArgumentValueError` for a limit of an unknown name or kind.
    """
    the_function(func, "verify_gpu_code")
    limits: dict[str, int] = {}
    for name, value in constraints.items():
        if name not in GPU_CONSTRAINTS:
            near = nearest_name(name, GPU_CONSTRAINTS)
            raise ArgumentValueError(
                f"there is no constraint {name!r}",
                help=f"did you mean {near!r}?" if near else f"the constraints are {', '.join(GPU_CONSTRAINTS)}",
            )
        limit = value.value if isinstance(value, IntImm) else value
        if isinstance(limit, bool) or not isinstance(limit, int):
            raise ArgumentValueError(f"the constraint {name} is a whole number, got {value!r}")
        limits[name] = limit
    verifier = _Verifier(limits)
    verifier.visit(func.body)
    verifier.limit("max_kernels", verifier.kernels, "the number of kernels")
    return list(verifier.errors)


def verify_gpu_code(func: PrimFunc, constraints: Mapping[str, int]) -> bool:
    """Whether every kernel of a function keeps within the limits of a device.

    ``constraints`` has any of :data:`GPU_CONSTRAINTS`. A kernel is an outermost loop over a thread axis; its local and
    shared memory is the sum of its allocations (of symbolic size: 0), wherever in the function they stand. An axis
    that has two extents in a kernel is refused, and so is a thread extent that is not constant where a limit on it is
    given. :func:`gpu_code_errors` says what is exceeded.

    >>> from tirlower.ir import Evaluate
    >>> t = Var("t")
    >>> kernel = PrimFunc((), {}, "void", {}, For(t, 0, 256, "thread_binding", "threadIdx.x", {}, Evaluate(0)))
    >>> verify_gpu_code(kernel, {"max_threads_per_block": 1024}), verify_gpu_code(kernel, {"max_thread_x": 128})
    (True, False)
    >>> gpu_code_errors(kernel, {"max_thread_x": 128})
    ['the extent of threadIdx.x is 256, over max_thread_x=128']
    """
    return not gpu_code_errors(func, constraints)
