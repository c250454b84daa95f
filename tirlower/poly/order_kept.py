"""Do all instances that meet keep their order? The one question behind every step that only changes the order.

A step says when the instances run afterwards: for each statement that it takes along a position, numbers and forms over
the old loops, compared one after another (:data:`~tirlower.poly.execution_order.Position`). Whatever the step is called
(reorder, split, tile, fuse, skew, reverse, shift, fission, merge), it is legal where no two instances that touch one
element, one of them writing, come in the other order, or at once.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from tirlower.diagnostics import TirError
from tirlower.ir import (
    AllocBuffer,
    AllocConst,
    Bind,
    Buffer,
    BufferLoad,
    BufferStore,
    Call,
    DeclBuffer,
    Evaluate,
    Expr,
    For,
    Op,
    PrimFunc,
    Stmt,
    Var,
    While,
    post_order_visit,
)
from tirlower.ir.node import Node
from tirlower.ir.query import each
from tirlower.poly.conflicts import MAX_PAIRS, Conflicts, Relation
from tirlower.poly.digit_test import Sign, disjoint
from tirlower.poly.execution_order import Position, common_loops, distances, place_of, ways_before, ways_related
from tirlower.poly.expressions import Converter
from tirlower.poly.extract import extract
from tirlower.poly.forms import Form, Opaque, constant, single
from tirlower.poly.isl import Solver
from tirlower.poly.left_out import does_nothing, is_quiet, may_run_first
from tirlower.poly.scop import Access, Loop, Scop, Statement, updates_of_one
from tirlower.poly.verdict import PROVED, Verdict

__all__ = ["Case", "Coordinate", "LoopLike", "OrderQuestions", "form_of", "order_kept"]

LoopLike = For | While | Var | str | Loop
Coordinate: TypeAlias = "int | Expr | Form | Loop | For"
"""A part of a position: a number, an expression or form over the loops around a statement, a loop for its variable."""
Case = tuple[Access, Access, Mapping[Loop, Sign], Sequence[Relation]]


def order_kept(
    before: PrimFunc | Scop,
    relabel: Mapping[Stmt, Sequence[Coordinate]],
    part: LoopLike | Sequence[LoopLike] | None = None,
    *,
    reassociate: bool = False,
    solver: Solver | None = None,
) -> Verdict:
    """Whether all pairs of instances that meet in an element keep their order where statements run at new positions.

    ``relabel`` gives statements their positions, in terms of the loops around them; what stands inside such a statement
    runs there in its old order. ``part`` is the loop (or the loops side by side) that is rewritten: the loops around it keep
    their iterations, what stands outside is not asked about; without it, all of the function. What has no position inside it keeps its
    place: the loops from ``part`` on, each by its number in the text (``Loop.order``) and its variable, and the number
    of its own. Equal positions are left to the text. Two loops in step are ``(i, 0)`` and ``(j, 1)``, a tile is ``(i // 8, j // 8, i % 8, j % 8)``.

    The updates of one reduction may change their order as in :func:`~tirlower.poly.can_reorder`. Refuted with two
    iterations that change their order; without a witness where jumps, names or memory inside ``part`` do not allow
    another order of what is around them. The statement of an ``if`` or a loop whose condition or bounds read memory has a position
    of its own. Raises :class:`TirError` for positions that do not compare, or are no quasi-affine forms of the
    loops around their statement.

    >>> from tirlower.script import parse
    >>> stencil = parse('''
    ... @T.prim_func
    ... def stencil(A: T.Buffer((9, 9), "int32")):
    ...     for i, j in T.grid(8, 8):
    ...         A[i + 1, j] = A[i, j + 1]
    ... ''')
    >>> i, j = stencil.body, stencil.body.body
    >>> str(order_kept(stencil, {j.body: [j, i]}, i).witness)
    'iteration (i = 0, j = 1) writes A[1, 1] and iteration (i = 1, j = 0) reads A[1, 1]'
    >>> order_kept(stencil, {j.body: [i.loop_var + j.loop_var, i]}, i).proved
    True
    """
    scop = extract(before)
    made = _Part.of(scop, relabel, part)
    structural = _structural(made)
    if structural is not None:
        return structural
    return _Kept(made, solver, reassociate).verdict()


class OrderQuestions:
    """Asks whether a new order turns a dependence round."""

    def __init__(self, scop: Scop, solver: Solver | None, reassociate: bool) -> None:
        self.scop = scop
        self.conflicts = Conflicts(scop, solver)
        self.reassociate = reassociate

    def commutes(self, a: Access, b: Access) -> bool:
        """Whether both are updates of a reduction whose order does not matter."""
        found = a.update
        return found is not None and updates_of_one(a, b) and (found.reorders or self.reassociate)

    def pairs(self, accesses: Sequence[Access], signs: Mapping[Loop, Sign]) -> Iterator[tuple[Access, Access]]:
        """The pairs of accesses that may meet and do not commute."""
        self.complete = True
        for pair in self.conflicts.pairs(accesses, signs):
            if pair is None:
                self.complete = False
                return
            if not self.commutes(*pair):
                yield pair

    def decide(self, cases: Sequence[Case], reason: str) -> Verdict:
        """The verdict on an order in which the first access of each case comes last, where its relations hold."""
        with self.conflicts.solver.verdict():
            return self._decided(cases, reason)

    def _decided(self, cases: Sequence[Case], reason: str) -> Verdict:
        unknown = None if self.complete else Verdict("unknown", f"gave up after {MAX_PAIRS} pairs of accesses")
        for case in cases:
            found = self.conflicts.ask(*case)
            if found.status == "empty":
                continue
            a, b = case[0], case[1]
            if found.status == "found" and found.exact:
                witness = self.conflicts.witness(a, b, case[2], case[3], found)
                help = ""
                if updates_of_one(a, b):
                    help = (
                        "the updates of a float reduction round differently in another order: allow it with reassociate"
                    )
                return Verdict("refuted", f"{reason} between {a.text} and {b.text}", witness, help)
            if unknown is None:
                unknown = Verdict(
                    "unknown",
                    f"whether {reason} between {a.text} and {b.text} is not known: {found.reason}",
                    help="state what is known with T.assume(…)",
                )
        return PROVED if unknown is None else unknown


@dataclass
class _Part:
    """What is rewritten: the loops around it, its statements, each with the relabelled one around it (None: none)."""

    scop: Scop
    relabel: Mapping[Stmt, Position]
    outer: tuple[Loop, ...]
    roots: tuple[Stmt, ...]
    label_of: dict[int, Stmt | None] = field(default_factory=dict)
    statements: list[Stmt] = field(default_factory=list)

    @classmethod
    def of(
        cls, scop: Scop, relabel: Mapping[Stmt, Sequence[Coordinate]], part: LoopLike | Sequence[LoopLike] | None
    ) -> _Part:
        roots: tuple[Stmt, ...] = (scop.func.body,)
        outer: tuple[Loop, ...] = ()
        if part is not None:
            given = [part] if isinstance(part, (For, While, Var, str, Loop)) else part
            loops = [scop.loop(loop) for loop in given]
            outer = loops[0].outer if loops else ()
            for loop in loops:
                if loop.outer != outer:
                    raise TirError(
                        f"the loops {loops[0].name!r} and {loop.name!r} do not stand in the same loops", origin="poly"
                    )
            roots = tuple([loop.node for loop in loops])
        converter = Converter(scop.space, scop.pointers.changing)
        positions = {stmt: tuple([form_of(converter, x) for x in given]) for stmt, given in relabel.items()}
        made = cls(scop, positions, outer, roots)
        for root in roots:
            made._walk(root)
        for stmt in relabel:
            if stmt not in made.label_of.values():
                raise TirError(
                    "a position is given to a statement that is not in the part that is rewritten",
                    origin="poly",
                    help="give the loop around it as part",
                )
        return made

    def _walk(self, root: Stmt) -> None:
        stack: list[tuple[Stmt, Stmt | None]] = [(root, None)]
        while stack:
            stmt, label = stack.pop()
            label = stmt if stmt in self.relabel else label
            self.label_of[id(stmt)] = label
            self.statements.append(stmt)
            stack += [(child, label) for child in stmt.children() if isinstance(child, Stmt)]

    def __contains__(self, stmt: Stmt) -> bool:
        return id(stmt) in self.label_of

    def label(self, stmt: Stmt) -> Stmt | None:
        """The relabelled statement around one of the part's, or itself."""
        return self.label_of[id(stmt)]

    def position(self, statement: Statement) -> Position:
        """When a statement's instances run afterwards."""
        label = self.label(statement.node)
        if label is None:
            return place_of(statement, len(self.outer))
        around = [loop for loop in statement.loops if self.label_of.get(id(loop.node)) is not label]
        known = {loop.var for loop in around}
        for form in self.relabel[label]:
            unknown = self.scop.space.deps(form) - known
            if unknown:
                name = min(var.name for var in unknown)
                raise TirError(
                    f"the position {form} names {name!r}, which is no loop around its statement", origin="poly"
                )
        return (*self.relabel[label], *place_of(statement, len(around)))


def form_of(converter: Converter, given: Coordinate) -> Form:
    """A coordinate as a form. Raises :class:`TirError` where it is not quasi-affine."""
    if isinstance(given, int):
        return constant(given)
    if isinstance(given, Loop):
        return single(given.var)
    if isinstance(given, For):
        return single(given.loop_var)
    form = converter.lin(given) if isinstance(given, Expr) else given
    if any(isinstance(dim, Opaque) for dim in form.terms):
        raise TirError(f"the position {given} is no quasi-affine form of loops", origin="poly")
    return form


class _Kept(OrderQuestions):
    """The question for one part."""

    def __init__(self, part: _Part, solver: Solver | None, reassociate: bool) -> None:
        super().__init__(part.scop, solver, reassociate)
        self.part = part
        self.positions: dict[Statement, Position] = {}

    def verdict(self) -> Verdict:
        """The verdict on the new positions."""
        part = self.part
        outer: dict[Loop, Sign] = dict.fromkeys(part.outer, "=")
        inside = [access for access in self.scop.accesses if access.statement.node in part]
        shared = _shared_memory(part, inside)
        cases: list[Case] = []
        for a, b in self.pairs(inside, outer):
            for first, second in ((a, b), (b, a)) if a is not b else ((a, b),):
                cases += self._turned(first, second, outer, first.data in shared)
        found = self.decide(cases, "the new order turns round a dependence")
        if found.refuted and found.witness is not None and not found.help:
            names = {data.name for data in shared}
            if found.witness.source.buffer in names:
                return Verdict("refuted", found.reason, found.witness, _expand(found.witness.source.buffer))
        return found

    def _position(self, statement: Statement) -> Position:
        found = self.positions.get(statement)
        if found is None:
            found = self.positions[statement] = self.part.position(statement)
        return found

    def _turned(self, a: Access, b: Access, outer: Mapping[Loop, Sign], shared: bool) -> Iterator[Case]:
        """The ways in which an instance of ``a`` that comes first now does not do so afterwards."""
        space, common = self.scop.space, common_loops(a, b)
        mine, other = self._position(a.statement), self._position(b.statement)
        own = () if shared else self.scop.homes.get(a.data, ())
        fixed: dict[Loop, Sign] = {**outer, **{loop: "=" for loop in common if loop in own}}
        forms = self.conflicts.forms(a, b)
        told = None if forms is None else distances(forms, common)
        if forms is None or told is None or any(fixed.get(loop, sign) != sign for loop, sign in told.items()):
            return
        fixed |= told
        for before in ways_before(a, b, common[len(outer) :]):
            if any(fixed.get(loop, sign) != sign for loop, sign in before.items()):
                continue
            one = a.statement is b.statement and "<" not in before.values()
            for way in ways_related(space, mine, other, ">", {**before, **fixed}, common):
                if way.ended:
                    if one:
                        continue  # one instance, whose loads come before its store
                    if len(mine) != len(other):
                        raise TirError(
                            f"the positions of {a.text} and {b.text} do not compare: one is the beginning of the other",
                            origin="poly",
                            help="give all statements of a part positions of one form",
                        )
                equal = [(x, y) for x, y, sign in way.relations if sign == "="]
                quick = {loop.var: sign for loop, sign in way.signs.items()}
                if not equal or not disjoint(space, [*forms, *equal], quick):
                    yield a, b, way.signs, way.relations


def _shared_memory(part: _Part, inside: Sequence[Access]) -> set[Var]:
    """What is allocated inside of the part but not moved as a whole: one memory, whichever iteration allocates it."""
    label_of = {
        node.buffer.data: part.label(node)
        for _, _, node in part.scop.fixtures
        if isinstance(node, (AllocBuffer, AllocConst)) and node in part
    }
    shared = {data for data, label in label_of.items() if label is None}
    for access in inside:
        if access.data in label_of and part.label(access.statement.node) is not label_of[access.data]:
            shared.add(access.data)
    return shared


def _expand(name: str) -> str:
    return f"give the buffer {name!r}, which is allocated inside, an element for each iteration"


def _structural(part: _Part) -> Verdict | None:
    """A refusal for what no order of accesses shows: jumps, assertions, names."""
    scop = part.scop
    idle = {id(op) for _, op in scop.idle_jumps}
    nothing = len(part.roots) == 1 and any(
        loop.node is part.roots[0] and does_nothing(scop, loop) for loop in scop.loops
    )
    for loop in scop.loops:
        if loop.node in part and part.label(loop.node) is None and isinstance(loop.node, While):
            return Verdict("refuted", "a while loop cannot change places")
    for _, loops, node in scop.fixtures:
        if isinstance(node, Evaluate) and node in part and id(node) not in idle and not nothing:
            if not _stays_inside(part, node, loops):
                target = repr(loops[-1].name) if loops else "the function"
                return Verdict(
                    "refuted", f"a statement leaves {target} early, or an iteration of it, in what changes places"
                )
    if not may_run_first(scop, part.roots, part.roots):
        reason = "an assertion that may fail keeps statements from running, which would come first then"
        return Verdict("refuted", reason, help="move the assertion in front of the loops")
    return _shared_names(part)


def _stays_inside(part: _Part, jump: Evaluate, loops: tuple[Loop, ...]) -> bool:
    """Whether a jump ends at most what is moved as a whole."""
    if not loops or not isinstance(jump.value, Call) or jump.value.op in _RETURNS:
        return False
    target = loops[-1].node
    if part.label_of.get(id(target)) is not None:
        return True
    return jump.value.op is _CONTINUE and part.label_of.get(id(target.body)) is not None


def _shared_names(part: _Part) -> Verdict | None:
    """A refusal where a name is bound in one statement that is moved, to what memory says, and used in another one."""
    bound = _bound_names(part)
    if not bound:
        return None
    used: list[Node] = []

    def look(op: Node, label: Stmt | None) -> None:
        if isinstance(op, (Var, Buffer)) and op in bound and bound[op] is not label:
            used.append(op)
        elif isinstance(op, (BufferLoad, BufferStore)):
            for name in (op.buffer, op.buffer.data, *op.buffer.shape, *op.buffer.strides, op.buffer.elem_offset):
                if isinstance(name, (Var, Buffer)):
                    look(name, label)

    for stmt in part.statements:
        label = part.label(stmt)
        look(stmt, label)
        for child in stmt.children():
            if not isinstance(child, Stmt):
                post_order_visit(child, lambda op, label=label: look(op, label))  # type: ignore[misc]
    if not used:
        return None
    return Verdict(
        "refuted",
        f"{used[0].name!r} is bound in one statement that changes places and used in another",  # type: ignore[attr-defined]
        help="store it in a buffer with an element for each iteration",
    )


def _bound_names(part: _Part) -> dict[Node, Stmt | None]:
    """The names bound to what memory says, or to memory, each with the statement that is moved around it."""
    bound: dict[Node, Stmt | None] = {}
    for stmt in part.statements:
        if isinstance(stmt, Bind):
            reads = next(each(BufferLoad, stmt.value), None) is not None
            if stmt.value.dtype.is_handle or reads or not is_quiet(stmt):
                bound[stmt.var] = part.label(stmt)
        elif isinstance(stmt, DeclBuffer):
            bound[stmt.buffer] = part.label(stmt)
    return bound


_CONTINUE = Op.get("tir.continue_loop")
_RETURNS = Op.get("tir.ret"), Op.get("tir.thread_return")
