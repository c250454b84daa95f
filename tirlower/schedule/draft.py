"""A program being rewritten: edits by place, what each new statement was, and from both the program after and the verdict.

Value steps write their rewrite once, as edits of a :class:`Draft`: statements put before, after or in the place of
others, or taken out. The draft remembers of each statement made which one it was and in which iteration
(:meth:`Draft.same`), so that it can be asked whether the program after computes the same values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tirlower.diagnostics import ScheduleError
from tirlower.ir.annotations import REDUCTION
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import BufferLoad, Expr, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.path import Path
from tirlower.ir.path import Step as PathStep
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, Block, BufferStore, Evaluate, For, ForKind, Seq, Stmt, declares
from tirlower.poly.bounds import check_bounds
from tirlower.poly.conditions import Condition
from tirlower.poly.expressions import Converter
from tirlower.poly.extract import extract
from tirlower.poly.same_values import Handed, Twin, same_values
from tirlower.poly.scop import Access, Scop, Statement
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.narrowed import Narrowed, Narrowing
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Edit, Forward, Site, Steps
from tirlower.schedule.step import Step
from tirlower.schedule.trail import Trail, Trails, spliced

__all__ = ["AFTERWARDS", "Draft", "LoadOrigin", "Made", "ValueStep", "mapped", "stores_of", "with_headers"]

AFTERWARDS = "after the step, "
"""How a reason begins whose witness is of the program after a step."""

LoadOrigin = tuple[Stmt, BufferLoad, Mapping[Var, Expr]]
"""A load of the program before: the statement that it stands in, itself, and the values of the loops around it."""


class Draft:
    """Edits of one function. Paths are those of the program before."""

    def __init__(self, step: Step, name: str) -> None:
        self.step = step
        self.name = name
        self.old = step.state.mod[name]
        self.forward = Forward()
        self._at: dict[Steps, list[Stmt]] = {}
        self._before: dict[Steps, list[Stmt]] = {}
        self._after: dict[Steps, list[Stmt]] = {}
        self._from: dict[Stmt, tuple[Stmt, Mapping[Var, Expr]]] = {}
        self._loads: dict[int, LoadOrigin] = {}
        self._kept_loads: list[BufferLoad] = []
        self._stores: dict[Stmt, tuple[Stmt, Mapping[Var, Expr]]] = {}
        self._copies: set[Stmt] = set()
        self._handed: list[tuple[Stmt, BufferLoad, Stmt, Mapping[Var, Expr], bool]] = []
        self.where: dict[Stmt, Expr] = {}
        self.also: set[Var] = set()
        """Memory whose flow of values is looked at though no access of it changes."""
        self.stated = False
        """Whether a person has said what is copied: it may be what is accessed nowhere."""
        self.renamed: dict[Buffer, Buffer] = {}
        """What is accessed instead of a buffer: its declared regions stand in the same places."""
        self._header: dict[Steps, Callable[[Stmt], Stmt]] = {}
        self._trails: Trails | None = None
        self._wanted: dict[Steps, dict[PathStep, None]] = {}

    # Edits

    def header(self, path: Steps, fn: Callable[[Stmt], Stmt], then: bool = False) -> None:
        """A statement in which something else than the statements inside changes; the loads are told one by one.
        ``then``: after what was said before of the same statement."""
        first = self._header.get(path)
        self._header[path] = fn if first is None or not then else lambda stmt: fn(first(stmt))

    def replace(self, path: Steps, *new: Stmt) -> None:
        """Other statements in the place of one; none takes it out."""
        self._at[path] = list(new)

    def before(self, path: Steps, *new: Stmt) -> None:
        """Statements in front of one."""
        self._before.setdefault(path, []).extend(new)

    def first(self, path: Steps, *new: Stmt) -> None:
        """Statements in front of one, and of what else comes to stand there."""
        self._before[path] = [*new, *self._before.get(path, [])]

    def after(self, path: Steps, *new: Stmt) -> None:
        """Statements behind one."""
        self._after.setdefault(path, []).extend(new)

    def allocate(self, path: Steps, *allocations: AllocBuffer) -> None:
        """Allocations for all that happens in a statement: at the head of a block or a loop's body, in front of others."""
        stmt = self.stmt(path)
        if isinstance(stmt, (Block, For)):
            self.head((*path, "body"), *allocations)
        else:
            self.before(path, *allocations)

    def head(self, path: Steps, *new: Stmt) -> None:
        """Statements in front of a body, or in a sequence in front of its first statement."""
        stmt = self.stmt(path)
        first = (*path, "stmts", 0) if isinstance(stmt, Seq) else path
        self._before[first] = [*new, *self._before.get(first, [])]

    def stmt(self, path: Steps) -> Stmt:
        """What stands at a place in the program before."""
        found = Path(path).chain(self.old)[-1]
        assert isinstance(found, Stmt)
        return found

    # What statements were

    def same(self, new: Stmt, old: Stmt, values: Mapping[Var, Expr] | None = None) -> None:
        """A new statement, and each one inside, is an old one of the same form, whose loops have these values."""
        values = values or {}
        stack = [(new, old)]
        while stack:
            a, b = stack.pop()
            self._from[a] = b, values
            if (a is not b or values) and type(a) is type(b):
                mine, theirs = ([x for x in s.children() if isinstance(x, Stmt)] for s in (a, b))
                if len(mine) == len(theirs):
                    stack += zip(mine, theirs, strict=True)

    def keep(self, old: Stmt, new: Stmt) -> None:
        """A statement goes on as another one of the same form, for handles as for values."""
        self.forward.like(old, new)
        self.same(new, old)

    def copy(self, stmt: Stmt) -> Stmt:
        """A store that hands on what it loads."""
        self._copies.add(stmt)
        return stmt

    def load(
        self, new: BufferLoad, stmt: Stmt, old: BufferLoad, values: Mapping[Var, Expr] | None = None
    ) -> BufferLoad:
        """A load of the program after is one of a statement of the program before, in an iteration of that statement.

        Returns the load to put there: a node of its own, for one node may stand in several statements.
        """
        if new is old or id(new) in self._loads:
            new = BufferLoad(new.buffer, new.indices, new.predicate, span=new.span)
        self._loads[id(new)] = stmt, old, values or {}
        self._kept_loads.append(new)
        return new

    def stores(self, new: Stmt, old: Stmt, values: Mapping[Var, Expr] | None = None) -> None:
        """What a new statement writes is what an old one wrote; its loads are told one by one (:meth:`load`)."""
        self._stores[new] = old, values or {}

    def handed(
        self, reader: Stmt, load: BufferLoad, writer: Stmt, values: Mapping[Var, Expr], after: bool = False
    ) -> None:
        """A load sees what a statement writes, in the iteration in which its loops have these values."""
        self._handed.append((reader, load, writer, values, after))

    # The program after

    def func(self) -> PrimFunc:
        """The function after the edits."""
        return self.trails.func

    @property
    def trails(self) -> Trails:
        """The function after the edits, and where what was in the old one is in it."""
        if self._trails is None:
            self._wanted = {}
            for path in (*self._at, *self._before, *self._after, *self._header):
                for depth, step in enumerate(path):
                    self._wanted.setdefault(path[:depth], {})[step] = None
            root = self._edited(self.old.body, ("body",))
            self._trails = Trails(self.old.with_(body=_one(root.parts)), root, self.forward)
        return self._trails

    def _edited(self, stmt: Stmt, path: Steps) -> Trail:
        """What stands in the place of a statement."""
        before, after = self._before.get(path, []), self._after.get(path, [])
        if path in self._at:
            made = Trail(stmt, spliced(self._at[path]), replaced=True)
            made.own = len(made.parts)
        else:
            made = self._inside(stmt, path)
            if path in self._header and made.own:
                new = self._header[path](made.parts[0])
                self._stores[new] = stmt, {}
                self.forward.keep(stmt, new)
                made.parts, made.changed = [new], True
        if before or after:
            front = spliced(before)
            made.first = len(front)
            made.parts = [*front, *made.parts, *spliced(after)]
        return made

    def _inside(self, stmt: Stmt, path: Steps) -> Trail:
        wanted = self._wanted.get(path, {})
        if isinstance(stmt, Seq):
            return self._sequence(stmt, path)
        if not wanted:
            return Trail(stmt, [stmt])
        children: dict[PathStep, Trail] = {}
        changes: dict[str, Stmt | None] = {}
        for name in wanted:
            assert isinstance(name, str)
            inner = children[name] = self._edited(getattr(stmt, name), (*path, name))
            changes[name] = _one(inner.parts) if inner.parts else None
        for name, part in changes.items():
            if part is None and name != "else_case" and name != "init":
                if name == "then_case" and getattr(stmt, "else_case", None) is not None:
                    changes[name] = Evaluate(const(0, "int32"))
                    continue
                return Trail(stmt, [], own=0)
        made = stmt.with_(**changes)
        if isinstance(made, Block):
            made = with_regions(made, renamed=self.renamed)
        self.forward.keep(stmt, made)
        self._from.setdefault(made, (stmt, {}))
        return Trail(stmt, [made], children=children)

    def _sequence(self, stmt: Seq, path: Steps) -> Trail:
        children: dict[PathStep, Trail] = {}
        numbers, starts, made = list[int](), list[int](), list[Stmt]()
        behind = 0
        for number in sorted(self._wanted.get((*path, "stmts"), {}), key=int):  # type: ignore[arg-type]
            assert isinstance(number, int)
            made += stmt.stmts[behind:number]
            behind = number + 1
            inner = children[number] = self._edited(stmt.stmts[number], (*path, "stmts", number))
            numbers += (number, behind)
            starts += (len(made), len(made) + len(inner.parts))
            made += inner.parts
        made += stmt.stmts[behind:]
        new = Seq(tuple(made)) if children else stmt
        # A sequence of its own stays one where it declares names that those behind it must not see.
        flat = not declares(new)
        parts: list[Stmt] = made if flat else [new]
        return Trail(stmt, parts, own=len(parts), flat=flat, children=children, numbers=numbers, starts=starts)

    def change(self, outputs: Sequence[Stmt], exactness: str = "bitwise") -> Change:
        """The change that the edits are."""
        func, trails, inside = self.func(), self.trails, self.step.facts.inside
        there = {stmt for _, part in trails.made() for _, stmt in inside(part)}
        there.update(stmt for _, stmt in trails.kept())
        for root in trails.left():
            for _, old in inside(root):
                if old not in self.forward.ended and self.forward.after(old) not in there:
                    self.forward.end(old)
        edit = Edit(Site(self.name, ("body",)), func.body)
        return Change(edit, self.forward, tuple(outputs), exactness, rebuilt=trails)

    # The verdict

    def verdict(self) -> Verdict:
        """Whether the program after computes the same values, also where loops run at once."""
        facts, trails = self.step.facts, self.trails
        narrowing = Narrowing(self.old, trails.func, trails.root, facts.uses, self.also)
        copied = {load.buffer.data for stmt in self._copies for load in each(BufferLoad, stmt)}
        near = narrowing.near(self._values(), copied)
        if near is not None and self._asked(near).proved:
            return self.concurrent()
        found = self._asked(narrowing.apart())
        return self.concurrent() if found.proved else found

    def scop_after(self) -> Scop:
        """The program after, as far as it has a part in what changed."""
        trails = self.trails
        narrowed = Narrowing(self.old, trails.func, trails.root, self.step.facts.uses, self.also).apart()
        if narrowed is None:
            return self.step.facts.scop(self.func())
        return extract(narrowed.after, written=narrowed.written)

    def _asked(self, narrowed: Narrowed | None) -> Verdict:
        """Whether two programs compute the same values, and leave no new memory: cut down, or as they are."""
        facts = self.step.facts
        if narrowed is None:
            before, after = facts.scop(self.old), facts.scop(self.func())
        else:
            before, after = narrowed.scops()
        was = narrowed.was if narrowed is not None else {}
        found = self._same_values(before, after, was)
        if not found.proved:
            return found
        new = set(after.homes) - set(before.homes)
        copied = {id(s) for s in after.statements if was.get(s.node, s.node) in self._copies}
        # What is touched always is touched inside of its buffer, or the program before was not either.
        guarded = {a.data for a in before.accesses if a.conditions or self.stated}
        sources = {a.data for a in after.accesses if id(a.statement) in copied and a.data in guarded} - new
        for one in check_bounds(after, of=sources) if sources else ():
            if one.verdict.proved or id(one.access.statement) not in copied:
                continue
            name = one.access.buffer.name if one.access.buffer is not None else one.access.data.name
            if one.verdict.refuted:
                reason = f"{one.access.text} would be copied where nothing of {name} is accessed, and is outside of it"
                return dataclasses.replace(one.verdict, reason=f"{AFTERWARDS}{reason}")
            if self.stated or (narrowed is not None and narrowed.around):
                return Verdict("unknown", f"{one.access.text} is not known to be inside of {name}")
        for one in check_bounds(after, of=new) if new else ():
            if one.verdict.refuted:
                return Verdict("refuted", f"{one.access.text} would be outside of {one.access.data.name}")
        return PROVED

    def _values(self) -> Iterator[Mapping[Var, Expr]]:
        """The values that loops of before have for statements of the program after."""
        yield from (values for _, values in self._from.values())
        yield from (values for _, values in self._stores.values())
        yield from (values for _, _, values in self._loads.values())
        yield from (values for _, _, _, values, _ in self._handed)

    def _same_values(self, before: Scop, after: Scop, was: Mapping[Stmt, Stmt]) -> Verdict:
        old: dict[int, list[Statement]] = {}
        for statement in before.statements:
            old.setdefault(id(was.get(statement.node, statement.node)), []).append(statement)
        twins: dict[Access, Twin] = {}
        copies: list[Statement] = []
        where: dict[Statement, Condition] = {}
        new: dict[int, list[Statement]] = {}
        for statement in after.statements:
            node = was.get(statement.node, statement.node)
            new.setdefault(id(node), []).append(statement)
            if node in self._copies:
                copies.append(statement)
                continue
            if node in self.where:
                where[statement] = Converter(after.space, after.pointers.changing).condition(self.where[node])
            self._loads_and_stores(statement, node, old, twins)
            if node in self._from and node not in self._stores:
                origin, values = self._from[node]
                other = _alike(old.get(id(origin), []), statement)
                if other is None:
                    continue
                for mine, theirs in zip(statement.accesses, other.accesses, strict=True):
                    twins.setdefault(mine, Twin(theirs, values))
        handed: dict[bool, list[Handed]] = {False: [], True: []}
        for reader, load, writer, values, is_after in self._handed:
            table = new if is_after else old
            reads = [a for s in table.get(id(reader), []) for a in s.accesses if a.node is load]
            writes = [a for s in table.get(id(writer), []) for a in s.accesses if a.is_write]
            if not writes:
                raise ScheduleError(f"internal error: {writer} writes nothing")
            handed[is_after] += [Handed(read, writes[0], values) for read in reads]
        return same_values(
            before,
            after,
            twins,
            copies,
            handed_before=handed[False],
            handed_after=handed[True],
            where=where,
            also=self.also,
        )

    def _loads_and_stores(
        self, statement: Statement, node: Stmt, old: Mapping[int, Sequence[Statement]], twins: dict[Access, Twin]
    ) -> None:
        for access in statement.accesses:
            if access.is_write:
                if node in self._stores:
                    was, values = self._stores[node]
                    found = [a for other in old.get(id(was), []) for a in other.accesses if a.is_write]
                    if found:
                        twins[access] = Twin(found[-1], values)
            elif id(access.node) in self._loads:
                stmt, load, values = self._loads[id(access.node)]
                found = [a for other in old.get(id(stmt), []) for a in other.accesses if a.node is load]
                if found:
                    twins[access] = Twin(found[-1], values)

    def concurrent(self) -> Verdict:
        """Loops that run at once, and have something new inside, still may."""
        func, inside, trails = self.func(), self.step.facts.inside, self.trails
        found: list[tuple[Steps, For]] = []
        for way, root in trails.made():
            found += [((*way, *rest), stmt) for rest, stmt in inside(root) if isinstance(stmt, For)]
        found += [(way, stmt) for way, stmt in trails.kept() if isinstance(stmt, For)]
        found = [(way, loop) for way, loop in found if loop.kind not in (ForKind.SERIAL, ForKind.UNROLLED)]
        known = {stmt for root in trails.left() for _, stmt in inside(root)} if found else set[Stmt]()
        for way, loop in sorted(found, key=lambda one: [step for step in one[0] if isinstance(step, int)]):
            if loop in known:
                continue
            partial = bool(loop.annotations.get(REDUCTION))
            verdict = self.step.facts.concurrent(func, way, loop, loop.kind, loop.thread_tag or "", partial)
            if not verdict.proved:
                # Its witness is of the program after.
                return dataclasses.replace(verdict, reason=f"{AFTERWARDS}{verdict.reason}")
        return PROVED


