"""Loops: serial ones with hints for LLVM, ``while``, and the jumps out of them.

A loop's counter is an i64 whatever the variable's type, so that addresses are affine in it; the variable itself is the
counter cut to its width. Where 64 bits cost more than 32, on a GPU, the counter of a loop that counts more than addresses is
an i32 if the loop's bounds are proved to fit: attention on tensor cores takes 458 instructions a step for 479, and spills nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from tirlower.emit.branches import variables_in
from tirlower.emit.emitter import Emitter, Loop
from tirlower.emit.llvm_text import I32, I64, NO_ATTACHMENTS, VOID, Attachments, Metadata, Value
from tirlower.emit.platform import EmitBody
from tirlower.ir.annotations import NO_UNROLL, REDUCTION, number_of
from tirlower.ir.expr import Add, BufferLoad, Call, Expr, IntImm, Mul, Sub, Var
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import Assert, AttrStmt, Bind, BufferStore, For, ForKind, IfThenElse, Seq, Stmt, While
from tirlower.rewrite.reductions.chains import reassociable

__all__ = ["NO_MEMCPY", "emit_for", "emit_while", "jump_out", "serial_range"]

#: an attribute by which LLVM takes the function's loops for no memcpy
NO_MEMCPY: Final = "no-builtin-memcpy"

#: names of values in all iterations of a loop up to which LLVM may write them out: it does up to 300 instructions, once
#: it has simplified them; a convolution of 72 products has 288, and 2,000 names before
_WRITTEN_OUT: Final = 3000

#: instructions up to which LLVM writes a loop out, and the bits of the widest vector register
_INSTRUCTIONS: Final = 300
_WIDEST: Final = 512

_REINTERPRET: Final = Op.get("tir.reinterpret")


def emit_for(em: Emitter, op: For, body: EmitBody) -> None:
    """Emit a loop of any kind."""
    extent = op.extent
    if isinstance(extent, IntImm) and extent.value <= 0:
        return
    define_loop_facts(em, op)
    if em.state.platform.loop(em, op, body):
        return
    depth = len(em.cleanups)
    hoisted = [] if em.loops else em.state.platform.ahead_of(em, op)
    begin = em.index(op.min)
    count = em.index(extent)
    end = count if begin.text == "0" else _sum(em, begin, count)
    serial_range(em, op, begin, end, body, nonempty=isinstance(extent, IntImm))
    if not em.b.terminated:
        em.unwind(depth)
    del em.cleanups[depth:]
    em.hoisted.difference_update(hoisted)


def _sum(em: Emitter, a: Value, b: Value) -> Value:
    if a.is_constant and b.is_constant:
        return em.b.i64(int(a.text) + int(b.text))
    return em.b.binary("add nsw", a, b)


def define_loop_facts(em: Emitter, op: For) -> None:
    """The range of the loop variable."""
    facts = em.facts
    low, high = facts.index_range(op.min)
    most = facts.index_range(op.extent)[1]
    divisor = facts.of(op.min).divisor if isinstance(op.extent, IntImm) and op.extent.value == 1 else 1
    facts.define(op.loop_var, low, high + max(most, 1) - 1, divisor)


def serial_range(
    em: Emitter, op: For, begin: Value, end: Value, body: EmitBody, nonempty: bool, task: bool = False
) -> None:
    """Emit the iterations ``begin .. end - 1`` (i64) in order."""
    b = em.b
    first, after, latch = em.new_block("body"), em.new_block("after"), em.new_block("next")
    narrow, low = _fits_a_word(em, op), em.facts.of(op.loop_var).low
    start, last = (_word(em, begin), _word(em, end)) if narrow else (begin, end)
    before = b.block
    if nonempty:
        b.br(first)
    else:
        b.cond_br(b.icmp("slt", begin, end), first, after)
    em.enter(first)
    t = em.type_of(op.loop_var.dtype)
    counter = b.phi(start.type, _hint(op.loop_var.name), [(start, before)])
    wide = counter if not narrow else b.zext(counter, I64, nneg=True) if low >= 0 else b.sext(counter, I64)
    loop = Loop(after, latch, len(em.cleanups), is_task=task)
    em.loops.append(loop)
    same = counter if t.bits == counter.type.bits else wide
    em.define(op.loop_var, same if t.bits == same.type.bits else b.trunc(same, t), wide)
    if op.annotations.get(REDUCTION) and op.kind is ForKind.SERIAL:
        loop.reassociates = True
        for operation in reassociable(op):
            em.reassociable[id(operation)] = operation
            em.contracted.update((id(product), product) for product in operation.children() if isinstance(product, Mul))
    _keep_copies(em, op)
    names = em.function.names
    body(em, op.body)
    em.loops.pop()
    if em.loops:
        _note_inner(em.loops[-1], op, loop, em.function.names - names)
    ended = b.terminated
    if loop.continued:
        if not ended:
            b.br(latch)
        em.enter(latch)
        ended = False
    if not ended:
        following = b.add(counter, b.i32(1) if narrow else b.i64(1), nsw=True, nuw=narrow and low >= 0)
        counter.add(following, b.block)
        hints = loop_hints(em, op, loop.in_order, loop.holds_loop)
        md = NO_ATTACHMENTS if hints is None else Attachments({"llvm.loop": hints})
        b.cond_br(b.icmp("slt", following, last), first, after, md=md)
    if not ended or not nonempty or loop.broken:
        em.enter(after)


def _fits_a_word(em: Emitter, op: For) -> bool:
    """Whether a loop counts in 32 bits: to its end, which is one more than its variable becomes.

    A counter that is used for addresses alone is one with them; there a narrow one is a register and a conversion more.
    """
    if em.machine.wide_indices:
        return False
    low, high = em.facts.index_range(op.loop_var)
    return low >= -(1 << 31) and high < (1 << 31) - 1 and _counts(op)


def _word(em: Emitter, bound: Value) -> Value:
    """A bound of a loop that counts in 32 bits; where the loop is not entered it may be another number."""
    return em.b.i32(int(bound.text)) if bound.is_constant else em.b.trunc(bound, I32)


def _counts(op: For) -> bool:
    """Whether a loop's variable is used for more than sums and products in subscripts."""
    left: list[Node] = [op.body]
    affine: list[Expr] = []
    seen: set[int] = set()
    while left or affine:
        while affine:
            part = affine.pop()
            if isinstance(part, (Add, Sub, Mul)):
                affine += [part.a, part.b]
            elif part is not op.loop_var:
                left.append(part)
        if not left:
            return False
        node = left.pop()
        if node is op.loop_var:
            return True
        if id(node) in seen:
            continue
        seen.add(id(node))
        if isinstance(node, (BufferLoad, BufferStore)):
            affine += node.indices
            left += [child for child in node.children() if child not in node.indices]
        elif isinstance(node, Bind):
            affine.append(node.value)
        else:
            left += node.children()
    return False


