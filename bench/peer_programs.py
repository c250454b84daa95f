"""Programs of the legality table in the peers' languages: TVM's script (as loops, and as a block), Python for Numba.

A small emitter, of what those languages share with ours: loops, stores, conditions, lets, allocations, integer and float
arithmetic. A program with anything else raises :class:`NotExpressed`, with the reason. Blocks are written as their
bodies, block variables replaced by what they are bound to.
"""

from __future__ import annotations

import abc
from typing import Any

from tirlower import ir
from tirlower.ir import (
    AllocBuffer,
    Assert,
    Bind,
    Block,
    BufferLoad,
    BufferStore,
    Call,
    Evaluate,
    Expr,
    For,
    ForKind,
    IfThenElse,
    IterKind,
    PrimFunc,
    Seq,
    Var,
    While,
)

__all__ = ["NotExpressed", "numba_text", "tvm_block_text", "tvm_text"]

_INFIX = {
    ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.FloorDiv: "//", ir.FloorMod: "%", ir.LT: "<", ir.LE: "<=", ir.GT: ">",
    ir.GE: ">=", ir.EQ: "==", ir.NE: "!=", ir.And: "and", ir.Or: "or",
}  # fmt: skip
_MATH = {"tir.exp": "exp", "tir.sqrt": "sqrt"}


class NotExpressed(Exception):
    """A program that has no counterpart in a peer's language."""


class _Emitter(abc.ABC):
    """Lines of one program; subclasses say how the language spells things."""

    def __init__(self, loop: Var | None, kind: str) -> None:
        self.loop = loop
        self.kind = kind
        self.names: dict[Any, str] = {}
        self.bound: dict[Var, str] = {}
        self.lines: list[str] = []
        self.depth = 1

    def name(self, op: Any) -> str:
        """A variable's or buffer's name, unlike any other."""
        if op not in self.names:
            base = op.name if op.name.isidentifier() and op.name not in ("S", "np", "prange", "math") else op.name + "_"
            text, count = base, 0
            while text in self.names.values():
                count += 1
                text = f"{base}_{count}"
            self.names[op] = text
        return self.names[op]

    def put(self, text: str) -> None:
        self.lines.append("    " * self.depth + text)

    # Expressions

    def expr(self, op: Any) -> str:
        kind = op.__class__
        if kind is ir.IntImm:
            return str(bool(op.value)) if op.dtype.is_bool else self.number(op)
        if kind is ir.FloatImm:
            return self.number(op)
        if kind is Var:
            return self.bound.get(op) or self.name(op)
        if kind is BufferLoad:
            return f"{self.name(op.buffer)}[{', '.join(map(self.expr, op.indices))}]"
        if kind in (ir.And, ir.Or):
            return self.logical("And" if kind is ir.And else "Or", self.expr(op.a), self.expr(op.b))
        if kind in _INFIX:
            return f"({self.expr(op.a)} {_INFIX[kind]} {self.expr(op.b)})"
        if kind in (ir.Min, ir.Max):
            return f"{self.prefix}{'min' if kind is ir.Min else 'max'}({self.expr(op.a)}, {self.expr(op.b)})"
        if kind is ir.Not:
            return self.negation(self.expr(op.a))
        if kind is ir.Select:
            return self.select("Select", *map(self.expr, (op.condition, op.true_value, op.false_value)))
        if kind is ir.Cast:
            return self.cast(str(op.dtype), self.expr(op.value))
        if kind is Call and isinstance(op.op, ir.Op):
            if op.op.name == "tir.if_then_else":
                return self.select("if_then_else", *map(self.expr, op.args))
            if op.op.name == "tir.likely":
                return self.expr(op.args[0])
            raise NotExpressed(f"a call of {op.op.name.removeprefix('tir.')}")
        raise NotExpressed(kind.__name__)

    prefix = ""

    @abc.abstractmethod
    def number(self, op: Any) -> str: ...

    @abc.abstractmethod
    def logical(self, word: str, a: str, b: str) -> str: ...

    @abc.abstractmethod
    def negation(self, a: str) -> str: ...

    @abc.abstractmethod
    def select(self, word: str, condition: str, yes: str, no: str) -> str: ...

    @abc.abstractmethod
    def cast(self, dtype: str, value: str) -> str: ...

    # Statements

    def block_of(self, *stmts: Any) -> None:
        """Statements one level deeper."""
        self.depth += 1
        before = len(self.lines)
        for stmt in stmts:
            self.stmt(stmt)
        if len(self.lines) == before:
            self.put("pass")
        self.depth -= 1

    def stmt(self, op: Any) -> None:
        kind = op.__class__
        if kind is Seq:
            for part in op.stmts:
                self.stmt(part)
        elif kind is For:
            self.for_loop(op)
        elif kind is BufferStore:
            if op.predicate is not None or op.value.dtype.is_vector:
                raise NotExpressed("a vector store")
            self.put(f"{self.name(op.buffer)}[{', '.join(map(self.expr, op.indices))}] = {self.expr(op.value)}")
        elif kind is IfThenElse:
            self.put(f"if {self.expr(op.condition)}:")
            self.block_of(op.then_case)
            if op.else_case is not None:
                self.put("else:")
                self.block_of(op.else_case)
        elif kind is While:
            self.put(f"while {self.expr(op.condition)}:")
            self.block_of(op.body)
        elif kind is AllocBuffer:
            self.allocation(op.buffer)
        elif kind is Bind:
            self.binding(op.var, self.expr(op.value))
        elif kind is Assert:
            self.put(f"assert {self.expr(op.condition)}, 'stated'")
        elif kind is Block:
            self.tir_block(op)
        elif kind is Evaluate and op.value.__class__ is Call and getattr(op.value.op, "name", "") == "tir.assume":
            self.assume(self.expr(op.value.args[0]))
        else:
            what = op.value.op.name.removeprefix("tir.") if kind is Evaluate else kind.__name__
            raise NotExpressed(f"a call of {what}" if kind is Evaluate else f"a statement {what}")

    def tir_block(self, op: Any) -> None:
        """A block as its body: block variables are what they are bound to."""
        if op.match_buffers:
            raise NotExpressed("a block that matches buffers")
        if op.alloc_buffers:
            raise NotExpressed("a buffer whose place is for the compiler to plan")
        reduced = []
        for one in op.iters:
            self.bound[one.var] = f"({self.expr(one.value)})"
            if one.kind is IterKind.REDUCE:
                reduced.append(f"{self.bound[one.var]} == {self.expr(one.domain.min)}")
        deeper = 0
        if not ir.is_const_int(op.predicate, 1):
            self.put(f"if {self.expr(op.predicate)}:")
            self.depth += 1
            deeper = 1
        if op.init is not None:
            condition = reduced[0] if reduced else "True"
            for other in reduced[1:]:
                condition = self.logical("And", condition, other)
            self.put(f"if {condition}:")
            self.block_of(op.init)
        self.stmt(op.body)
        self.depth -= deeper

    @abc.abstractmethod
    def for_loop(self, op: Any) -> None: ...

    @abc.abstractmethod
    def allocation(self, buffer: Any) -> None: ...

    @abc.abstractmethod
    def binding(self, var: Var, value: str) -> None: ...

    @abc.abstractmethod
    def assume(self, condition: str) -> None: ...


