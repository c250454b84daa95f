"""Arrays of other libraries in machine code: whether they say what is expected of them, and their addresses.

``__cuda_array_interface__`` is read from its dictionary, a tensor through DLPack's C exchange.
"""

from __future__ import annotations

from tirlower.emit.llvm_text import I1, I32, I64, PTR, VOID, FunctionRef, Module, Value, null
from tirlower.gpu.codegen.native_code import Code
from tirlower.gpu.launch.native_layout import Api, Expected

__all__ = ["emit_interface", "emit_tensor"]

# DLTensor: data, device {type i32, id i32}, ndim i32 and dtype {u8, u8, u16}, shape, strides, byte_offset
_DEVICE, _TYPE, _SHAPE, _STRIDES, _OFFSET, _WORDS = 1, 2, 3, 4, 5, 6


class _Interface(Code):
    """``i1 (ptr api, ptr expected, ptr object, ptr address)``."""

    def __init__(self, module: Module) -> None:
        names = ("api", "expected", "object", "address")
        super().__init__(module, "tirlower.native.interface", I1, [(PTR, name) for name in names])
        self.api, self.expected, self.asked, self.address = self.args
        self.said = self.variable(null())
        self.failed, self.other, self.end = map(self.new_block, ("failed", "other", "end"))

    def build(self) -> FunctionRef:
        """The whole function."""
        b = self.b
        answer = b.alloca(I1, align=1)
        b.store(b.const(I1, 0), answer, 1)
        said = self.python(Api.PyObject_GetAttr, PTR, self.asked, self.object(Api.NAME_INTERFACE))
        self.require(b.icmp("ne", said, null()), self.failed)
        b.store(said, self.said, 8)
        self.require(self.is_object(self.type_of(said), Api.DICT), self.other)
        self._equal(said, Api.NAME_TYPESTR, Expected.TYPESTR)
        self._equal(said, Api.NAME_SHAPE, Expected.SHAPE)
        self._equal(said, Api.NAME_STRIDES, Expected.STRIDES)
        self._equal(said, Api.NAME_STREAM, Expected.STREAM)
        mask = self._get(said, Api.NAME_MASK)
        self.require(b.or_(b.icmp("eq", mask, null()), self.is_object(mask, Api.NONE)), self.other)
        self._data(said)
        b.store(b.const(I1, 1), answer, 1)
        b.br(self.end)
        self.enter(self.failed)
        # Python asks again, and tells.
        self.python(Api.PyErr_Clear, VOID)
        b.br(self.other)
        self.enter(self.other)
        b.br(self.end)
        self.enter(self.end)
        held = b.load(PTR, self.said, 8)
        with b.if_then(b.icmp("ne", held, null()), name="held"):
            self.drop(held)
        b.ret(b.load(I1, answer, 1))
        return self.ref

    def _get(self, said: Value, name: Api) -> Value:
        """An entry of the dictionary, borrowed; null where it has none: an error then is that of its key, a str."""
        return self.python(Api.PyDict_GetItemWithError, PTR, said, self.object(name))

    def _equal(self, said: Value, name: Api, expected: Expected) -> None:
        """Go on where an entry is equal to what is expected; left out is as good as None."""
        b = self.b
        wanted, found = self.word(self.expected, expected, PTR), self._get(said, name)
        given, compared, following = map(self.new_block, ("given", "compared", "same"))
        nothing = self.is_object(wanted, Api.NONE)
        with b.if_then(b.icmp("eq", found, null()), name="none"):
            b.cond_br(nothing, following, self.other)
        b.br(given)
        self.enter(given)
        b.cond_br(b.icmp("eq", found, wanted), following, compared)
        self.enter(compared)
        # Comparing may run code of Python's that changes the dictionary.
        self.hold(found)
        same = self.python(Api.PyObject_RichCompareBool, I32, found, wanted, b.const(I32, 2))
        self.drop(found)
        self.require(b.icmp("sge", same, b.const(I32, 0)), self.failed)
        b.cond_br(b.icmp("ne", same, b.const(I32, 0)), following, self.other)
        self.enter(following)

    def _data(self, said: Value) -> None:
        """The address, where the memory is as writable as expected."""
        b = self.b
        data = self._get(said, Api.NAME_DATA)
        self.require(b.icmp("ne", data, null()), self.other)
        self.require(self.is_object(self.type_of(data), Api.TUPLE), self.other)
        self.require(b.icmp("eq", self.length(data), b.i64(2)), self.other)
        readonly = self.item(data, b.i64(1))
        self.require(b.icmp("eq", readonly, self.word(self.expected, Expected.READONLY, PTR)), self.other)
        pointer = self.item(data, b.i64(0))
        self.require(self.is_object(self.type_of(pointer), Api.INT), self.other)
        b.store(self.number(pointer, self.other), self.address, 8)


