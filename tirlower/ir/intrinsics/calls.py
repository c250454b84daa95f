"""Calls that leave the function: external symbols, LLVM intrinsics, packed functions, profiling marks."""

from __future__ import annotations

from tirlower.ir.intrinsics.rules import fixed
from tirlower.ir.op import Op, Purity

# (symbol name, arguments …)
Op.register("tir.call_extern", (1, None), Purity.OPAQUE)
Op.register("tir.call_pure_extern", (1, None), Purity.PURE)
# (intrinsic name, arguments …); "llvm.fma" or "llvm.x86.avx512.…"
Op.register("tir.call_llvm_intrin", (1, None), Purity.OPAQUE)
Op.register("tir.call_llvm_pure_intrin", (1, None), Purity.PURE)
Op.register("tir.call_spirv_pure_glsl450", (1, None), Purity.PURE)
Op.register("tir.tvm_call_packed", (1, None), Purity.OPAQUE, fixed("int32"))
Op.register("tir.tvm_call_cpacked", (1, None), Purity.OPAQUE, fixed("int32"))
Op.register("tir.tvm_call_packed_lowered", (1, None), Purity.OPAQUE, fixed("int32"))
Op.register("tir.tvm_call_cpacked_lowered", (1, None), Purity.OPAQUE, fixed("int32"))
Op.register("tir.tvm_call_trace_packed", (1, None), Purity.OPAQUE, fixed("int32"))
Op.register("tir.tvm_check_return", 3, Purity.OPAQUE, fixed("int32"))
# Items of a list that the host keeps, of values of any kind: (list, index); set by a call: (list, index, function, arguments …)
Op.register("tir.anylist_getitem", 2, Purity.READS, fixed("handle"))
Op.register("tir.anylist_resetitem", 2, Purity.OPAQUE, fixed("int32"))
Op.register("tir.anylist_setitem_call_packed", (3, None), Purity.OPAQUE, fixed("int32"))
Op.register("tir.anylist_setitem_call_cpacked", (3, None), Purity.OPAQUE, fixed("int32"))
Op.register("tir.start_profile_intrinsic", 1, Purity.WRITES, fixed("void"))
Op.register("tir.end_profile_intrinsic", 1, Purity.WRITES, fixed("void"))
