"""The order of a call's stream with those that used its arrays last, in machine code: what :mod:`tirlower.gpu.launch.order`
says of users, without a step of Python.

Users are read, the streams that have to be waited for are, and only then are the arrays given their new users, if they
still have those that were read: other threads go on meanwhile. So no thread finds a stream among the users which has not
been made to wait.
"""

from __future__ import annotations

from tirlower.emit.llvm_text import I1, I32, I64, PTR, VOID, Block, FunctionRef, Module, Value, null
from tirlower.gpu.codegen.native_code import Code
from tirlower.gpu.launch.native_layout import MOST_ARGUMENTS, MOST_WAITS, Api, Kind, Line, Parameter
from tirlower.gpu.launch.order import MOST_READERS

__all__ = ["DONE", "FAILED", "IN_PYTHON", "emit_in_order", "emit_put_in_order"]

DONE, IN_PYTHON, FAILED = 0, 1, 2
"""Results: the users are right; Python has to do it; an error of Python is set."""


def emit_in_order(module: Module) -> FunctionRef:
    """Define ``i1 (ptr api, ptr users, ptr on, i64 written)``: whether these users are those after such a use already."""
    code = Code(module, "tirlower.native.in_order", I1, [(PTR, "api"), (PTR, "users"), (PTR, "on"), (I64, "written")])
    b, (code.api, users, on, written) = code.b, code.args
    yes, no = code.new_block("yes"), code.new_block("no")
    other = code.new_block("other")
    b.cond_br(b.icmp("eq", users, on), yes, other, likely=True)
    code.enter(other)
    code.require(b.icmp("ne", users, null()), no)
    code.require(code.is_object(code.type_of(users), Api.TUPLE), no)
    code.require(b.icmp("eq", written, b.i64(0)), no)
    with b.for_range(b.i64(0), code.length(users), name="user") as i:
        following = code.new_block("next")
        b.cond_br(b.icmp("eq", code.item(users, i), on), yes, following)
        code.enter(following)
    b.br(no)
    code.enter(yes)
    b.ret(b.const(I1, 1))
    code.enter(no)
    b.ret(b.const(I1, 0))
    return code.ref


