"""Python files as lists of definitions, for the tools that look at code: functions, classes, assignments of modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property

HANDLER = re.compile(r"(?:visit|enter|on|eval|leave)_(?=[A-Z])")
Function = ast.FunctionDef | ast.AsyncFunctionDef
Assignment = ast.Assign | ast.AnnAssign


@dataclass(frozen=True)
class Definition:
    """A function, a class, or an assignment of a module: its qualified name, its tree, its text, the tree of its file."""

    name: str
    node: ast.AST
    text: str
    file: File

    @cached_property
    def parts(self) -> list[ast.AST]:
        """The nodes of its tree."""
        return walk(self.node)

    @cached_property
    def words(self) -> set[str]:
        """The plain names in it, and the last parts of dotted ones."""
        return words(*self.parts)

    @cached_property
    def methods(self) -> dict[str, Function]:
        """The methods of a class."""
        body = self.node.body if isinstance(self.node, ast.ClassDef) else []
        return {stmt.name: stmt for stmt in body if isinstance(stmt, Function)}

    @cached_property
    def asked(self) -> set[str]:
        """The classes that it tells values by: in tests, patterns, and the names of its handlers (``visit_For``)."""
        classes = {HANDLER.sub("", name) for name in self.methods if HANDLER.match(name)}
        claimed = {id(part) for claim in self.parts if isinstance(claim, ast.Assert) for part in walk(claim)}
        for part in self.parts:
            if id(part) in claimed:
                continue  # what is asserted is known, not asked
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Name) and part.func.id == "isinstance":
                classes |= words(*walk(part.args[1]))
            elif isinstance(part, ast.Compare) and isinstance(part.ops[0], ast.Is | ast.IsNot | ast.In | ast.NotIn):
                classes |= words(*walk(part.comparators[0]))
            elif isinstance(part, ast.MatchClass):
                classes |= words(*walk(part.cls))
        return {name for name in classes if name[:1].isupper()}

    def calls(self, *names: str) -> Iterator[ast.Call]:
        """The calls of methods of these names."""
        for part in self.parts:
            if isinstance(part, ast.Call) and isinstance(part.func, ast.Attribute) and part.func.attr in names:
                yield part


@dataclass(frozen=True)
class File:
    """A Python file of the repository: its path below the root, and its text."""

    path: str
    text: str

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @cached_property
    def definitions(self) -> list[Definition]:
        """Its functions and classes at any depth, and the assignments of the module."""
        return list(self._inside(self.tree, ""))

    def _inside(self, tree: ast.AST, prefix: str) -> Iterator[Definition]:
        for node in ast.iter_child_nodes(tree):
            if isinstance(node, Function | ast.ClassDef):
                yield self._definition(f"{prefix}{node.name}", node)
                yield from self._inside(node, f"{prefix}{node.name}.")
            elif isinstance(node, Assignment) and tree is self.tree:
                target = node.targets[0] if isinstance(node, ast.Assign) else node.target
                if isinstance(target, ast.Name):
                    yield self._definition(target.id, node)
            elif isinstance(node, ast.stmt):
                yield from self._inside(node, prefix)

    @cached_property
    def _lines(self) -> list[str]:
        return self.text.split("\n")

    def _definition(self, name: str, node: ast.stmt) -> Definition:
        return Definition(name, node, "\n".join(self._lines[node.lineno - 1 : node.end_lineno]), self)

    @cached_property
    def functions(self) -> dict[str, Definition]:
        """The functions of the module, by name."""
        return {found.name: found for found in self.definitions if isinstance(found.node, Function)}


@dataclass(frozen=True, order=True)
class Place:
    """Where something stands: a file, the qualified name of a definition in it, its line."""

    path: str
    name: str
    line: int = field(compare=False)

    def __str__(self) -> str:
        return f"{self.path}:{self.name}" if self.name else self.path


def walk(root: ast.AST) -> list[ast.AST]:
    """The nodes of a tree, each before its children."""
    nodes = []
    stack = [root]
    while stack:
        node = stack.pop()
        nodes.append(node)
        for name in node._fields:
            value = getattr(node, name, None)
            if isinstance(value, ast.AST):
                stack.append(value)
            elif isinstance(value, list):
                stack += [item for item in value if isinstance(item, ast.AST)]
    return nodes


def words(*nodes: ast.AST) -> set[str]:
    """The plain names among nodes, and the last parts of dotted ones."""
    plain = {node.id for node in nodes if isinstance(node, ast.Name)}
    return plain | {node.attr for node in nodes if isinstance(node, ast.Attribute)}


def of_self(node: ast.AST) -> str | None:
    """``x`` of ``self.x``, also of ``self.x[i]``."""
    while isinstance(node, ast.Subscript):
        node = node.value
    if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "self":
        return node.attr
    return None
