"""The function that Python calls for a kernel of a GPU, in machine code: one for all kernels, driven by the words of
:mod:`tirlower.gpu.launch.native_layout`.

It finds among the kinds of calls that were checked in Python the one that a call is of, checks the addresses, puts the
call's use of its arrays into its stream, and calls the host function without the interpreter's lock. Whatever it does not
know (arrays of other facts, an overlap, streams of other libraries) it leaves to Python, before anything has happened.
"""

from __future__ import annotations

from typing import Final

from tirlower.call.vectorcall import HEADER
from tirlower.emit.llvm_text import (
    DOUBLE,
    FLOAT,
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Block,
    FunctionRef,
    Module,
    Value,
    const,
    null,
)
from tirlower.gpu.codegen.native_code import Code
from tirlower.gpu.codegen.native_foreign import emit_interface, emit_tensor
from tirlower.gpu.codegen.native_order import DONE, IN_PYTHON, emit_in_order, emit_put_in_order
from tirlower.gpu.launch.dlpack import CUDA
from tirlower.gpu.launch.native_layout import (
    BLOCK,
    MOST_ARGUMENTS,
    MOST_SLOTS,
    Api,
    Expected,
    Foreign,
    Kind,
    Line,
    LineArgument,
    Output,
    Pair,
    Parameter,
)
from tirlower.gpu.launch.native_layout import (
    Block as Kernel,
)

__all__ = ["NATIVE_CALL", "emit_native_call"]

NATIVE_CALL: Final = "tirlower.native.call"

_NOT_OFFSET: Final = (1 << 63) - 1
"""``nargsf`` without PY_VECTORCALL_ARGUMENTS_OFFSET."""


def emit_native_call(module: Module) -> None:
    """Define ``ptr @tirlower.native.call(ptr self, ptr args, i64 nargsf, ptr names)``, a vectorcall function."""
    in_order = emit_in_order(module)
    parts = _Parts(
        in_order, emit_put_in_order(module, in_order), emit_interface(module), emit_tensor(module), _emit_array(module)
    )
    _Call(module, parts).build()


def _emit_array(module: Module) -> FunctionRef:
    """Define ``ptr (ptr api, ptr output, ptr stream, i64 address)``: our array in memory that a call allocated."""
    names = [(PTR, "api"), (PTR, "output"), (PTR, "on"), (I64, "address")]
    code = Code(module, "tirlower.native.array", PTR, names)
    b, (code.api, output, on, address) = code.b, code.args
    lost = code.new_block("lost")
    pointer = code.python(Api.PyLong_FromUnsignedLongLong, PTR, address)
    code.require(b.icmp("ne", pointer, null()), lost)
    made = code.python(Api.PyType_GenericAlloc, PTR, code.object(Api.ARRAY), b.i64(0))
    with b.if_then(b.icmp("eq", made, null()), likely=False, name="full"):
        code.drop(pointer)
        b.br(lost)
    b.store(pointer, code.of_array(made, "pointer"), 8)
    for slot, what in (
        ("device", Output.DEVICE),
        ("shape", Output.SHAPE),
        ("dtype", Output.DTYPE),
        ("facts", Output.FACTS),
    ):
        b.store(code.hold(code.word(output, what, PTR)), code.of_array(made, slot), 8)
    b.store(code.hold(code.object(Api.FALSE)), code.of_array(made, "shown"), 8)
    for slot in ("_home", "users"):
        b.store(code.hold(on), code.of_array(made, slot), 8)
    b.ret(made)
    code.enter(lost)
    b.ret(null())
    return code.ref


class _Parts:
    """The functions that a call is made of."""

    def __init__(
        self,
        in_order: FunctionRef,
        order: FunctionRef,
        interface: FunctionRef,
        tensor: FunctionRef,
        array: FunctionRef,
    ) -> None:
        self.in_order = in_order
        self.order = order
        self.interface = interface
        self.tensor = tensor
        self.array = array


