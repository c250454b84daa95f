"""What differs from platform to platform in the code of a function: memory, threads, failures, foreign calls.

Everything else in this package is the same for a CPU and for a GPU. A platform is a subclass with one instance; a
:class:`~tirlower.emit.emitter.ModuleState` holds it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from tirlower.diagnostics import LoweringError
from tirlower.ir.expr import Var
from tirlower.ir.stmt import AllocBuffer, AllocConst, For, ForKind, Seq, Stmt

if TYPE_CHECKING:
    from tirlower.emit.emitter import Emitter
    from tirlower.emit.expressions import CallRules, Controls, Run
    from tirlower.emit.llvm_text import Value
    from tirlower.ir.expr import Call

__all__ = ["EmitBody", "Platform"]

EmitBody = Callable[["Emitter", Stmt], None]


class Platform:
    """The hooks of code generation. ``calls`` and ``controls`` override the rules of operations (see ``expressions.py``)."""

    calls: CallRules = {}
    controls: Controls = {}

    def other_call(self, run: Run, op: Call) -> None:
        """Schedule a call without a rule: of a function of the module, or of an operation that the platform lacks."""
        raise run.em.error(f"no code can be generated for a call of {op.op.name}", op)

    def loop(self, em: Emitter, op: For, body: EmitBody) -> bool:
        """Emit a loop of a kind that is the platform's; False leaves it to run in order."""
        if op.kind is ForKind.THREAD_BINDING:
            raise LoweringError(
                f"the loop `{op.loop_var.name}` is the thread axis {op.thread_tag!r}, which a CPU does not have",
                origin="codegen",
                span=op.span,
                help="build for a GPU target, or bind the loop to no thread (T.serial, T.parallel)",
            )
        return False

    def sequence(self, em: Emitter, op: Seq) -> bool:
        """Emit a sequence otherwise than statement by statement in the function; False leaves it so."""
        return False

    def ahead_of(self, em: Emitter, loop: Stmt, *variables: Var) -> list[Var]:
        """Make what a loop's body needs once, ahead of it; gives the data variables of buffers made."""
        return []

    def allocate(self, em: Emitter, op: AllocBuffer) -> None:
        """Emit an allocation, in force until the cleanups of its scope."""
        raise em.error(f"the platform has no memory for buffer `{op.buffer.name}`", op)

    def constant(self, em: Emitter, op: AllocConst) -> None:
        """Emit a constant array."""
        raise em.error(f"the platform has no memory for buffer `{op.buffer.name}`", op)

    def opaque(self, em: Emitter, value: Value) -> Value:
        """An integer whose origin is hidden from LLVM's analyses, where the platform has a way."""
        return value

    def fail(self, em: Emitter, code: int, values: Sequence[Value]) -> None:
        """Record a failure, an index into the module's error table and i64 values, and leave. The block ends here."""
        raise em.error("the platform cannot report a failure")

    def leave(self, em: Emitter, status: Value) -> None:
        """End the function with a status, 0 for success."""
        em.b.ret(status)
