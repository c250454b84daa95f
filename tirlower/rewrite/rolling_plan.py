"""Which loop a buffer is rolled over, and the proof that what is kept is what would be stored again."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NoReturn

from tirlower.analysis.purity import side_effect
from tirlower.analysis.rolling_accesses import ORIGIN, Accesses, Allocation, Load, Store, rolled_by
from tirlower.analysis.undefined import undefined_vars
from tirlower.arith import Analyzer
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.binding import buffer_variables
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.expr import Add, BufferLoad, Expr, FloorDiv, IntImm, Ramp, Sub, Var, const, is_const_int
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Substituter, substitute
from tirlower.ir.node import Node
from tirlower.ir.op import Purity
from tirlower.ir.query import each
from tirlower.ir.stmt import AttrStmt, Block, For, ForKind, IfThenElse, Seq, Stmt, While
from tirlower.ir.structural import structural_equal
from tirlower.rewrite.double_buffer_marks import data_of
from tirlower.rewrite.scalar_overflow import analyzer_of

__all__ = ["Guard", "Plan", "Planner"]

MAX_PLACES = 1_000_000
"""Places along one axis that are enumerated before the pass refuses."""


@dataclass(eq=False)
class _Axis:
    """A dimension of the box that one iteration touches: where it starts, how long it is, what moves it."""

    base: Expr | None
    extent: int
    moved_by: set[Var]
    vector: bool

    def guard(self, number: int, loop: For, inner: set[Var], analyzer: Analyzer) -> Guard | None:
        """How an iteration of a loop shares elements with the one before; None where it does not, as far as known."""
        if self.base is None or self.vector or self.moved_by & inner:
            return None
        step, exact = _step(self.base, loop.loop_var, analyzer)
        if not 0 < step < self.extent:
            return None
        return Guard(number, loop, self.extent - step, self.base, step, exact)


@dataclass(eq=False)
class Guard:
    """A dimension in which stores of what the iteration before stored are left out.

    The part of the buffer at hand starts at ``base`` and moves by at most ``step``; ``exact``: by just that.
    """

    axis: int
    loop: For
    overlap: int
    base: Expr
    step: int
    exact: bool


@dataclass(eq=False)
class Plan:
    """What becomes of one buffer."""

    alloc: Allocation
    loop: For
    axis: int
    extent: int
    guards: list[Guard]
    new: Buffer = field(init=False)

    def __post_init__(self) -> None:
        buffer = self.alloc.op.buffer
        shape = list(buffer.shape)
        shape[self.axis] = const(self.extent, shape[self.axis].dtype)
        self.new = buffer.with_(shape=tuple(shape))


def _step(base: Expr, var: Var, analyzer: Analyzer) -> tuple[int, bool]:
    """By how much at most an iteration moves the start of a box forward (0 where that is not known or backward), and
    whether it is always that much.

    The start is affine in the variable, or the floor of such a quotient (where the sampling is finer than the loop).
    """
    divisor = 1
    while True:
        # The constant part is on either side of a sum.
        if isinstance(base, Add) and not _mentions(base.a, {var}):
            base = base.b
        elif isinstance(base, (Add, Sub)) and not _mentions(base.b, {var}):
            base = base.a
        elif divisor == 1 and isinstance(base, FloorDiv) and isinstance(base.b, IntImm) and base.b.value > 0:
            divisor = base.b.value
            base = base.a
        else:
            break
    later = substitute(base, {var: build.add(var, const(1, var.dtype))})
    moved = analyzer.simplify(build.sub(later, base))
    step = -(-moved.value // divisor) if isinstance(moved, IntImm) and moved.value > 0 else 0
    return step, divisor == 1


def _mentions(expr: Node, names: set[Var]) -> bool:
    return any(var in names for var in _variables(expr))


def _variables(expr: Node) -> set[Var]:
    layouts = (set(buffer_variables(load.buffer)) - {load.buffer.data} for load in each(BufferLoad, expr))
    return set(each(Var, expr)).union(*layouts)


class Planner:
    """Finds for each marked buffer the loop to roll over, and proves that what is kept is what would be stored."""

    def __init__(self, func: PrimFunc) -> None:
        self.seen = Accesses()
        self.seen.visit(func.body)
        # It knows no ranges: in a loop of one iteration the variable would vanish from what moves with it.
        self.analyzer, _ = analyzer_of(func)
        self.inline = Substituter({})
        if self.seen.marked:
            for var, value in self.seen.values.items():
                self.inline.vmap[var] = self.inline.visit_expr(value)

    def plans(self) -> dict[Var, Plan]:
        """The plan of each marked buffer, by data variable."""
        return {data: self._plan(data, mark) for data, mark in self.seen.marked.items()}

    def _plan(self, data: Var, mark: Stmt) -> Plan:
        alloc = self.seen.allocations.get(data)
        if alloc is None:
            self._refuse(data, mark, "the function does not allocate it", "mark a buffer that is allocated in a loop")
        buffer = alloc.op.buffer
        if data in self.seen.pointers:
            self._refuse(data, mark, "its pointer is used, or it has a view", "access it by its indices only")
        if buffer.strides or buffer.axis_separators or not is_const_int(buffer.elem_offset, 0):
            self._refuse(data, mark, "it has strides, an offset or axis separators", "use a compact buffer")
        axes = [self._axis(data, axis) for axis in range(len(buffer.shape))]
        around = _candidates(alloc.path)
        for at, loop in enumerate(around):
            if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
                continue
            inner = {other.loop_var for other in around[at + 1 :]}
            moved = [number for number, axis in enumerate(axes) if loop.loop_var in axis.moved_by]
            guard = axes[moved[0]].guard(moved[0], loop, inner, self.analyzer) if len(moved) == 1 else None
            if guard is not None:
                guards = [guard, *self._inner_guards(around[at + 1 :], axes)]
                plan = Plan(alloc, loop, moved[0], axes[moved[0]].extent, guards)
                self._check(data, mark, plan, around[at:])
                return plan
        self._refuse(
            data,
            mark,
            "no serial loop around its allocation moves it along one axis with an overlap",
            "allocate it in the loop that computes overlapping parts (PlanAndUpdateBufferAllocationLocation does)",
        )

    def _inner_guards(self, loops: list[For], axes: list[_Axis]) -> list[Guard]:
        """Loops inside the rolled one whose iterations overlap too need not store twice either."""
        found: list[Guard] = []
        for at, loop in enumerate(loops):
            inner = {other.loop_var for other in loops[at + 1 :]}
            moved = [number for number, axis in enumerate(axes) if loop.loop_var in axis.moved_by]
            if len(moved) == 1 and len(axes[moved[0]].moved_by & {outer.loop_var for outer in loops}) == 1:
                guard = axes[moved[0]].guard(moved[0], loop, inner, self.analyzer)
                if guard is not None:
                    found.append(guard)
        return found

    # The box of an iteration

    def _axis(self, data: Var, axis: int) -> _Axis:
        """The interval of one dimension that all accesses of one iteration lie in."""
        around = set(_loops(self.seen.allocations[data].path))
        ends: list[tuple[Expr | None, Expr | None]] = []
        moved_by: set[Var] = set()
        vector = False
        for access in self._accesses(data):
            index = self._plain(access.op.indices[axis])
            vector = vector or isinstance(index, Ramp) or not index.dtype.is_scalar
            low, high = self._interval(index, [loop for loop in _loops(access.path) if loop not in around])
            ends.append((low, high))
            outer = {loop.loop_var for loop in around}
            for part in (low, high, *(() if low is not None and high is not None else (index,))):
                moved_by |= _variables(part) & outer if part is not None else set()
        bounds = self._hull(ends)
        base, extent = bounds if bounds is not None else (None, 0)
        return _Axis(base, extent, moved_by, vector)

    def _interval(self, index: Expr, loops: list[For]) -> tuple[Expr | None, Expr | None]:
        low: Expr | None = index
        high: Expr | None = index
        if isinstance(index, Ramp):
            if not isinstance(index.stride, IntImm) or index.stride.value < 0 or not isinstance(index.lanes, int):
                return None, None
            low, high = index.base, build.add(index.base, index.stride.value * (index.lanes - 1))
        elif not index.dtype.is_scalar:
            return None, None
        for loop in reversed(loops):
            domain = {loop.loop_var: Range(self._plain(loop.min), self._plain(loop.extent))}
            low = None if low is None else self.analyzer.int_set(low, domain).min_value
            high = None if high is None else self.analyzer.int_set(high, domain).max_value
        return low, high

    def _hull(self, ends: list[tuple[Expr | None, Expr | None]]) -> tuple[Expr, int] | None:
        """The least start and the length, where all ends are constant distances apart."""
        first = ends[0][0] if ends else None
        if first is None:
            return None
        lows, highs = [], []
        for low, high in ends:
            if low is None or high is None:
                return None
            below = self.analyzer.simplify(build.sub(low, first))
            above = self.analyzer.simplify(build.sub(high, first))
            if not isinstance(below, IntImm) or not isinstance(above, IntImm):
                return None
            lows.append(below.value)
            highs.append(above.value)
        base = self.analyzer.simplify(build.add(first, const(min(lows), first.dtype)))
        return base, max(highs) - min(lows) + 1

    def _accesses(self, data: Var) -> list[Store | Load]:
        return [*self.seen.stores.get(data, ()), *self.seen.loads.get(data, ())]

    def _plain(self, expr: Expr) -> Expr:
        """An expression with bindings put in."""
        return self.inline.visit_expr(expr)

    # Whether what is kept is right

    def _check(self, data: Var, mark: Stmt, plan: Plan, around: list[For]) -> None:
        inside = {loop.loop_var for loop in around}
        if any(plan.loop in path for path in self.seen.jumps):
            self._refuse(data, mark, f"the loop {plan.loop.loop_var.name!r} may be left early", "let it run to its end")
        for loop in around[1:]:
            if (_variables(self._plain(loop.min)) | _variables(self._plain(loop.extent))) & inside:
                self._refuse(
                    data,
                    mark,
                    f"the bounds of the loop {loop.loop_var.name!r} differ by iteration",
                    "give it constant bounds and put the condition inside",
                )
        buffer = plan.alloc.op.buffer
        moved = {var for part in (*plan.new.shape, buffer.elem_offset) for var in undefined_vars(part)}
        defined = inside | {var for var, value in self.inline.vmap.items() if _mentions(value, inside)}
        if moved & defined or not is_const_int(plan.alloc.op.condition, 1):
            self._refuse(data, mark, "its size depends on the loop", "allocate it with the largest size")
        for access in self._accesses(data):
            if any(isinstance(op, Block) and op.iters for op in access.path):
                self._refuse(data, mark, "a block with iterators accesses it", "run ConvertBlocksToOpaque first")
        self._check_values(data, mark, plan.loop, {g.axis for g in plan.guards}, set())
        for store in self.seen.stores.get(data, ()):
            for guard in plan.guards:
                self._check_shared(data, mark, store, guard, plan.alloc)

    def _check_shared(self, data: Var, mark: Stmt, store: Store, guard: Guard, alloc: Allocation) -> None:
        """What a store is to leave out, it stored in the iteration before."""
        index = self.analyzer.simplify(build.sub(self._plain(store.op.indices[guard.axis]), guard.base))
        places = {0}
        for loop in store.loops:
            var = loop.loop_var
            if loop in alloc.path or not _mentions(index, {var}):
                continue
            moved = self.analyzer.simplify(
                build.sub(substitute(index, {var: build.add(var, const(1, var.dtype))}), index)
            )
            low, extent = loop.min, loop.extent
            if not (isinstance(moved, IntImm) and isinstance(low, IntImm) and isinstance(extent, IntImm)):
                places = set()
                break
            steps = range(extent.value) if len(places) * extent.value <= MAX_PLACES else range(0)
            places = {place + moved.value * step for place in places for step in steps}
            index = self.analyzer.simplify(substitute(index, {var: low}))
        start = index.value if isinstance(index, IntImm) else None
        if start is None or not places:
            self._refuse(
                data, mark, "which of its elements are stored is not known", "index it by sums of loop variables"
            )
        found = {start + place for place in places}
        for place in found:
            before = range(guard.step if guard.exact else 0, guard.step + 1)
            if place < guard.overlap and any(place + by not in found for by in before):
                self._refuse(
                    data,
                    mark,
                    f"an iteration of {guard.loop.loop_var.name!r} does not store all that the next one shares with it",
                    "store the whole part that is read, without gaps",
                )

    def _check_values(self, data: Var, mark: Stmt, loop: For, guarded: set[int], done: set[Var]) -> None:
        """What is stored at a place is the same in every iteration of the loop that stores there."""
        if data in done:
            return
        done.add(data)
        stores = self.seen.stores.get(data, [])
        alloc = self.seen.allocations.get(data)
        if alloc is None or loop not in alloc.path or data in self.seen.pointers:
            self._refuse(
                self._name(mark),
                mark,
                f"what is stored in it depends on {data.name!r}, which the loop {loop.loop_var.name!r} changes",
                "read what the loop does not write",
            )
        again = [load for load in self.seen.loads.get(data, ()) if load.store is not None and load.store in stores]
        if len(stores) > 1 or again:
            others = [load for load in self.seen.loads.get(data, ()) if load not in again]
            self._check_order(data, mark, stores, others, alloc)
            boxes = [self._box(store, alloc) for store in stores]
            for axis in guarded if data is self._name(mark) else range(len(alloc.op.buffer.shape)):
                if any(not self._same(box[axis], boxes[0][axis]) for box in boxes):
                    self._refuse(data, mark, "its stores cover different parts of it", "store it in one loop")
        for store in stores:
            self._check_store(data, mark, loop, store, alloc, done)

    def _name(self, mark: Stmt) -> Var:
        if isinstance(mark, AttrStmt):
            return data_of(mark)
        assert isinstance(mark, Block)
        buffer = rolled_by(mark)
        assert buffer is not None
        return buffer.data

    def _check_order(self, data: Var, mark: Stmt, stores: list[Store], loads: list[Load], alloc: Allocation) -> None:
        """Several stores are all done before anything else reads: no loop inside the allocation's scope has both."""
        last = max(store.at for store in stores)
        for load in loads:
            shared = any(
                op in load.path and op not in alloc.path and isinstance(op, (For, While))
                for store in stores
                for op in store.path
            )
            if load.at < last or shared:
                self._refuse(data, mark, "it is read before it is complete", "store all of it first, in its own loops")

    def _box(self, store: Store, alloc: Allocation) -> list[tuple[Expr | None, Expr | None]]:
        loops = [loop for loop in store.loops if loop not in alloc.path]
        return [self._interval(self._plain(index), loops) for index in store.op.indices]

    def _same(self, a: tuple[Expr | None, Expr | None], b: tuple[Expr | None, Expr | None]) -> bool:
        return all(
            x is not None and y is not None and self.analyzer.can_prove_equal(x, y) for x, y in zip(a, b, strict=True)
        )

    def _check_store(self, data: Var, mark: Stmt, loop: For, store: Store, alloc: Allocation, done: set[Var]) -> None:
        """The value, and the conditions and bounds around it, in terms of the place alone."""
        op = store.op
        inside = store.path[store.path.index(loop) :]
        loops = _loops(inside)
        place = [Var(f"x{axis}", index.dtype.element) for axis, index in enumerate(op.indices)]
        indices = [self._plain(index) for index in op.indices]
        if any(isinstance(part, While) for part in inside):
            self._refuse(data, mark, "a while loop stores it", "use a for loop")
        solved: dict[Var, Expr] = {}
        gone: set[Var] = {outer.loop_var for outer in loops if outer in alloc.path} | {loop.loop_var}
        for axis, index in enumerate(indices):
            index = index.base if isinstance(index, Ramp) else index
            inner = [outer.loop_var for outer in reversed(loops) if _mentions(index, {outer.loop_var})]
            gone.update(inner)
            for var in inner:
                rest = self._rest(index, var)
                if rest is not None and var not in solved:
                    new = build.sub(place[axis], rest)
                    solved = {key: substitute(value, {var: new}) for key, value in solved.items()}
                    solved[var] = substitute(new, solved)
                    break
        parts = [op.value, *([op.predicate] if op.predicate is not None else [])]
        for around in inside:
            if isinstance(around, IfThenElse):
                parts.append(around.condition)
            elif isinstance(around, Block):
                parts.append(around.predicate)
            elif isinstance(around, For) and around not in alloc.path:
                parts += [around.min, around.extent]
        at = [
            self.analyzer.simplify(substitute(index.base if isinstance(index, Ramp) else index, solved))
            for index in indices
        ]
        parts += [index for index in op.indices if not isinstance(index, Ramp)]
        for part in parts:
            plain = self._plain(part)
            if side_effect(plain) > Purity.READS:
                self._refuse(data, mark, "what is stored in it has effects", "store a plain value")
            self._check_part(data, mark, loop, plain, solved, gone, at, done)

    def _check_part(
        self,
        data: Var,
        mark: Stmt,
        loop: For,
        part: Expr,
        solved: dict[Var, Expr],
        gone: set[Var],
        at: list[Expr],
        done: set[Var],
    ) -> None:
        for load in each(BufferLoad, part):
            source = load.buffer.data
            if source is data:
                here = [substitute(i.base if isinstance(i, Ramp) else i, solved) for i in load.indices]
                if any(not self.analyzer.can_prove_equal(a, b) for a, b in zip(here, at, strict=True)):
                    self._refuse(data, mark, "an element of it depends on another one", "roll over an independent loop")
            elif any(loop in store.path for store in self.seen.stores.get(source, ())) or source in self.seen.pointers:
                self._check_values(source, mark, loop, set(), done)
        free = self.analyzer.simplify(substitute(part, solved))
        left = _variables(free) & gone
        if left:
            names = ", ".join(sorted(repr(var.name) for var in left))
            self._refuse(
                self._name(mark),
                mark,
                f"what is stored in {data.name!r} depends on {names}, not on the place alone",
                "a rolling buffer keeps values: the same element must get the same value in each iteration",
            )

    def _rest(self, index: Expr, var: Var) -> Expr | None:
        """An index without one of its variables, if that counts once."""
        zero = {var: const(0, var.dtype)}
        rest = substitute(index, zero)
        return rest if structural_equal(self.analyzer.simplify(build.sub(index, rest)), var) else None

    def _refuse(self, data: Var, mark: Stmt, why: str, help: str) -> NoReturn:
        raise TransformError(
            f"the buffer {data.name!r} cannot be a rolling buffer: {why}", origin=ORIGIN, span=mark.span, help=help
        )


def _loops(path: tuple[Stmt, ...]) -> list[For]:
    return [op for op in path if isinstance(op, For)]


def _candidates(path: tuple[Stmt, ...]) -> list[For]:
    """The loops around an allocation with nothing but loops in order between: no condition, no loop without order."""
    found: list[For] = []
    for op in reversed(path):
        plain = isinstance(op, (Seq, AttrStmt)) or (
            isinstance(op, Block) and not op.iters and is_const_int(op.predicate, 1) and op.init is None
        )
        if isinstance(op, For) and op.kind in (ForKind.SERIAL, ForKind.UNROLLED):
            found.append(op)
        elif not plain:
            break
    return found[::-1]