class _Tvm(_Emitter):
    prefix = "S."

    def number(self, op: Any) -> str:
        if op.__class__ is ir.IntImm:
            return str(op.value) if op.dtype == "int32" else f"S.{op.dtype}({op.value})"
        return f"S.{op.dtype}({op.value!r})"

    def logical(self, word: str, a: str, b: str) -> str:
        return f"S.{word}({a}, {b})"

    def negation(self, a: str) -> str:
        return f"S.Not({a})"

    def select(self, word: str, condition: str, yes: str, no: str) -> str:
        return f"S.{word}({condition}, {yes}, {no})"

    def cast(self, dtype: str, value: str) -> str:
        return f'S.Cast("{dtype}", {value})'

    def for_loop(self, op: Any) -> None:
        if op.kind is ForKind.THREAD_BINDING:
            raise NotExpressed("a loop bound to a thread, on a processor")
        kind = self.kind if op.loop_var is self.loop else op.kind.value
        low, extent = op.min, op.extent
        ends = self.expr(extent) if ir.is_const_int(low, 0) else f"{self.expr(low)}, {self.expr(low + extent)}"
        self.put(f"for {self.name(op.loop_var)} in S.{kind}({ends}):")
        self.block_of(op.body)

    def allocation(self, buffer: Any) -> None:
        shape = ", ".join(map(self.expr, buffer.shape))
        scope = buffer.scope if buffer.scope in ("global", "local") else "global"
        self.put(f'{self.name(buffer)} = S.alloc_buffer(({shape},), "{buffer.dtype}", scope="{scope}")')

    def binding(self, var: Var, value: str) -> None:
        self.put(f"{self.name(var)} = S.bind({value})")

    def assume(self, condition: str) -> None:
        self.put(f"S.evaluate(S.assume({condition}))")


class _Numba(_Emitter):
    def number(self, op: Any) -> str:
        if op.__class__ is ir.IntImm:
            return str(op.value)
        return f"np.{op.dtype}({op.value!r})"

    def logical(self, word: str, a: str, b: str) -> str:
        return f"({a} {word.lower()} {b})"

    def negation(self, a: str) -> str:
        return f"(not {a})"

    def select(self, word: str, condition: str, yes: str, no: str) -> str:
        return f"({yes} if {condition} else {no})"

    def cast(self, dtype: str, value: str) -> str:
        return f"np.{dtype}({value})"

    def for_loop(self, op: Any) -> None:
        if op.kind is ForKind.THREAD_BINDING:
            raise NotExpressed("a loop bound to a thread, on a processor")
        word = "prange" if op.loop_var is self.loop or op.kind is ForKind.PARALLEL else "range"
        low, extent = op.min, op.extent
        ends = self.expr(extent) if ir.is_const_int(low, 0) else f"{self.expr(low)}, {self.expr(low + extent)}"
        self.put(f"for {self.name(op.loop_var)} in {word}({ends}):")
        self.block_of(op.body)

    def allocation(self, buffer: Any) -> None:
        shape = ", ".join(map(self.expr, buffer.shape))
        self.put(f"{self.name(buffer)} = np.empty(({shape},), np.{buffer.dtype})")

    def binding(self, var: Var, value: str) -> None:
        self.put(f"{self.name(var)} = {value}")

    def assume(self, condition: str) -> None:
        """Numba has no assumptions: nothing is written."""


