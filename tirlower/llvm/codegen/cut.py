"""Long bodies as several LLVM functions: LLVM's time grows faster than a function does.

A sequence of statements beyond a budget is emitted in groups, each a function of its own that takes what it uses of the
values around it from a structure on the caller's stack, as a task of a parallel loop does. What a group binds and
later statements read goes back the same way. Allocations, and statements that leave a loop or the function, stay where
they are. An expression beyond the budget is first bound to names in parts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from tirlower.emit.emitter import Binding, Emitter
from tirlower.emit.llvm_text import I32, PTR, Builder, zero
from tirlower.emit.statements import emit_statement
from tirlower.ir.expr import BinaryOp, Call, Cast, CompareOp, Expr, Not, Var
from tirlower.ir.node import Node
from tirlower.ir.op import Op, Purity
from tirlower.ir.splice import jumps_out, returns
from tirlower.ir.stmt import AllocBuffer, AllocConst, Bind, BufferStore, DeclBuffer, Evaluate, Seq, Stmt
from tirlower.llvm.codegen.outline import Captures

__all__ = ["BODY_BUDGET", "Sizes", "emit_cut"]

BODY_BUDGET: Final = 4000
"""The size (see :class:`Sizes`) up to which a sequence stays in one function.

2,000 straight statements ``B[i] = A[j] * c + B[k]`` have size 12,000 and took LLVM 2.6 s in one function, in parts 0.6 s.
Kernels made for speed stay well below: a tile of 14 by 32 floats, unrolled four times, has size 4,500.
"""
_PART: Final = 400
_EXPRESSION_BUDGET: Final = 2000
_REGISTER_BITS: Final = 512
_IF: Final = Op.get("tir.if_then_else")


class Sizes:
    """How much code statements become, about: their nodes, vectors counted by the registers that they fill."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Stmt, int]] = {}

    def of(self, stmt: Stmt) -> int:
        """The size of a statement with all that stands in it."""
        found = self._known.get(id(stmt))
        if found is None:
            size = 1
            for child in stmt.children():
                size += self.of(child) if isinstance(child, Stmt) else expression_size(child)
            found = self._known[id(stmt)] = (stmt, size)
        return found[1]


def expression_size(root: Node) -> int:
    """The size of an expression; what it holds more than once is emitted, and counted, once."""
    seen: set[int] = set()
    stack = [root]
    size = 0
    while stack:
        op = stack.pop()
        if id(op) in seen or not isinstance(op, Expr):
            continue
        seen.add(id(op))
        if not op.is_leaf:
            size += 1 + op.dtype.bits * op.dtype.lanes // _REGISTER_BITS
            stack += op.children()
    return size


def emit_cut(em: Emitter, op: Seq, sizes: Sizes) -> None:
    """Emit a sequence in groups. The position may end terminated; the sequence's cleanups stay to be unwound."""
    stmts = [part for stmt in op.stmts for part in _bound(stmt, sizes)]
    last_use = _last_uses(stmts)
    group: list[Stmt] = []
    room = _PART
    for position, stmt in enumerate(stmts):
        size = sizes.of(stmt)
        movable = size <= BODY_BUDGET and not (
            isinstance(stmt, (AllocBuffer, AllocConst, DeclBuffer)) or jumps_out(stmt) or returns(stmt)
        )
        if group and (not movable or size > room):
            _emit_group(em, group, last_use, position)
            group, room = [], _PART
        if movable:
            group.append(stmt)
            room -= size
            continue
        emit_statement(em, stmt)
        if em.b.terminated:
            return
    if group:
        _emit_group(em, group, last_use, len(stmts))


def _last_uses(stmts: Sequence[Stmt]) -> dict[Var, int]:
    """Of each variable that a statement of the sequence binds, where it is read last."""
    bound = {stmt.var for stmt in stmts if isinstance(stmt, Bind)}
    found: dict[Var, int] = {}
    if not bound:
        return found
    for position, stmt in enumerate(stmts):
        seen: set[int] = set()
        stack: list[Node] = [stmt]
        while stack:
            op = stack.pop()
            if id(op) in seen:
                continue
            seen.add(id(op))
            if op.__class__ is Var:
                if op in bound:
                    found[op] = position
                continue
            # A view's layout is read where the view is used.
            buffer = getattr(op, "buffer", None)
            if buffer is not None:
                stack += buffer.children()
            stack += op.children()
    return found


