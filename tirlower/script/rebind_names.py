"""Which names of a script may need more than a let: a quick look at the syntax, before anything is parsed.

A binding stays a let where each read of its name sees one assignment, in a scope around the read. This look takes
every branch and loop for one of the program (Python may decide some while parsing) and every loop for one that may not
run, so a name that it does not give is a let for certain. For those that it gives,
:mod:`~tirlower.script.rebind` follows what the parser meets.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable

__all__ = ["assigned_names", "rebound_names", "target_names"]

_CLEAN, _MIXED = 1, 2
_LEAVES = frozenset((
    int, str, type(None), ast.Load, ast.Store, ast.Add, ast.Sub, ast.Mult, ast.Div, ast.FloorDiv, ast.Mod, ast.Lt, ast.Gt, ast.LtE,
    ast.GtE, ast.Eq, ast.NotEq,
))  # fmt: skip
_WORD = re.compile(r"[^\W\d]\w*")


def target_names(target: ast.AST | None) -> list[str]:
    """The names that a target of an assignment, a loop or a ``with`` binds."""
    if isinstance(target, ast.Name):
        return [target.id]
    if isinstance(target, ast.Starred):
        return target_names(target.value)
    if isinstance(target, (ast.Tuple, ast.List)):
        return [name for part in target.elts for name in target_names(part)]
    return []


def assigned_names(stmts: Iterable[ast.stmt]) -> set[str]:
    """The names that statements bind, those inside loops and branches too."""
    found: set[str] = set()
    for stmt in stmts:
        kind = stmt.__class__
        if kind is ast.Assign:
            for target in stmt.targets:  # type: ignore[attr-defined]
                found.update(target_names(target))
        elif kind is ast.AugAssign or kind is ast.AnnAssign:
            found.update(target_names(stmt.target))  # type: ignore[attr-defined]
        elif kind is ast.For:
            found.update(target_names(stmt.target))  # type: ignore[attr-defined]
            found |= assigned_names(stmt.body)  # type: ignore[attr-defined]
        elif kind is ast.While:
            found |= assigned_names(stmt.body)  # type: ignore[attr-defined]
        elif kind is ast.If:
            # A long chain of elif is a deep tree: it is walked in a loop.
            rest: list[ast.stmt] = [stmt]
            while len(rest) == 1 and isinstance(rest[0], ast.If):
                found |= assigned_names(rest[0].body)
                rest = rest[0].orelse
            found |= assigned_names(rest)
        elif kind is ast.With:
            for item in stmt.items:  # type: ignore[attr-defined]
                found.update(target_names(item.optional_vars))
            found |= assigned_names(stmt.body)  # type: ignore[attr-defined]
    return found


def rebound_names(stmts: list[ast.stmt], params: Iterable[str]) -> set[str]:
    """The names assigned in a body of which some read may see several assignments, or none around it."""
    own = assigned_names(stmts)
    if not own:
        return own
    look = _Look(own)
    look.suite(stmts, dict.fromkeys((p for p in params if p in own), _CLEAN))
    return look.found


class _Look:
    """Walks a body with what each assigned name is at a place: seen from an assignment around, mixed, or absent."""

    def __init__(self, own: set[str]) -> None:
        self.own = own
        self.found: set[str] = set()

    def suite(self, stmts: list[ast.stmt], seen: dict[str, int]) -> None:
        for stmt in stmts:
            self.statement(stmt, seen)

    def read(self, node: ast.AST | None, seen: dict[str, int]) -> None:
        """The names that an expression reads."""
        if node is None:
            return
        stack: list[object] = [node]
        own = self.own
        while stack:
            part = stack.pop()
            if part.__class__ is ast.Name:
                name = part.id
                if name in own and seen.get(name) is not _CLEAN:
                    self.found.add(name)
            elif part.__class__ is ast.Constant:
                if part.value.__class__ is str:
                    self._text(part.value, seen)
            else:
                # A third of the time of ast.iter_child_nodes, and all scripts come by here.
                for value in part.__dict__.values():
                    if value.__class__ is list:
                        stack += [v for v in value if v.__class__ not in _LEAVES]
                    elif value.__class__ not in _LEAVES:
                        stack.append(value)

    def _text(self, text: str, seen: dict[str, int]) -> None:
        """An extent or a type given as a string may name what the function assigns."""
        for name in _WORD.findall(text):
            if name in self.own and seen.get(name) is not _CLEAN:
                self.found.add(name)

    def bind(self, target: ast.AST | None, seen: dict[str, int]) -> None:
        for name in target_names(target):
            seen[name] = _CLEAN

    def inner(self, stmts: list[ast.stmt], seen: dict[str, int], target: ast.AST | None = None) -> None:
        """A body of its own; what it assigns is mixed afterwards."""
        mine = dict(seen)
        self.bind(target, mine)
        self.suite(stmts, mine)

    def after(self, names: set[str], seen: dict[str, int]) -> None:
        for name in names:
            seen[name] = _MIXED

    def statement(self, stmt: ast.stmt, seen: dict[str, int]) -> None:
        kind = stmt.__class__
        if kind is ast.Assign:
            self.read(stmt.value, seen)  # type: ignore[attr-defined]
            for target in stmt.targets:  # type: ignore[attr-defined]
                self._targets(target, seen)
        elif kind is ast.AugAssign:
            self.read(stmt.target, seen)  # type: ignore[attr-defined]
            self.read(stmt.value, seen)  # type: ignore[attr-defined]
            self.bind(stmt.target, seen)  # type: ignore[attr-defined]
        elif kind is ast.AnnAssign:
            self.read(stmt.annotation, seen)  # type: ignore[attr-defined]
            self.read(stmt.value, seen)  # type: ignore[attr-defined]
            self._targets(stmt.target, seen)  # type: ignore[attr-defined]
        elif kind is ast.For or kind is ast.While:
            loop: ast.For | ast.While = stmt  # type: ignore[assignment]
            target = loop.target if isinstance(loop, ast.For) else None
            assigned = assigned_names(loop.body) | set(target_names(target))
            if isinstance(loop, ast.For):
                self.read(loop.iter, seen)
            self.after(assigned, seen)
            if isinstance(loop, ast.While):
                self.read(loop.test, seen)
            self.inner(loop.body, seen, target)
            self.suite(loop.orelse, seen)
        elif kind is ast.If:
            self._if(stmt, seen)  # type: ignore[arg-type]
        elif kind is ast.With:
            inside = dict(seen)
            assigned = assigned_names([stmt])
            for item in stmt.items:  # type: ignore[attr-defined]
                self.read(item.context_expr, inside)
                self.bind(item.optional_vars, inside)
            self.suite(stmt.body, inside)  # type: ignore[attr-defined]
            self.after(assigned, seen)
        else:
            for part in ast.iter_child_nodes(stmt):
                self.read(part, seen)

    def _targets(self, target: ast.AST, seen: dict[str, int]) -> None:
        if isinstance(target, (ast.Tuple, ast.List)):
            for part in target.elts:
                self._targets(part, seen)
        elif isinstance(target, (ast.Name, ast.Starred)):
            self.bind(target, seen)
        else:
            self.read(target, seen)

    def _if(self, stmt: ast.If, seen: dict[str, int]) -> None:
        assigned: set[str] = set()
        rest: list[ast.stmt] = [stmt]
        while len(rest) == 1 and isinstance(rest[0], ast.If):
            arm = rest[0]
            self.read(arm.test, seen)
            self.inner(arm.body, seen)
            assigned |= assigned_names(arm.body)
            rest = arm.orelse
        self.inner(rest, seen)
        self.after(assigned | assigned_names(rest), seen)