class _Call(Code):
    def __init__(self, module: Module, parts: _Parts) -> None:
        params = [(PTR, "self"), (PTR, "args"), (I64, "nargsf"), (PTR, "names")]
        super().__init__(module, NATIVE_CALL, PTR, params)
        self.parts = parts
        b, (this, self.given, self.nargsf, self.names) = self.b, self.args
        self.kernel = b.load(PTR, b.gep(I8, this, BLOCK), 8)
        self.api = self.word(self.kernel, Kernel.API, PTR)
        self.count = self.word(self.kernel, Kernel.PARAMETER_COUNT)
        self.parameters = self.word(self.kernel, Kernel.PARAMETERS, PTR)
        self.keys = b.alloca(I64, MOST_ARGUMENTS, 8, "keys")
        self.values = b.alloca(I64, MOST_ARGUMENTS, 8, "values")
        self.slots = b.alloca(I64, MOST_SLOTS, 8, "slots")
        #: to Python; the same behind a line that was taken
        self.slow, self.free = self.new_block("slow"), self.new_block("free")

    def build(self) -> None:
        """The whole function."""
        b = self.b
        self.require(b.icmp("eq", b.and_(self.nargsf, b.i64(_NOT_OFFSET)), self.count), self.slow)
        stream = self._stream()
        self._read()
        line = self._line()
        self.line = line
        self.arguments = b.gep(I64, line, int(Line.WORDS))
        on = self._on(stream)
        handle = self.number(self.load(self.of_stream(on, "handle")), self.free)
        self._addresses()
        self._order(on, handle)
        self._fill(handle)
        self._run(on)
        self._finish(on)
        self.enter(self.free)
        self.put(b.i64(0), line, Line.BUSY)
        b.br(self.slow)
        self.enter(self.slow)
        slow = self.word(self.kernel, Kernel.SLOW, PTR)
        call = self.word(self.api, Api.PyObject_Vectorcall, PTR)
        b.ret(b.call_pointer(call, PTR, [slow, self.given, self.nargsf, self.names], tail="tail"))

    # -- the arguments -----------------------------------------------------------------------------------------------

    def _stream(self) -> Value:
        """The stream that the call names, ours; null where it names none."""
        b = self.b
        place = self.variable(null())
        named = self.new_block("unnamed")
        with b.if_then(b.icmp("ne", self.names, null()), name="named"):
            self.require(b.icmp("eq", self.length(self.names), b.i64(1)), self.slow)
            self.require(self.is_object(self.item(self.names, b.i64(0)), Api.NAME_STREAM), self.slow)
            stream = self.word(self.given, self.count, PTR)
            self.require(b.xor(self.is_object(stream, Api.NONE), const(I1, 1)), named)
            self.require(self.is_object(self.type_of(stream), Api.STREAM), self.slow)
            b.store(stream, place, 8)
        b.br(named)
        self.enter(named)
        return b.load(PTR, place, 8)

    def _read(self) -> None:
        """What is known of each argument (``keys``) and its address or number (``values``)."""
        b = self.b
        with b.for_range(b.i64(0), self.count, name="argument") as i:
            parameter = self.row(self.parameters, i, Parameter.WORDS)
            obj = self.word(self.given, i, PTR)
            cls = self.type_of(obj)
            kinds = {kind: self.new_block(kind.name.lower()) for kind in Kind}
            following = self.new_block("next")
            b.switch(self.word(parameter, Parameter.KIND), self.slow, [(int(k), block) for k, block in kinds.items()])
            self.enter(kinds[Kind.ARRAY])
            self._array(i, obj, cls, following)
            for kind, read in (
                (Kind.INT, self._int),
                (Kind.FLOAT64, self._double),
                (Kind.FLOAT32, self._float),
                (Kind.BOOL, self._bool),
            ):
                self.enter(kinds[kind])
                value = read(obj, cls, parameter)
                self.put(value, self.values, i)
                self.put(b.and_(value, self.word(parameter, Parameter.KEYED)), self.keys, i)
                b.br(following)
            self.enter(following)

    def _array(self, i: Value, obj: Value, cls: Value, following: Block) -> None:
        b = self.b
        ours, other = self.new_block("ours"), self.new_block("other")
        b.cond_br(self.is_object(cls, Api.ARRAY), ours, other, likely=True)
        self.enter(ours)
        facts, pointer = self.load(self.of_array(obj, "facts")), self.load(self.of_array(obj, "pointer"))
        self.require(b.icmp("ne", pointer, null()), self.slow)
        self.put(b.ptrtoint(facts), self.keys, i)
        self.put(self.number(pointer, self.slow), self.values, i)
        b.br(following)
        self.enter(other)
        self.put(b.ptrtoint(cls), self.keys, i)
        self.put(b.i64(0), self.values, i)
        b.br(following)

    def _int(self, obj: Value, cls: Value, parameter: Value) -> Value:
        b = self.b
        self.require(self.is_object(cls, Api.INT), self.slow)
        overflow = self.b.alloca(I32, align=4)
        value = self.python(Api.PyLong_AsLongLongAndOverflow, I64, obj, overflow)
        self.require(b.icmp("eq", b.load(I32, overflow, 4), const(I32, 0)), self.slow)
        self.require(b.icmp("sge", value, self.word(parameter, Parameter.LEAST)), self.slow)
        self.require(b.icmp("sle", value, self.word(parameter, Parameter.GREATEST)), self.slow)
        return value

    def _number(self, obj: Value, cls: Value) -> Value:
        self.require(self.is_object(cls, Api.FLOAT), self.slow)
        return self.b.load(DOUBLE, self.b.gep(I8, obj, HEADER), 8)

    def _double(self, obj: Value, cls: Value, parameter: Value) -> Value:
        return self.b.bitcast(self._number(obj, cls), I64)

    def _float(self, obj: Value, cls: Value, parameter: Value) -> Value:
        """Rounded; what float32 does not hold is Python's to refuse, and so are infinities and NaNs its to convert."""
        b = self.b
        rounded = b.fptrunc(self._number(obj, cls), FLOAT)
        size = b.intrinsic("llvm.fabs", FLOAT, [rounded], [FLOAT])
        self.require(b.fcmp("olt", size, const(FLOAT, float("inf"))), self.slow)
        return b.zext(b.bitcast(rounded, I32), I64)

    def _bool(self, obj: Value, cls: Value, parameter: Value) -> Value:
        b = self.b
        true = self.is_object(obj, Api.TRUE)
        self.require(b.or_(true, self.is_object(obj, Api.FALSE)), self.slow)
        return b.zext(true, I64)

    # -- the kind of call --------------------------------------------------------------------------------------------

    def _line(self) -> Value:
        """The line of the call, which is taken: no other call has its memory until it is free."""
        b = self.b
        found = self.new_block("found")
        first = self.word(self.kernel, Kernel.LINES, PTR)
        chosen = self.variable(null())
        with b.for_range(b.i64(0), self.word(self.kernel, Kernel.LINE_COUNT), name="line") as n:
            line = self.word(first, n, PTR)
            arguments = b.gep(I64, line, int(Line.WORDS))
            following = self.new_block("following")
            with b.for_range(b.i64(0), self.count, name="key") as i:
                wanted = self.word(self.row(arguments, i, LineArgument.WORDS), LineArgument.KEY)
                self.require(b.icmp("eq", self.word(self.keys, i), wanted), following)
            self.require(b.icmp("eq", self.word(line, Line.BUSY), b.i64(0)), following)
            self.put(b.i64(1), line, Line.BUSY)
            b.store(line, chosen, 8)
            self._foreign(line, arguments, following)
            b.br(found)
            self.enter(following)
        b.br(self.slow)
        self.enter(found)
        return b.load(PTR, chosen, 8)

    def _foreign(self, line: Value, arguments: Value, following: Block) -> None:
        """Ask the arrays of other libraries for their addresses."""
        b = self.b
        count = b.select(b.icmp("ne", self.word(line, Line.FOREIGN), b.i64(0)), self.count, b.i64(0))
        with b.for_range(b.i64(0), count, name="asked") as i:
            expected = self.word(self.row(arguments, i, LineArgument.WORDS), LineArgument.EXPECTED, PTR)
            with b.if_then(b.icmp("ne", expected, null()), name="expected"):
                asked = [self.api, expected, self.word(self.given, i, PTR), b.gep(I64, self.values, i)]
                answer = b.alloca(I1, align=1)
                interface = b.icmp("eq", self.word(expected, Expected.TENSOR), b.i64(0))
                with b.if_else(interface, name="interface") as (by_interface, by_tensor):
                    with by_interface:
                        b.store(b.call(self.parts.interface, asked), answer, 1)
                    with by_tensor:
                        b.store(b.call(self.parts.tensor, asked), answer, 1)
                with b.if_then(b.xor(b.load(I1, answer, 1), const(I1, 1)), name="another"):
                    self.put(b.i64(0), line, Line.BUSY)
                    b.br(following)

    def _on(self, stream: Value) -> Value:
        """The stream of the call: the named one, of the arrays' device, or the device's default stream."""
        b = self.b
        place = self.variable(stream)
        with b.if_else(b.icmp("eq", stream, null()), likely=True, name="default") as (default, named):
            with default:
                self._unnamed(place)
            with named:
                # Other libraries work in streams of their own, for which Python lets this one wait.
                self.require(b.icmp("eq", self.word(self.line, Line.FOREIGN), b.i64(0)), self.free)
                device = self.load(self.of_stream(stream, "device"))
                self.require(b.icmp("eq", device, self.word(self.line, Line.DEVICE, PTR)), self.free)
        return b.load(PTR, place, 8)

    def _unnamed(self, place: Value) -> None:
        """The default stream; where there are tensors, that on which their library works, if it is still the same."""
        b = self.b
        b.store(self.word(self.line, Line.DEFAULT, PTR), place, 8)
        tensors = b.icmp("eq", self.word(self.line, Line.FOREIGN), b.i64(Foreign.TENSORS))
        with b.if_then(tensors, name="tensors"):
            handle = self.variable(b.i64(0))
            current = self.word(self.line, Line.CURRENT, PTR)
            asked = [b.const(I32, CUDA), b.trunc(self.word(self.line, Line.ORDINAL), I32), handle]
            self.require(b.icmp("eq", b.call_pointer(current, I32, asked), const(I32, 0)), self.free)
            known = self.word(self.line, Line.HANDLE)
            self.require(b.icmp("eq", b.load(I64, handle, 8), known), self.free)
            b.store(self.word(self.line, Line.STREAM, PTR), place, 8)

    def _addresses(self) -> None:
        """Addresses that are not those of the last checked call have to be aligned, and the arrays apart."""
        b = self.b
        differ = self.variable(b.i64(0))
        checked = self.word(self.line, Line.CHECKED, PTR)
        with b.for_range(b.i64(0), self.count, name="address") as i:
            known = self.word(checked, i)
            bits = self.word(self.row(self.parameters, i, Parameter.WORDS), Parameter.ADDRESS)
            new = b.and_(b.xor(self.word(self.values, i), known), bits)
            b.store(b.or_(b.load(I64, differ, 8), new), differ, 8)
        with b.if_then(b.icmp("ne", b.load(I64, differ, 8), b.i64(0)), name="new"):
            self.require(b.icmp("eq", self.word(self.line, Line.STRICT), b.i64(0)), self.free)
            with b.for_range(b.i64(0), self.count, name="aligned") as i:
                mask = self.word(self.row(self.parameters, i, Parameter.WORDS), Parameter.ALIGNED)
                self.require(b.icmp("eq", b.and_(self._moved(i), mask), b.i64(0)), self.free)
            pairs = self.word(self.kernel, Kernel.PAIRS, PTR)
            with b.for_range(b.i64(0), self.word(self.kernel, Kernel.PAIR_COUNT), name="pair") as n:
                pair = self.row(pairs, n, Pair.WORDS)
                low, high = self._span(self.word(pair, Pair.FIRST))
                other_low, other_high = self._span(self.word(pair, Pair.SECOND))
                apart = b.or_(b.icmp("uge", low, other_high), b.icmp("uge", other_low, high))
                self.require(apart, self.free)

    def _moved(self, i: Value) -> Value:
        """What the host function gets of an argument."""
        offset = self.word(self.row(self.arguments, i, LineArgument.WORDS), LineArgument.OFFSET)
        return self.b.sub(self.word(self.values, i), offset)

    def _span(self, i: Value) -> tuple[Value, Value]:
        argument = self.row(self.arguments, i, LineArgument.WORDS)
        address = self.word(self.values, i)
        low, high = self.word(argument, LineArgument.LOW), self.word(argument, LineArgument.HIGH)
        return self.b.add(address, low), self.b.add(address, high)

    # -- the call ----------------------------------------------------------------------------------------------------

    def _order(self, on: Value, handle: Value) -> None:
        b = self.b
        ordered, disorder = self.new_block("ordered"), self.new_block("disorder")
        right = self.variable(const(I1, 1))
        with b.for_range(b.i64(0), self.count, name="used") as i:
            following = self.new_block("following")
            parameter = self.row(self.parameters, i, Parameter.WORDS)
            self.require(b.icmp("eq", self.word(parameter, Parameter.KIND), b.i64(Kind.ARRAY)), following)
            obj = self.word(self.given, i, PTR)
            self.require(self.is_object(self.type_of(obj), Api.ARRAY), following)
            self._unshown(obj)
            users = self.load(self.of_array(obj, "users"))
            asked = [self.api, users, on, self.word(parameter, Parameter.WRITTEN)]
            b.store(b.and_(b.load(I1, right, 1), b.call(self.parts.in_order, asked)), right, 1)
            b.br(following)
            self.enter(following)
        b.cond_br(b.load(I1, right, 1), ordered, disorder, likely=True)
        self.enter(disorder)
        asked = [self.api, self.parameters, self.count, self.given, self.line, on, handle]
        result = b.call(self.parts.order, asked)
        failed = self.new_block("failed")
        b.switch(result, failed, [(DONE, ordered), (IN_PYTHON, self.free)])
        self.enter(failed)
        self.put(b.i64(0), self.line, Line.BUSY)
        b.ret(null())
        self.enter(ordered)

    def _unshown(self, obj: Value) -> None:
        """How to wait for what another library does to an array that it was shown, Python knows."""
        self.require(self.is_object(self.load(self.of_array(obj, "shown")), Api.FALSE), self.free)

    def _fill(self, handle: Value) -> None:
        """The slots of the host function."""
        b = self.b
        with b.for_range(b.i64(0), self.count, name="filled") as i:
            slot = self.word(self.row(self.parameters, i, Parameter.WORDS), Parameter.SLOT)
            self.put(self._moved(i), self.slots, slot)
        place = self.word(self.kernel, Kernel.TABLE_SLOT)
        behind = (self.word(self.line, Line.TABLE), handle, self.word(self.line, Line.SCRATCH))
        for k, value in enumerate(behind):
            self.put(value, self.slots, b.add(place, b.i64(k)))
        symbols = self.word(self.line, Line.SYMBOLS, PTR)
        with b.for_range(b.i64(0), self.word(self.kernel, Kernel.SYMBOL_COUNT), name="symbol") as i:
            self.put(self.word(symbols, i), self.slots, b.add(b.add(place, b.i64(len(behind))), i))
        with b.for_range(b.i64(0), self.word(self.kernel, Kernel.OUTPUT_COUNT), name="output") as i:
            output = self._output(i)
            self.put(self.word(output, Output.BYTES), self.slots, self.word(output, Output.SLOT))

    def _output(self, i: Value) -> Value:
        return self.row(self.word(self.line, Line.OUTPUTS, PTR), i, Output.WORDS)

    def _run(self, on: Value) -> None:
        """Call the host function; what went wrong in it Python raises."""
        b = self.b
        call, record, result = (self.word(self.line, what, PTR) for what in (Line.CALL, Line.RECORD, Line.RESULT))
        state = self.python(Api.PyEval_SaveThread, PTR)
        status = b.call_pointer(call, I32, [self.slots, record, result], attrs=["nounwind"])
        self.python(Api.PyEval_RestoreThread, VOID, state)
        with b.if_then(b.icmp("ne", status, const(I32, 0)), likely=False, name="failed"):
            self._give_back(on)
            number = self.python(Api.PyLong_FromUnsignedLongLong, PTR, b.ptrtoint(self.line))
            lost = self.new_block("lost")
            self.require(b.icmp("ne", number, null()), lost)
            arguments = self.variable(number)
            failed = self.word(self.kernel, Kernel.FAILED, PTR)
            answer = self.python(Api.PyObject_Vectorcall, PTR, failed, arguments, b.i64(1), null())
            self.drop(number)
            b.ret(answer)
            self.enter(lost)
            b.ret(null())

    def _give_back(self, on: Value) -> None:
        """Give the memory of outputs back, in the order of the stream, as arrays do that nobody has."""
        b = self.b
        with b.for_range(b.i64(0), self.word(self.kernel, Kernel.OUTPUT_COUNT), name="lost") as i:
            made = self._made(i, on)
            with b.if_else(b.icmp("ne", made, null()), likely=True, name="given") as (given, full):
                with given:
                    self.drop(made)
                with full:
                    self.python(Api.PyErr_Clear, VOID)

    def _finish(self, on: Value) -> None:
        """The line is free; the result is None, an array, or a tuple of them."""
        b = self.b
        count = self.word(self.kernel, Kernel.OUTPUT_COUNT)
        some, several, lost = map(self.new_block, ("some", "several", "lost"))
        with b.if_then(b.icmp("eq", count, b.i64(0)), likely=True, name="nothing"):
            self.put(b.i64(0), self.line, Line.BUSY)
            b.ret(self.hold(self.object(Api.NONE)))
        b.cond_br(b.icmp("eq", count, b.i64(1)), some, several)
        self.enter(some)
        only = self._made(b.i64(0), on)
        self.put(b.i64(0), self.line, Line.BUSY)
        b.ret(only)
        self.enter(several)
        answer = self.python(Api.PyTuple_New, PTR, count)
        self.require(b.icmp("ne", answer, null()), lost)
        with b.for_range(b.i64(0), count, name="answer") as i:
            made = self._made(i, on)
            with b.if_then(b.icmp("eq", made, null()), likely=False, name="none"):
                self.drop(answer)
                b.br(lost)
            self.python(Api.PyTuple_SetItem, I32, answer, i, made)
        self.put(b.i64(0), self.line, Line.BUSY)
        b.ret(answer)
        self.enter(lost)
        self.put(b.i64(0), self.line, Line.BUSY)
        b.ret(null())

    def _made(self, i: Value, on: Value) -> Value:
        output = self._output(i)
        address = self.word(self.slots, self.word(output, Output.SLOT))
        return self.b.call(self.parts.array, [self.api, output, on, address])