class _Order(Code):
    """``i32 (ptr api, ptr parameters, i64 count, ptr args, ptr line, ptr on, i64 handle)``."""

    def __init__(self, module: Module, in_order: FunctionRef) -> None:
        names = ("api", "parameters", "count", "args", "line", "on", "handle")
        types = (PTR, PTR, I64, PTR, PTR, PTR, I64)
        super().__init__(module, "tirlower.native.put_in_order", I32, list(zip(types, names, strict=True)))
        self.api, self.parameters, self.count, self.given, self.line, self.on, self.handle = self.args
        b = self.b
        self.in_order = in_order
        self.found = b.alloca(PTR, MOST_ARGUMENTS, 8, "found")
        self.made = b.alloca(PTR, MOST_ARGUMENTS, 8, "made")
        self.streams = b.alloca(PTR, MOST_WAITS, 8, "streams")
        self.events = b.alloca(I64, MOST_WAITS, 8, "events")
        self.commons = b.alloca(I64, MOST_WAITS, 8, "commons")
        self.waits = self.variable(b.i64(0))
        self.result = b.alloca(I32, align=4)
        b.store(self.status(DONE), self.result, 4)
        self.in_python, self.failed, self.end = map(self.new_block, ("python", "failed", "end"))

    # -- loops over the call's arrays --------------------------------------------------------------------------------

    def _ours(self, i: Value, following: Block) -> tuple[Value, Value]:
        """The argument at a position, and its parameter, where it is an array of ours."""
        b = self.b
        parameter = self.row(self.parameters, i, Parameter.WORDS)
        obj = self.word(self.given, i, PTR)
        is_array = b.icmp("eq", self.word(parameter, Parameter.KIND), b.i64(Kind.ARRAY))
        self.require(b.and_(is_array, self.is_object(self.type_of(obj), Api.ARRAY)), following)
        return obj, parameter

    def build(self) -> FunctionRef:
        """The whole function."""
        b = self.b
        with b.for_range(b.i64(0), self.count, name="argument") as i:
            self.put(null(), self.found, i)
            self.put(null(), self.made, i)
        self._read()
        self._make()
        self._wait()
        self._set()
        b.br(self.end)
        for block, result in ((self.in_python, IN_PYTHON), (self.failed, FAILED)):
            self.enter(block)
            b.store(self.status(result), self.result, 4)
            b.br(self.end)
        self.enter(self.end)
        # What is dropped may run code of Python's: all is done by now.
        with b.for_range(b.i64(0), self.count, name="argument") as i:
            for place in (self.found, self.made):
                held = self.word(place, i, PTR)
                with b.if_then(b.icmp("ne", held, null()), name="held"):
                    self.drop(held)
        b.ret(b.load(I32, self.result, 4))
        return self.ref

    def _read(self) -> None:
        """Note the users as they are, and the streams that have to be waited for."""
        b = self.b
        with b.for_range(b.i64(0), self.count, name="argument") as i:
            following = self.new_block("next")
            obj, parameter = self._ours(i, following)
            written = self.word(parameter, Parameter.WRITTEN)
            self._once(i, obj, written)
            users = self.load(self.of_array(obj, "users"))
            self.require(b.icmp("ne", users, null()), self.in_python)
            self.put(self.hold(users), self.found, i)  # so that no other is at its address
            self._collect(users, b.icmp("ne", written, b.i64(0)), following)
            b.br(following)
            self.enter(following)

    def _once(self, i: Value, obj: Value, written: Value) -> None:
        """An array that stands twice and is written has users of its own between its uses: that is Python's."""
        b = self.b
        with b.for_range(b.i64(0), i, name="before") as j:
            parameter = self.row(self.parameters, j, Parameter.WORDS)
            writes = b.or_(self.word(parameter, Parameter.WRITTEN), written)
            same = b.icmp("eq", self.word(self.given, j, PTR), obj)
            twice = b.and_(same, b.icmp("ne", writes, b.i64(0)))
            self.require(b.xor(twice, b.const(I1, 1)), self.in_python)

    def _collect(self, users: Value, written: Value, following: Block) -> None:
        """The streams that a use waits for: all of those before a write, the writer before a read."""
        b = self.b
        self.require(b.xor(self.is_object(users, Api.NONE), b.const(I1, 1)), following)
        several, alone = self.new_block("several"), self.new_block("alone")
        b.cond_br(self.is_object(self.type_of(users), Api.TUPLE), several, alone)
        self.enter(alone)
        self._add(users, following)
        b.br(following)
        self.enter(several)
        size = self.length(users)
        with b.if_then(b.xor(written, b.const(I1, 1)), name="read"):
            asked = [self.api, users, self.on, b.i64(0)]
            self.require(b.xor(b.call(self.in_order, asked), b.const(I1, 1)), following)
            self.require(b.icmp("sle", size, b.i64(MOST_READERS)), self.in_python)
            writer = self.item(users, b.i64(0))
            self._add(writer, following)
            b.br(following)
        with b.for_range(b.i64(0), size, name="user") as k:
            after = self.new_block("added")
            self._add(self.item(users, k), after)
            b.br(after)
            self.enter(after)

    def _add(self, stream: Value, following: Block) -> None:
        """Wait for a stream, unless it is None, the call's own, or waited for already; goes on where it is new."""
        b = self.b
        self.require(b.xor(self.is_object(stream, Api.NONE), b.const(I1, 1)), following)
        self.require(b.icmp("ne", stream, self.on), following)
        self.require(self.is_object(self.type_of(stream), Api.STREAM), self.in_python)
        count = b.load(I64, self.waits, 8)
        with b.for_range(b.i64(0), count, name="known") as i:
            self.require(b.icmp("ne", self.word(self.streams, i, PTR), stream), following)
        self.require(b.icmp("slt", count, b.i64(MOST_WAITS)), self.in_python)
        event = self.number(self.load(self.of_stream(stream, "_event")), self.in_python)
        self.require(b.icmp("ne", event, b.i64(0)), self.in_python)  # which Python makes
        common = self.number(self.load(self.of_stream(stream, "common")), self.in_python)
        self.put(stream, self.streams, count)
        self.put(event, self.events, count)
        self.put(common, self.commons, count)
        b.store(b.add(count, b.i64(1)), self.waits, 8)

    def _wait(self) -> None:
        """Let the call's stream wait, without the interpreter's lock. The streams live meanwhile, whatever others do."""
        b = self.b
        count = b.load(I64, self.waits, 8)
        with b.if_then(b.icmp("ne", count, b.i64(0)), name="waits"):
            with b.for_range(b.i64(0), count, name="held") as i:
                self.hold(self.word(self.streams, i, PTR))
            order, table = self.word(self.line, Line.ORDER, PTR), self.word(self.line, Line.ORDER_TABLE)
            refused = self.variable(b.const(I32, 0))
            state = self.python(Api.PyEval_SaveThread, PTR)
            with b.for_range(b.i64(0), count, name="waited") as i:
                given = [table, self.word(self.events, i), self.word(self.commons, i), self.handle]
                code = b.call_pointer(order, I32, given, attrs=["nounwind"])
                b.store(b.or_(b.load(I32, refused, 4), code), refused, 4)
            self.python(Api.PyEval_RestoreThread, VOID, state)
            with b.for_range(b.i64(0), count, name="dropped") as i:
                self.drop(self.word(self.streams, i, PTR))
            # What the driver says to it Python asks for again, and tells.
            self.require(b.icmp("eq", b.load(I32, refused, 4), b.const(I32, 0)), self.in_python)

    def _make(self) -> None:
        """The users after the call, of those arrays that get others. The collector may run here."""
        b = self.b
        with b.for_range(b.i64(0), self.count, name="argument") as i:
            following = self.new_block("next")
            users = self.word(self.found, i, PTR)
            self.require(b.icmp("ne", users, null()), following)
            parameter = self.row(self.parameters, i, Parameter.WORDS)
            written = self.word(parameter, Parameter.WRITTEN)
            asked = [self.api, users, self.on, written]
            self.require(b.xor(b.call(self.in_order, asked), b.const(I1, 1)), following)
            reads = self.new_block("reads")
            writes = self.new_block("writes")
            b.cond_br(b.icmp("ne", written, b.i64(0)), writes, reads)
            self.enter(writes)
            self.put(self.hold(self.on), self.made, i)
            b.br(following)
            self.enter(reads)
            self._readers(users, i)
            b.br(following)
            self.enter(following)

    def _readers(self, users: Value, i: Value) -> None:
        """``(None, on)``, ``(writer, on)``, or the streams of before and this one."""
        b = self.b
        many = self.is_object(self.type_of(users), Api.TUPLE)
        size = self.variable(b.i64(1))
        with b.if_then(many, name="many"):
            b.store(self.length(users), size, 8)
        before = b.load(I64, size, 8)
        made = self.python(Api.PyTuple_New, PTR, b.add(before, b.i64(1)))
        self.require(b.icmp("ne", made, null()), self.failed)
        self.put(made, self.made, i)
        with b.if_else(many) as (several, alone):
            with several, b.for_range(b.i64(0), before, name="user") as k:
                self.python(Api.PyTuple_SetItem, I32, made, k, self.hold(self.item(users, k)))
            with alone:
                self.python(Api.PyTuple_SetItem, I32, made, b.i64(0), self.hold(users))
        self.python(Api.PyTuple_SetItem, I32, made, before, self.hold(self.on))

    def _set(self) -> None:
        """Give the arrays their users, where nobody else has meanwhile, or is about to."""
        b = self.b
        self.require(b.icmp("eq", self.word(self.word(self.line, Line.HELD, PTR), 0), b.i64(0)), self.in_python)
        with b.for_range(b.i64(0), self.count, name="argument") as i:
            following = self.new_block("next")
            users = self.word(self.found, i, PTR)
            self.require(b.icmp("ne", users, null()), following)
            obj = self.word(self.given, i, PTR)
            self.require(b.icmp("eq", self.load(self.of_array(obj, "users")), users), self.in_python)
            b.br(following)
            self.enter(following)
        with b.for_range(b.i64(0), self.count, name="argument") as i:
            made = self.word(self.made, i, PTR)
            with b.if_then(b.icmp("ne", made, null()), name="made"):
                place = self.of_array(self.word(self.given, i, PTR), "users")
                self.put(self.load(place), self.made, i)
                b.store(made, place, 8)


def emit_put_in_order(module: Module, in_order: FunctionRef) -> FunctionRef:
    """Define the function that puts the use of a call's arrays into its stream; gives one of the results above."""
    return _Order(module, in_order).build()
