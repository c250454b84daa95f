"""The memory effects of calls: pointers given to callees, atomics, and state that is not memory.

A callee may touch what its pointers reach: ``tvm_access_ptr`` states a region and a mask, ``address_of`` and a bare
data variable leave the whole buffer open. All of that is "may": no verdict is proved or refuted on it as if it
happened. An opaque call without pointers touches a state of its own, which orders such calls.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, TypeGuard

from tirlower.arith.conditions import is_pure
from tirlower.arith.intervals import EVERYTHING, INF, is_finite
from tirlower.ir import (
    HANDLE,
    AllocBuffer,
    AllocConst,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DataType,
    Evaluate,
    Expr,
    GlobalVar,
    IntImm,
    IRModule,
    Op,
    PointerType,
    Purity,
    Seq,
    StringImm,
    Var,
    const,
    post_order_visit,
    substitute,
)
from tirlower.ir.node import Node
from tirlower.poly.conditions import Condition, at_least
from tirlower.poly.device_calls import PointerUse, pointer_uses
from tirlower.poly.forms import single
from tirlower.poly.layouts import layout_of
from tirlower.poly.scop import Access, Statement

if TYPE_CHECKING:
    from tirlower.poly.extract import _Extractor

__all__ = ["CallEffects", "PureFunctions"]

# Calls with effects that no order of other statements can be told by.
_HARMLESS = frozenset(
    "tir." + name
    for name in (
        "assume", "undef", "prefetch", "tvm_storage_sync", "tvm_global_barrier_kinit", "start_profile_intrinsic",
        "end_profile_intrinsic", "ptx_commit_group", "ptx_wait_group", "ptx_wait_barrier", "ptx_arrive_barrier",
        "ptx_init_barrier_thread_count", "ptx_arrive_barrier_expect_tx", "create_barriers", "tvm_warp_activemask",
        "tvm_warp_shuffle", "tvm_warp_shuffle_up", "tvm_warp_shuffle_down", "dma_wait", "dma_start_group",
        "dma_end_group", "tvm_context_id", "tvm_warp_shuffle_xor", "ptx_vote_ballot", "ptx_vote_any", "ptx_vote_all",
        "ptx_syncwarp", "ptx_cp_async_barrier", "ptx_fence_barrier_init", "ptx_fence_proxy_async",
        "ptx_bulk_commit_group", "ptx_bulk_wait_group", "ptx_wgmma_fence", "ptx_wgmma_commit_group",
        "ptx_wgmma_wait_group",
    )
)  # fmt: skip
_HARMLESS_LLVM = ("llvm.prefetch", "llvm.assume", "llvm.x86.sse.sfence")
_ATOMICS = {f"tir.atomic_{name}": name for name in ("add", "max", "min", "and", "or", "xor")}
MAX_OPENED = 1000
"""The calls of a function that are replaced by what they return."""

_POINTERS = ("tir.tvm_access_ptr", "tir.address_of")


def _name(call: Call) -> str:
    return call.op.name if isinstance(call.op, Op) else ""


def _is_pointer(expr: Expr) -> TypeGuard[Call]:
    return isinstance(expr, Call) and _name(expr) in _POINTERS


def _purity(call: Call) -> Purity:
    name = _name(call)
    if name in _HARMLESS:
        return Purity.PURE
    if name == "tir.call_llvm_intrin" and isinstance(call.args[0], StringImm):
        if call.args[0].value.startswith(_HARMLESS_LLVM):
            return Purity.PURE
    return Purity.OPAQUE if isinstance(call.op, GlobalVar) else call.op.purity


class PureFunctions:
    """The functions of a module that have no effects and depend on their arguments alone.

    They take no pointers, write only what they allocate, and call only what is pure. One that calls itself is taken as not
    pure.
    """

    def __init__(self, module: IRModule | None) -> None:
        self.module = module
        self._known: dict[str, bool] = {}
        self._opened = 0

    def has(self, callee: Op | GlobalVar) -> bool:
        """Whether a call's operation is such a function."""
        if not isinstance(callee, GlobalVar):
            return False
        name = callee.name
        if name not in self._known:
            self._known[name] = False  # while it is looked at
            self._known[name] = self._is_pure(name)
        return self._known[name]

    def _is_pure(self, name: str) -> bool:
        func = None if self.module is None or name not in self.module else self.module[name]
        if func is None or any(param.dtype.is_handle for param in func.params):
            return False
        own: set[Var] = set()
        touched: set[Var] = set()
        pure = True

        def look(op: Node) -> None:
            nonlocal pure
            if op.__class__ is AllocBuffer or op.__class__ is AllocConst:
                own.add(op.buffer.data)
            elif op.__class__ is BufferStore or op.__class__ is BufferLoad:
                touched.add(op.buffer.data)
            elif op.__class__ is Call and _name(op) != "tir.ret":
                if isinstance(op.op, GlobalVar):
                    pure = pure and self.has(op.op)
                else:
                    pure = pure and _purity(op) is Purity.PURE and _name(op) not in _POINTERS

        post_order_visit(func.body, look)
        return pure and touched <= own

    def returned(self, call: Call) -> Expr | None:
        """What a call returns, in terms of its arguments: None unless the function only returns a value, after bindings at
        most."""
        self._opened += 1
        if self._opened > MAX_OPENED or self.module is None or not self.has(call.op):
            return None
        func = self.module[call.op.name]
        if len(func.params) != len(call.args):
            return None
        stmts = func.body.stmts if isinstance(func.body, Seq) else (func.body,)
        values: dict[Var, Expr] = dict(zip(func.params, call.args, strict=True))
        for stmt in stmts[:-1]:
            if not isinstance(stmt, Bind):
                return None
            values[stmt.var] = substitute(stmt.value, values)
        last = stmts[-1].value if stmts and isinstance(stmts[-1], Evaluate) else None
        return substitute(last.args[0], values) if isinstance(last, Call) and _name(last) == "tir.ret" else None


