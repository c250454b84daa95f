"""Metadata of an LLVM module: nodes, and the few shapes of them that a loop compiler uses.

Nodes are numbered in the order of their creation. Equal nodes are made once, except *distinct* ones, whose identity is
their meaning (alias domains and scopes, loops); those refer to themselves, as LLVM wants it.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tirlower.emit.llvm_text.constants import TRUE, Value, const, escape, i32
from tirlower.emit.llvm_text.types import METADATA, Type

__all__ = ["NO_ATTACHMENTS", "Attachments", "Metadata", "MetadataTable", "MetadataOperand"]


class Metadata:
    """A metadata node of one module; ``str(node)`` is its reference, ``!7``."""

    __slots__ = ("text",)

    text: Final[str]

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Metadata({self.text})"

    def as_value(self) -> Value:
        """The node as an argument of an intrinsic that takes metadata."""
        return Value(METADATA, self.text)


#: what a node may hold: another node, a constant, a string, or nothing
MetadataOperand = Metadata | Value | str | None


class Attachments:
    """Metadata for instructions, printed once and attached to many: ``Attachments({"alias.scope": scope})``.

    ``a | b`` attaches both.
    """

    __slots__ = ("text",)

    text: Final[str]

    def __init__(self, nodes: Mapping[str, Metadata]) -> None:
        self.text = "".join([f", !{name} {node.text}" for name, node in nodes.items()])

    def __or__(self, other: Attachments) -> Attachments:
        both = Attachments({})
        object.__setattr__(both, "text", self.text + other.text)
        return both

    def __repr__(self) -> str:
        return f"Attachments({self.text})"


NO_ATTACHMENTS: Final = Attachments({})


def _operand(x: MetadataOperand) -> str:
    if x is None:
        return "null"
    if isinstance(x, str):
        return f'!"{escape(x.encode())}"'
    return str(x)


class MetadataTable:
    """The metadata of a module; :class:`~tirlower.emit.llvm_text.Module` is one."""

    def __init__(self) -> None:
        self._nodes: list[str] = []
        self._uniqued: dict[str, Metadata] = {}
        self._named: dict[str, list[Metadata]] = {}
        self._flags: dict[str, None] = {}

    # -- nodes -------------------------------------------------------------------------------------------------------

    def metadata(self, *operands: MetadataOperand) -> Metadata:
        """The node ``!{operands}``; the same operands give the same node."""
        text = f"!{{{', '.join([_operand(x) for x in operands])}}}"
        found = self._uniqued.get(text)
        if found is None:
            found = self._uniqued[text] = self._add(text)
        return found

    def distinct(self, *operands: MetadataOperand, self_reference: bool = False) -> Metadata:
        """A new ``distinct`` node, which is its own first operand where ``self_reference``."""
        me = f"!{len(self._nodes)}"
        inside = ([me] if self_reference else []) + [_operand(x) for x in operands]
        return self._add(f"distinct !{{{', '.join(inside)}}}")

    def named_metadata(self, name: str, *nodes: Metadata) -> None:
        """Append nodes to the module's named metadata ``!name``."""
        self._named.setdefault(name, []).extend(nodes)

    def module_flag(self, behaviour: int, name: str, value: Value | Metadata) -> None:
        """Set a module flag once (``behaviour``: 1 error on a clash, 2 warn, 7 max, 8 min)."""
        if name not in self._flags:
            self._flags[name] = None
            self.named_metadata("llvm.module.flags", self.metadata(i32(behaviour), name, value))

    def _add(self, text: str) -> Metadata:
        node = Metadata(f"!{len(self._nodes)}")
        self._nodes.append(text)
        return node

    # -- the shapes that loops and memory accesses use ----------------------------------------------------------------

    def alias_domain(self, name: str = "") -> Metadata:
        """A new domain, within which scopes can be told apart."""
        return self.distinct(*([name] if name else []), self_reference=True)

    def alias_scope(self, domain: Metadata, name: str = "") -> Metadata:
        """A new scope of ``domain``: the accesses to one buffer."""
        return self.distinct(domain, *([name] if name else []), self_reference=True)

    def alias_attachments(self, scopes: Sequence[Metadata]) -> list[Attachments]:
        """For each of several scopes, what to attach to its accesses: in this scope, and in none of the others."""
        if len(scopes) == 1:
            return [Attachments({"alias.scope": self.metadata(scopes[0])})]
        return [
            Attachments(
                {
                    "alias.scope": self.metadata(scope),
                    "noalias": self.metadata(*[other for other in scopes if other is not scope]),
                }
            )
            for scope in scopes
        ]

    def loop_metadata(
        self,
        *,
        vectorize: bool | None = None,
        vector_width: int | None = None,
        interleave: int | None = None,
        unroll: bool | int | None = None,
        must_progress: bool = False,
        parallel_accesses: Metadata | None = None,
        extra: Iterable[MetadataOperand] = (),
    ) -> Metadata:
        """Hints for one loop, to attach to its back edge as ``!llvm.loop``.

        ``None`` leaves a choice to LLVM. ``unroll`` is ``False`` (never), ``True`` (fully) or a factor.
        ``parallel_accesses`` is an access group: its accesses carry no dependence between iterations.
        """
        hints: list[MetadataOperand] = []
        if must_progress:
            hints.append(self.metadata("llvm.loop.mustprogress"))
        if vectorize is not None:
            hints.append(self.metadata("llvm.loop.vectorize.enable", const(TRUE.type, vectorize)))
        if vector_width is not None:
            hints.append(self.metadata("llvm.loop.vectorize.width", i32(vector_width)))
        if interleave is not None:
            hints.append(self.metadata("llvm.loop.interleave.count", i32(interleave)))
        if unroll is True or unroll is False:
            hints.append(self.metadata(f"llvm.loop.unroll.{'full' if unroll else 'disable'}"))
        elif unroll is not None:
            hints.append(self.metadata("llvm.loop.unroll.count", i32(unroll)))
        if parallel_accesses is not None:
            hints.append(self.metadata("llvm.loop.parallel_accesses", parallel_accesses))
        return self.distinct(*hints, *extra, self_reference=True)

    def access_group(self) -> Metadata:
        """A new access group, for ``parallel_accesses`` of a loop and ``!llvm.access.group`` of its accesses."""
        return self.distinct()

    def value_range(self, type: Type, low: int, high: int) -> Metadata:
        """``!range``: the loaded or returned integer is in ``[low, high)``, which may not be everything or nothing.

        Raises:
            ValueError: the interval is empty.
        """
        if low >= high:
            raise ValueError(f"the range [{low}, {high}) is empty")
        return self.metadata(const(type, low), const(type, high))

    def branch_weights(self, taken: int, not_taken: int) -> Metadata:
        """``!prof``: how often a branch goes to its first and to its second target."""
        return self.metadata("branch_weights", i32(taken), i32(not_taken))

    def empty_metadata(self) -> Metadata:
        """The node ``!{}``, which marks ``!invariant.load``, ``!nonnull`` and the like."""
        return self.metadata()

    def metadata_text(self) -> str:
        """The definitions, one a line."""
        return self.named_metadata_text() + "".join([f"!{i} = {text}\n" for i, text in enumerate(self._nodes)])

    def named_metadata_text(self) -> str:
        """The definitions of the named nodes."""
        return "".join(
            [f"!{name} = !{{{', '.join([node.text for node in nodes])}}}\n" for name, nodes in self._named.items()]
        )
