"""Names of the printed script: unique in their scope, free again after it."""

from __future__ import annotations

import keyword
import re

__all__ = ["Names", "identifier"]

# Names that the script itself needs; another builtin may be hidden by a variable of its name.
_NEEDED = frozenset((*keyword.kwlist, "T", "I", "range", "float"))
_BAD = re.compile(r"\W")


def identifier(name: str, fallback: str = "v") -> str:
    """A Python identifier close to a name: other characters become underscores."""
    text = _BAD.sub("_", name)
    if not text or text == "_" * len(text):
        return fallback
    if text[0].isdigit() or text.startswith("__"):
        text = "v" + text.lstrip("_")
    return text + "_" if text in _NEEDED else text


class Names:
    """Which object has which name, scope by scope.

    A name that is taken gets the first free suffix ``_1``, ``_2`` …; leaving a scope frees its names and restores
    those that it hid. All operations take constant time on average.
    """

    def __init__(self, addresses: bool = False) -> None:
        self.addresses = addresses
        """Whether the names of objects end in where these stand in the memory of the process."""
        self.of: dict[object, str] = {}
        self._taken: set[str] = set()
        self._next: dict[str, int] = {}
        self._scopes: list[list[tuple[object, str | None, str, str, int]]] = [[]]

    def push(self) -> None:
        """Enter a scope."""
        self._scopes.append([])

    def pop(self) -> None:
        """Leave a scope."""
        for item, before, name, base, suffix in reversed(self._scopes.pop()):
            self._taken.discard(name)
            if suffix < self._next.get(base, 0):
                self._next[base] = suffix
            if item is None:
                continue
            if before is None:
                self.of.pop(item, None)
            else:
                self.of[item] = before

    @property
    def depth(self) -> int:
        """How many scopes are open."""
        return len(self._scopes)

    def pop_to(self, depth: int) -> None:
        """Leave scopes until that many are open."""
        while len(self._scopes) > depth:
            self.pop()

    def fresh(self, wanted: str, fallback: str = "v") -> str:
        """A free name close to a wanted one, taken for the current scope."""
        return self.define(None, wanted, fallback)

    def define(self, item: object, wanted: str, fallback: str = "v", outermost: bool = False) -> str:
        """Give an object a free name for the rest of the current scope (or, ``outermost``, for good)."""
        base = identifier(wanted, fallback)
        if self.addresses and item is not None:
            base = f"{base}_{id(item):#x}"
        name, suffix = base, 0
        if name in self._taken:
            suffix = max(self._next.get(base, 1), 1)
            while f"{base}_{suffix}" in self._taken:
                suffix += 1
            name = f"{base}_{suffix}"
            self._next[base] = suffix + 1
        self._taken.add(name)
        before = None if item is None else self.of.get(item)
        self._scopes[0 if outermost else -1].append((item, before, name, base, suffix))
        if item is not None:
            self.of[item] = name
        return name

    def take(self, name: str) -> None:
        """Take a name that is free for the rest of the current scope."""
        if name not in self._taken:
            self._taken.add(name)
            self._scopes[-1].append((None, None, name, name, 0))

    def alias(self, item: object, text: str) -> None:
        """Let a text that is no name (``A.data``) stand for an object for the rest of the current scope."""
        self._scopes[-1].append((item, self.of.get(item), "", "", 0))
        self.of[item] = text
