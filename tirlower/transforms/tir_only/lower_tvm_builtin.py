"""LowerTVMBuiltin: calls of packed functions, array descriptors and large workspaces become explicit."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.analysis.thread_axes import is_thread_axis
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import HANDLE, INT32, DataType, PointerType
from tirlower.ir.expr import Call, Expr, IntImm, StringImm, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import Op
from tirlower.ir.stmt import (
    AllocBuffer,
    AttrStmt,
    Bind,
    Block,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
)
from tirlower.machine.target import Target
from tirlower.rewrite.base import FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.packed_stack import CallLowerer, largest_uses

__all__ = ["DISABLE", "MAX_STACK_ALLOCA", "LowerTVMBuiltin"]

MAX_STACK_ALLOCA = 1024
"""Allocations on the processor below this many bytes stay on the stack."""
WORKSPACE_ALIGNMENT = 64
"""The bytes to which a workspace is aligned."""
ALIGNMENT = "storage_alignment"
"""The attribute that says it."""
DISABLE = "disable_lower_builtin"
"""The annotation of an allocation that is to stay as it is."""

_RETURNS = frozenset(Op.get(f"tir.{name}") for name in ("ret", "thread_return"))
_JUMPS = frozenset(Op.get(f"tir.{name}") for name in ("break_loop", "continue_loop"))
_ALLOC_ND = Op.get("tir.nd_mem_alloc_with_scope")


def _bytes(buffer: Buffer) -> Expr:
    """The bytes of an allocation, as an uint64."""
    dtype = DataType("uint64")
    count: Expr = const(1, dtype)
    if buffer.strides:
        for extent, stride in zip(buffer.shape, buffer.strides, strict=True):
            count = build.add(count, build.mul(build.sub(build.cast(dtype, extent), 1), build.cast(dtype, stride)))
    else:
        for extent in buffer.shape:
            count = build.mul(count, build.cast(dtype, extent))
    count = build.add(count, build.cast(dtype, buffer.elem_offset))
    return build.mul(count, const(buffer.dtype.bytes * buffer.dtype.lanes, dtype))


def _leaves(stmt: Stmt | None) -> bool:
    """Whether a statement ends with a jump."""
    while isinstance(stmt, Seq) and stmt.stmts:
        stmt = stmt.stmts[-1]
    return isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op in _RETURNS | _JUMPS


class _Live:
    """Memory that must be released: how, and in how many loops it was allocated."""

    def __init__(self, release: Expr, loops: int) -> None:
        self.release = release
        self.loops = loops


class _Lowerer(CallLowerer):
    """Workspaces, and the statements around calls."""

    def __init__(self, func: PrimFunc) -> None:
        super().__init__(*largest_uses(func.body))
        self.live: list[_Live] = []
        self.loops = 0

    # -- scopes ------------------------------------------------------------------------------------------------------
    def visit_Seq(self, op: Seq) -> Stmt:
        done: list[Stmt] = []
        aligned: list[tuple[Var, list[Stmt]]] = []
        before = len(self.live)
        for stmt in op.stmts:
            if isinstance(stmt, AllocBuffer) and self._is_workspace(stmt):
                bound, rest = self._workspace(stmt)
                aligned.append((stmt.buffer.data, [*done, bound]))
                done = rest
            elif isinstance(stmt, Bind) and isinstance(stmt.value, Call) and stmt.value.op is _ALLOC_ND and self.device:
                done += self._device_allocation(stmt)
            else:
                made = self.visit(stmt)
                # What goes before a declaration stands in the same Seq.
                if isinstance(stmt, (Bind, AllocBuffer, DeclBuffer)) and isinstance(made, Seq):
                    done += made.stmts
                else:
                    done.append(made)
        if not (done and _leaves(done[-1])):
            done += self._released(self.live[before:])
        del self.live[before:]
        for data, outer in reversed(aligned):
            inner = Seq(tuple(done)) if len(done) > 1 else done[0]
            done = [*outer, AttrStmt(data, ALIGNMENT, const(WORKSPACE_ALIGNMENT, INT32), inner)]
        changed = len(done) != len(op.stmts) or any(a is not b for a, b in zip(done, op.stmts, strict=True))
        return op.with_(stmts=tuple(done)) if changed else op

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        """An allocation that stays (or that stands alone, and of which nothing is used)."""
        return op

    def visit_For(self, op: For) -> Stmt:
        if is_thread_axis(op):
            return op  # a device's code has no runtime to call
        self.loops += 1
        if op.kind is ForKind.PARALLEL:
            # Each iteration may run on a thread of its own, with a stack of its own.
            bounds = op.with_(body=Evaluate(const(0)))
            with self.own_stack() as stack:
                body = stack.declare(self.visit(op.body))
            made = self.statement(bounds)
            if made is bounds:
                made = op.with_(body=body)
            else:
                assert isinstance(made, Seq)
                made = made.with_(stmts=(*made.stmts[:-1], made.stmts[-1].with_(body=body)))
        else:
            made = self.statement(op)
        self.loops -= 1
        return made

    def visit_While(self, op: While) -> Stmt:
        self.refuse_calls(op.condition, "the condition of a while loop, which is evaluated again and again")
        self.loops += 1
        made = self.statement(op)
        self.loops -= 1
        return made

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        if op.key in ("device_scope", "thread_extent"):
            return op
        if op.key not in ("device_type", "device_id"):
            return self.statement(op)
        outer = self.device_type, self.device_id
        if op.key == "device_type":
            if not isinstance(op.value, IntImm):
                raise TransformError(f"the device type is a constant, got {op.value}", span=op.span)
            self.device_type = op.value.value
        else:
            self.device_id = op.value
        made = self.visit(op.body)
        self.device_type, self.device_id = outer
        return made

    def visit_Block(self, op: Block) -> Stmt:
        raise TransformError(
            f"block {op.name!r} is left",
            span=op.span,
            help="run LowerOpaqueBlock first: this pass works on the flat stage",
        )

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        call = op.value
        if not isinstance(call, Call) or call.op not in _RETURNS | _JUMPS:
            return self.statement(op)
        inside = [one for one in self.live if call.op in _RETURNS or one.loops >= self.loops]
        if not inside:
            return self.statement(op)
        frees = self._released(inside)
        if not call.args:
            return Seq((*frees, op))
        # The value may be read from what is released.
        value = self.statement(Evaluate(call.args[0]))
        head = value.stmts[:-1] if isinstance(value, Seq) else ()
        last = value.stmts[-1] if isinstance(value, Seq) else value
        assert isinstance(last, Evaluate)
        result = Var("result", last.value.dtype)
        return Seq((*head, Bind(result, last.value), *frees, op.with_(value=call.with_(args=(result,)))))

    # -- memory ------------------------------------------------------------------------------------------------------
    def _is_workspace(self, op: AllocBuffer) -> bool:
        buffer = op.buffer
        if buffer.scope != "global" or not is_const_int(op.condition, 1) or op.annotations.get(DISABLE):
            return False
        size = _bytes(buffer)
        return self.device is not None or not isinstance(size, IntImm) or size.value >= MAX_STACK_ALLOCA

    def _workspace(self, op: AllocBuffer) -> tuple[Stmt, list[Stmt]]:
        """The binding of a workspace, and what begins the region in which it is aligned."""
        buffer, kind = op.buffer, op.buffer.dtype
        device_type, device_id = self.device_numbers()
        hints = (self.type_code(kind), const(kind.bits, INT32))
        call = build.call("tir.TVMBackendAllocWorkspace", device_type, device_id, _bytes(buffer), *hints)
        release = build.call("tir.TVMBackendFreeWorkspace", device_type, device_id, buffer.data)
        release = build.ne(release, const(0, INT32))
        bound, *made = self._allocated(buffer.data, [Bind(buffer.data, call, span=op.span)], release)
        return bound, [*made, DeclBuffer(buffer, span=op.span)]

    def _device_allocation(self, op: Bind) -> list[Stmt]:
        """``nd_mem_alloc_with_scope``, by the packed functions of the device."""
        assert isinstance(op.value, Call)
        scope, ndim, shape = op.value.args[:3]
        pointer = op.var.type
        dtype = pointer.element if isinstance(pointer, PointerType) else DataType("uint8")
        device_type, device_id = self.device_numbers()
        names = [StringImm(f"device_api.{self.device}.{what}") for what in ("alloc_nd", "free_nd")]
        hints = (self.type_code(dtype), const(dtype.bits, INT32))
        arguments = (device_type, device_id, *hints, ndim, shape, scope)
        call = build.call("tir.tvm_call_packed", names[0], *arguments, dtype=HANDLE)
        release = build.call("tir.tvm_call_packed", names[1], device_type, device_id, scope, op.var)
        made = self.statement(op.with_(value=call))
        return self._allocated(op.var, made.stmts if isinstance(made, Seq) else (made,), release)

    def _allocated(self, var: Var, made: Sequence[Stmt], release: Expr) -> list[Stmt]:
        """An allocation, with the check that it succeeded; its release is noted for the end of the Seq."""
        self.live.append(_Live(release, self.loops))
        return [*made, IfThenElse(build.call("tir.isnullptr", var), _failure(), None, span=made[-1].span)]

    def _released(self, live: Sequence[_Live]) -> list[Stmt]:
        """The releases, the last allocation first; one with a status is a condition under which the call fails."""
        return [
            IfThenElse(one.release, _failure(), None)
            if one.release.dtype.is_bool
            else self.statement(Evaluate(one.release))
            for one in reversed(live)
        ]


def _failure() -> Stmt:
    """What ends the call."""
    return Evaluate(build.call("tir.tvm_throw_last_error"))


class LowerTVMBuiltin(FuncPass):
    """Packed calls, array descriptors, shapes and large workspaces become explicit memory and plain calls.

    - ``tvm_stack_make_shape`` stores its integers in ``stack_shape``; ``tvm_stack_make_array`` sets the fields of a descriptor
      in ``stack_array``; ``tvm_call_packed`` and ``tvm_call_cpacked`` store their arguments in ``stack_value`` (integers as
      int64, floats as float64) with their type codes in ``stack_tcode``, and become ``…_lowered(name, values, codes, begin,
      end)``; the result goes to ``end``. The stacks are allocated at the head of the function, and of each parallel loop's
      body, which may run on another thread.
    - ``anylist_setitem_call_packed`` becomes such a call and ``TVMBackendAnyListMoveFromPackedReturn``; ``anylist_getitem`` among
      the arguments of a call ``TVMBackendAnyListSetPackedArg``, ``anylist_resetitem`` ``TVMBackendAnyListResetItem``: functions of the host.
    - An allocation in scope ``global`` of 1024 bytes or more, or of unknown size, or for another device, becomes
      ``TVMBackendAllocWorkspace`` and, in the attribute ``storage_alignment`` of 64 bytes, a declaration of the buffer, what
      follows it, and ``TVMBackendFreeWorkspace`` where its scope ends, and ahead of each return, break or continue that
      leaves it. Where there is no memory, or it cannot be released, the call ends by ``tvm_throw_last_error``. The
      annotation ``disable_lower_builtin`` keeps an allocation, and so does a condition.
    - For another device than the processor, ``nd_mem_alloc_with_scope`` becomes the packed calls ``device_api.<device>.alloc_nd``
      and ``free_nd``, and the DMA operations those of their names.

    The device is that of the attributes ``device_type`` and ``device_id`` around (as MakePackedAPI makes them), which go away.
    Loops over thread axes and device regions are left alone, and so are functions
    for a device (a target without a host that is no processor).

    As TIR's, with these differences: memory is released on every way out; several calls in one statement have separate
    arguments; a packed call of C passes no resource handle. On this host the code generator allocates large buffers itself, so its pipeline does not need the pass.

    On the flat stage, after LegalizePackedCalls and LowerVtcmAlloc. Raises :class:`TransformError` for blocks, for a call whose
    arguments cannot be stored ahead of it (in an arm of an ``if_then_else``, behind a short-circuit, in a while condition or a
    let), for a second call whose arguments the first may change, for arguments that no packed call has, for a workspace
    or descriptor without a ``device_type``, and for memory of another device without a ``device_id``.

    >>> from tirlower.script import parse
    >>> print(LowerTVMBuiltin()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((512,), "float32"), n: T.int32):
    ...     with T.attr("default", "device_type", 1):
    ...         B = T.alloc_buffer((512,), "float32")
    ...         for i in range(512):
    ...             B[i] = A[i]
    ...         T.evaluate(T.tvm_call_packed("show", n, B.data))
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((512,), "float32"), n: T.int32):
        stack_value: T.handle = T.tvm_stack_alloca("arg_value", 3)
        stack_tcode: T.handle("int32") = T.tvm_stack_alloca("arg_tcode", 3)
        stack_tcode_1 = T.decl_buffer((3,), "int32", data=stack_tcode)
        B: T.handle("float32") = T.TVMBackendAllocWorkspace(1, 0, T.uint64(2048), 2, 32)
        with T.attr(B, "storage_alignment", 64):
            if T.isnullptr(B):
                T.tvm_throw_last_error()
            B_1 = T.decl_buffer((512,), data=B)
            for i in range(512):
                B_1[i] = A[i]
            T.tvm_struct_set(stack_value, 0, 12, T.Cast("int64", n))
            stack_tcode_1[0] = 0
            T.tvm_struct_set(stack_value, 1, 12, B)
            stack_tcode_1[1] = 3
            T.tvm_call_packed_lowered("show", stack_value, stack_tcode, 0, 2)
            if T.TVMBackendFreeWorkspace(1, 0, B) != 0:
                T.tvm_throw_last_error()
    """

    name = "tir.LowerTVMBuiltin"
    stage = Stage.FLAT

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the calls and allocations of a function."""
        bound = func.attrs.get("target")
        if bound is not None and Target(bound).host is None and "cpu" not in Target(bound).keys:
            return func
        worker = _Lowerer(func)
        body = worker.visit(func.body)
        return func.with_body(worker.stack.declare(body))
