"""The end of an array in machine code: its memory goes back in the order of the one stream that has used it."""

from __future__ import annotations

from typing import Final

from tirlower.emit.llvm_text import I8, I32, I64, PTR, VOID, Module
from tirlower.gpu.codegen.native_code import Code
from tirlower.gpu.launch.native_layout import BLOCK, Api, Giver

__all__ = ["NATIVE_GIVE", "emit_native_give"]

NATIVE_GIVE: Final = "tirlower.native.give"


def emit_native_give(module: Module) -> None:
    """Define ``ptr @tirlower.native.give(ptr self, ptr args, i64 nargsf, ptr names)``, a vectorcall function of an array.

    True where the memory was given back; False where the array has several users, or the driver refused: that is Python's.
    """
    params = [(PTR, "self"), (PTR, "args"), (I64, "nargsf"), (PTR, "names")]
    code = Code(module, NATIVE_GIVE, PTR, params)
    b, (this, args, _, _) = code.b, code.args
    words = b.load(PTR, b.gep(I8, this, BLOCK), 8)
    code.api = code.word(words, Giver.API, PTR)
    other = code.new_block("other")
    array = code.word(args, 0, PTR)
    code.require(code.is_object(code.type_of(array), Api.ARRAY), other)
    users = code.load(code.of_array(array, "users"))
    code.require(code.is_object(code.type_of(users), Api.STREAM), other)
    pointer = code.number(code.load(code.of_array(array, "pointer")), other)
    stream = code.number(code.load(code.of_stream(users, "common")), other)
    give, table = code.word(words, Giver.GIVE, PTR), code.word(words, Giver.TABLE)
    state = code.python(Api.PyEval_SaveThread, PTR)
    status = b.call_pointer(give, I32, [table, pointer, stream], attrs=["nounwind"])
    code.python(Api.PyEval_RestoreThread, VOID, state)
    code.require(b.icmp("eq", status, b.const(I32, 0)), other)
    b.ret(code.hold(code.object(Api.TRUE)))
    code.enter(other)
    b.ret(code.hold(code.object(Api.FALSE)))
