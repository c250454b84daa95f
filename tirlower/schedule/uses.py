"""Which buffers a statement reads and writes, remembered for each node: a new node asks those below it.

What is allocated inside of a statement is no use of it. Memory that is named by its pointer alone is among ``pointers``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

from tirlower.diagnostics import deep_recursion
from tirlower.ir.buffer import Buffer, BufferRegion
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var
from tirlower.ir.node import Node, Role
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import nodes
from tirlower.ir.stmt import AllocBuffer, AllocConst, Assert, Block, BufferStore, Evaluate, Seq, Stmt

__all__ = ["Uses", "UsesOf"]

MOST_NODES = 400_000
"""Of how many statements something is remembered before all is forgotten."""


@dataclass(frozen=True, slots=True)
class Uses:
    """The buffers that a statement reads and writes, in the order of the text, each with the number of accesses.

    ``pointers`` are the variables of memory that it names other than by a subscript; ``returns`` says that it may end the function,
    ``effects`` that it does more than access buffers: calls that change state, jumps, assertions; ``owns`` that something is
    allocated in it, of which it says nothing.
    """

    reads: dict[Buffer, int] = field(default_factory=dict)
    writes: dict[Buffer, int] = field(default_factory=dict)
    pointers: frozenset[Var] = frozenset()
    returns: bool = False
    effects: bool = False
    owns: bool = False

    memory: frozenset[Var] = frozenset()
    """The data variables of the buffers, and the pointers."""

    named: frozenset[Var] = frozenset()
    """The data variables of all buffers that are written anywhere in it: accessed, declared, in regions, in annotations."""


class UsesOf:
    """The uses of statements, computed once for each node."""

    def __init__(self) -> None:
        self._known: dict[object, Uses] = {}

    def __call__(self, stmt: Stmt) -> Uses:
        """The uses of a statement."""
        found = self._known.get(stmt)
        if found is None:
            if len(self._known) > MOST_NODES:
                self._known.clear()
            with deep_recursion():
                found = self._of(stmt)
        return found

    def those_of(self, stmts: Sequence[object], buffer: Buffer) -> list[int]:
        """The numbers of the statements, of a field of one, that may access a buffer, its memory, or allocate it."""
        known, data = self._known.get, buffer.data
        # Of a sequence of thousands nearly all are known, and are not asked for.
        maybe = [
            at for at, one in enumerate(stmts) if (found := known(one)) is None or found.owns or data in found.memory
        ]
        return [at for at in maybe if isinstance(one := stmts[at], Stmt) and self._may_use(one, buffer)]

    def _may_use(self, stmt: Stmt, buffer: Buffer) -> bool:
        if stmt.__class__ is AllocBuffer or stmt.__class__ is AllocConst:
            return stmt.buffer is buffer
        found = self(stmt)
        return found.owns or buffer.data in found.memory

    def _of(self, stmt: Stmt) -> Uses:
        found = self._known.get(stmt)
        if found is None:
            found = self._known[stmt] = self._new(stmt)
        return found

    def _new(self, stmt: Stmt) -> Uses:
        reads: dict[Buffer, int] = {}
        writes: dict[Buffer, int] = {}
        pointers: set[Var] = set()
        returns = False
        effects = stmt.__class__ is Assert
        owns = stmt.__class__ is AllocBuffer or stmt.__class__ is AllocConst
        named = set(_named(stmt))
        own: set[Buffer] = set(stmt.alloc_buffers) if isinstance(stmt, Block) else set()
        for part in _parts(stmt):
            if not isinstance(part, Stmt):
                effects = _expressions(part, reads, pointers) or effects
                continue
            if isinstance(part, (AllocBuffer, AllocConst)) and isinstance(stmt, Seq):
                own.add(part.buffer)
            inner = self._of(part)
            for mine, theirs in ((reads, inner.reads), (writes, inner.writes)):
                for buffer, count in theirs.items():
                    mine[buffer] = mine.get(buffer, 0) + count
            pointers |= inner.pointers
            named |= inner.named
            returns = returns or inner.returns
            effects = effects or inner.effects
            owns = owns or inner.owns
        named |= pointers
        for buffer in reads:
            named.update(_behind(buffer))
        if isinstance(stmt, BufferStore):
            writes[stmt.buffer] = writes.get(stmt.buffer, 0) + 1
        elif isinstance(stmt, Evaluate) and isinstance(stmt.value, Call) and stmt.value.op in _RETURNS:
            returns = True
        if isinstance(stmt, Block):
            matched = {match.buffer: match.source.buffer for match in stmt.match_buffers}
            reads, writes = ({matched.get(b, b): n for b, n in side.items()} for side in (reads, writes))
        if own:
            reads, writes = ({b: n for b, n in side.items() if b not in own} for side in (reads, writes))
            pointers -= {buffer.data for buffer in own}
        memory = frozenset((*pointers, *(b.data for b in reads), *(b.data for b in writes)))
        return Uses(reads, writes, frozenset(pointers), returns, effects, owns, memory, frozenset(named))


def _parts(stmt: Stmt) -> Iterator[Node]:
    """What stands directly in a statement, in the order of the text; a block's declared regions say nothing."""
    if isinstance(stmt, Block):
        yield from (it.value for it in stmt.iters if it.value is not None)
        yield stmt.predicate
        yield from (match.source for match in stmt.match_buffers)
        if stmt.init is not None:
            yield stmt.init
        yield stmt.body
        return
    yield from stmt.children()