def _keep_copies(em: Emitter, op: For) -> None:
    """A loop that copies and stores more stays one loop.

    LLVM would make a call of memcpy of each of its copies (of arrays that are apart), which read again what the loop
    has in a register: up to 1.7 times slower. In a loop of one copy that call and vectors are equally fast, so that it
    does no harm if the function has such loops too.
    """
    stores = [stmt for stmt in _statements(op.body) if isinstance(stmt, BufferStore)]
    if len(stores) > 1 and any(_is_copied(store.value) for store in stores):
        em.function.mark(NO_MEMCPY)


def _statements(body: Stmt) -> Iterator[Stmt]:
    """The statements of a body; of loops in it, the loops alone."""
    left = [body]
    while left:
        stmt = left.pop()
        yield stmt
        if isinstance(stmt, Seq):
            left += stmt.stmts
        elif isinstance(stmt, AttrStmt):
            left.append(stmt.body)
        elif isinstance(stmt, IfThenElse):
            left.append(stmt.then_case)
            if stmt.else_case is not None:
                left.append(stmt.else_case)


def _is_copied(value: Expr) -> bool:
    """Whether a stored value has the bits of another element."""
    while isinstance(value, Call) and value.op is _REINTERPRET:
        (value,) = value.args
    return isinstance(value, (BufferLoad, Var))


def _hint(name: str) -> str:
    return name if name.isidentifier() and name.isascii() else "i"


