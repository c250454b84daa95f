"""Index arithmetic in another width: which expressions may be narrowed, and the rewriting itself.

Both passes of `narrow` share this. :class:`WidthAnalysis` walks a function with the facts of its loops, conditions and
asserts, and notes what must keep its width: an expression whose bounds do not fit, and every operand of such a one,
which has to be computed in the wide type too. :class:`Narrower` rewrites: constants, loop variables, casts and bindings
not noted become narrow, operands of different widths meet at the wider, and what a call, a store or a callee takes in
its own type is widened back. Comparisons and loads end an expression in this sense: they are exact on narrow operands.
"""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.ir import build
from tirlower.ir.binding import buffer_variables
from tirlower.ir.buffer import Buffer, BufferRegion, Range
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import (
    BinaryOp,
    BufferLoad,
    Call,
    Cast,
    CompareOp,
    Expr,
    IntImm,
    Ramp,
    Select,
    Shuffle,
    Var,
    const,
)
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Dispatch, substitute
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Bind, Block, BlockIter, BufferStore, For, Stmt
from tirlower.rewrite.fact_mutator import FactMutator
from tirlower.rewrite.retype import Retyper, with_operands

__all__ = ["Narrower", "WidthAnalysis", "fits", "parents_first"]

_LIKE_OPERANDS = frozenset(
    Op.get(f"tir.{name}")
    for name in ("bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not", "likely", "ignore_loop_partition")
)
"""Operations whose result is exact in the width of their operands, if those are."""
_SHIFTS = frozenset((Op.get("tir.shift_left"), Op.get("tir.shift_right")))
_IF_THEN_ELSE = Op.get("tir.if_then_else")
_CLZ = Op.get("tir.clz")


def fits(low: int, high: int, bits: int) -> bool:
    """Whether a range of integers lies in a signed type of that many bits."""
    half = 1 << (bits - 1)
    return -half <= low and high < half


class WidthAnalysis(FactMutator):
    """Finds what must stay wide. ``wide`` holds the ids of expressions, ``wide_vars`` variables.

    Expressions are visited parents first: one that must stay wide makes its operands wide.
    """

    def __init__(self, func: PrimFunc, bits: int) -> None:
        super().__init__(func)
        self.bits = bits
        self.wide: set[int] = set()
        self.wide_vars: set[Var] = set()
        self.signed: set[int] = set()
        """The ids of counts of leading zeros whose operand may be negative."""
        self.kept: list[Expr] = []
        """The expressions whose ids are noted; held so that no id is given away again."""

    def too_wide(self, op: Expr) -> bool:
        """Whether an integer expression's own value may not fit."""
        dtype = op.dtype
        if not dtype.is_int or dtype.bits <= self.bits:
            return False
        bound = self.analyzer.const_int_bound(op)
        if not fits(bound.min_value, bound.max_value, self.bits):
            return True
        if op.__class__ is Call and op.op in _SHIFTS:
            amount = self.analyzer.const_int_bound(op.args[1])
            return amount.min_value < 0 or amount.max_value >= self.bits
        return False

    def note(self, op: Expr) -> None:
        """An expression must stay wide."""
        if id(op) not in self.wide:
            self.wide.add(id(op))
            self.kept.append(op)

    def note_sign(self, op: Expr) -> None:
        """A count of leading zeros depends on the width, in a way that is known for what is not negative."""
        if op.__class__ is Call and op.op is _CLZ and self.analyzer.const_int_bound(op.args[0]).min_value < 0:
            self.signed.add(id(op))
            self.kept.append(op)

    def visit_expr(self, root: Expr) -> Expr:
        """Note what must stay wide in an expression, which comes back as it is."""
        if root.is_leaf:
            self._look(root, False)
            return root
        wide_here: set[int] = set()
        for op in parents_first(root):
            self.note_sign(op)
            wide = id(op) in wide_here
            if self._look(op, wide):
                wide_here.update(id(c) for c in op.children())
        return root

    def _look(self, op: Expr, wide: bool) -> bool:
        """Note one node, wide by its parents or by itself; whether its operands must be wide then."""
        dtype = op.dtype
        if dtype.is_int and dtype.bits > self.bits:
            wide = wide or self.too_wide(op)
            if wide:
                self.note(op)
                if op.__class__ is Var:
                    self.wide_vars.add(op)
        if op.__class__ in (BufferLoad, Cast) or isinstance(op, CompareOp):
            return False  # exact on narrow operands
        return wide

    def visit_Bind(self, op: Bind) -> Stmt:
        self.know_binding(op)
        return self.generic(op)

    def know_binding(self, op: Bind) -> None:
        """The bounds of a value are those of the variable bound to it."""
        dtype = op.var.dtype
        if dtype.is_int and dtype.is_scalar:
            bound = self.analyzer.const_int_bound(op.value)
            low, count = bound.min_value, bound.max_value - bound.min_value + 1
            if dtype.min_value <= low and count <= dtype.max_value:
                self.analyzer.bind(op.var, Range(const(low, dtype), const(count, dtype)), allow_override=True)

    def visit_For(self, op: For) -> Stmt:
        low, extent = self.analyzer.const_int_bound(op.min), self.analyzer.const_int_bound(op.extent)
        ends = (min(low.min_value, extent.min_value), max(low.max_value + max(extent.max_value, 0), extent.max_value))
        if not fits(*ends, self.bits):
            self.wide_vars.add(op.loop_var)
        return super().visit_For(op)

    def visit_Block(self, op: Block) -> Stmt:
        for it in op.iters:
            parts = [it.domain.min, it.domain.extent, build.add(it.domain.min, it.domain.extent)]
            parts += [] if it.value is None else [it.value]
            for part in parts:
                bound = self.analyzer.const_int_bound(part)
                if not fits(bound.min_value, bound.max_value, self.bits):
                    self.wide_vars.add(it.var)
        return super().visit_Block(op)


