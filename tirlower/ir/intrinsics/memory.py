"""Addresses, structures of the host ABI, and hints about memory."""

from __future__ import annotations

from tirlower.ir.intrinsics.rules import fixed, like
from tirlower.ir.op import Op, Purity

# The address of a buffer element, given as a BufferLoad.
Op.register("tir.address_of", 1, Purity.PURE, fixed("handle"))
# (type_annotation, data, offset, extent, rw_mask): a pointer for a callee that reads (1) and/or writes (2).
Op.register("tir.tvm_access_ptr", 5, Purity.PURE, fixed("handle"), dtype_first=False)
Op.register("tir.isnullptr", 1, Purity.PURE, fixed("bool"))
# A hint: it reads nothing, and whatever goes away for having no effect must leave it.
Op.register("tir.prefetch", 4, Purity.WRITES, fixed("void"))
# (handle, index, field kind) and (handle, index, field kind, value): fields of the packed argument structures.
Op.register("tir.tvm_struct_get", 3, Purity.READS, dtype_first=False)
Op.register("tir.tvm_struct_set", 4, Purity.WRITES, fixed("int32"))
Op.register("tir.tvm_stack_alloca", 2, Purity.OPAQUE, fixed("handle"))
Op.register("tir.tvm_stack_make_shape", (0, None), Purity.OPAQUE, fixed("handle"))
Op.register("tir.tvm_stack_make_array", 6, Purity.OPAQUE, fixed("handle"))
Op.register("tir.tvm_tuple", (0, None), Purity.PURE, fixed("handle"))
Op.register("tir.tvm_static_handle", 0, Purity.WRITES, fixed("handle"))
Op.register("tir.tvm_context_id", 0, Purity.READS, fixed("handle"))
# (callee name, arguments): evaluated once per context, see CombineContextCall.
Op.register("tir.tvm_thread_context", 1, Purity.WRITES, like(0), dtype_first=False)
Op.register("tir.tvm_thread_invariant", 1, Purity.PURE, like(0), dtype_first=False)
Op.register("tir.TVMBackendAllocWorkspace", 5, Purity.OPAQUE, fixed("handle"))
Op.register("tir.TVMBackendFreeWorkspace", 3, Purity.OPAQUE, fixed("int32"))
# Ends the call with the error that the runtime noted last.
Op.register("tir.tvm_throw_last_error", 0, Purity.OPAQUE, fixed("int32"))
Op.register("tir.nd_mem_alloc_with_scope", (1, None), Purity.OPAQUE, fixed("handle"))
Op.register("tir.texture2d_store", (4, None), Purity.OPAQUE, fixed("void"))
Op.register("tir.texture2d_load", (3, None), Purity.READS)
Op.register("tir.lookup_param", 1, Purity.READS, fixed("handle"))
