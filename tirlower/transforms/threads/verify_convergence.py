"""VerifyConvergence: calls that threads make together stand where all of them come."""

from __future__ import annotations

from tirlower.analysis.convergence import calls_astray, team_of_call
from tirlower.diagnostics import TransformError
from tirlower.ir.expr import Call
from tirlower.ir.func import PrimFunc
from tirlower.ir.query import each
from tirlower.machine.target import Target
from tirlower.rewrite.base import FuncPass
from tirlower.rewrite.context import PassContext
from tirlower.transforms.threads.thread_sync import has_thread_loops

__all__ = ["VerifyConvergence"]

_TEAMS = {0: "a block", 32: "a warp", 128: "a warpgroup"}


class VerifyConvergence(FuncPass):
    """Refuse kernels in which threads may part before a call that they make together; functions come back as they are.

    Barriers are made by all threads of a block, shuffles and votes with the mask of all lanes (or of the active ones) and
    matrix operations by all of a warp (``ptx_wgmma`` by four warps). None may stand in a condition or loop that these threads
    may pass differently, in an arm of a choice by such a condition, or behind ``and`` or ``or``: a device hangs there, or takes
    any value for that of an absent lane. Conditions of the thread's index that are the same in each warp (``tx // 32 == 0``)
    part no warps. Calls that name a part of a warp are left to who named it; threads that have returned are not missed. A function that threads
    call makes none of these calls at all, since each thread runs it by itself.

    Stands behind LowerWarpMemory, which makes shuffles. Raises :class:`TransformError` for the first such call.

    >>> from tirlower.script import parse
    >>> func = parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((64,), "int32")):
    ...     for tx in T.thread_binding(64, "threadIdx.x"):
    ...         if tx < 32:
    ...             A[tx] = T.tvm_warp_shuffle_xor(T.uint32(0xFFFFFFFF), tx, 1, 32, 32)
    ...         if tx < 16:
    ...             T.tvm_storage_sync("shared")
    ... ''')
    >>> try:
    ...     VerifyConvergence()(func)
    ... except TransformError as error:
    ...     print(error.message)
    tvm_storage_sync is for all threads of a block, and they may part at a condition: if tx < 16
    """

    name = "tir.VerifyConvergence"

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Check a function."""
        for astray in calls_astray(func):
            name, team = str(astray.call.op.name).removeprefix("tir."), _TEAMS.get(astray.team, f"{astray.team} lanes")
            raise TransformError(
                f"{name} is for all threads of {team}, and they may part at {astray.place}",
                origin="VerifyConvergence",
                span=astray.call.span or getattr(astray.where, "span", None),
                help=f"move it to where all threads of {team} come, or make the condition the same for all of them",
            )
        if _is_called_by_threads(func):
            for call in each(Call, func.body):
                if team_of_call(call) is not None:
                    raise TransformError(
                        f"{str(call.op.name).removeprefix('tir.')} stands in a function that a thread calls, which it runs by "
                        "itself",
                        origin="VerifyConvergence",
                        span=call.span,
                        help="put it into the kernel, in front of the call or behind it",
                    )
        return func


def _is_called_by_threads(func: PrimFunc) -> bool:
    """Whether a function is one of the device, and no kernel."""
    bound = func.attrs.get("target")
    if bound is None or has_thread_loops(func):
        return False
    target = Target(bound)
    return target.is_gpu and target.host is None
