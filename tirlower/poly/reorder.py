"""May loops change places? Reordering, fusion and distribution, decided by the dependences that they would turn round.

A structural refusal (loops that are not nested, bounds that depend on each other) has a reason and no witness; one by
a dependence has two iterations whose order would change.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from tirlower.ir import (
    AllocBuffer,
    AllocConst,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DeclBuffer,
    For,
    Op,
    PrimFunc,
    Seq,
    Stmt,
    Var,
    While,
    post_order_visit,
)
from tirlower.ir.node import Node
from tirlower.ir.op import Purity
from tirlower.ir.query import each
from tirlower.poly.conflicts import Relation
from tirlower.poly.digit_test import Sign
from tirlower.poly.extract import extract
from tirlower.poly.forms import single
from tirlower.poly.isl import Solver
from tirlower.poly.left_out import does_nothing, leaves_out_nothing, may_run_first
from tirlower.poly.order_kept import Case, LoopLike, OrderQuestions
from tirlower.poly.scop import Loop, Scop
from tirlower.poly.verdict import PROVED, Verdict

__all__ = ["can_distribute", "can_fuse", "can_reorder"]

MAX_SKIPS = 24
"""The jumps, for each cut, behind which it is looked for what they leave out: the program is extracted for each."""


def can_reorder(
    func: PrimFunc | Scop, loops: Sequence[LoopLike], *, reassociate: bool = False, solver: Solver | None = None
) -> Verdict:
    """Whether nested loops may be put in the given order, outermost first; loops between them keep their place.

    Refuted where a dependence would be turned round. The updates of one reduction may change their order where that
    cannot be told from the result (integers, minima, maxima); sums and products of floats only with ``reassociate``.

    >>> from tirlower.script import parse
    >>> stencil = parse('''
    ... @T.prim_func
    ... def stencil(A: T.Buffer((9, 9), "int32")):
    ...     for i, j in T.grid(8, 8):
    ...         A[i + 1, j] = A[i, j + 1]
    ... ''')
    >>> verdict = can_reorder(stencil, ["j", "i"])
    >>> verdict.status, str(verdict.witness)
    ('refuted', 'iteration (i = 0, j = 1) writes A[1, 1] and iteration (i = 1, j = 0) reads A[1, 1]')
    """
    scop = extract(func)
    wanted = [scop.loop(loop) for loop in loops]
    if len(set(wanted)) != len(wanted):
        return Verdict("refuted", "a loop is named twice in the new order")
    if len(wanted) < 2:
        return PROVED
    innermost = max(wanted, key=lambda loop: len(loop.outer))
    outermost = min(wanted, key=lambda loop: len(loop.outer))
    for loop in wanted:
        if loop not in innermost.nest:
            return Verdict("refuted", f"the loops {loop.name!r} and {innermost.name!r} are not nested in each other")
    chain = innermost.nest[len(outermost.outer) :]
    places = iter(wanted)
    order = [next(places) if loop in wanted else loop for loop in chain]
    structural = _reorderable(scop, chain, order)
    if structural is not None:
        return structural
    body = (chain[-1].node.body,)
    if order != list(chain) and not may_run_first(scop, body, body):
        return _ended("iterations")
    return _Order(scop, solver, reassociate).reordered(chain, order)


def _reorderable(scop: Scop, chain: Sequence[Loop], order: Sequence[Loop]) -> Verdict | None:
    for loop in chain:
        if isinstance(loop.node, While):
            return Verdict("refuted", "a while loop cannot change places")
        if loop.leaves and not does_nothing(scop, chain[0]):
            return Verdict("refuted", f"a statement leaves the loop {loop.name!r} early")
    for at, loop in enumerate(order):
        inner = {later.var for later in order[at + 1 :]}
        deps = {var for condition in loop.conditions for var in scop.space.deps_of_condition(condition)}
        for var in deps & inner:
            return Verdict(
                "refuted",
                f"the bounds of the loop {loop.name!r} depend on {var.name!r}, which would be inside it",
                help=f"give {loop.name!r} bounds that hold for every {var.name!r}, and guard the body",
            )
    for outer, inner_loop in itertools.pairwise(chain):
        beside = _beside(scop, outer, inner_loop)
        if beside is not None:
            return beside
    if order[0] is not chain[0] and _writes_its_bounds(scop, chain[0]):
        name = chain[0].name
        return Verdict(
            "refuted",
            f"the body of {name!r} writes what its bounds read, which would be read again in each {order[0].name!r}",
            help="bind the extent to a name in front of the loop",
        )
    return None


def _writes_its_bounds(scop: Scop, loop: Loop) -> bool:
    """Whether what happens in a loop may change what its bounds are read from; the loop takes them once."""
    if not isinstance(loop.node, For):
        return False
    bounds = (loop.node.min, loop.node.extent)
    read = {scop.pointers.root(load.buffer.data) for load in each(BufferLoad, *bounds)}
    unknown = any(not isinstance(call.op, Op) or call.op.purity > Purity.PURE for call in each(Call, *bounds))
    return any(
        access.is_write and (unknown or any(scop.pointers.may_meet(access.data, root) for root in read))
        for access in scop.inside(loop)
    )


def _beside(scop: Scop, outer: Loop, inner: Loop) -> Verdict | None:
    """A refusal where the outer loop of a nest has more in its body than the inner loop."""
    places = [access.loops for access in scop.inside(outer)]
    places += [loops for _, loops, _ in scop.fixtures if outer in loops]
    if all(inner in loops for loops in places):
        return None
    return Verdict(
        "refuted",
        f"the loop {outer.name!r} has statements beside the loop {inner.name!r}",
        help=f"distribute {outer.name!r} over its statements first",
    )


def can_fuse(
    func: PrimFunc | Scop,
    first: LoopLike,
    second: LoopLike,
    *,
    reassociate: bool = False,
    solver: Solver | None = None,
) -> Verdict:
    """Whether two loops may become one.

    Of nested loops, the iterations of both become those of one loop: they must be perfectly nested, and the inner
    bounds not depend on the outer variable. Of adjacent loops with equal extents, the bodies are put together: refuted
    where an iteration of the second needs, or overwrites, what a later iteration of the first computes or uses.
    """
    scop = extract(func)
    one, two = scop.loop(first), scop.loop(second)
    if one in two.outer:
        return _fuse_nested(scop, one, two)
    if two in one.outer:
        return Verdict("refuted", f"the loop {one.name!r} is inside {two.name!r}: name the outer one first")
    if one.outer != two.outer:
        return Verdict("refuted", f"the loops {one.name!r} and {two.name!r} do not stand in the same loops")
    if one.order > two.order:
        return Verdict("refuted", f"the loop {one.name!r} comes after {two.name!r}: name the first one first")
    between = _between(scop, one, two)
    if between is not None:
        return between
    if one.extent is None or two.extent is None or one.leaves or two.leaves:
        return Verdict("refuted", "a loop that ends by what it computes cannot be fused")
    if one.continues:
        return Verdict("refuted", f"a statement ends iterations of {one.name!r} early, which would skip {two.name!r}")
    if one.extent.key != two.extent.key:
        return Verdict(
            "refuted",
            f"the extents of {one.name!r} and {two.name!r} differ: {_extent(one)} and {_extent(two)}",
        )
    if not may_run_first(scop, (one.node.body,), (two.node.body,)):
        return _ended(f"iterations of {two.name!r}")
    return _Order(scop, solver, reassociate).fused(one, two)


def _ended(what: str) -> Verdict:
    reason = f"an assertion that may fail keeps {what} from running, which would come first then"
    return Verdict("refuted", reason, help="move the assertion in front of the loops")


def _extent(loop: Loop) -> str:
    return str(loop.node.extent) if isinstance(loop.node, For) else "?"


def _fuse_nested(scop: Scop, outer: Loop, inner: Loop) -> Verdict:
    if inner.outer[-1] is not outer:
        return Verdict("refuted", f"there are loops between {outer.name!r} and {inner.name!r}")
    if outer.leaves or inner.leaves or outer.extent is None or inner.extent is None:
        return Verdict("refuted", "a loop that ends by what it computes cannot be fused")
    if any(outer.var in scop.space.deps_of_condition(condition) for condition in inner.conditions):
        return Verdict("refuted", f"the bounds of {inner.name!r} depend on {outer.name!r}")
    beside = _beside(scop, outer, inner)
    return PROVED if beside is None else beside


def _between(scop: Scop, one: Loop, two: Loop) -> Verdict | None:
    last = max(
        one.order,
        *(a.order for a in scop.inside(one)),
        *(x.order for x in scop.loops if one in x.nest),
        *(order for order, loops, _ in scop.fixtures if one in loops),
    )
    for order in (*(s.order for s in scop.statements), *(order for order, _, _ in scop.fixtures)):
        if last < order < two.order:
            return Verdict("refuted", f"a statement stands between the loops {one.name!r} and {two.name!r}")
    return None


def can_distribute(
    func: PrimFunc | Scop,
    loop: LoopLike,
    at: int | None = None,
    *,
    reassociate: bool = False,
    solver: Solver | None = None,
) -> Verdict:
    """Whether a loop may become several, one for each statement of its body; with ``at``, two: before and from the
    statement of that number.

    Refuted where a later statement hands a value on to an earlier one of a later iteration, and where the parts share
    what the body allocates or binds.
    """
    scop = extract(func)
    found = scop.loop(loop)
    body = found.node.body
    stmts: tuple[Stmt, ...] = body.stmts if isinstance(body, Seq) else (body,)
    if at is not None and not 0 < at < len(stmts):
        return Verdict("refuted", f"the body of {found.name!r} has {len(stmts)} statements: it cannot be cut at {at}")
    if isinstance(found.node, While):
        return _endless(found)
    cuts = [at] if at is not None else list(range(1, len(stmts)))
    if cuts and _writes_its_bounds(scop, found):
        return Verdict(
            "refuted", f"the body of {found.name!r} writes what its bounds read, which the next loop would too"
        )
    part_of: dict[int, int] = {}
    for n, stmt in enumerate(stmts):
        part_of.update(dict.fromkeys(_statement_ids(stmt), n))
    order = _Order(scop, solver, reassociate)
    unknown: Verdict | None = None
    few = len(cuts) * len((*found.leaves, *found.continues)) <= MAX_SKIPS
    for cut in cuts:
        shared = _shared_names(stmts, cut, scop, found, part_of)
        skipped = _skipped(scop, found, stmts, cut, part_of, few and shared is None)
        stopped = shared if skipped is None else skipped
        if stopped is None and not may_run_first(scop, stmts[cut:], stmts[:cut]):
            stopped = _ended("what stands before the cut")
        verdict = order.distributed(found, part_of, cut) if stopped is None else stopped
        if verdict.refuted:
            return verdict
        if verdict.unknown:
            if unknown is None:
                unknown = verdict
    return PROVED if unknown is None else unknown


def _endless(loop: Loop) -> Verdict:
    return Verdict("refuted", f"how long the loop {loop.name!r} runs depends on what it computes")


def _skipped(
    scop: Scop, loop: Loop, stmts: Sequence[Stmt], cut: int, part_of: Mapping[int, int], apart: bool
) -> Verdict | None:
    """A refusal where a jump on one side of a cut keeps the other side from what it would do. ``apart`` says that the sides
    share no names, and that each jump can be looked at."""
    first, second = stmts[:cut], stmts[cut:]
    for jump in (*loop.leaves, *loop.continues):
        behind = part_of[id(jump)] < cut
        sides = (first, second) if behind else (second, first)
        if apart and leaves_out_nothing(scop, loop, jump, *sides, behind):
            continue
        if any(jump is leave for leave in loop.leaves):
            return _endless(loop)
        if not behind:
            continue
        reason = f"a statement before the cut ends iterations of {loop.name!r} early, what is behind it too"
        return Verdict("refuted", reason, help="guard the statements behind it by the opposite condition")
    return None


def _statement_ids(root: Stmt) -> list[int]:
    found: list[int] = []
    post_order_visit(root, lambda op: found.append(id(op)) if isinstance(op, Stmt) else None)
    return found


def _shared_names(
    stmts: Sequence[Stmt], cut: int, scop: Scop, loop: Loop, part_of: Mapping[int, int]
) -> Verdict | None:
    bound: set[Node] = {stmt.var for stmt in stmts[:cut] if isinstance(stmt, Bind)}
    bound |= {stmt.buffer for stmt in stmts[:cut] if isinstance(stmt, DeclBuffer)}
    used: list[Var | Buffer] = []

    def look(op: Node) -> None:
        if isinstance(op, (Var, Buffer)) and op in bound:
            used.append(op)
        elif isinstance(op, (BufferLoad, BufferStore, DeclBuffer)):
            buffer = op.buffer
            if buffer in bound:
                used.append(buffer)
            for part in (buffer.data, *buffer.shape, *buffer.strides, buffer.elem_offset):
                post_order_visit(part, look)

    if bound:
        for stmt in stmts[cut:]:
            post_order_visit(stmt, look)
    if used:
        return Verdict(
            "refuted",
            f"{used[0].name!r} is bound before the cut and used after it",
            help="store it in a buffer with an element for each iteration",
        )
    early = {
        node.buffer.data
        for _, loops, node in scop.fixtures
        if loop in loops and isinstance(node, (AllocBuffer, AllocConst)) and part_of[id(node)] < cut
    }
    for access in scop.inside(loop):
        if access.data in early and part_of[id(access.statement.node)] >= cut:
            name = access.data.name
            return Verdict(
                "refuted",
                f"the buffer {name!r} is allocated in the body before the cut and used after it",
                help=f"allocate {name!r} outside the loop, with a dimension for {loop.name!r}",
            )
    return None


class _Order(OrderQuestions):
    """The questions for loops that change places."""

    def reordered(self, chain: Sequence[Loop], order: Sequence[Loop]) -> Verdict:
        """The verdict on a permutation of a perfect nest."""
        outer: dict[Loop, Sign] = dict.fromkeys(chain[0].outer, "=")
        cases: list[Case] = []
        for a, b in self.pairs(self.scop.inside(chain[0]), outer):
            for first, second in ((a, b), (b, a)) if a is not b else ((a, b),):
                own = self.scop.homes.get(first.data, ())
                private: dict[Loop, Sign] = {loop: "=" for loop in chain if loop in own}
                for signs in _turned(chain, order):
                    if all(signs.get(loop, "=") == "=" for loop in private):
                        cases.append((first, second, {**outer, **signs, **private}, ()))
        return self.decide(cases, "the new order turns round a dependence")

    def fused(self, one: Loop, two: Loop) -> Verdict:
        """The verdict on putting the bodies of adjacent loops together."""
        outer: dict[Loop, Sign] = dict.fromkeys(one.outer, "=")
        inside = self.scop.inside(one), self.scop.inside(two)
        relation: Relation = (single(one.var) - one.start, single(two.var) - two.start, ">")
        cases: list[Case] = [
            (a, b, outer, (relation,))
            for a, b in self.pairs([*inside[0], *inside[1]], outer)
            if a.loops[len(outer)] is one and b.loops[len(outer)] is two
        ]
        cases += [
            (b, a, outer, (relation,))
            for a, b in self.pairs([*inside[0], *inside[1]], outer)
            if a.loops[len(outer)] is two and b.loops[len(outer)] is one
        ]
        return self.decide(cases, "fusing turns round a dependence")

    def distributed(self, loop: Loop, part_of: Mapping[int, int], cut: int) -> Verdict:
        """The verdict on cutting a loop in two."""
        outer: dict[Loop, Sign] = dict.fromkeys(loop.outer, "=")
        cases: list[Case] = []
        for a, b in self.pairs(self.scop.inside(loop), outer):
            for first, second in ((a, b), (b, a)):
                late, early = part_of[id(first.statement.node)], part_of[id(second.statement.node)]
                if late >= cut > early:
                    if loop not in self.scop.homes.get(first.data, ()):
                        cases.append((first, second, {**outer, loop: "<"}, ()))
        return self.decide(cases, "the cut turns round a dependence")


def _turned(chain: Sequence[Loop], order: Sequence[Loop]) -> Iterator[dict[Loop, Sign]]:
    """The signs of the loops for which the source comes first in ``chain`` and last in ``order``."""
    for p, carrier in enumerate(chain):
        before: dict[Loop, Sign] = {**dict.fromkeys(chain[:p], "="), carrier: "<"}
        for q, turned in enumerate(order):
            after: dict[Loop, Sign] = {**dict.fromkeys(order[:q], "="), turned: ">"}
            if all(before.get(loop, sign) == sign for loop, sign in after.items()):
                yield {**before, **after}
