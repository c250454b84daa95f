"""What part of each allocation a function accesses: the analysis under CompactBufferAllocation."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager

from tirlower.analysis.extremes import Domain, Extremes, plainer_start
from tirlower.analysis.index_loads import WriteLog, memory_read
from tirlower.analysis.purity import side_effect
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, BufferRegion, MatchBufferRegion, Range
from tirlower.ir.cancel import expr_key
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import And, BufferLoad, Call, Expr, IntImm, Let, Or, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import substitute
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import mentions
from tirlower.ir.stmt import AllocBuffer, Bind, Block, BufferStore, DeclBuffer, For, ForKind, Seq, Stmt, While
from tirlower.rewrite.fact_mutator import FactMutator, conjuncts, know_shapes, stated_fact
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["Region", "accessed_regions", "relaxed_by_scope"]

Region = tuple[tuple[Expr, Expr], ...]
"""For each dimension the first index and the extent."""

EXPLICIT_READ, EXPLICIT_WRITE = "explicit_read_region", "explicit_write_region"
"""Annotations of a block: positions of its regions that state what it accesses of their buffers."""

_ADDRESS_OF = Op.get("tir.address_of")
_IF = Op.get("tir.if_then_else")
_ATOMICS = frozenset(
    Op.get(f"tir.atomic_{name}") for name in ("add", "max", "min", "and", "or", "xor", "exchange", "cas")
)
_STORAGE_RANK = {"global": 0, "shared": 1, "warp": 2}
_LOCAL_RANK = 3
MAX_TERMS = 24
"""A bound that has grown to more nodes than this (a union of many symbolic accesses) counts as unknown."""


def relaxed_by_scope(scope: str, tag: str) -> bool:
    """Whether memory of a storage scope is shared by the iterations of a thread axis around its allocation."""
    rank = _STORAGE_RANK.get(scope.partition(".")[0], _LOCAL_RANK)
    if rank == _STORAGE_RANK["warp"]:
        return tag == "threadIdx.x"
    return rank <= (0 if tag.startswith("blockIdx") else 1)


def _stated_regions(op: Block) -> list[BufferRegion]:
    """The regions of a block that its annotations say hold in place of what its body accesses."""
    found: list[BufferRegion] = []
    for key, regions in ((EXPLICIT_READ, op.reads), (EXPLICIT_WRITE, op.writes)):
        value = op.annotations.get(key, ())
        for index in value if isinstance(value, tuple) else (value,):
            if isinstance(index, bool) or not isinstance(index, int) or not 0 <= index < len(regions or ()):
                raise TransformError(
                    f"block {op.name!r}: {key} names regions by their positions, 0 to {len(regions or ()) - 1}, got {index}",
                    span=op.span,
                )
            found.append(regions[index])
    return found


class _Allocation:
    """An allocation in scope: where it stands, and the box of its accesses so far."""

    def __init__(self, op: AllocBuffer, depth: int, outer: list[For]) -> None:
        self.op = op
        self.depth = depth
        self.threads = tuple(f for f in outer if relaxed_by_scope(op.buffer.scope, f.thread_tag or ""))
        self.box: list[tuple[Expr, Expr] | None] | None = None
        self.whole = False
        self.seen: set[object] = set()
        # What is used through pointers in blocks that state what these reach: the data, or elements' addresses.
        self.anchored = False
        self.dense = False
        # The memory that the ends of its accesses read, and when the last such access was.
        self.loads: set[Var] = set()
        self.last_load = 0
        self.made = 0
        self.nesting = 0


class _Collector(FactMutator):
    """Walks a function with the facts of loops and conditions and widens each allocation's box access by access."""

    def __init__(self, func: PrimFunc, strict: bool) -> None:
        super().__init__(func)
        self.strict = strict
        self.always, _ = analyzer_of(func)
        know_shapes(self.always, func)
        """What holds wherever a loop's variable is seen: what is accessed under a condition counts when it does not hold."""
        self.regions: dict[Buffer, Region] = {}
        self.open: dict[Buffer, _Allocation] = {}
        self.by_data: dict[Var, _Allocation] = {}
        # Loops (For) and bindings (variable, value or None) entered, in order.
        self.stack: list[For | tuple[Var, Expr | None]] = []
        self.guards: list[Expr] = []
        self.stated: frozenset[Buffer] = frozenset()
        """Buffers whose accesses the block around states."""
        self.told: dict[Buffer, tuple[BufferRegion, ...]] = {}
        """The regions that the innermost block around gives for a buffer: what its pointer reaches there."""
        self.log = WriteLog(func)
        self.nesting = 0
        """How many loops are around."""
        self.matched: dict[Stmt, tuple[MatchBufferRegion, ...]] = {}
        """Regions of allocations that head a body, matched by the block around it."""
        self._cache: dict[object, tuple[dict[Var, Expr], Extremes]] = {}

    # Context

    def push(self, item: For | tuple[Var, Expr | None]) -> None:
        self.stack.append(item)
        if isinstance(item, For):
            self.always.bind(item.loop_var, Range(item.min, item.extent), True)
        self._cache.clear()

    def pop(self) -> None:
        self.stack.pop()
        self._cache.clear()

    @contextmanager
    def holding(self, condition: Expr) -> Iterator[None]:
        """The pure conjuncts of a condition bound what is accessed inside."""
        facts = [c for c in conjuncts(condition) if not is_const_int(c) and side_effect(c) is Purity.PURE]
        self.guards += facts
        self._cache.clear()
        with super().holding(condition):
            yield
        del self.guards[len(self.guards) - len(facts) :]
        self._cache.clear()

    def context(self, allocation: _Allocation) -> tuple[dict[Var, Expr], Extremes]:
        """The values of the bindings since an allocation, and the extremes over the loops since. Threads that share it are
        relaxed, with the bindings and loops around it that differ from thread to thread."""
        key = (allocation.depth, allocation.threads)
        known = self._cache.get(key)
        if known is None:
            values: dict[Var, Expr] = {}
            domains: list[Domain] = []
            relaxed: set[Var] = set()
            for position, item in enumerate(self.stack):
                inside = position >= allocation.depth
                if isinstance(item, For):
                    start, extent = substitute(item.min, values), substitute(item.extent, values)
                    shared = any(item is loop for loop in allocation.threads)
                    if inside or shared or mentions(start, relaxed) or mentions(extent, relaxed):
                        domains.append(Domain.of_loop(item.loop_var, start, extent))
                        relaxed.add(item.loop_var)
                    continue
                var, value = item[0], None if item[1] is None else substitute(item[1], values)
                if value is not None:
                    if inside or mentions(value, relaxed):
                        values[var] = value
                elif inside or relaxed:  # bounded by conditions at most
                    low = const(0, var.dtype) if var.nonneg or var.dtype.is_uint else None
                    domains.append(Domain(var, [] if low is None else [low]))
                    relaxed.add(var)
            guards = [substitute(guard, values) for guard in self.guards]
            known = self._cache[key] = (values, Extremes(self.analyzer, domains, guards))
        return known

    # Statements

    def visit_For(self, op: For) -> Stmt:
        self.visit(op.min)
        self.visit(op.extent)
        with self.in_loop(op.loop_var, op.min, op.extent):
            self.push(op)
            self.nesting += 1
            self.visit(op.body)
            self.nesting -= 1
            self.pop()
        return op

    def visit_While(self, op: While) -> Stmt:
        self.nesting += 1
        made = super().visit_While(op)
        self.nesting -= 1
        return made

    def visit_Block(self, op: Block) -> Stmt:
        if op.iters or op.init is not None:
            raise TransformError(
                f"block {op.name!r} has {'iterators' if op.iters else 'an init'}",
                span=op.span,
                help="run ConvertBlocksToOpaque before CompactBufferAllocation",
            )
        self.visit(op.predicate)
        if op.matches_own:
            self.matched[op.body] = op.match_buffers
        else:
            for match in op.match_buffers:
                self.match(match)
        with self.holding(op.predicate):
            stated = _stated_regions(op)
            for region in stated:
                self.access_region(region)
            outer, told = self.stated, self.told
            self.stated = outer | {region.buffer for region in stated}
            listed: dict[Buffer, tuple[BufferRegion, ...]] = {}
            for region in (*(op.reads or ()), *(op.writes or ())):
                listed[region.buffer] = (*listed.get(region.buffer, ()), region)
            self.told = {**told, **listed}
            self.visit(op.body)
            self.stated, self.told = outer, told
        return op

    def match(self, match: MatchBufferRegion) -> None:
        """A matched region is an access of its source."""
        source, strides = match.source, match.buffer.strides
        # A stated stride other than the last one's 1 is the source's, which would change.
        fixed = any(not isinstance(s, Var) and not (n == 0 and is_const_int(s, 1)) for n, s in enumerate(strides[::-1]))
        if fixed:
            self.use_whole(source.buffer.data)
        else:
            self.access_region(source)

    def access_region(self, region: BufferRegion) -> None:
        """A region is an access of all of it."""
        ends = [build.sub(build.add(r.min, r.extent), const(1, r.min.dtype)) for r in region.region]
        self.access(region.buffer, [(r.min, end) for r, end in zip(region.region, ends, strict=True)])

    def visit_Seq(self, op: Seq) -> Stmt:
        opened: list[_Allocation] = []
        bound = 0
        matched = self.matched.pop(op, ())
        with self._facts() as hold:
            for stmt in op.stmts:
                if matched and not isinstance(stmt, AllocBuffer):
                    for match in matched:
                        self.match(match)
                    matched = ()
                self.visit(stmt)
                if isinstance(stmt, AllocBuffer):
                    opened.append(self.allocate(stmt))
                elif isinstance(stmt, Bind):
                    pure = stmt.value.dtype.is_integral and side_effect(stmt.value) is Purity.PURE
                    self.push((stmt.var, stmt.value if pure else None))
                    bound += 1
                fact = stated_fact(stmt)
                if fact is not None:
                    hold(fact)
        for _ in range(bound):
            self.pop()
        for allocation in reversed(opened):
            self.close(allocation)
        return op

    @contextmanager
    def _facts(self) -> Iterator[Callable[[Expr], None]]:
        entered: list[AbstractContextManager[object]] = []

        def hold(fact: Expr) -> None:
            scope = self.holding(fact)
            scope.__enter__()
            entered.append(scope)

        yield hold
        for scope in reversed(entered):
            scope.__exit__(None, None, None)

    def allocate(self, op: AllocBuffer) -> _Allocation:
        outer = [item for item in self.stack if isinstance(item, For) and item.kind is ForKind.THREAD_BINDING]
        made = _Allocation(op, len(self.stack), outer)
        made.made, made.nesting = self.log.now, self.nesting
        self.open[op.buffer] = self.by_data[op.buffer.data] = made
        return made

    def visit_DeclBuffer(self, op: DeclBuffer) -> Stmt:
        self.use_whole(op.buffer.data)
        return op

    def visit_BufferStore(self, op: BufferStore) -> Stmt:
        self.visit(op.value)
        for index in op.indices:
            self.visit(index)
        if op.predicate is not None:
            self.visit(op.predicate)
        self.access(op.buffer, op.indices)
        self.log.wrote(op.buffer.data, self.nesting)
        return op

    # Expressions

    def visit_expr(self, root: Expr) -> Expr:
        """Look for accesses, outermost first; conditions hold where they guard."""
        stack: list[Expr] = [root]
        seen: set[int] = set()
        while stack:
            op = stack.pop()
            if id(op) in seen:
                continue
            seen.add(id(op))
            if op.__class__ is Var:
                if op.type.__class__ is PointerType:
                    self.use_pointer(op)
                continue
            if op.__class__ is BufferLoad:
                self.access(op.buffer, op.indices)
            elif op.__class__ is Let:
                self.visit(op.value)
                pure = op.value.dtype.is_integral and side_effect(op.value) is Purity.PURE
                self.push((op.var, op.value if pure else None))
                self.visit(op.body)
                self.pop()
                continue
            elif (op.__class__ is And or op.__class__ is Or) and op.dtype.is_scalar:
                self.visit(op.a)
                with self.holding(op.a if op.__class__ is And else self.negated(op.a)):
                    self.visit(op.b)
                continue
            elif op.__class__ is Call:
                if op.op is _IF:
                    self.conditional(*op.args)
                    continue
                first = op.args[0] if op.args else None
                if op.op is _ADDRESS_OF and isinstance(first, BufferLoad):
                    # Where a callee goes from an element is not known.
                    self.use_pointer(first.buffer.data, element=True)
                    stack += first.indices
                    continue
                if not isinstance(op.op, Op) or op.op.purity not in (Purity.PURE, Purity.READS):
                    self.log.wrote(None, self.nesting)
                if op.op in _ATOMICS and isinstance(first, Call) and first.op is _ADDRESS_OF:
                    stack += (*op.args[1:], first.args[0])
                    continue
            if not op.is_leaf:
                stack += reversed(list(op.children()))
        return root

    def conditional(self, condition: Expr, true_value: Expr, false_value: Expr) -> None:
        self.visit(condition)
        with self.holding(condition):
            self.visit(true_value)
        with self.holding(self.negated(condition)):
            self.visit(false_value)

    def negated(self, condition: Expr) -> Expr:
        return self.analyzer.rewrite_simplify(build.logical_not(condition))

    # Accesses

    def use_whole(self, data: Var) -> None:
        """A use that may reach all of a buffer."""
        allocation = self.by_data.get(data)
        if allocation is not None:
            allocation.whole = True

    def use_pointer(self, data: Var, element: bool = False) -> None:
        """A pointer to a buffer's data, or to an element: it may reach everything, unless the block states what."""
        allocation = self.by_data.get(data)
        if allocation is None:
            return
        buffer = allocation.op.buffer
        if buffer not in self.stated and (buffer not in self.told or element):
            self.use_whole(data)
            return
        allocation.dense = True
        allocation.anchored = allocation.anchored or not element
        if buffer not in self.stated:
            for region in self.told[buffer]:
                self.access_region(region)

    def access(self, buffer: Buffer, indices: Sequence[Expr | tuple[Expr, Expr]]) -> None:
        """An access at indices, each an expression or a pair of ends."""
        if buffer in self.stated:
            return
        allocation = self.open.get(buffer)
        if allocation is None or allocation.whole:
            self.use_whole(buffer.data)  # by another buffer on the same data
            return
        key = None
        if len(self.stack) == allocation.depth and not allocation.threads and not self.guards:
            key = tuple([expr_key(i) if isinstance(i, Expr) else tuple(map(expr_key, i)) for i in indices])
            if key in allocation.seen:
                return
            allocation.seen.add(key)
        values, extremes = self.context(allocation)
        found = [self.ends(index, values, extremes) for index in indices]
        self.log.tick()
        for position, ends in enumerate(found):
            if ends is not None and not self.reads_only(allocation, ends):
                found[position] = None
        if any(ends is not None and self.empty(ends) for ends in found):
            # Under these loops and conditions nothing is accessed, but the buffer is used.
            allocation.box = allocation.box or []
            return
        box = allocation.box
        allocation.box = found if not box else [self.union(a, b) for a, b in zip(box, found, strict=True)]

    @staticmethod
    def ends(index: Expr | tuple[Expr, Expr], values: dict[Var, Expr], extremes: Extremes) -> tuple[Expr, Expr] | None:
        if isinstance(index, Expr):
            return extremes.interval(substitute(index, values))
        low, high = extremes.least(substitute(index[0], values)), extremes.greatest(substitute(index[1], values))
        return None if low is None or high is None else (low, high)

    @staticmethod
    def empty(ends: tuple[Expr, Expr]) -> bool:
        low, high = ends
        return isinstance(low, IntImm) and isinstance(high, IntImm) and low.value > high.value

    def reads_only(self, allocation: _Allocation, ends: tuple[Expr, Expr]) -> bool:
        """Whether the ends of an access may be evaluated again: they read memory at most, which is noted."""
        for end in ends:
            loads = memory_read(end)
            if loads is None:
                return False
            if loads:
                allocation.loads |= loads
                allocation.last_load = self.log.now
        return True

    def union(self, a: tuple[Expr, Expr] | None, b: tuple[Expr, Expr] | None) -> tuple[Expr, Expr] | None:
        if a is None or b is None:
            return None
        if any(side_effect(end) is not Purity.PURE for end in (*a, *b)):
            # What one access reads may not be readable where another one is.
            return a if all(expr_key(x) == expr_key(y) for x, y in zip(a, b, strict=True)) else None
        low = a[0] if a[0] is b[0] else self.always.simplify(build.min_(a[0], b[0]))
        high = a[1] if a[1] is b[1] else self.always.simplify(build.max_(a[1], b[1]))
        return (low, high) if _size(low) + _size(high) <= MAX_TERMS else None

    # Results

    def close(self, allocation: _Allocation) -> None:
        """The end of an allocation's scope: its region, in terms of what is visible where it stands."""
        buffer = allocation.op.buffer
        del self.open[buffer]
        del self.by_data[buffer.data]
        if allocation.whole or not buffer.shape:
            return
        if allocation.box is None:
            raise TransformError(
                f"buffer {buffer.name!r} is allocated, but nothing accesses it",
                span=allocation.op.span,
                help="remove the allocation: RemoveNoOp does, and PlanAndUpdateBufferAllocationLocation",
            )
        if not allocation.box:
            return
        stable = not allocation.loads or self.log.unchanged(
            allocation.loads, allocation.made, allocation.last_load, allocation.nesting
        )
        with self._facts() as hold:
            for extent in buffer.shape:
                if not isinstance(extent, IntImm):
                    hold(build.ge(extent, const(0, extent.dtype)))
            region = [
                self.narrowed(ends, shape, stable) for ends, shape in zip(allocation.box, buffer.shape, strict=True)
            ]
        if allocation.dense:
            # A callee counts from the pointer by the strides: rows stay as long, and the first one where it is.
            region[1:] = [(const(0, shape.dtype), shape) for shape in buffer.shape[1:]]
            low, extent = region[0]
            if allocation.anchored and not is_const_int(low, 0):
                end = build.add(low, extent)
                region[0] = (const(0, low.dtype), end if isinstance(end, IntImm) else buffer.shape[0])
        self.regions[buffer] = tuple(region)

    def narrowed(self, ends: tuple[Expr, Expr] | None, shape: Expr, stable: bool) -> tuple[Expr, Expr]:
        """The first index and the extent of a dimension, given the ends of its accesses."""
        zero = const(0, shape.dtype)
        if ends is None or not (stable or all(side_effect(end) is Purity.PURE for end in ends)):
            return zero, shape
        simplify = self.analyzer.simplify
        low, high = (simplify(build.cast(shape.dtype, end)) for end in ends)
        low = plainer_start(low, high, self.analyzer)
        extent = simplify(build.add(build.sub(high, low), const(1, shape.dtype)))
        if self.strict:
            if isinstance(low, IntImm) and isinstance(high, IntImm) and isinstance(shape, IntImm):
                # Only what lies inside counts, even of accesses that guards not understood keep from happening.
                first, last = max(low.value, 0), min(high.value, shape.value - 1)
                if first > last:
                    return zero, shape
                return const(first, shape.dtype), const(last - first + 1, shape.dtype)
            low = simplify(build.max_(zero, low))
            extent = simplify(build.min_(shape, extent))
        if isinstance(extent, IntImm):
            return (low, extent) if extent.value > 0 else (zero, shape)
        if side_effect(extent) is not Purity.PURE or self.wrapping.wraps(extent):
            return zero, shape  # an extent that wraps may be too small
        if self.analyzer.can_prove_equal(extent, shape):
            return (low, shape)
        bounded = self.without_loops(extent, shape)
        if bounded is None:
            return zero, shape
        if not self.analyzer.can_prove(build.ge(bounded, zero)):
            bounded = simplify(build.max_(bounded, zero))
        return low, bounded

    def without_loops(self, extent: Expr, shape: Expr) -> Expr | None:
        """An extent that the loops around the allocation do not change, and at least as large."""
        loops = [item for item in self.stack if isinstance(item, For)]
        if not mentions(extent, {loop.loop_var for loop in loops}):
            return extent
        most = self.analyzer.const_int_bound(extent).max_value
        if most < shape.dtype.max_value:
            return const(most, shape.dtype)
        domains = [Domain.of_loop(loop.loop_var, loop.min, loop.extent) for loop in loops]
        end = Extremes(self.analyzer, domains).greatest(extent)
        if end is None or _size(end) > MAX_TERMS:
            return None
        return self.analyzer.simplify(build.min_(shape, end)) if self.strict else end


def _size(expr: Expr) -> int:
    count, stack = 0, [expr]
    while stack and count <= MAX_TERMS:
        op: Expr = stack.pop()
        count += 1
        stack += op.children()
    return count


def accessed_regions(func: PrimFunc, strict: bool) -> dict[Buffer, Region]:
    """The region of each allocation that is accessed through its own indices alone.

    Buffers that a view, a pointer or a callee may reach otherwise are left out. The region's ends are in terms of what
    is visible at the allocation. Raises :class:`TransformError` for a block with iterators, and for an allocation
    that nothing accesses.
    """
    collector = _Collector(func, strict)
    collector.visit(func.body)
    return collector.regions
