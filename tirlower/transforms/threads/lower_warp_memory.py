"""LowerWarpMemory: memory of a warp becomes registers of its lanes, read from other lanes by shuffles."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from tirlower.arith import detect_linear_equation
from tirlower.diagnostics import Span, TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, Range, decl_buffer
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Ramp, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each, mentions
from tirlower.ir.stmt import AllocBuffer, BufferStore, DeclBuffer, Evaluate, For, ForKind, Stmt
from tirlower.machine.target import Target
from tirlower.rewrite.base import Fact, FuncPass, Stage
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["LowerWarpMemory"]

_ADDRESS_OF = Op.get("tir.address_of")
_OF_WARPS = frozenset(
    Op.get(f"tir.{name}") for name in ("ptx_mma", "ptx_ldmatrix", "ptx_stmatrix", "mma_fill", "mma_store")
)


@dataclass(eq=False)
class _Warp:
    """A buffer of a warp: elements ``m * lane + width * m * y + x`` are registers ``m * y + x`` of a lane.

    ``lane`` is the thread's index, of ``width`` ones; ``m`` the elements that a lane holds side by side.
    """

    alloc: AllocBuffer
    size: int
    lane: For | None = None
    width: int = 0
    m: int = 0

    def __post_init__(self) -> None:
        """The registers, until ``m`` is known."""
        self.buffer = self.registers = self.alloc.buffer

    def settle(self) -> None:
        """Make the registers. Refused where no thread uses the memory here: kernels are given it, and each has its own."""
        if not self.width:
            _refuse(
                f"buffer {self.buffer.name!r} of a warp is allocated outside of the kernel that uses it",
                self.alloc.span,
                "put the loops that write and read it into one loop that is bound to blocks",
            )
        self.m = self.m or 1  # nothing is stored
        groups = -(-self.size // (self.width * self.m))
        self.registers = decl_buffer((groups * self.m,), self.buffer.dtype, self.buffer.name, scope="local")


def _refuse(text: str, span: Span | None, help_: str) -> NoReturn:
    raise TransformError(text, origin="LowerWarpMemory", span=span, help=help_)


class _Finder(Visitor):
    """The buffers of warps, and how their stores are laid out over the lanes."""

    def __init__(self, func: PrimFunc, warp_size: int) -> None:
        self.warp_size = warp_size
        self.found: dict[Expr, _Warp] = {}
        self.lanes: list[For] = []
        self.analyzer, _ = analyzer_of(func)

    def visit_expr(self, root: Expr) -> None:
        """Expressions allocate nothing; what they store is seen where they are evaluated."""

    def visit_For(self, op: For) -> None:
        self.analyzer.bind(op.loop_var, Range(op.min, op.extent), allow_override=True)
        is_lane = op.kind is ForKind.THREAD_BINDING and op.thread_tag == "threadIdx.x"
        if is_lane:
            self.lanes.append(op)
        self.visit(op.body)
        if is_lane:
            self.lanes.pop()

    def visit_AllocBuffer(self, op: AllocBuffer) -> None:
        buffer = op.buffer
        if buffer.scope != "warp":
            return
        if len(buffer.shape) != 1 or buffer.strides:
            _refuse(f"buffer {buffer.name!r} of a warp is not flat", op.span, "run FlattenBuffer before")
        if not isinstance(buffer.shape[0], IntImm) or buffer.shape[0].value < 1:
            _refuse(
                f"the size {buffer.shape[0]} of buffer {buffer.name!r} of a warp is not a positive constant",
                op.span,
                "registers need a constant size",
            )
        self.found[buffer.data] = warp = _Warp(op, buffer.shape[0].value)
        if self.lanes:
            self.give_lane(warp)

    def give_lane(self, warp: _Warp) -> For:
        """The loop over the lanes of a buffer: that around its allocation, or the first one that uses it."""
        if warp.lane is not None:
            return warp.lane
        if not self.lanes:
            _refuse(
                f"buffer {warp.buffer.name!r} of a warp is used outside of threadIdx.x",
                warp.alloc.span,
                "use it inside the loop that is bound to threadIdx.x",
            )
        lane = self.lanes[0]
        extent = lane.extent
        if not isinstance(extent, IntImm) or extent.value > self.warp_size or self.warp_size % extent.value:
            _refuse(
                f"threadIdx.x has the extent {extent}; memory of a warp needs one that divides the warp's size "
                f"{self.warp_size}",
                lane.span or warp.alloc.span,
                "split the loop, and bind its inner part to threadIdx.x",
            )
        warp.lane, warp.width = lane, extent.value
        return lane

    def visit_BufferStore(self, op: BufferStore) -> None:
        self.visit_Evaluate(op)
        warp = self.found.get(op.buffer.data)
        if warp is not None:
            self.stored(warp, _first(op.indices[0], op.span), op.span)

    def visit_Evaluate(self, op: Evaluate | BufferStore) -> None:
        """Loads need the lanes known; what device operations fill is stored to."""
        for call, at in _pairs(op, self.found):
            self.stored(self.found[call.args[at]], call.args[at + 1], op.span)
        for load in each(BufferLoad, op):
            if load.buffer.data in self.found:
                self.give_lane(self.found[load.buffer.data])

    def stored(self, warp: _Warp, index: Expr, span: Span | None) -> None:
        """A store tells how far apart the elements of the lanes are."""
        lane = self.give_lane(warp)
        equation = detect_linear_equation(self.analyzer.simplify(index), [lane.loop_var])
        factor = self.analyzer.simplify(equation[0]) if equation else None
        if not isinstance(factor, IntImm) or factor.value <= 0:
            _refuse(
                f"the index {index} of a store into buffer {warp.buffer.name!r} of a warp is not m * {lane.loop_var.name} "
                "plus something, with a positive constant m",
                span,
                "let each lane write elements of its own, at a constant distance",
            )
        if warp.m not in (0, factor.value):
            _refuse(
                f"stores into buffer {warp.buffer.name!r} of a warp place lanes {warp.m} and {factor.value} elements apart",
                span,
                "use one layout for all stores of a buffer",
            )
        warp.m = factor.value


def _pairs(root: Node, found: Mapping[Expr, object]) -> list[tuple[Call, int]]:
    """The operands of operations of warps (``ptx_ldmatrix``, ``ptx_mma`` …) in such memory: calls, and where in them the
    data variable stands; its offset follows."""
    calls = (op for op in each(Call, root) if isinstance(op.op, Op) and op.op in _OF_WARPS)
    return [(op, at) for op in calls for at, arg in enumerate(op.args[:-1]) if isinstance(arg, Var) and arg in found]


def _first(index: Expr, span: Span | None) -> Expr:
    """The first of consecutive indices."""
    if isinstance(index, Ramp):
        if not (isinstance(index.stride, IntImm) and index.stride.value == 1 and isinstance(index.lanes, int)):
            _refuse(f"the vector index {index} into memory of a warp is not consecutive", span, "use a stride of 1")
        return index.base
    if index.dtype.is_vector:
        _refuse(f"the vector index {index} into memory of a warp is not consecutive", span, "use scalar accesses")
    return index


class _Rewriter(FactMutator):
    def __init__(self, func: PrimFunc, found: dict[Expr, _Warp], warp_size: int) -> None:
        super().__init__(func)
        self.found = found
        self.by_registers = {warp.registers: warp for warp in found.values()}
        self.warp_size = warp_size
        self.stores = 0

    def map_buffer(self, buffer: Buffer) -> Buffer:
        warp = self.found.get(buffer.data)
        return buffer if warp is None else warp.registers

    def visit_Var(self, op: Var) -> Expr:
        warp = self.found.get(op)
        if warp is not None:
            _refuse(
                f"the address of buffer {warp.buffer.name!r} of a warp is taken; registers have none",
                op.span,
                "use loads and stores of elements",
            )
        return op

    def enter_Call(self, op: Call) -> Expr | None:
        if op.op is _ADDRESS_OF and isinstance(op.args[0], BufferLoad):
            self.visit_Var(op.args[0].buffer.data)
        pairs = [at for call, at in _pairs(op, self.found) if call is op]
        if not pairs:
            return None
        args = list(op.args)
        for at in pairs:
            warp = self.found[op.args[at]]
            register, lane = self.place(warp, op.args[at + 1], op.span)
            self.need_own(warp, lane, op.args[at + 1], op.span)
            args[at], args[at + 1] = warp.registers.data, register
        kept = {*pairs, *(at + 1 for at in pairs)}
        return op.with_(args=tuple(arg if at in kept else self.visit_expr(arg) for at, arg in enumerate(args)))

    def need_own(self, warp: _Warp, lane: Expr, index: Expr, span: Span | None) -> None:
        """Refuse a store for another lane."""
        if not self.is_own(warp, lane):
            _refuse(
                f"a store into element {index} of buffer {warp.buffer.name!r} of a warp belongs to lane {lane}, "
                f"not to the thread that stores",
                span,
                "let each lane write its own elements: m * threadIdx.x + width * m * y + x, with x below m",
            )

    def is_own(self, warp: _Warp, lane: Expr) -> bool:
        """Whether a lane is the thread itself."""
        assert warp.lane is not None  # a buffer that is used has its lanes
        mine = build.sub(warp.lane.loop_var, warp.lane.min)
        return self.analyzer.can_prove_equal(lane, build.cast(lane.dtype, mine))

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        warp = self.found.get(op.buffer.data)
        if warp is not None and op.buffer is not warp.buffer:
            self.visit_Var(op.buffer.data)
        return self.generic(op)

    def place(self, warp: _Warp, index: Expr, span: Span | None) -> tuple[Expr, Expr]:
        """The register and the lane of an element."""
        first = _first(index, span)
        m, width = const(warp.m, first.dtype), const(warp.m * warp.width, first.dtype)
        within = build.floormod(first, m)
        if isinstance(index, Ramp):
            room = build.sub(m, const(int(index.lanes) - 1, first.dtype))  # type: ignore[arg-type]
            if not self.analyzer.can_prove(build.lt(within, room)):
                _refuse(
                    f"the {index.lanes} elements from {first} of buffer {warp.buffer.name!r} of a warp may lie in several lanes",
                    span,
                    "use vectors that a lane holds whole",
                )
        register = build.add(build.mul(build.floordiv(first, width), m), within)
        lane = build.floordiv(build.floormod(first, width), m)
        register, lane = self.analyzer.simplify(register), self.analyzer.simplify(lane)
        return (index.with_(base=register) if isinstance(index, Ramp) else register), lane

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        new = self.generic(op)
        warp = self.found.get(op.buffer.data)
        if warp is None:
            return new
        register, lane = self.place(warp, new.indices[0], op.span)
        self.need_own(warp, lane, op.indices[0], op.span)
        return new.with_(indices=(register,))

    def visit_BufferLoad(self, op: BufferLoad) -> Expr:
        # The buffer is the registers already.
        warp = self.by_registers.get(op.buffer)
        if warp is None:
            return op
        register, lane = self.place(warp, op.indices[0], op.span)
        value = op.with_(indices=(register,))
        if self.is_own(warp, lane):
            return value
        if warp.lane and mentions(register, (warp.lane.loop_var,)):
            _refuse(
                f"the register {register} of element {op.indices[0]} of buffer {warp.buffer.name!r} of a warp depends on "
                "the lane that reads it",
                op.span,
                "read elements at one place of each lane: the shuffle sends what the source lane names",
            )
        return build.call(
            "tir.tvm_warp_shuffle",
            build.call("tir.tvm_warp_activemask"),
            value,
            build.cast("int32", lane),
            const(warp.width),
            const(self.warp_size),
        )


class LowerWarpMemory(FuncPass):
    """Memory of a warp becomes registers of its lanes, and reads of other lanes' elements become shuffles.

    A flat buffer of scope ``warp`` of constant size, whose stores are at ``m * tx + w * m * y + x`` (``tx`` is
    ``threadIdx.x`` of ``w`` threads, ``x`` below ``m``), becomes a local buffer of ``m`` elements for each ``y``. A load of
    an element of the thread's own reads its register; any other is ``tvm_warp_shuffle(active mask, register, lane, w, warp
    size)``, which all lanes have to reach, as in TIR. Operands of ``ptx_mma``, ``ptx_ldmatrix``, ``mma_fill`` and their like are
    the registers of the lane that makes the call. The buffer may be allocated outside of the loops over ``threadIdx.x``.

    Stands on the device side, behind SplitHostDevice. Raises :class:`TransformError` for a size that is not constant, an
    extent of ``threadIdx.x`` that does not divide the warp, stores of another pattern (TIR does not check that the storing
    lane owns the element), a register that depends on the reading lane, an address that is taken, and a function
    without a target.

    >>> from tirlower.script import parse
    >>> print(LowerWarpMemory()(parse('''
    ... @T.prim_func
    ... def rotate(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
    ...     T.func_attr({"target": T.target("cuda")})
    ...     for tx in T.thread_binding(32, thread="threadIdx.x"):
    ...         w = T.alloc_buffer((32,), "float32", scope="warp")
    ...         w[tx] = A[tx]
    ...         B[tx] = w[(tx + 1) % 32] + w[tx]
    ... ''')).script())
    @T.prim_func
    def rotate(A: T.Buffer((32,), "float32"), B: T.Buffer((32,), "float32")):
        T.func_attr({"target": T.target({"kind": "cuda"})})
        for tx in T.thread_binding(32, thread="threadIdx.x"):
            w = T.alloc_buffer((1,), scope="local")
            w[0] = A[tx]
            B[tx] = T.tvm_warp_shuffle(T.tvm_warp_activemask(), w[0], (tx + 1) % 32, 32, 32) + w[0]
    """

    name = "tir.LowerWarpMemory"
    stage = Stage.FLAT_1D
    needs = ("tir.FlattenBuffer",)
    breaks = (Fact.WARP_MEMORY,)

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """Lower the memory of warps in a function."""
        if not any(op.buffer.scope == "warp" for op in each(AllocBuffer, func.body)):
            return func
        bound = func.attrs.get("target") or Target.current()
        if bound is None:
            _refuse(
                f"function {func.name!r} has memory of warps, but no target that says how large a warp is",
                func.span,
                'run BindTarget first, or enter a target: with tl.Target("nvptx")',
            )
        size = int(Target(bound).get("thread_warp_size", 1))
        finder = _Finder(func, size)
        finder.visit(func.body)
        for warp in finder.found.values():
            warp.settle()
        return func.with_body(_Rewriter(func, finder.found, size).visit(func.body))