@dataclass(frozen=True)
class Made:
    """A drafted step: the edits, the statements that it returns handles of, what the results are up to."""

    draft: Draft
    outputs: tuple[Stmt, ...] = ()
    exactness: str = "bitwise"
    buffers: Mapping[Buffer, Buffer] = field(default_factory=dict)
    """Those that took the place of others."""

    def change(self) -> Change:
        """The change that it is."""
        found = self.draft.change(self.outputs, self.exactness)
        return dataclasses.replace(found, buffers=self.buffers) if self.buffers else found


class ValueStep:
    """The check and the rewrite of a value step, from what drafts it."""

    def __init__(self, make: Callable[[Step], Made]) -> None:
        self.make = make

    def made(self, step: Step) -> Made:
        """The draft of a step, made once."""
        found = step.plan
        if not isinstance(found, Made):
            step.plan = found = self.make(step)
        return found

    def check(self, step: Step) -> Verdict:
        """Whether the program after computes the same values."""
        return self.made(step).draft.verdict()

    def rewrite(self, step: Step) -> Change:
        """The change."""
        return self.made(step).change()


def _alike(found: Sequence[Statement], statement: Statement) -> Statement | None:
    """The statement of the program before that has as many accesses, in the same order."""
    for one in found:
        if [a.is_write for a in one.accesses] == [a.is_write for a in statement.accesses]:
            return one
    return None