def _note_inner(outer: Loop, op: For, inner: Loop, names: int) -> None:
    """Tell a loop of a loop in it: whether that stays one, or what it adds where LLVM writes its iterations out.

    A loop that only looks for what fails is none to an outer one: it runs once, at the end.
    """
    if op.annotations.get(NO_UNROLL) and all(isinstance(stmt, (Seq, Assert)) for stmt in _statements(op.body)):
        return
    size = names + inner.copied
    outer.holds_loop |= inner.holds_loop or not isinstance(op.extent, IntImm) or bool(op.annotations.get(NO_UNROLL))
    if isinstance(op.extent, IntImm):
        if op.kind is not ForKind.UNROLLED:
            outer.holds_loop |= op.extent.value * size > _WRITTEN_OUT or op.extent.value * _least(op) > _INSTRUCTIONS
        outer.copied += (op.extent.value - 1) * size


def _least(op: For) -> int:
    """Instructions of an iteration that stay, however much LLVM simplifies: those that load and store whole vectors."""
    count = 0
    for stmt in _statements(op.body):
        if isinstance(stmt, BufferStore) and stmt.value.dtype.lanes > 1:
            vectors = [stmt.value.dtype, *(load.dtype for load in each(BufferLoad, stmt.value) if load.dtype.lanes > 1)]
            count += sum(-(-dtype.lanes * dtype.bits // _WIDEST) for dtype in vectors)
    return count


def loop_hints(em: Emitter, op: For, in_order: bool, holds_loop: bool) -> Metadata | None:
    """What the loop's kind and annotations ask of LLVM.

    ``in_order``: it must not vectorize (see ``masked.py``). ``holds_loop``: loops stay in it. LLVM would copy those up to
    eight times (the heads of attention, say), which gains nothing where iterations are few, and takes its time.
    """
    notes = {**em.pragmas.get(op.loop_var, {}), **op.annotations}
    unroll: bool | int | None = True if op.kind is ForKind.UNROLLED else None
    if holds_loop and not em.machine.unrolls_nests and unroll is None:
        unroll = False
    if "pragma_unroll" in notes or "pragma_unroll_explicit" in notes:
        asked = notes.get("pragma_unroll")
        unroll = asked if isinstance(asked, int) and not isinstance(asked, bool) and asked > 1 else True
    if notes.get("pragma_no_unroll") or notes.get(NO_UNROLL):
        unroll = False
    vectorize: bool | None = True if op.kind is ForKind.VECTORIZED else None
    if "tir.llvm_vectorize" in notes:
        vectorize = bool(notes["tir.llvm_vectorize"])
    if in_order:
        vectorize = False
    interleave = number_of(notes, "tir.llvm_interleave")
    width = number_of(notes, "tir.llvm_vector_width")
    if unroll is None and vectorize is None and interleave is None and width is None:
        return None
    return em.module.loop_metadata(
        vectorize=vectorize,
        unroll=unroll,
        interleave=interleave,
        vector_width=width,
    )


def emit_while(em: Emitter, op: While, body: EmitBody) -> None:
    """Emit a while loop."""
    b = em.b
    depth = len(em.cleanups)
    hoisted = em.state.platform.ahead_of(em, op) if not em.loops else []
    head, inside, after = em.new_block("while"), em.new_block("do"), em.new_block("done")
    b.br(head)
    em.enter(head)
    b.cond_br(em.value(op.condition), inside, after)
    em.enter(inside)
    # A loop that never ends hangs: without an effect in it LLVM drops calls of its function, or what follows the loop.
    b.intrinsic("llvm.sideeffect", VOID, [])
    em.loops.append(Loop(after, head, len(em.cleanups), is_while=True, decide=variables_in(op.condition)))
    body(em, op.body)
    em.loops.pop()
    if em.loops:
        em.loops[-1].holds_loop = True
    if not b.terminated:
        b.br(head)
    em.enter(after)
    em.unwind(depth)
    del em.cleanups[depth:]
    em.hoisted.difference_update(hoisted)


def jump_out(em: Emitter, word: str, op: Call) -> None:
    """Emit ``break`` or ``continue`` of the innermost loop."""
    if not em.loops:
        where = "to leave a parallel loop" if em.parent is not None else "outside of a loop"
        raise em.error(f"`{word}` {where}", op, "only serial and while loops can be left")
    loop = em.loops[-1]
    if word == "break" and loop.is_task:
        raise em.error("`break` cannot leave a parallel loop", op, "make the loop serial")
    em.unwind(loop.cleanups)
    if word == "break":
        loop.broken = True
    else:
        loop.continued = True
    em.b.br(loop.after if word == "break" else loop.latch)