class CallEffects:
    """Records what calls access, for an extractor."""

    def __init__(self, extractor: _Extractor) -> None:
        self.to = extractor
        self.state: Var | None = None
        self.pointers: dict[Var, Expr] = {}

    def visit(self, statement: Statement, call: Call, guards: tuple[Condition, ...]) -> list[Expr]:
        """Record the accesses of a call; returns the arguments to look into further."""
        name = _name(call)
        if name in _POINTERS:
            return self.inside(call)  # taken here, followed where it is given to a callee
        if name in _HARMLESS or name == "tir.isnullptr":
            return [part for arg in call.args for part in (self.inside(arg) if _is_pointer(arg) else (arg,))]
        if name in _ATOMICS and isinstance(call.args[0], Call):
            return self.atomic(statement, call, call.args[0], _ATOMICS[name], guards)
        uses = pointer_uses(call)
        if uses is not None:
            self.device(statement, call, uses, guards)
            rest = [arg for arg in call.args if not (isinstance(arg, Var) and isinstance(arg.type, PointerType))]
            return [part for arg in rest for part in (self.inside(arg) if _is_pointer(arg) else (arg,))]
        purity = _purity(call)
        if self.to.functions.has(call.op):
            return list(call.args)
        rest = []
        touched = False
        for arg in call.args:
            pointer = self.pointers.get(arg, arg) if isinstance(arg, Var) else arg
            if isinstance(pointer, Call) and _is_pointer(pointer):
                touched = True
                rest += self.pointer(statement, pointer, purity, guards)
            elif isinstance(pointer, Var) and isinstance(pointer.type, PointerType):
                touched = True
                self.whole(statement, call, None, pointer, purity, guards)
            else:
                rest.append(arg)
        if not touched and purity >= Purity.READS:
            self.whole(statement, call, None, self.own_state(), purity, guards)
        return rest

    def device(self, statement: Statement, call: Call, uses: list[PointerUse], guards: tuple[Condition, ...]) -> None:
        """The accesses of a call of the device."""
        for use in uses:
            if use.box:
                self.box(statement, call, use, guards)
                continue
            offset = self.of_any_lane(statement, use.offset) if use.of_warp else use.offset
            if use.extent is not None and offset is not None:
                count = const(use.extent, "int32")
                self.region(statement, call, use.data, use.dtype, offset, count, use.is_write, guards)
                continue
            self.record(statement, call, use.data, use.is_write, guards)

    def box(self, statement: Statement, call: Call, use: PointerUse, guards: tuple[Condition, ...]) -> None:
        """The elements of a tensor within a box, and within the tensor."""
        to = self.to
        indices = []
        for first, count, extent in use.box:
            lane = to.space.lane(1)
            to.space.ranges[lane] = (0, count - 1)
            index = to.conv.lin(first) + single(lane)
            guards = (*guards, at_least(index), at_least((to.conv.lin(extent) - index).shifted(-1)))
            indices.append(index)
        made = self.record(statement, call, use.data, use.is_write, guards)
        made.indices = made.coordinates = tuple(indices)
        made.buffer = Buffer("pointer", tuple(extent for _, _, extent in use.box), use.dtype, use.data, use.strides)
        made.layout = layout_of(to.conv, made.buffer, to.accesses.memory(use.data)[1])

    def of_any_lane(self, statement: Statement, offset: Expr) -> Expr | None:
        """An offset as any thread of the block may state it at this place; None where that cannot be said."""
        lanes: dict[Var, Expr] = {}
        for loop in statement.loops:
            tag = getattr(loop.node, "thread_tag", None) or ""
            if tag.startswith("threadIdx"):
                values = self.to.space.ranges.get(loop.var, EVERYTHING)
                if not is_finite(values):
                    return None
                lane = self.to.space.lane(1)
                self.to.space.ranges[lane] = values
                lanes[loop.var] = lane
        made = substitute(self.unbound(offset, lanes), lanes)
        left = self.to.conv.deps_of(made)
        return None if any(var in left for var in lanes) else made

    def unbound(self, expr: Expr, lanes: Collection[Var]) -> Expr:
        """An expression with the values of what is bound to ones that depend on some variables in their places."""
        while True:
            table: dict[Var, Expr] = {}

            def look(op: Expr, table: dict[Var, Expr] = table) -> None:
                binding = self.to.bound.get(op) if op.__class__ is Var else None
                if binding is not None and is_pure(binding.value):
                    if not self.to.conv.deps_of(binding.var).isdisjoint(lanes):
                        table[binding.var] = binding.value

            post_order_visit(expr, look)
            if not table:
                return expr
            expr = substitute(expr, table)

    @staticmethod
    def inside(pointer: Call) -> list[Expr]:
        """The expressions that a pointer is made of, without the element that it points to."""
        if _name(pointer) == "tir.address_of":
            load = pointer.args[0]
            return list(load.indices) if isinstance(load, BufferLoad) else [load]
        return list(pointer.args[2:4])

    def own_state(self) -> Var:
        """What calls without pointers may change."""
        if self.state is None:
            self.state = Var("the state of external functions", HANDLE)
        return self.state

    def atomic(
        self, statement: Statement, call: Call, pointer: Call, kind: str, guards: tuple[Condition, ...]
    ) -> list[Expr]:
        """An atomic update of an element. Two whose results are not used commute."""
        target = pointer.args[0] if _name(pointer) == "tir.address_of" else None
        rest = list(call.args[1:])
        if not isinstance(target, BufferLoad):
            return [*self.pointer(statement, pointer, Purity.OPAQUE, guards), *rest]
        unused = isinstance(statement.node, Evaluate) and statement.node.value is call
        for is_write in (False, True):
            made = self.to.accesses.add(statement, target, target.buffer, target.indices, is_write, guards)
            made.atomic = kind if unused else ""
        return [*target.indices, *rest]

    def pointer(self, statement: Statement, call: Call, purity: Purity, guards: tuple[Condition, ...]) -> list[Expr]:
        """A pointer given to a callee; returns what is left to look into."""
        if _name(call) == "tir.address_of":
            load = call.args[0]
            if isinstance(load, BufferLoad):
                self.whole(statement, load, load.buffer, load.buffer.data, purity, guards)
            return self.inside(call)
        kind, data, offset, extent, mask = call.args
        if not isinstance(data, Var):
            return list(call.args)
        bits = mask.value if isinstance(mask, IntImm) else 3
        for is_write, bit in ((False, 1), (True, 2)):
            if bits & bit:
                self.region(statement, call, data, kind.dtype, offset, extent, is_write, guards)
        return [offset, extent]

    def region(
        self,
        statement: Statement,
        call: Call,
        data: Var,
        dtype: DataType,
        offset: Expr,
        extent: Expr,
        is_write: bool,
        guards: tuple[Condition, ...],
    ) -> None:
        """The elements ``offset`` to ``offset + extent - 1`` of a pointer's memory."""
        to = self.to
        lane = to.space.lane(1)
        start, size = to.conv.lin(offset), to.conv.lin(extent)
        to.space.ranges[lane] = (0, size.const - 1 if size.is_constant else INF)
        guards = (*guards, at_least((size - single(lane)).shifted(-1)))
        made = self.record(statement, call, data, is_write, guards)
        made.indices = made.coordinates = (start + single(lane),)
        view = Buffer("pointer", (extent,), dtype, data)
        made.buffer = view
        made.layout = layout_of(to.conv, view, to.accesses.memory(data)[1])

    def whole(
        self,
        statement: Statement,
        node: Expr,
        buffer: Buffer | None,
        data: Var,
        purity: Purity,
        guards: tuple[Condition, ...],
    ) -> None:
        """Any element of a buffer."""
        for is_write in (False, True) if purity >= Purity.WRITES else (False,):
            self.record(statement, node, data, is_write, guards).buffer = buffer

    def record(
        self, statement: Statement, node: Expr, data: Var, is_write: bool, guards: tuple[Condition, ...]
    ) -> Access:
        """A may-access of any element."""
        conditions = (*statement.conditions, *guards)
        made = Access(statement, node, None, self.to.pointers.root(data), None, is_write, conditions, False)
        statement.accesses.append(made)
        return made