def _one(stmts: Sequence[Stmt]) -> Stmt:
    if len(stmts) == 1:
        return stmts[0]
    return Seq(tuple(stmts)) if stmts else Evaluate(const(0, "int32"))


Replace = Callable[[BufferLoad, BufferLoad], Expr]
"""What stands in the place of a load: of the old one, and the same one with new indices."""


def mapped(expr: Expr, replace: Replace, values: Mapping[Var, Expr] | None = None) -> Expr:
    """An expression with loads replaced, and variables by values."""
    known: dict[int, Expr] = {}

    def visit(op: Expr) -> Expr:
        found = known.get(id(op))
        if found is None:
            if isinstance(op, Var):
                found = values.get(op, op) if values else op
            else:
                found = op.map_children(lambda child: visit(child) if isinstance(child, Expr) else child)
                if isinstance(op, BufferLoad):
                    assert isinstance(found, BufferLoad)
                    found = replace(op, found)
            known[id(op)] = found
        return found

    return visit(expr)


def with_headers(stmt: Stmt, fn: Callable[[Expr], Expr]) -> Stmt:
    """A statement with the expressions rewritten that are its own, not of statements inside."""
    if isinstance(stmt, Block):
        iters = tuple(it.with_(value=None if it.value is None else fn(it.value)) for it in stmt.iters)
        return stmt.with_(iters=iters, predicate=fn(stmt.predicate))
    return stmt.map_children(lambda child: fn(child) if isinstance(child, Expr) else child)


def stores_of(root: Stmt) -> Iterable[BufferStore]:
    """The stores under a statement."""
    stack = [root]
    while stack:
        stmt = stack.pop()
        if isinstance(stmt, BufferStore):
            yield stmt
        stack += [child for child in stmt.children() if isinstance(child, Stmt)][::-1]