def _signature(emitter: _Emitter, func: PrimFunc) -> str:
    if len(func.params) != len(func.buffers):
        raise NotExpressed("a parameter that is no buffer")
    parts = []
    for buffer in func.buffers:
        if not all(isinstance(extent, ir.IntImm) for extent in buffer.shape):
            raise NotExpressed("a size that is no number")
        shape = ", ".join(str(extent.value) for extent in buffer.shape)
        parts.append(f'{emitter.name(buffer)}: S.Buffer(({shape},), "{buffer.dtype}")')
    return ", ".join(parts)


def tvm_text(func: PrimFunc, loop: Var | None, kind: str) -> str:
    """A program in TVM's script, one loop of which is ``parallel`` or ``vectorized``."""
    emitter = _Tvm(loop, kind)
    head = f"@S.prim_func\ndef main({_signature(emitter, func)}):"
    emitter.stmt(func.body)
    return "\n".join([head, *emitter.lines]) + "\n"


def numba_text(func: PrimFunc, loop: Var) -> str:
    """A program as a Python function whose asked loop is a ``prange``."""
    emitter = _Numba(loop, "parallel")
    _signature(emitter, func)
    head = f"def main({', '.join(emitter.name(buffer) for buffer in func.buffers)}):"
    emitter.stmt(func.body)
    return "\n".join([head, *emitter.lines]) + "\n"


def tvm_block_text(func: PrimFunc) -> str:
    """A perfect rectangular nest around one store as a block, for TVM's schedule primitives.

    Loops that the stored element depends on are spatial axes, the others reduction axes, as a user would write it.
    """
    emitter = _Tvm(None, "serial")
    head = f"@S.prim_func(s_tir=True)\ndef main({_signature(emitter, func)}):"
    loops: list[Any] = []
    op: Any = func.body
    while op.__class__ is For:
        if not (ir.is_const_int(op.min) and ir.is_const_int(op.extent)) or op.kind is not ForKind.SERIAL:
            raise NotExpressed("a loop that is no rectangle's side")
        loops.append(op)
        op = op.body
    conditions: list[Expr] = []
    while op.__class__ is IfThenElse and op.else_case is None:
        conditions.append(op.condition)
        op = op.then_case
    if op.__class__ is Block and len(op.iters) == len(loops):
        return _written_block(emitter, head, loops, op)
    if op.__class__ is not BufferStore or not loops:
        raise NotExpressed("more than one store, or none, in the nest")
    stored: set[Any] = set()
    for index in op.indices:
        ir.post_order_visit(index, stored.add)
    for loop in loops:
        emitter.put(f"for {emitter.name(loop.loop_var)} in S.serial({_ends(loop)}):")
        emitter.depth += 1
    emitter.put('with S.sblock("it"):')
    emitter.depth += 1
    for loop in loops:
        axis = "spatial" if loop.loop_var in stored else "reduce"
        own = f"v_{emitter.name(loop.loop_var)}"
        emitter.put(f"{own} = S.axis.{axis}(({_ends(loop)}), {emitter.name(loop.loop_var)})")
        emitter.bound[loop.loop_var] = own
    for condition in conditions:
        emitter.put(f"if {emitter.expr(condition)}:")
        emitter.depth += 1
    emitter.stmt(op)
    return "\n".join([head, *emitter.lines]) + "\n"


def _ends(loop: Any) -> str:
    low = loop.min.value
    return f"{low}, {low + loop.extent.value}" if low else f"0, {loop.extent.value}"


def _written_block(emitter: _Tvm, head: str, loops: list[Any], block: Any) -> str:
    """A block of ours as a block of theirs, with its initialization."""
    for loop in loops:
        emitter.put(f"for {emitter.name(loop.loop_var)} in S.serial({_ends(loop)}):")
        emitter.depth += 1
    emitter.put('with S.sblock("it"):')
    emitter.depth += 1
    for one in block.iters:
        axis = "reduce" if one.kind is IterKind.REDUCE else "spatial"
        emitter.put(f"{emitter.name(one.var)} = S.axis.{axis}({one.domain.extent.value}, {emitter.expr(one.value)})")
    if block.init is not None:
        emitter.put("with S.init():")
        emitter.block_of(block.init)
    emitter.stmt(block.body)
    return "\n".join([head, *emitter.lines]) + "\n"
