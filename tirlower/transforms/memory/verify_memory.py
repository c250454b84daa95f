"""VerifyMemory: host code does not touch the memory of a device."""

from __future__ import annotations

from tirlower.analysis.host_memory import memory_errors
from tirlower.diagnostics import TransformError
from tirlower.ir.func import PrimFunc
from tirlower.ir.struct_field import CallingConvention
from tirlower.machine.target import Target
from tirlower.rewrite.base import Fact, FuncPass
from tirlower.rewrite.context import PassContext

__all__ = ["VerifyMemory"]


class VerifyMemory(FuncPass):
    """Refuse host code that accesses the memory of a device directly; functions come back as they are.

    In a function whose target is a GPU each access of a parameter's memory must stand in a loop over a thread axis, or in a
    device region. What is checked are loads and stores by index; pointers may be handed to other functions, and the
    host's own allocations are its own. Functions with another calling convention (made into packed entries, or kernels), and
    private functions bound to the device itself (a target without a host), are not host code and are not checked.

    Needs BindTarget before. Raises :class:`TransformError` for a function without the attribute ``target``, and for one
    with such accesses: the error lists them all. As TIR's, which aborts with the same list ("Did you forget to bind?").

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float32")):
    ...     T.func_attr({"target": T.target("cuda", host="llvm")})
    ...     for i in T.thread_binding(8, "threadIdx.x"):
    ...         A[i] = T.float32(1)
    ... ''')
    >>> VerifyMemory()(func) is func
    True
    >>> serial = parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((8,), "float32")):
    ...     T.func_attr({"target": T.target("cuda", host="llvm")})
    ...     for i in range(8):
    ...         A[i] = T.float32(1)
    ... ''')
    >>> try:
    ...     VerifyMemory()(serial)
    ... except TransformError as error:
    ...     print(error.message, error.notes, sep="\\n")
    memory verification failed for function 'f'
    ["the host writes the buffer 'A' directly, outside any loop over threads"]
    """

    name = "tir.VerifyMemory"
    needs = ("tir.BindTarget", Fact.WHOLE_PROGRAM)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Check a function."""
        bound = func.attrs.get("target")
        if bound is None:
            raise TransformError(
                f"function {func.name!r} has no attribute 'target', which says whose memory its arguments are",
                span=func.span,
                help="run BindTarget first",
            )
        target = Target(bound)
        convention = func.attrs.get("calling_conv", int(CallingConvention.DEFAULT))
        on_device = target.host is None and "global_symbol" not in func.attrs
        if not target.is_gpu or convention != CallingConvention.DEFAULT or on_device:
            return func
        errors = memory_errors(func.with_attr("target", target))
        if errors:
            raise TransformError(
                f"memory verification failed for function {func.name!r}",
                span=func.span,
                notes=errors,
                help="did you forget to bind its loops to threads?",
            )
        return func
