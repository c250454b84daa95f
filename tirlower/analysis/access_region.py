"""What a block reads and writes: its access regions, with the conditions around each access used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tirlower.arith import Analyzer, detect_clip_bound
from tirlower.arith.conditions import conjuncts
from tirlower.diagnostics import WellFormedError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion
from tirlower.ir.expr import Call, Expr, IntImm, Let, Select, Var, const
from tirlower.ir.functor import Mutator, StmtMutator, pre_order_visit, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import nodes
from tirlower.ir.refresh import copy_var, refresh_binders
from tirlower.ir.regions import block_access_regions
from tirlower.ir.stmt import Block, BufferStore, Evaluate, For, ForKind, IfThenElse, Seq, Stmt

__all__ = ["get_block_access_region", "get_block_read_write_region"]

_IF_THEN_ELSE = Op.get("tir.if_then_else")


class _Narrower(StmtMutator):
    """Put each guarded access under a loop over what its guard leaves of the loops around it.

    The result has the same accesses, and is only looked at: a guard ``lo <= i < hi`` on a loop variable becomes a loop
    over ``lo .. hi`` whose variable takes the place of ``i``, so that relaxing the loops gives the narrowed region.
    """

    def __init__(self) -> None:
        self.analyzer = Analyzer()
        self.loops: dict[Var, tuple[Expr, Expr]] = {}

    def visit_For(self, op: For) -> Stmt:
        self.loops[op.loop_var] = (op.min, op.extent)
        body = self.visit(op.body)
        del self.loops[op.loop_var]
        return op.with_(body=body)

    def visit_Block(self, op: Block) -> Stmt:
        """A nested block counts by its declared regions."""
        return op

    def visit_IfThenElse(self, op: IfThenElse) -> Stmt:
        then_case = self._under(op.condition, op.then_case)
        parts: list[Stmt] = [Evaluate(op.condition), then_case]
        if op.else_case is not None:
            parts.append(self._under(build.logical_not(op.condition), op.else_case))
        return Seq(tuple(parts))

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        value, guarded = self._split(op.value)
        return Seq((op.with_(value=value), *guarded)) if guarded else op

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        value, guarded = self._split(op.value)
        return Seq((op.with_(value=value), *guarded)) if guarded else op

    def _split(self, value: Expr) -> tuple[Expr, list[Stmt]]:
        """An expression without its conditional parts, and those as statements under their conditions."""
        if not self.loops or value.is_leaf:
            return value, []
        found: list[Expr] = []

        def look(op: Expr) -> bool:
            if _conditional(op):
                found.append(op)
                return False
            return not isinstance(op, Let)  # what is inside depends on its variable

        pre_order_visit(value, look)
        if not found:
            return value, []
        parts: list[Stmt] = []
        for op in found:
            condition, then_value, else_value = op.children()
            parts += (
                Evaluate(condition),
                self._under(condition, Evaluate(then_value)),
                self._under(build.logical_not(condition), Evaluate(else_value)),
            )
        return _without(value, {id(op) for op in found}), parts

    def _under(self, condition: Expr, body: Stmt) -> Stmt:
        """A statement that runs where the condition holds, as a nest of loops over what is left of theirs."""
        simple = self.analyzer.simplify(condition)
        narrowed: dict[Var, tuple[Expr | None, Expr | None]] = {}
        variables = list(self.loops)
        for part in conjuncts(simple):
            # One conjunct at a time: one that says nothing does not spoil the others.
            clipped = detect_clip_bound(part, variables, self.analyzer)
            for position, var in enumerate(variables if clipped else ()):
                low, high = clipped[2 * position], clipped[2 * position + 1]
                old_low, old_high = narrowed.get(var, (None, None))
                if low is not None or high is not None:
                    narrowed[var] = (
                        low if old_low is None else old_low if low is None else build.max_(low, old_low),
                        high if old_high is None else old_high if high is None else build.min_(high, old_high),
                    )
        outer = dict(self.loops)
        headers: list[tuple[Var, Expr, Expr]] = []
        renamed: dict[Var, Var] = {}
        for var, (low, high) in narrowed.items():
            start, extent = outer[var]
            first = start if low is None else self._known_max(start, low)
            last = build.sub(build.add(start, extent), const(1, start.dtype))
            last = last if high is None else self._known_min(last, high)
            inner = copy_var(var)
            size = self.analyzer.simplify(build.add(build.sub(last, first), const(1, first.dtype)))
            if isinstance(size, IntImm) and size.value <= 0:
                self.loops = outer
                return Evaluate(const(0, "int32"))
            headers.append((inner, first, size))
            renamed[var] = inner
            self.loops[inner] = (first, size)
        made = self.visit(substitute(body, renamed)) if renamed else self.visit(body)
        self.loops = outer
        for inner, first, size in reversed(headers):
            made = For(inner, first, size, ForKind.SERIAL, None, {}, made)
        return made

    def _known_max(self, a: Expr, b: Expr) -> Expr:
        return self.analyzer.simplify(build.max_(*build.match_types(a, b)))

    def _known_min(self, a: Expr, b: Expr) -> Expr:
        return self.analyzer.simplify(build.min_(*build.match_types(a, b)))


def _conditional(op: Node) -> bool:
    return (isinstance(op, Call) and op.op is _IF_THEN_ELSE) or (
        isinstance(op, Select) and op.condition.dtype.is_scalar
    )


class _Blank(Mutator):
    """Replaces some expressions by a zero of their type."""

    def __init__(self, wanted: set[int]) -> None:
        self.wanted = wanted

    def enter_Call(self, op: Call) -> Expr | None:
        return const(0, op.dtype) if id(op) in self.wanted else None

    def enter_Select(self, op: Select) -> Expr | None:
        return const(0, op.dtype) if id(op) in self.wanted else None


def _without(value: Expr, wanted: set[int]) -> Expr:
    return _Blank(wanted).visit(value)


def _guards_loops(block: Block) -> bool:
    """Whether anything inside is conditional (else nothing can be narrowed)."""
    return any(isinstance(op, IfThenElse) or _conditional(op) for op in nodes(block.body))


def get_block_access_region(
    block: Block, buffer_var_map: Mapping[Var, Buffer] | None = None
) -> tuple[list[BufferRegion], list[BufferRegion], list[BufferRegion]]:
    """The regions that a block reads, writes, and accesses opaquely, found from its body and init.

    ``buffer_var_map`` gives the buffers outside the block by their data variables. A region is the box around all
    accesses of a buffer, in terms of the block's iterators, the loops inside relaxed; where an ``if`` or
    ``T.if_then_else`` bounds such a loop, only its part counts. A nested block counts by its declared regions. If the
    block has an init, the buffers that it writes are left out of the reads. A buffer whose data pointer is used is
    opaque: its whole region is. Raises :class:`WellFormedError` for what is no block.

    >>> from tirlower.ir import BufferLoad
    >>> A, B, i = Buffer("A", (8,)), Buffer("B", (8,)), Var("i")
    >>> copy = IfThenElse(build.ge(i, 2), BufferStore(B, BufferLoad(A, (build.sub(i, 2),)), (i,)), None)
    >>> loop = For(i, 0, 8, "serial", None, {}, copy)
    >>> reads, writes, opaque = get_block_access_region(Block("copy", (), True, (), (), None, (), {}, loop))
    >>> [(part.min.value, part.extent.value) for part in (*reads[0].region, *writes[0].region)]
    [(0, 6), (2, 6)]
    """
    if not isinstance(block, Block):
        raise WellFormedError(
            f"get_block_access_region takes a block, got {type(block).__name__}", span=getattr(block, "span", None)
        )
    if _guards_loops(block):
        block = block.with_(body=_Narrower().visit(refresh_binders(block.body)))
    found = block_access_regions(block, buffer_var_map)
    opaque = [buffer.region() for buffer in found.opaque]
    return list(found.reads), list(found.writes), opaque


def get_block_read_write_region(
    block: Block, buffer_var_map: Mapping[Var, Buffer] | None = None
) -> tuple[list[BufferRegion], list[BufferRegion]]:
    """The regions that a block reads and writes; a buffer accessed opaquely counts whole in both.

    See :func:`get_block_access_region`.
    """
    reads, writes, opaque = get_block_access_region(block, buffer_var_map)
    return _with_whole(reads, opaque), _with_whole(writes, opaque)


def _with_whole(regions: Sequence[BufferRegion], opaque: Sequence[BufferRegion]) -> list[BufferRegion]:
    whole = {region.buffer: region for region in opaque}
    kept = [whole.pop(region.buffer, region) for region in regions]
    return [*kept, *whole.values()]
