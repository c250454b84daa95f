"""Whether host code touches the memory of a device."""

from __future__ import annotations

from tirlower.analysis.arguments import the_function
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.stmt import AttrStmt, Bind, BufferStore, For, ForKind
from tirlower.machine.target import Target

__all__ = ["memory_errors", "verify_memory"]


class _Accesses(Visitor):
    """Accesses of a function's arguments outside any thread environment."""

    def __init__(self, func: PrimFunc) -> None:
        self.arguments: dict[Var, str] = {p: p.name for p in func.params}
        for buffer in func.buffers:
            self.arguments[buffer.data] = buffer.name
        self.on_device = 0
        self.found: dict[str, None] = {}

    def visit_For(self, op: For) -> None:
        """A loop over a thread axis runs on the device."""
        self.visit(op.min)
        self.visit(op.extent)
        inside = op.kind is ForKind.THREAD_BINDING
        self.on_device += inside
        self.visit(op.body)
        self.on_device -= inside

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        """A region with a target or a pipeline scope of its own runs there."""
        self.visit(op.value)
        inside = op.key in ("target", "device_scope", "pipeline_exec_scope") or isinstance(op.node, Target)
        self.on_device += inside
        self.visit(op.body)
        self.on_device -= inside

    def visit_Bind(self, op: Bind) -> None:
        """A pointer computed from an argument is one of it."""
        self.visit(op.value)
        if op.var.dtype.is_handle:
            self.follow(op.var, op.value)

    def follow(self, var: Var, value: Expr) -> None:
        if isinstance(value, Var) and value in self.arguments:
            self.arguments[var] = self.arguments[value]

    def visit_BufferLoad(self, op: BufferLoad) -> None:
        """A read."""
        self.access(op.buffer, "reads")

    def visit_BufferStore(self, op: BufferStore) -> None:
        """A write."""
        self.access(op.buffer, "writes")
        self.generic(op)

    def access(self, buffer: Buffer, verb: str) -> None:
        name = self.arguments.get(buffer.data)
        if name is not None and not self.on_device:
            self.found.setdefault(f"the host {verb} the buffer {name!r} directly, outside any loop over threads")


def memory_errors(func: PrimFunc) -> list[str]:
    """The accesses that :func:`verify_memory` refuses, in words."""
    target = the_function(func, "verify_memory").attrs.get("target")
    if not isinstance(target, Target) or target.device == "cpu":
        return []
    worker = _Accesses(func)
    worker.visit(func.body)
    return list(worker.found)


def verify_memory(func: PrimFunc) -> bool:
    """Whether a function for a device with memory of its own accesses its buffers on that device only.

    A function without the attribute ``target``, or whose target computes on the host, passes. In any other each access
    of a parameter's memory stands inside a loop over a thread axis (or a region with a target or pipeline scope of its
    own).

    >>> from tirlower.machine.target import Target
    >>> A, i, a = Buffer("A", (8,)), Var("i"), Var("a", "handle")
    >>> store = BufferStore(A, 1.0, (i,))
    >>> host = PrimFunc((a,), {a: A}, "void", {"target": Target("cuda")}, For(i, 0, 8, "serial", None, {}, store))
    >>> device = host.with_body(For(i, 0, 8, "thread_binding", "threadIdx.x", {}, store))
    >>> verify_memory(host), verify_memory(device), verify_memory(host.without_attr("target"))
    (False, True, True)
    """
    return not memory_errors(func)
