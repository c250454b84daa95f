"""Control, hints and vectors: what steers evaluation, states facts, or rearranges lanes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from tirlower.ir.dtype import DataType
from tirlower.ir.intrinsics.rules import fixed, like
from tirlower.ir.op import Op, Purity

if TYPE_CHECKING:
    from tirlower.ir.expr import Expr


def _half(args: Sequence[Expr]) -> DataType:
    dtype = args[0].dtype
    return dtype.with_lanes(max(dtype.lanes // 2, 1))


def _both(args: Sequence[Expr]) -> DataType:
    return args[0].dtype.with_lanes(args[0].dtype.lanes + args[1].dtype.lanes)


# Returns from the function with a value (or none).
Op.register("tir.ret", (0, 1), Purity.OPAQUE, lambda args: args[0].dtype if args else DataType("void"))
Op.register("tir.thread_return", 0, Purity.OPAQUE, fixed("void"))
Op.register("tir.break_loop", 0, Purity.OPAQUE, fixed("void"))
Op.register("tir.continue_loop", 0, Purity.OPAQUE, fixed("void"))
# Only the chosen arm is evaluated.
Op.register("tir.if_then_else", 3, Purity.PURE, like(1))
Op.register("tir.likely", 1, Purity.PURE, like(0))
# States a fact: it holds, or the program has no meaning. Takes a boolean.
Op.register("tir.assume", 1, Purity.WRITES, fixed("bool"))
# A value that may be anything; RemoveStoreUndef removes stores of it.
Op.register("tir.undef", 0, Purity.READS, dtype_first=True)
Op.register("tir.reinterpret", 1, Purity.PURE, elementwise=True, dtype_first=True)
# Marks a dtype as an argument (of tvm_access_ptr and the like).
Op.register("tir.type_annotation", 0, Purity.PURE, dtype_first=True)
Op.register("tir.ignore_loop_partition", 1, Purity.PURE, like(0))

Op.register("tir.vscale", 0, Purity.PURE, fixed("int32"))
# Lane i is true where base + i < limit.
Op.register("tir.get_active_lane_mask", 2, Purity.PURE, dtype_first=True)
Op.register("tir.vectorlow", 1, Purity.PURE, _half, dtype_first=True)
Op.register("tir.vectorhigh", 1, Purity.PURE, _half, dtype_first=True)
Op.register("tir.vectorcombine", 2, Purity.PURE, _both, dtype_first=True)
