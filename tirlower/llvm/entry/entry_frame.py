"""What all parts of an emitted entry share: its builder, the process table, and the way out to Python."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from tirlower.emit.llvm_text import I8, I64, PTR, TRUE, VOID, Block, Builder, Module, Type, Value, array, null
from tirlower.llvm.entry.process_table import TABLE_SIZE, TABLE_SYMBOL, slot

__all__ = ["Frame", "table_slot"]


def table_slot(builder: Builder, name: str) -> Value:
    """Load a slot of the process table."""
    module = builder.module
    base = module.symbol(TABLE_SYMBOL) or module.global_variable(TABLE_SYMBOL, array(TABLE_SIZE, PTR))
    return builder.load(PTR, builder.gep(PTR, base, slot(name)), 8)


class Frame:
    """An entry under construction.

    ``slow`` is the block that hands the whole call to Python; :meth:`require` leaves for it where a check fails. It may
    be left for only before anything happened that Python would repeat.
    """

    def __init__(self, builder: Builder, slow: Block) -> None:
        self.b: Final = builder
        self.slow: Final = slow
        self._loaded: dict[str, Value] = {}

    @property
    def module(self) -> Module:
        """The module that the entry is part of."""
        return self.b.module

    def preload(self, names: Iterable[str]) -> None:
        """Load slots here, in a block that all later code goes through; their later uses are free."""
        for name in names:
            self._loaded[name] = table_slot(self.b, name)

    def slot(self, name: str) -> Value:
        """The pointer in a slot of the process table."""
        return self._loaded.get(name) or table_slot(self.b, name)

    def api(self, name: str, ret: Type, *args: Value) -> Value:
        """Call a C function of Python or NumPy through the table."""
        return self.b.call_pointer(self.slot(name), ret, args)

    def new_block(self, name: str) -> Block:
        """A block, not yet placed."""
        return self.b.function.new_block(name)

    def enter(self, block: Block) -> Block:
        """Place a block and continue in it."""
        self.b.function.place(block)
        self.b.position_at_end(block)
        return block

    def require(self, cond: Value, name: str = "checked") -> None:
        """Continue where ``cond`` holds; else let Python make the call (or say what is wrong with it)."""
        if cond.text == "true":
            return
        after = self.new_block(name)
        self.b.cond_br(cond, after, self.slow, likely=True)
        self.enter(after)

    def field(self, pointer: Value, offset: int, type: Type) -> Value:
        """Load a field of a C struct."""
        align = max(1, type.bits // 8) if type.bits else 8
        return self.b.load(type, self.b.gep(I8, pointer, offset), align)

    def all_of(self, conds: list[Value]) -> Value:
        """The conjunction; true where there is none."""
        if not conds:
            return TRUE
        result = conds[0]
        for cond in conds[1:]:
            result = self.b.and_(result, cond)
        return result

    def as_i64(self, value: Value) -> Value:
        """A signed integer of any width as ``i64``."""
        if value.type.bits == 64:
            return value
        return self.b.sext(value, I64) if value.type.bits < 64 else self.b.trunc(value, I64)

    def call_object(self, function: Value, argument: Value) -> Value:
        """Call a Python object with one integer argument; gives a new reference, or null with an error set."""
        b = self.b
        boxed = self.api("PyLong_FromUnsignedLongLong", PTR, argument)
        made, after = self.new_block("boxed"), self.new_block("called")
        before = b.block
        b.cond_br(b.icmp("ne", boxed, null()), made, after, likely=True)
        self.enter(made)
        arguments = b.alloca(PTR)
        b.store(boxed, arguments, 8)
        called = self.api("PyObject_Vectorcall", PTR, function, arguments, b.i64(1), null())
        self.api("Py_DecRef", VOID, boxed)
        end = b.block
        b.br(after)
        self.enter(after)
        return b.phi(PTR, "answer", [(null(), before), (called, end)])
