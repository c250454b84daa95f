"""Names: the script's variables, the Python scope around a function, and which parser is at work."""

from __future__ import annotations

import builtins
import threading
from collections.abc import Iterable, Mapping
from types import CellType, FrameType, FunctionType
from typing import TYPE_CHECKING

from tirlower.diagnostics import TirError

if TYPE_CHECKING:
    from tirlower.script.builder import Builder

__all__ = ["MISSING", "SAFE_BUILTINS", "Names", "PythonScope", "activate", "active", "active_or_none", "deactivate"]

MISSING: object = object()
"""What a lookup gives when there is no such name."""

SAFE_BUILTINS: dict[str, object] = {
    name: getattr(builtins, name)
    for name in (
        "abs", "all", "any", "bool", "dict", "divmod", "enumerate", "float", "int", "len", "list", "max", "min",
        "pow", "range", "reversed", "round", "sorted", "str", "sum", "tuple", "zip",
    )
}  # fmt: skip
"""The Python functions that a script given as text may call: they compute on numbers and sequences only."""


class Names:
    """The variables of a script by name, with nested scopes; entering, leaving and lookup take constant time."""

    __slots__ = ("_undo", "table")

    def __init__(self) -> None:
        self.table: dict[str, object] = {}
        self._undo: list[list[tuple[str, object]]] = []

    @property
    def depth(self) -> int:
        """How many scopes are open."""
        return len(self._undo)

    def push(self) -> None:
        """Enter a scope."""
        self._undo.append([])

    def pop(self) -> None:
        """Leave a scope: what it defined or shadowed is as before."""
        table = self.table
        for name, old in reversed(self._undo.pop()):
            if old is MISSING:
                del table[name]
            else:
                table[name] = old

    def discard(self) -> None:
        """Leave a scope whose table was replaced as a whole: nothing is restored."""
        self._undo.pop()

    def set_outermost(self, name: str, value: object) -> None:
        """Define a name that is not defined in any scope, in the outermost one."""
        if self._undo:
            self._undo[0].append((name, MISSING))
        self.table[name] = value

    def set(self, name: str, value: object) -> None:
        """Define a name in the current scope."""
        if self._undo:
            self._undo[-1].append((name, self.table.get(name, MISSING)))
        self.table[name] = value


class PythonScope:
    """The Python names around a script, innermost first: closure, locals of enclosing functions, globals, builtins."""

    __slots__ = ("cells", "layers")

    def __init__(self, layers: Iterable[Mapping[str, object]], cells: Mapping[str, CellType] | None = None) -> None:
        self.layers = list(layers)
        self.cells = cells or {}

    @classmethod
    def of_function(cls, func: FunctionType, frame: FrameType | None = None) -> PythonScope:
        """The scope of a function: ``frame`` is the one in which its decorator runs.

        Names that stand only in annotations are in no closure, so the locals of the enclosing functions that are
        still running are read too: a frame encloses the function if its qualified name is a prefix of the function's.
        """
        cells = dict(zip(func.__code__.co_freevars, func.__closure__ or (), strict=True))
        return cls([*enclosing_locals(func.__qualname__, frame), func.__globals__, vars(builtins)], cells)

    @classmethod
    def of_frame(cls, qualname: str, frame: FrameType, extra: Mapping[str, object] | None = None) -> PythonScope:
        """The scope of a class or text met in a frame."""
        return cls([extra or {}, *enclosing_locals(qualname, frame), frame.f_globals, vars(builtins)])

    def lookup(self, name: str) -> object:
        """The value of a name, or ``MISSING``. A variable of a closure is read as it is now."""
        cell = self.cells.get(name)
        if cell is not None:
            try:
                return cell.cell_contents
            except ValueError:  # not assigned yet, as the name of the function itself
                pass
        for layer in self.layers:
            if name in layer:
                return layer[name]
        return MISSING

    def known(self) -> list[str]:
        """The names that can be meant (builtins last)."""
        return [name for layer in (self.cells, *self.layers) for name in layer if not name.startswith("__")]


def enclosing_locals(qualname: str, frame: FrameType | None) -> list[Mapping[str, object]]:
    """The locals of the running frames that enclose the definition of ``qualname`` lexically, innermost first."""
    found: list[Mapping[str, object]] = []
    owner = qualname.rpartition(".")[0]
    while frame is not None and owner:
        owner = owner.removesuffix(".<locals>")
        code = frame.f_code
        if code.co_qualname == owner:
            found.append(frame.f_locals)
            owner = owner.rpartition(".")[0]
        frame = frame.f_back
    return found


_STATE = threading.local()


def activate(builder: Builder) -> Builder | None:
    """Make a builder the one that forms write to, in this thread; returns the one before."""
    before = active_or_none()
    _STATE.builder = builder
    return before


def deactivate(before: Builder | None) -> None:
    """Go back to the builder before."""
    _STATE.builder = before


def active_or_none() -> Builder | None:
    """The builder at work in this thread, or None outside a script."""
    return getattr(_STATE, "builder", None)


def active(what: str) -> Builder:
    """The builder at work. Raises :class:`TirError` outside a script, naming the form."""
    found = active_or_none()
    if found is None:
        raise TirError(f"{what} has a meaning only inside a prim_func", help="use it under @T.prim_func or @T.macro")
    return found
