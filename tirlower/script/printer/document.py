"""The text being printed, line by line, and where in it each node stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TypeAlias, cast

from tirlower.diagnostics import Source, Span
from tirlower.script.printer.style import USUAL, Style

__all__ = ["CLOSE", "Document", "NodeSpans", "Piece", "PrintedScript", "open_mark"]

Piece: TypeAlias = str | tuple[object] | None
"""A part of a line: a text, or a mark: ``(node,)`` where a node's text starts, ``CLOSE`` where the last one ends."""

CLOSE = None


def open_mark(node: object) -> tuple[object]:
    """The mark at which a node's text starts."""
    return (node,)


Place = tuple[int, int, int]  # line from 0, first column, end column


class Document:
    """Lines of text. With ``marks``, the places of nodes are recorded on the way."""

    def __init__(
        self,
        indent: int = 4,
        marks: bool = False,
        addresses: bool = False,
        metadata: list[str] | None = None,
        style: Style = USUAL,
    ) -> None:
        self.lines: list[str] = []
        self.places: dict[int, list[Place]] = {}
        self.marks = marks
        self.addresses = addresses
        self.metadata = metadata
        """Where it is wanted, the contents of constant arrays, which the text names then."""
        self.style = style
        self.level = 0
        self._tab = " " * indent

    def line(self, pieces: Iterable[Piece], *nodes: object) -> None:
        """Add a line at the current indentation; the whole of it stands for ``nodes``."""
        start = self._tab * self.level
        if not self.marks:
            self.lines.append(start + "".join(cast("Iterable[str]", pieces)))  # there are no marks
            return
        texts = [start]
        col = len(start)
        opened: list[tuple[object, int]] = []
        number = len(self.lines)
        for piece in pieces:
            if piece.__class__ is str:
                texts.append(piece)
                col += len(piece)
            elif piece is CLOSE:
                node, first = opened.pop()
                self.places.setdefault(id(node), []).append((number, first, col))
            else:
                opened.append((piece[0], col))
        for node in nodes:
            self.places.setdefault(id(node), []).append((number, len(start), col))
        self.lines.append("".join(texts))

    def insert(self, at: int, lines: list[str]) -> None:
        """Add lines before line ``at``; the places of what stands behind move."""
        self.lines[at:at] = lines
        by = len(lines)
        for key, places in self.places.items():
            self.places[key] = [(n + by if n >= at else n, first, end) for n, first, end in places]

    def blank(self) -> None:
        """Add an empty line."""
        self.lines.append("")

    def text(self) -> str:
        """All lines."""
        return "\n".join(self.lines)


class NodeSpans:
    """Where nodes stand in a printed text: ``spans[node]`` is the first place of a node."""

    __slots__ = ("_places", "source")

    def __init__(self, source: Source, places: dict[int, list[Place]]) -> None:
        self.source = source
        self._places = places

    def _span(self, place: Place) -> Span:
        line, start, end = place
        return Span(self.source, line + 1, start, line + 1, end)

    def every(self, node: object) -> list[Span]:
        """Every place of a node, in the order of the text (a shared expression has several)."""
        return [self._span(place) for place in self._places.get(id(node), ())]

    def get(self, node: object) -> Span | None:
        """The first place of a node, or None where it has none of its own."""
        places = self._places.get(id(node))
        return self._span(places[0]) if places else None

    def __getitem__(self, node: object) -> Span:
        return self._span(self._places[id(node)][0])

    def __contains__(self, node: object) -> bool:
        return id(node) in self._places

    def __len__(self) -> int:
        return len(self._places)

    def locate(self, chain: Sequence[object]) -> Span | None:
        """The place of the last node of a chain from the root down that has one, inside its ancestors' places."""
        found: Place | None = None
        for node in chain:
            places = self._places.get(id(node))
            if not places:
                continue
            inside = places if found is None else [p for p in places if _within(p, found)]
            if inside:
                found = inside[0]
        return None if found is None else self._span(found)


class PrintedScript:
    """A printed tree: its ``text``, the ``source`` that spans point into, and the ``spans`` of its nodes."""

    __slots__ = ("root", "source", "spans", "text")

    def __init__(self, root: object, text: str, places: dict[int, list[Place]], name: str) -> None:
        self.root = root  # keeps the nodes alive, so that their ids stay theirs
        self.text = text
        self.source = Source(text, name)
        self.spans = NodeSpans(self.source, places)

    def __str__(self) -> str:
        return self.text


def _within(place: Place, outer: Place) -> bool:
    if place[0] == outer[0]:
        # Inside the line of an ancestor; a header's own line holds all that the header says.
        return outer[1] <= place[1] and place[2] <= outer[2]
    return place[0] > outer[0]
