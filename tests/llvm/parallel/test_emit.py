from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tirlower.emit.compile import CompileOptions
from tirlower.emit.llvm_text import I32, I64, PTR, Builder, Module, struct
from tirlower.llvm.jit import engine
from tirlower.llvm.parallel import emit_launch, emit_num_threads, emit_record_error, launch_flags, runtime


class Record(ctypes.Structure):
    _fields_ = [("code", ctypes.c_int32), ("nvals", ctypes.c_int32), ("vals", ctypes.c_int64 * 16)]


def build(limit: int):
    """``i32 f(ptr x, i64 n, ptr record)``: in parallel, x[i] must be below the limit; else error 0 with (i, x[i])."""
    m = Module("checked")
    params = [(PTR, "ctx"), (I64, "begin"), (I64, "end"), (I32, "thread")]
    body = m.function("f.body", I32, params, linkage="internal")
    ctx_type = struct(PTR, PTR, PTR)
    b = Builder(body, body.block("entry"))
    ctx, begin, end, _ = body.args
    fields = [b.load(PTR, b.gep(ctx_type, ctx, 0, k)) for k in range(3)]
    with b.for_range(begin, end) as i:
        value = b.load(I64, b.gep(I64, fields[0], i))
        with b.if_then(b.icmp("sge", value, b.i64(limit))):
            emit_record_error(b, fields[1], 0, [i, value], claim=fields[2])
            b.ret(b.i32(-5))
    b.ret(b.i32(0))

    f = m.function("f", I32, [(PTR, "x"), (I64, "n"), (PTR, "record")])
    b = Builder(f, f.block("entry"))
    x, n, record = f.args
    claim, ctx = b.alloca(I32), b.alloca(ctx_type)
    b.store(b.i32(0), claim)
    for k, value in enumerate((x, record, claim)):
        b.store(value, b.gep(ctx_type, ctx, 0, k))
    b.ret(emit_launch(b, body, ctx, n, launch_flags(dynamic=True, chunk=16, threads=3)))

    g = m.function("g", I32, [(PTR, "record")])
    b = Builder(g, g.block("entry"))
    emit_record_error(b, g.args[0], 7, [b.i64(-1)])
    b.ret(emit_num_threads(b))
    code = engine().compile_object(m.text(), CompileOptions.for_host(pipeline="none"))
    return engine().link(code.object, ["f", "g"], runtime().symbols)


def test_a_failed_check_fills_the_record_once_and_ends_the_region():
    runtime().reserve(3)
    linked = build(limit=10_000)
    f = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_int64, ctypes.c_void_p)(linked["f"])
    x = np.arange(10_000, dtype=np.int64)
    record = Record(code=123, nvals=456)  # not cleared: a record is whatever the entry's stack held
    assert f(x.ctypes.data, x.size, ctypes.addressof(record)) == 0
    assert (record.code, record.nvals) == (123, 456)
    bad = {100, 101, 5_000, 9_999}
    for i in bad:
        x[i] = 20_000 + i
    for _ in range(200):
        record = Record(code=123, nvals=456)
        assert f(x.ctypes.data, x.size, ctypes.addressof(record)) == -5
        assert (record.code, record.nvals) == (0, 2)
        assert record.vals[0] in bad
        assert record.vals[1] == 20_000 + record.vals[0]  # both values are of the same failure


def test_serial_code_fills_the_record_without_a_claim():
    linked = build(limit=0)
    record = Record()
    g = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p)(linked["g"])
    assert g(ctypes.addressof(record)) == runtime().num_threads
    assert (record.code, record.nvals, record.vals[0]) == (7, 1, -1)


def test_wrong_operands_are_refused():
    m = Module("wrong")
    f = m.function("f", I32, [(PTR, "record"), (I64, "n")])
    b = Builder(f, f.block("entry"))
    with pytest.raises(TypeError, match="task function"):
        emit_launch(b, f, f.args[0], f.args[1])
    with pytest.raises(TypeError, match="i64"):
        emit_record_error(b, f.args[0], 1, [b.i32(3)])
    with pytest.raises(ValueError, match="16 values, got 17"):
        emit_record_error(b, f.args[0], 1, [f.args[1]] * 17)
