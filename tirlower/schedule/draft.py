"""A program being rewritten: edits by place, what each new statement was, and from both the program after and the verdict.

Value steps write their rewrite once, as edits of a :class:`Draft`: statements put before, after or in the place of
others, or taken out. The draft remembers of each statement made which one it was and in which iteration
(:meth:`Draft.same`), so that it can be asked whether the program after computes the same values.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

from tirlower.diagnostics import ScheduleError
from tirlower.ir.annotations import REDUCTION
from tirlower.ir.expr import BufferLoad, Expr, Var, const
from tirlower.ir.func import PrimFunc
from tirlower.ir.path import Path
from tirlower.ir.stmt import AllocBuffer, Block, BufferStore, Evaluate, For, ForKind, Seq, Stmt, declares
from tirlower.poly.bounds import check_bounds
from tirlower.poly.conditions import Condition
from tirlower.poly.expressions import Converter
from tirlower.poly.same_values import Handed, Twin, same_values
from tirlower.poly.scop import Access, Scop, Statement
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.regions import with_regions
from tirlower.schedule.sites import Change, Edit, Forward, Site, Steps
from tirlower.schedule.step import Step

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
        self._header: dict[Steps, Callable[[Stmt], Stmt]] = {}
        self._new: PrimFunc | None = None

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
        if self._new is None:
            made = self._edited(self.old.body, ("body",))
            self._new = self.old.with_(body=_one(made))
        return self._new

    def _edited(self, stmt: Stmt, path: Steps) -> list[Stmt]:
        """What stands in the place of a statement."""
        before, after = self._before.get(path, []), self._after.get(path, [])
        if path in self._at:
            return [*before, *self._at[path], *after]
        inside = self._inside(stmt, path)
        if path in self._header and inside:
            made = self._header[path](inside[0])
            self._stores[made] = stmt, {}
            self.forward.keep(stmt, made)
            inside = [made]
        return [*before, *inside, *after]

    def _inside(self, stmt: Stmt, path: Steps) -> list[Stmt]:
        depth = len(path)
        edits = (*self._at, *self._before, *self._after, *self._header)
        touched = [p for p in edits if len(p) > depth and p[:depth] == path]
        if not touched:
            return [stmt]
        if isinstance(stmt, Seq):
            wanted = {p[depth + 1] for p in touched}
            made: list[Stmt] = []
            for n, one in enumerate(stmt.stmts):
                made += self._edited(one, (*path, "stmts", n)) if n in wanted else [one]
            new: Stmt = Seq(tuple(made))
            if not made:
                return []
            # A sequence of its own stays one where it declares names that those behind it must not see.
            return [new] if declares(new) else made
        changes: dict[str, Stmt | None] = {}
        for name in dict.fromkeys(p[depth] for p in touched):
            assert isinstance(name, str)
            child = getattr(stmt, name)
            parts = self._edited(child, (*path, name))
            changes[name] = _one(parts) if parts else None
        for name, part in changes.items():
            if part is None and name != "else_case" and name != "init":
                if name == "then_case" and getattr(stmt, "else_case", None) is not None:
                    changes[name] = Evaluate(const(0, "int32"))
                    continue
                return []
        made_one = stmt.with_(**changes)
        if isinstance(made_one, Block):
            made_one = with_regions(made_one)
        self.forward.keep(stmt, made_one)
        self._from.setdefault(made_one, (stmt, {}))
        return [made_one]

    def change(self, outputs: Sequence[Stmt], exactness: str = "bitwise") -> Change:
        """The change that the edits are."""
        func = self.func()
        inside = {stmt for _, stmt in self.step.facts.inside(func.body)}
        for _, old in self.step.facts.inside(self.old.body):
            new = self.forward.after(old)
            if old not in self.forward.ended and new not in inside:
                self.forward.end(old)
        return Change(Edit(Site(self.name, ("body",)), func.body), self.forward, tuple(outputs), exactness)

    # The verdict

    def verdict(self) -> Verdict:
        """Whether the program after computes the same values, also where loops run at once."""
        facts = self.step.facts
        before, after = facts.scop(self.old), facts.scop(self.func())
        found = self._same_values(before, after)
        if not found.proved:
            return found
        new = set(after.homes) - set(before.homes)
        for one in check_bounds(after, of=new) if new else ():
            if one.verdict.refuted:
                return Verdict("refuted", f"{one.access.text} would be outside of {one.access.data.name}")
        return self._concurrent(before)

    def _same_values(self, before: Scop, after: Scop) -> Verdict:
        old: dict[int, list[Statement]] = {}
        for statement in before.statements:
            old.setdefault(id(statement.node), []).append(statement)
        twins: dict[Access, Twin] = {}
        copies: list[Statement] = []
        where: dict[Statement, Condition] = {}
        for statement in after.statements:
            node = statement.node
            if node in self._copies:
                copies.append(statement)
                continue
            if node in self.where:
                where[statement] = Converter(after.space, after.pointers.changing).condition(self.where[node])
            self._loads_and_stores(statement, old, twins)
            if node in self._from and node not in self._stores:
                was, values = self._from[node]
                other = _alike(old.get(id(was), []), statement)
                if other is None:
                    continue
                for mine, theirs in zip(statement.accesses, other.accesses, strict=True):
                    twins.setdefault(mine, Twin(theirs, values))
        handed: dict[bool, list[Handed]] = {False: [], True: []}
        new: dict[int, list[Statement]] = {}
        for statement in after.statements:
            new.setdefault(id(statement.node), []).append(statement)
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
        self, statement: Statement, old: Mapping[int, Sequence[Statement]], twins: dict[Access, Twin]
    ) -> None:
        for access in statement.accesses:
            if access.is_write:
                if statement.node in self._stores:
                    was, values = self._stores[statement.node]
                    found = [a for other in old.get(id(was), []) for a in other.accesses if a.is_write]
                    if found:
                        twins[access] = Twin(found[-1], values)
            elif id(access.node) in self._loads:
                stmt, load, values = self._loads[id(access.node)]
                found = [a for other in old.get(id(stmt), []) for a in other.accesses if a.node is load]
                if found:
                    twins[access] = Twin(found[-1], values)

    def _concurrent(self, before: Scop) -> Verdict:
        """Loops that run at once, and have something new inside, still may."""
        known = {id(loop.node) for loop in before.loops}
        func = self.func()
        for way, node in self.step.facts.inside(func.body):
            if isinstance(node, For) and id(node) not in known and node.kind not in (ForKind.SERIAL, ForKind.UNROLLED):
                steps = ("body", *way)
                partial = bool(node.annotations.get(REDUCTION))
                found = self.step.facts.concurrent(func, steps, node, node.kind, node.thread_tag or "", partial)
                if not found.proved:
                    # Its witness is of the program after.
                    return dataclasses.replace(found, reason=f"{AFTERWARDS}{found.reason}")
        return PROVED


@dataclass(frozen=True)
class Made:
    """A drafted step: the edits, the statements that it returns handles of, what the results are up to."""

    draft: Draft
    outputs: tuple[Stmt, ...] = ()
    exactness: str = "bitwise"


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
        made = self.made(step)
        return made.draft.change(made.outputs, made.exactness)


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