def _named(stmt: Stmt) -> Iterator[Var]:
    """The data variables of buffers that a statement itself names, in its fields, regions and annotations."""
    for one in stmt.fields:
        if one.role is Role.BINDS or one.role is Role.BUFFER or one.role is Role.ATTRS:
            yield from _in_value(getattr(stmt, one.name))
    if isinstance(stmt, Block):
        for region in (*stmt.reads, *stmt.writes):
            yield from _in_value(region)
        for match in stmt.match_buffers:
            yield from (*_behind(match.buffer), *_in_value(match.source))


def _in_value(value: object) -> Iterator[Var]:
    if isinstance(value, Buffer):
        yield from _behind(value)
    elif isinstance(value, Node):
        for op in nodes(value):
            if isinstance(op, Var):
                yield op
            elif isinstance(op, (BufferLoad, BufferRegion)):
                yield from _behind(op.buffer)
    elif isinstance(value, dict):
        for one in value.values():
            yield from _in_value(one)
    elif isinstance(value, (tuple, list)):
        for one in value:
            yield from _in_value(one)


def _behind(buffer: Buffer) -> Iterator[Var]:
    """The data variable of a buffer, and those of what its shape is read from."""
    yield buffer.data
    for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
        if not isinstance(part, (IntImm, Var)):
            yield from _in_value(part)


def _expressions(root: Node, reads: dict[Buffer, int], pointers: set[Var]) -> bool:
    """Count the accesses of an expression; whether it has effects."""
    effects = False
    if isinstance(root, Expr) and root.is_leaf and root.__class__ is not BufferLoad and root.__class__ is not Var:
        return effects
    for op in nodes(root):
        if op.__class__ is BufferLoad:
            reads[op.buffer] = reads.get(op.buffer, 0) + 1
        elif op.__class__ is Var:
            if isinstance(op.type, PointerType):
                pointers.add(op)
        elif op.__class__ is Call:
            if op.op is _ADDRESS and isinstance(op.args[0], BufferLoad):
                pointers.add(op.args[0].buffer.data)
            if not isinstance(op.op, Op) or (op.op.purity > Purity.READS and op.op is not _ASSUME):
                effects = True
    return effects


_ASSUME = Op.get("tir.assume")
_ADDRESS = Op.get("tir.address_of")
_RETURNS = frozenset((Op.get("tir.ret"), Op.get("tir.thread_return")))