def parents_first(root: Expr) -> list[Expr]:
    """The distinct nodes of an expression, each after all nodes that hold it."""
    order: list[Expr] = []
    done: set[int] = set()
    stack: list[tuple[Expr, bool]] = [(root, False)]
    while stack:
        op, ready = stack.pop()
        if ready:
            order.append(op)
        elif id(op) not in done:
            done.add(id(op))
            stack.append((op, True))
            stack += [(c, False) for c in op.children() if id(c) not in done]
    order.reverse()
    return order


class Narrower(Dispatch[Expr, Expr, list[Expr]], Retyper):
    """Rewrites a body by what a :class:`WidthAnalysis` found.

    The variables of loops and block iterators are renewed where they are not wide; one bound to a value takes the type
    of the value.
    """

    def __init__(self, analysis: WidthAnalysis) -> None:
        super().__init__()
        self.analysis = analysis
        self.bits = analysis.bits
        self.buffers: dict[Buffer, Buffer] = {}

    # -- types -------------------------------------------------------------------------------------------------------
    def narrow(self, kind: DataType) -> DataType:
        """The narrow type in place of an integer type."""
        return kind.with_bits(self.bits) if kind.is_int and kind.bits > self.bits else kind

    def is_wide(self, op: Expr) -> bool:
        """Whether an expression keeps its type."""
        return id(op) in self.analysis.wide

    def define(self, var: Var, kind: DataType | None = None) -> Var:
        """The definition in place of a variable's."""
        wanted = kind
        if wanted is None:
            wanted = var.dtype if var in self.analysis.wide_vars else self.narrow(var.dtype)
        if wanted is var.dtype:
            return var
        known = self.vars.get(var)
        if known is None:
            known = self.vars[var] = Var(var.name, wanted, var.nonneg, span=var.span)
        return known

    def back(self, old: Expr, new: Expr) -> Expr:
        """A rewritten expression in the type that it had."""
        if new.dtype is old.dtype:
            return new
        if old.__class__ is IntImm or (old.__class__ is Cast and old.value is new):
            return old
        return build.cast(old.dtype, new, span=old.span)

    # -- expressions -------------------------------------------------------------------------------------------------
    def leaf(self, op: Expr) -> Expr:
        """Constants that fit, and the renewed variables."""
        if op.__class__ is IntImm and not self.is_wide(op):
            kind = self.narrow(op.dtype)
            return op if kind is op.dtype else IntImm(kind, op.value, span=op.span)
        return super().leaf(op)

    def rebuild(self, op: Expr, operands: list[Expr]) -> Expr:
        """Bring the operands of a node to one width, and rebuild it."""
        return self.dispatch(op, operands)

    def on_BinaryOp(self, op: BinaryOp | CompareOp, operands: list[Expr]) -> Expr:
        return super().rebuild(op, self._match(op, operands, (op.a, op.b)))

    on_CompareOp = on_BinaryOp

    def on_Select(self, op: Select, operands: list[Expr]) -> Expr:
        alike = self._match(op, operands[1:], (op.true_value, op.false_value))
        return super().rebuild(op, [operands[0], *alike])

    def on_Ramp(self, op: Ramp, operands: list[Expr]) -> Expr:
        return super().rebuild(op, self._match(op, operands, (op.base, op.stride)))

    def on_Shuffle(self, op: Shuffle, operands: list[Expr]) -> Expr:
        return super().rebuild(op, [*self._match(op, operands[: len(op.vectors)], op.vectors), *op.indices])

    def on_Cast(self, op: Cast, operands: list[Expr]) -> Expr:
        return self._cast(op, operands[0])

    def otherwise(self, op: Expr, operands: list[Expr]) -> Expr:
        """A node whose operands have widths of their own."""
        return super().rebuild(op, operands)

    def _match(self, op: Expr, operands: list[Expr], olds: Sequence[Expr]) -> list[Expr]:
        """Integer operands at the width of the widest, which is the old one where the result needs it."""
        if all(old is new for old, new in zip(olds, operands, strict=True)):
            return operands
        bits = max(new.dtype.bits for new in operands)
        if op.dtype.is_int and self.is_wide(op):
            bits = max(bits, op.dtype.bits)
        return [self._widened(old, new, bits) for old, new in zip(olds, operands, strict=True)]

    def _widened(self, old: Expr, new: Expr, bits: int) -> Expr:
        if not new.dtype.is_int or new.dtype.bits == bits:
            return new
        return self.back(old, new) if old.dtype.bits == bits else build.cast(new.dtype.with_bits(bits), new)

    def _cast(self, op: Cast, value: Expr) -> Expr:
        wanted = op.dtype if self.is_wide(op) else self.narrow(op.dtype)
        if wanted is op.dtype and value is op.value:
            return op
        return build.cast(wanted, value, span=op.span)

    def on_Call(self, op: Call, operands: list[Expr]) -> Expr:
        callee = op.op
        if all(a is b for a, b in zip(op.args, operands, strict=True)):
            return super().rebuild(op, operands)
        if callee in _LIKE_OPERANDS or callee in _SHIFTS:
            operands = self._match(op, operands, op.args)
            return with_operands(op, operands).with_(dtype=operands[0].dtype)
        if callee is _IF_THEN_ELSE:
            arms = self._match(op, operands[1:], op.args[1:])
            return with_operands(op, [operands[0], *arms]).with_(dtype=arms[0].dtype)
        if callee is _CLZ and id(op) not in self.analysis.signed and operands[0].dtype is not op.args[0].dtype:
            # The wider number has as many zeros more as it has bits more.
            count = with_operands(op, operands)
            old, new = op.args[0].dtype.bits, operands[0].dtype.bits
            return build.add(build.sub(count, const(new, count.dtype)), const(old, count.dtype))
        return super().rebuild(op, self.arguments(op, operands))

    def arguments(self, op: Call, operands: list[Expr]) -> list[Expr]:
        """The arguments of a call that takes them in the types that they have."""
        return [self.back(old, new) for old, new in zip(op.args, operands, strict=True)]

    # -- buffers -----------------------------------------------------------------------------------------------------
    def map_buffer(self, buffer: Buffer) -> Buffer:
        """The buffer with renewed variables in its shape, strides and offset."""
        known = self.buffers.get(buffer)
        if known is None:
            renewed = {v: build.cast(v.dtype, self.vars[v]) for v in buffer_variables(buffer) if v in self.vars}
            known = self.buffers[buffer] = substitute(buffer, renewed)
        return known

    def map_attr(self, value: object) -> object:
        """Values of attributes keep their types; a variable is the renewed one."""
        if isinstance(value, Expr) and not isinstance(value, Var):
            return self.back(value, self.visit_expr(value))
        return super().map_attr(value)

    # -- statements --------------------------------------------------------------------------------------------------
    def index(self, expr: Expr, kind: DataType) -> Expr:
        """A bound or binding in the type of the variable that it belongs to."""
        new = self.visit(expr)
        if new.dtype is kind:
            return new
        return self.back(expr, new) if kind is expr.dtype else build.cast(kind, new, span=expr.span)

    def visit_For(self, op: For) -> Stmt:
        var = self.define(op.loop_var)
        low, extent = self.index(op.min, var.dtype), self.index(op.extent, var.dtype)
        annotations = self.map_attr(op.annotations)
        return op.with_(loop_var=var, min=low, extent=extent, annotations=annotations, body=self.visit(op.body))

    def visit_BlockIter(self, op: BlockIter) -> BlockIter:
        var = self.define(op.var)
        domain = self._range(op.domain, var.dtype)
        return op.with_(var=var, domain=domain, value=None if op.value is None else self.index(op.value, var.dtype))

    def _range(self, op: Range, kind: DataType) -> Range:
        return op.with_(min=self.index(op.min, kind), extent=self.index(op.extent, kind))

    def visit_BufferRegion(self, op: BufferRegion) -> BufferRegion:
        made = []
        for part in op.region:
            low, extent = self.visit(part.min), self.visit(part.extent)
            wider = low.dtype if low.dtype.bits >= extent.dtype.bits else extent.dtype
            made.append(part.with_(min=build.cast(wider, low), extent=build.cast(wider, extent)))
        region = op.region if all(a is b for a, b in zip(made, op.region, strict=True)) else tuple(made)
        return op.with_(buffer=self.map_buffer(op.buffer), region=region)

    def visit_Bind(self, op: Bind) -> Stmt:
        value = self.visit(op.value)
        if value.dtype is op.var.dtype:
            return op.with_(value=value)
        return op.with_(var=self.define(op.var, value.dtype), value=value)

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        value = self.back(op.value, self.visit(op.value))
        indices = tuple([self.visit(i) for i in op.indices])
        if all(a is b for a, b in zip(indices, op.indices, strict=True)):
            indices = op.indices
        predicate = None if op.predicate is None else self.visit(op.predicate)
        return op.with_(buffer=self.map_buffer(op.buffer), value=value, indices=indices, predicate=predicate)

    def visit_AttrStmt(self, op: AttrStmt) -> Stmt:
        node, value = self.map_attr(op.node), self.back(op.value, self.visit(op.value))
        return op.with_(node=node, value=value, body=self.visit(op.body))

    def visit_AllocBuffer(self, op: AllocBuffer) -> Stmt:
        return op.with_(buffer=self.map_buffer(op.buffer), condition=self.visit(op.condition))
