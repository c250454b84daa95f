"""What the functions of :mod:`~tirlower.gpu.codegen.native_call` are written with: words, slots, Python's C API."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.call.vectorcall import TYPE
from tirlower.emit.llvm_text import I8, I32, I64, PTR, VOID, Block, Builder, FunctionRef, Module, Type, Value
from tirlower.gpu.launch.native_layout import ARRAY_SLOTS, STREAM_SLOTS, Api, offsets

__all__ = ["Code"]

_ARRAY = offsets(ARRAY_SLOTS)
_STREAM = offsets(STREAM_SLOTS)


class Code:
    """A function that is built; ``api`` is the address of the words of the process (:class:`Api`)."""

    api: Value

    def __init__(self, module: Module, name: str, ret: Type, params: Sequence[tuple[Type, str]]) -> None:
        self.function = module.function(name, ret, params, attrs=("nounwind",))
        self.args = self.function.args
        self.b = Builder(self.function, self.function.block("entry"))

    @property
    def ref(self) -> FunctionRef:
        """What calls it."""
        return self.function.ref

    # -- memory ------------------------------------------------------------------------------------------------------

    def word(self, at: Value, index: Value | int, type: Type = I64) -> Value:
        """A word."""
        return self.b.load(type, self.b.gep(I64, at, index), 8)

    def put(self, value: Value, at: Value, index: Value | int) -> None:
        """Set a word."""
        self.b.store(value, self.b.gep(I64, at, index), 8)

    def row(self, at: Value, index: Value, words: int) -> Value:
        """The address of a row of so many words."""
        return self.b.gep(I64, at, self.b.mul(index, self.b.i64(words)))

    def type_of(self, obj: Value) -> Value:
        """The class of an object."""
        return self.b.load(PTR, self.b.gep(I8, obj, TYPE), 8)

    def of_array(self, obj: Value, slot: str) -> Value:
        """Where one of our arrays has a slot."""
        return self.b.gep(I8, obj, _ARRAY[slot])

    def of_stream(self, obj: Value, slot: str) -> Value:
        """Where a stream has a slot."""
        return self.b.gep(I8, obj, _STREAM[slot])

    def load(self, place: Value) -> Value:
        """The object in a place."""
        return self.b.load(PTR, place, 8)

    def variable(self, first: Value) -> Value:
        """The place of a local variable."""
        place = self.b.alloca(first.type, align=8)
        self.b.store(first, place, 8)
        return place

    # -- Python ------------------------------------------------------------------------------------------------------

    def python(self, name: Api, ret: Type, *args: Value) -> Value:
        """Call a function of Python's C API."""
        return self.b.call_pointer(self.word(self.api, int(name), PTR), ret, args)

    def object(self, name: Api) -> Value:
        """An object of the process."""
        return self.word(self.api, int(name), PTR)

    def is_object(self, value: Value, name: Api) -> Value:
        """Whether it is that object of the process."""
        return self.b.icmp("eq", value, self.object(name))

    def hold(self, value: Value) -> Value:
        """A reference more."""
        self.python(Api.Py_IncRef, VOID, value)
        return value

    def drop(self, value: Value) -> None:
        """A reference less."""
        self.python(Api.Py_DecRef, VOID, value)

    def number(self, obj: Value, otherwise: Block) -> Value:
        """An int of Python as 64 bits without a sign; where it is none, no error is left."""
        b = self.b
        value = self.python(Api.PyLong_AsUnsignedLongLong, I64, obj)
        with b.if_then(b.icmp("eq", value, b.i64(-1)), likely=False, name="odd"):
            self.python(Api.PyErr_Clear, VOID)
            b.br(otherwise)
        return value

    def length(self, tuple_: Value) -> Value:
        """How many items a tuple has."""
        return self.python(Api.PyTuple_Size, I64, tuple_)

    def item(self, tuple_: Value, index: Value) -> Value:
        """An item of a tuple, borrowed."""
        return self.python(Api.PyTuple_GetItem, PTR, tuple_, index)

    # -- control -----------------------------------------------------------------------------------------------------

    def new_block(self, name: str) -> Block:
        """A block that is placed later."""
        return self.function.new_block(name)

    def enter(self, block: Block) -> None:
        """Place a block and go on in it."""
        self.b.position_at_end(self.function.place(block))

    def require(self, cond: Value, otherwise: Block) -> None:
        """Go on where the condition holds."""
        after = self.new_block("held")
        self.b.cond_br(cond, after, otherwise, likely=True)
        self.enter(after)

    def status(self, value: int) -> Value:
        """A result of a function of ours."""
        return self.b.const(I32, value)
