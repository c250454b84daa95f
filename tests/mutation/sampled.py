"""Mutants sampled from the syntax trees of the package: small wrong edits that the tests of a file must notice.

Four kinds: a comparison is swapped, a condition dropped, a returned truth value negated, a number moved by one. Every
room has its share. Which are drawn depends on the seed and on each mutant's own identity, so that an edit of one
function leaves the choice among the others as it was.
"""

from __future__ import annotations

import ast
import hashlib
import re
import tomllib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

__all__ = ["KINDS", "Mutant", "candidates", "rooms", "sample", "tests_of"]

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "tirlower"

KINDS = ("comparison swapped", "condition dropped", "return negated", "number moved by one")

_SWAPPED: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In,
}  # fmt: skip


@dataclass(frozen=True)
class Mutant:
    """An edit of a file of the package: the text from ``start`` to ``end`` becomes ``instead``.

    ``name`` identifies it whatever stands elsewhere in the file: the file, the function, the kind, the old and the new
    text, and which of equal ones in the function it is.
    """

    name: str
    path: str
    line: int
    start: int
    end: int
    instead: str

    def applied(self) -> str:
        """The text of the file with the edit."""
        text = (ROOT / self.path).read_text(encoding="utf-8")
        return text[: self.start] + self.instead + text[self.end :]

    @property
    def room(self) -> str:
        """The folder of the package that it is in, or the loose module."""
        return Path(self.path).parts[1]


def rooms() -> list[str]:
    """The folders of the package, and its loose modules."""
    found = [path.name for path in PACKAGE.iterdir() if (path / "__init__.py").is_file() or path.suffix == ".py"]
    return sorted(name for name in found if name != "__init__.py")


def candidates(path: Path) -> Iterator[Mutant]:
    """Every edit of the four kinds in a file."""
    text = path.read_text(encoding="utf-8")
    raw, starts = text.encode(), [0]
    for line in raw.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(line: int, column: int) -> int:
        return len(raw[: starts[line - 1] + column].decode())

    tree = ast.parse(text)
    skipped, seen = _not_run(tree), Counter[str]()
    for function, node in _nodes(tree, ""):
        if id(node) in skipped:
            continue
        for kind, place, instead in _edits(node):
            start = offset(place.lineno, place.col_offset)
            end = offset(place.end_lineno or 0, place.end_col_offset or 0)
            new = f"({ast.unparse(instead)})"
            file = path.relative_to(ROOT).as_posix()
            name = f"{file}:{function}: {kind}: {' '.join(text[start:end].split())} -> {new}"
            seen[name] += 1
            yield Mutant(name + f" #{seen[name]}" * (seen[name] > 1), file, place.lineno, start, end, new)


def _nodes(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """All nodes, each with the qualified name of the class or function around it."""
    for child in ast.iter_child_nodes(node):
        inner = function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = f"{function}.{child.name}".lstrip(".")
        yield inner, child
        yield from _nodes(child, inner)


def _not_run(tree: ast.AST) -> set[int]:
    """Nodes whose value decides nothing: annotations, what only type checkers read, the text of messages."""
    found: set[int] = set()
    for node in ast.walk(tree):
        parts: list[ast.AST | None] = []
        if isinstance(node, ast.FunctionDef):
            own = node.args
            parts = [node.returns, *(a.annotation for a in (*own.posonlyargs, *own.args, *own.kwonlyargs))]
            if node.name == "__repr__":
                parts.append(node)
        elif isinstance(node, ast.AnnAssign):
            parts = [node.annotation]
        elif (isinstance(node, ast.If) and "TYPE_CHECKING" in ast.unparse(node.test)) or isinstance(
            node, ast.Raise | ast.JoinedStr | ast.Assert
        ):
            parts = [node]
        for part in parts:
            if part is not None:
                found |= {id(inner) for inner in ast.walk(part)}
    return found


def _edits(node: ast.AST) -> Iterator[tuple[str, ast.expr, ast.expr]]:
    """What may be done to a node: the kind, the expression that is replaced, and by what."""
    swapped, dropped, negated, moved = KINDS
    if isinstance(node, ast.Compare) and len(node.ops) == 1:
        yield swapped, node, ast.Compare(node.left, [_SWAPPED[type(node.ops[0])]()], node.comparators)
    elif isinstance(node, ast.BoolOp):
        for at in range(len(node.values)):
            rest = node.values[:at] + node.values[at + 1 :]
            yield dropped, node, rest[0] if len(rest) == 1 else ast.BoolOp(node.op, rest)
    elif isinstance(node, ast.Constant) and type(node.value) is int:
        yield moved, node, ast.Constant(node.value + 1)
    elif isinstance(node, ast.FunctionDef) and isinstance(node.returns, ast.Name) and node.returns.id == "bool":
        for inner in ast.walk(node):
            if isinstance(inner, ast.Return) and inner.value is not None:
                yield negated, inner.value, ast.UnaryOp(ast.Not(), inner.value)
    elif isinstance(node, ast.If) and not isinstance(node.test, ast.BoolOp):
        yield dropped, node.test, ast.Constant(True)


def sample(seed: int, count: int, least: int = 20) -> list[Mutant]:
    """``count`` mutants, at least ``least`` of every room that has so many, in an order that is as random as they are."""

    def rank(mutant: Mutant) -> bytes:
        return hashlib.sha256(f"{seed} {mutant.name}".encode()).digest()

    chosen, rest = [], []
    for room in rooms():
        paths = [PACKAGE / room] if room.endswith(".py") else sorted((PACKAGE / room).rglob("*.py"))
        found = sorted((mutant for path in paths for mutant in candidates(path)), key=rank)
        chosen += found[:least]
        rest += found[least:]
    return sorted([*chosen, *sorted(rest, key=rank)[: max(count - len(chosen), 0)]], key=rank)


def tests_of(path: str) -> list[str]:
    """The tests of a file: the examples in it, the tests of its name and those that these say test it as well, those that
    ``tools/one_of_each.toml`` lists instead, or the nearest ones."""
    return [path, *_tests_of(path)]


def _tests_of(path: str) -> list[str]:
    inside = Path(path).relative_to("tirlower")
    name = f"{inside.parent.name}.py" if inside.name == "__init__.py" else inside.name
    own = Path("tests", inside.parent, f"test_{name.removeprefix('_')}")
    if (ROOT / own).is_file():
        said = ast.get_docstring(ast.parse((ROOT / own).read_text(encoding="utf-8"))) or ""
        return [own.as_posix(), *_named(said)]
    listed = tomllib.loads((ROOT / "tools" / "one_of_each.toml").read_text(encoding="utf-8"))
    reasons = listed["modules without a test of their name"]
    reason = reasons.get(path) or reasons.get(f"{Path(path).parent.as_posix()}/", "")
    if found := _named(reason):
        return found
    folder = ROOT / "tests" / inside.with_suffix("")
    while not any(folder.glob("test_*.py")):
        folder = folder.parent
    return [file.relative_to(ROOT).as_posix() for file in sorted(folder.glob("test_*.py"))]


def _named(text: str) -> list[str]:
    """The test files and folders that a text names."""
    return re.findall(r"\btests/[\w/.]*\w", text)