def emit_interface(module: Module) -> FunctionRef:
    """Define the function that asks an array of another library: true where it says what is expected of it."""
    return _Interface(module).build()


class _Tensor(Code):
    """``i1 (ptr api, ptr expected, ptr object, ptr address)``."""

    def __init__(self, module: Module) -> None:
        names = ("api", "expected", "object", "address")
        super().__init__(module, "tirlower.native.tensor", I1, [(PTR, name) for name in names])
        self.api, self.expected, self.asked, self.address = self.args
        self.failed, self.other = self.new_block("failed"), self.new_block("other")

    def build(self) -> FunctionRef:
        """The whole function."""
        b = self.b
        tensor = b.alloca(I64, _WORDS, 8, "tensor")
        told = self.word(self.expected, Expected.TENSOR, PTR)
        status = b.call_pointer(told, I32, [self.asked, tensor])
        self.require(b.icmp("eq", status, b.const(I32, 0)), self.failed)
        for at, expected in ((_DEVICE, Expected.DEVICE), (_TYPE, Expected.TYPE)):
            self.require(b.icmp("eq", self.word(tensor, at), self.word(self.expected, expected)), self.other)
        rank = self.word(self.expected, Expected.RANK)
        for at, expected in ((_SHAPE, Expected.SHAPE), (_STRIDES, Expected.STRIDES)):
            found, wanted = self.word(tensor, at, PTR), self.word(self.expected, expected, PTR)
            listed = b.or_(b.icmp("eq", rank, b.i64(0)), b.icmp("ne", found, null()))
            self.require(listed, self.other)
            with b.for_range(b.i64(0), rank, name="axis") as i:
                self.require(b.icmp("eq", self.word(found, i), self.word(wanted, i)), self.other)
        b.store(b.add(self.word(tensor, 0), self.word(tensor, _OFFSET)), self.address, 8)
        # A write would go behind the back of autograd; a negation may be a bit of the tensor, and memory without it.
        self._says_no(self.python(Api.PyObject_GetAttr, PTR, self.asked, self.object(Api.NAME_REQUIRES_GRAD)))
        receiver = self.variable(self.asked)
        name = self.object(Api.NAME_IS_NEG)
        self._says_no(self.python(Api.PyObject_VectorcallMethod, PTR, name, receiver, b.i64(1), null()))
        b.ret(b.const(I1, 1))
        self.enter(self.failed)
        # Python asks again, and tells.
        self.python(Api.PyErr_Clear, VOID)
        b.br(self.other)
        self.enter(self.other)
        b.ret(b.const(I1, 0))
        return self.ref

    def _says_no(self, answer: Value) -> None:
        """Go on where an answer is False."""
        self.require(self.b.icmp("ne", answer, null()), self.failed)
        no = self.is_object(answer, Api.FALSE)
        self.drop(answer)
        self.require(no, self.other)


def emit_tensor(module: Module) -> FunctionRef:
    """Define the function that asks a tensor: true where it says what is expected of it."""
    return _Tensor(module).build()