def _emit_group(em: Emitter, stmts: Sequence[Stmt], last_use: dict[Var, int], following: int) -> None:
    state, kernel, b = em.state, em.kernel, em.b
    kernel.outlined += 1
    part = em.module.function(
        em.module.unique_name(f"{kernel.name}.part.{kernel.outlined}"),
        I32,
        [(PTR, "context", ["noalias", "nonnull"])],
        linkage="internal",
        attrs=[*state.attrs, "noinline"],
    )
    part.separable = True
    inner = Emitter(state, kernel, part, em)
    entry = part.block("entry")
    captures = Captures(part.args[0], Builder(part, entry))
    inner.capture = captures
    inner.runs_parallel = em.runs_parallel
    inner.hoisted = set(em.hoisted)
    inner.masked = set(em.masked)
    inner.stack_left = inner.lowest = em.stack_left
    inner.err = captures(em.err)
    inner.claim = None if em.claim is None else captures(em.claim)
    inner.descent = None if em.descent is None else captures(em.descent)
    start = part.block("start")
    inner.b.position_at_end(start)
    for stmt in stmts:
        emit_statement(inner, stmt)
    returned: list[tuple[Var, Binding, list[int]]] = []
    if not inner.b.terminated:
        for stmt in stmts:
            if isinstance(stmt, Bind) and last_use.get(stmt.var, -1) >= following:
                mine = inner.vars[stmt.var]
                returned.append((stmt.var, mine, [captures.hand_back(inner.b, x) for x in mine if x is not None]))
        inner.unwind(0)
        inner.b.ret(inner.b.i32(0))
    Builder(part, entry).br(start)
    em.lowest = min(em.lowest, inner.lowest)
    em.masked |= inner.masked
    context = em.context(captures.size)
    for value, offset in captures.outer:
        b.store(value, b.offset(context, offset), 8)
    status = b.call(part.ref, [context])
    failed, good = em.new_block("failed"), em.new_block("done")
    b.cond_br(b.icmp("ne", status, zero(I32)), failed, good, likely=False)
    em.enter(failed)
    em.leave(status)
    em.enter(good)
    for var, binding, offsets in returned:
        again = [
            b.load(value.type, b.offset(context, offset), 8)
            for value, offset in zip([x for x in binding if x is not None], offsets, strict=True)
        ]
        em.define(var, *again)
        outer = kernel.roots.get(var)
        if outer is not None:
            kernel.roots[var] = outer


# -- long expressions ------------------------------------------------------------------------------------------------


def _bound(stmt: Stmt, sizes: Sizes) -> list[Stmt]:
    """A statement, after the bindings of parts of its expression where that is long."""
    if not isinstance(stmt, (BufferStore, Bind, Evaluate)) or sizes.of(stmt) <= _EXPRESSION_BUDGET:
        return [stmt]
    out: list[Stmt] = []
    value = _split(stmt.value, out)
    return [*out, stmt.with_(value=value)] if out else [stmt]


def _split(root: Expr, out: list[Stmt]) -> Expr:
    """An expression in which long operands are names, bound in ``out``: such as are evaluated whatever happens."""
    made: dict[int, tuple[Expr, int]] = {}
    stack: list[Expr] = [root]
    while stack:
        op = stack[-1]
        if id(op) in made:
            stack.pop()
            continue
        operands = _operands(op)
        waiting = [child for child in operands if id(child) not in made]
        if waiting:
            stack += waiting[::-1]
            continue
        stack.pop()
        if not operands:
            made[id(op)] = (op, expression_size(op))
            continue
        size = 1 + sum(made[id(child)][1] for child in operands)
        new = [made[id(child)][0] for child in operands]
        again = op
        if any(a is not b for a, b in zip(new, operands, strict=True)):
            again = op.with_(args=tuple(new)) if isinstance(op, Call) else op.with_(**_named(op, new))
        if size > _PART // 2 and op is not root and not op.dtype.is_handle:
            var = Var("part", op.dtype, span=op.span)
            out.append(Bind(var, again, span=op.span))
            again, size = var, 0
        made[id(op)] = (again, size)
    return made[id(root)][0]


def _named(op: Expr, new: Sequence[Expr]) -> dict[str, Expr]:
    if isinstance(op, (BinaryOp, CompareOp)):
        return {"a": new[0], "b": new[1]}
    return {"a" if isinstance(op, Not) else "value": new[0]}


def _operands(op: Expr) -> tuple[Expr, ...]:
    """The operands that are evaluated with the node, whatever their values; none where that is not plain."""
    if isinstance(op, (BinaryOp, CompareOp)):
        return (op.a, op.b)
    if isinstance(op, Not):
        return (op.a,)
    if isinstance(op, Cast):
        return (op.value,)
    if isinstance(op, Call) and isinstance(op.op, Op) and op.op.elementwise and op.op.purity <= Purity.PURE:
        return () if op.op is _IF else op.args
    return ()
