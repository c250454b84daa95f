from __future__ import annotations

import ctypes
import math
import platform
from collections.abc import Callable

import llvmlite.binding as llvm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tirlower.emit.compile import CompileOptions
from tirlower.emit.llvm_text import (
    BFLOAT,
    DOUBLE,
    FLOAT,
    HALF,
    I1,
    I8,
    I32,
    I64,
    PTR,
    VOID,
    Builder,
    FastMath,
    Module,
    Type,
    Value,
    array,
    const,
    const_ptr,
    const_struct,
    poison,
    ptr,
    struct,
    undef,
    vector,
    zero,
)
from tirlower.llvm.jit import engine

pytestmark = pytest.mark.by_day

_CTYPES = {
    "i8": ctypes.c_int8,
    "i16": ctypes.c_int16,
    "i32": ctypes.c_int32,
    "i64": ctypes.c_int64,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "ptr": ctypes.c_void_p,
    "void": None,
}


def run(ret: Type, params: list[Type], body: Callable[[Builder, list[Value]], None], pipeline: str = "none"):
    """A Python callable of a function whose instructions ``body`` emits; no pass of LLVM runs over them."""
    module = Module("test")
    function = module.function("f", ret, [(t, f"p{i}") for i, t in enumerate(params)])
    body(Builder(function, function.block("entry")), function.args)
    options = CompileOptions.for_host().with_(pipeline=pipeline)
    linked = engine().link(engine().compile_object(module.text(), options).object, ["f"])
    call = ctypes.CFUNCTYPE(_CTYPES[ret.text], *[_CTYPES[p.text] for p in params])(linked["f"])
    call.linked = linked
    return call


def accepted(body: Callable[[Builder], None]) -> str:
    """The text of a void function, which LLVM parses and verifies."""
    module = Module("test")
    function = module.function("f", VOID, [(PTR, "p"), (I64, "n"), (FLOAT, "x")])
    b = Builder(function, function.block("entry"))
    body(b)
    if not b.terminated:
        b.ret()
    llvm.parse_assembly(module.text()).verify()
    return module.text()


def _wrap(n: int, bits: int = 32) -> int:
    return (n + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1))


_BINARY = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "and_": lambda a, b: a & b,
    "or_": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "shl": lambda a, b: a << (b & 31),
    "ashr": lambda a, b: a >> (b & 31),
    "lshr": lambda a, b: (a % (1 << 32)) >> (b & 31),
    "sdiv": lambda a, b: int(math.copysign(1, a) * math.copysign(1, b)) * (abs(a) // abs(b)),
    "srem": lambda a, b: int(math.fmod(a, b)),
    "udiv": lambda a, b: (a % (1 << 32)) // (b % (1 << 32)),
    "urem": lambda a, b: (a % (1 << 32)) % (b % (1 << 32)),
}


@pytest.mark.parametrize("name", _BINARY)
def test_integer_instructions_agree_with_python(name):
    def body(b, args):
        right = b.and_(args[1], b.i32(31)) if name in ("shl", "ashr", "lshr") else args[1]
        b.ret(getattr(b, name)(args[0], right, "r"))

    f = run(I32, [I32, I32], body)
    numbers = [1, -1, 2, 7, -13, 31, 1000003, -(1 << 31) + 1, (1 << 31) - 1]
    for a in [*numbers, 0]:
        for b in numbers:
            assert f(a, b) == _wrap(_BINARY[name](a, b))


def test_negation_and_complement():
    f = run(I32, [I32], lambda b, a: b.ret(b.xor(b.neg(a[0]), b.not_(a[0]))))
    assert [f(x) for x in (0, 5, -7)] == [(-x) ^ ~x for x in (0, 5, -7)]


@settings(deadline=None)
@given(a=st.floats(width=32), b=st.floats(width=32))
def test_float_instructions_agree_with_numpy(a, b):
    x, y = np.float32(a), np.float32(b)
    with np.errstate(all="ignore"):
        expected = [x + y, x - y, x * y, x / y, -x]
    for f, want in zip(_float_functions(), expected, strict=True):
        np.testing.assert_array_equal(np.float32(f(a, b)), want)


_made: list = []


def _float_functions():
    if not _made:
        for name in ("fadd", "fsub", "fmul", "fdiv"):
            _made.append(run(FLOAT, [FLOAT, FLOAT], lambda b, a, n=name: b.ret(getattr(b, n)(a[0], a[1]))))
        _made.append(run(FLOAT, [FLOAT, FLOAT], lambda b, a: b.ret(b.fneg(a[0]))))
    return _made


@pytest.mark.parametrize("predicate", ["eq", "ne", "slt", "sle", "sgt", "sge", "ult", "ule", "ugt", "uge"])
def test_integer_comparisons(predicate):
    f = run(I32, [I32, I32], lambda b, a: b.ret(b.zext(b.icmp(predicate, a[0], a[1]), I32)))
    python = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
    for a in (-5, 0, 3):
        for b in (-5, 0, 3):
            x, y = (a % (1 << 32), b % (1 << 32)) if predicate[0] == "u" else (a, b)
            assert bool(f(a, b)) == eval(f"{x} {python[predicate[-2:]]} {y}")


def test_float_comparisons_and_nan():
    nan = math.nan
    for predicate, a, b, expected in [
        ("olt", 1.0, 2.0, 1),
        ("olt", nan, 2.0, 0),
        ("ult", nan, 2.0, 1),
        ("une", nan, nan, 1),
        ("oeq", nan, nan, 0),
        ("ord", nan, 1.0, 0),
        ("uno", nan, 1.0, 1),
        ("oge", 2.0, 2.0, 1),
    ]:
        f = run(I32, [DOUBLE, DOUBLE], lambda b, x, p=predicate: b.ret(b.zext(b.fcmp(p, x[0], x[1]), I32)))
        assert f(a, b) == expected, predicate


def test_conversions():
    f = run(I64, [I8], lambda b, a: b.ret(b.add(b.sext(a[0], I64), b.zext(b.trunc(a[0], I1), I64))))
    assert [f(5), f(-128)] == [6, -128]
    f = run(DOUBLE, [I32], lambda b, a: b.ret(b.fadd(b.sitofp(a[0], DOUBLE), b.uitofp(a[0], DOUBLE))))
    assert f(-1) == -1.0 + (2**32 - 1)
    f = run(I32, [DOUBLE], lambda b, a: b.ret(b.sub(b.fptosi(a[0], I32), b.fptoui(a[0], I32))))
    assert f(7.9) == 0
    f = run(FLOAT, [FLOAT], lambda b, a: b.ret(b.fpext(b.fptrunc(a[0], HALF), FLOAT)))
    assert f(0.1) == float(np.float16(0.1))
    f = run(I32, [FLOAT], lambda b, a: b.ret(b.bitcast(a[0], I32)))
    assert f(1.0) == 0x3F800000
    f = run(I64, [PTR], lambda b, a: b.ret(b.ptrtoint(b.inttoptr(b.add(b.ptrtoint(a[0]), b.i64(8))))))
    assert f(1000) == 1008


def test_casts_to_the_same_type_are_no_instructions():
    def body(b):
        p, _, x = b.function.args
        assert b.bitcast(x, FLOAT) is x
        assert b.addrspacecast(p, PTR) is p

    assert "cast" not in accepted(body)


def test_select_freeze_and_phi():
    def body(b, a):
        positive = b.icmp("sgt", a[0], b.i32(0))
        left, right, join = (b.function.block(n) for n in ("left", "right", "join"))
        b.cond_br(positive, left, right)
        b.position_at_end(left)
        b.br(join)
        b.position_at_end(right)
        twice = b.mul(a[0], b.i32(2))
        b.br(join)
        b.position_at_end(join)
        result = b.phi(I32, "result", [(b.i32(7), left)])
        result.add(twice, right)
        b.ret(b.select(b.icmp("eq", a[0], b.i32(-100)), b.i32(1), b.freeze(result)))

    f = run(I32, [I32], body)
    assert [f(5), f(-3), f(-100)] == [7, -6, 1]


def test_memory_and_addresses():
    def body(b, a):
        i = b.load(I64, b.gep(I64, a[0], 0), 8)
        x = b.load(FLOAT, b.gep(struct(I64, array(4, FLOAT)), a[0], 0, 1, i), 4, volatile=True)
        b.store(b.fmul(x, const(FLOAT, 2)), b.offset(a[0], 8 + 12), 4)
        slot = b.alloca(FLOAT, 4, align=16)
        b.store(x, b.gep(FLOAT, slot, 3))
        b.ret(b.load(FLOAT, b.gep(FLOAT, slot, b.i64(3))))

    f = run(FLOAT, [PTR], body)
    memory = np.zeros(6, "float32")
    memory[:2].view("int64")[0] = 1
    memory[2:] = [10, 11, 12, 13]
    assert f(memory.ctypes.data) == 11.0
    assert memory[2:].tolist() == [10, 11, 12, 22]


def test_stack_slots_in_loops_are_in_the_entry_block():
    def body(b, a):
        with b.for_range(b.i64(0), a[0]) as i:
            slot = b.alloca(I64, 1000)
            b.store(i, slot)
        b.ret(b.i64(1))

    # 8 kB a turn would be far beyond the stack.
    assert run(I64, [I64], body)(100_000) == 1


def test_dynamic_stack_memory():
    def body(b, a):
        slot = b.alloca(I32, a[0], align=64)
        b.store(b.i32(9), b.gep(I32, slot, b.sub(a[0], b.i64(1))))
        low = b.and_(b.ptrtoint(slot), b.i64(63))
        b.ret(b.add(b.load(I32, b.gep(I32, slot, b.sub(a[0], b.i64(1)))), b.trunc(low, I32)))

    assert run(I32, [I64], body)(50) == 9


def test_nontemporal_and_invariant_accesses():
    text = accepted(
        lambda b: b.store(
            b.load(vector(FLOAT, 4), b.function.args[0], 16, invariant=True), b.function.args[0], 16, nontemporal=True
        )
    )
    assert "!invariant.load" in text and "!nontemporal" in text


def test_atomics():
    def body(b, a):
        old = b.atomicrmw("add", a[0], b.i32(5), "seq_cst")
        pair = b.cmpxchg(a[0], b.i32(15), b.i32(100), "acq_rel", "monotonic")
        b.fence("acquire", syncscope="singlethread")
        done = b.zext(b.extract_value(pair, 1), I32)
        b.store(b.add(b.load(I32, a[0], 4, ordering="acquire"), b.i32(1)), a[0], 4, ordering="release")
        b.ret(b.add(b.mul(old, b.i32(10)), done))

    f = run(I32, [PTR], body)
    cell = np.array([10], "int32")
    assert (f(cell.ctypes.data), cell[0]) == (101, 101)
    assert (f(cell.ctypes.data), cell[0]) == (1010, 107)


def test_float_atomics():
    cell = np.array([1.5], "float32")
    f = run(FLOAT, [PTR], lambda b, a: b.ret(b.atomicrmw("fadd", a[0], const(FLOAT, 2), align=4)))
    assert (f(cell.ctypes.data), cell[0]) == (1.5, 3.5)


def test_vectors():
    v4 = vector(I32, 4)

    def body(b, a):
        v = b.load(v4, a[0], 4)
        v = b.add(v, b.splat(b.trunc(a[1], I32), 4))
        v = b.insert_element(v, b.i32(-1), b.i32(2))
        w = b.shuffle(v, b.splat(b.i32(50), 4), [3, 2, 1, 4])
        b.store(w, a[0], 4)
        both = b.shuffle(v, None, [0, 0])
        b.ret(b.add(b.extract_element(w, 0), b.extract_element(both, b.i64(1))))

    memory = np.array([1, 2, 3, 4], "int32")
    f = run(I32, [PTR, I64], body)
    assert f(memory.ctypes.data, 10) == 14 + 11
    assert memory.tolist() == [14, -1, 12, 50]


def test_gathered_addresses():
    def body(b, a):
        index = b.load(vector(I64, 2), a[1], 8)
        addresses = b.gep(I32, a[0], index)
        assert addresses.type == vector(PTR, 2)
        x = b.intrinsic(
            "llvm.masked.gather",
            vector(I32, 2),
            [addresses, const(vector(I1, 2), True), zero(vector(I32, 2))],
            [vector(I32, 2), addresses.type],
            arg_attrs={0: "align 4"},
        )
        b.ret(b.intrinsic("llvm.vector.reduce.add", I32, [x], [x.type]))

    memory, index = np.arange(10, 20, dtype="int32"), np.array([7, 2], "int64")
    assert run(I32, [PTR, PTR], body)(memory.ctypes.data, index.ctypes.data) == 17 + 12


def test_aggregates():
    def body(b, a):
        t = struct(I32, array(2, I32))
        s = b.insert_value(undef(t), a[0], 0)
        s = b.insert_value(s, b.i32(3), 1, 1)
        b.ret(b.mul(b.extract_value(s, 0), b.extract_value(s, 1, 1)))

    assert run(I32, [I32], body)(14) == 42


def test_calls_between_functions_and_to_the_process():
    module = Module("calls")
    square = module.function("square", I32, [(I32, "x", ["signext"])], linkage="internal", callconv="fastcc")
    b = Builder(square, square.block())
    b.ret(b.mul(square.args[0], square.args[0]))
    fabs = module.get_or_declare("fabs", DOUBLE, [DOUBLE], attrs=["nounwind"])
    printf = module.declare("snprintf", I32, [PTR, I64, PTR], vararg=True)
    f = module.function("f", I32, [(PTR, "buffer"), (PTR, "callback")])
    b = Builder(f, f.block())
    n = b.call(square, [b.i32(6)], tail="tail")
    d = b.call(fabs, [const(DOUBLE, -2.5)])
    b.call(printf, [f.args[0], b.i64(32), module.string_constant("%d %.1f"), n, d])
    b.call_pointer(f.args[1], VOID, [n])
    b.ret(n)
    linked = engine().link(engine().compile_object(module.text()).object, ["f"])
    seen = []
    callback = ctypes.CFUNCTYPE(None, ctypes.c_int32)(seen.append)
    buffer = ctypes.create_string_buffer(32)
    call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)(linked["f"])
    assert call(ctypes.addressof(buffer), ctypes.cast(callback, ctypes.c_void_p)) == 36
    assert (buffer.value, seen) == (b"36 2.5", [36])


def test_addresses_of_this_process_as_constants():
    cell = ctypes.c_int64(17)
    f = run(I64, [], lambda b, a: b.ret(b.load(I64, const_ptr(ctypes.addressof(cell)), 8)))
    assert f() == 17


@pytest.mark.skipif(platform.machine() not in ("x86_64", "AMD64"), reason="x86 assembly")
def test_inline_assembly():
    f = run(I32, [I32], lambda b, a: b.ret(b.call_asm("leal\t3($1), $0", "=r,r", I32, [a[0]], side_effect=False)))
    assert f(4) == 7
    text = accepted(lambda b: b.call_asm('# "quoted"\nnop', "~{memory}") and None)
    assert "sideeffect" in text


def test_fast_math_flags():
    def body(b):
        x = b.function.args[2]
        b.fast_math = FastMath.CONTRACT | FastMath.NSZ
        b.fadd(x, x)
        b.fmul(x, x, fast_math=FastMath.FAST)
        b.fsub(x, x, fast_math=FastMath.NONE)
        b.fcmp("olt", x, x)
        b.select(Value(I1, "true"), x, x)
        b.select(Value(I1, "true"), b.i32(1), b.i32(2))
        b.intrinsic("llvm.fma", FLOAT, [x, x, x], [FLOAT])
        b.add(b.i32(1), b.i32(2))

    lines = [line.split("= ")[1] for line in accepted(body).splitlines() if " = " in line and line[0] == " "]
    assert [line.split(" float")[0] for line in lines[:3]] == ["fadd contract nsz", "fmul fast", "fsub"]
    assert lines[3].startswith("fcmp contract nsz olt")
    assert lines[4].startswith("select contract nsz i1")
    assert lines[5].startswith("select i1")
    assert lines[6].startswith("call contract nsz float @llvm.fma.f32")
    assert lines[7].startswith("add i32")


def test_every_flag_is_read_by_llvm():
    def body(b):
        p, n, x = b.function.args
        for flag in FastMath:
            b.fadd(x, x, fast_math=flag)
        for op in ("add", "sub", "mul", "shl"):
            getattr(b, op)(n, n, nsw=True, nuw=True)
        for op in ("sdiv", "udiv", "ashr", "lshr"):
            getattr(b, op)(n, n, exact=True)
        b.or_(n, n, disjoint=True)
        b.trunc(n, I32, nsw=True, nuw=True)
        b.uitofp(b.zext(b.trunc(n, I32), I64, nneg=True), FLOAT, nneg=True)
        b.gep(I8, p, n, inbounds=False)
        b.gep(I8, p, n, nuw=True)
        b.gep(I8, p, 1 << 40)
        b.frem(x, x)
        b.assume(b.icmp("sgt", n, b.i64(0)))
        b.assume_aligned(p, 64)
        b.atomicrmw("umax", p, n, "monotonic", volatile=True, syncscope="singlethread")
        b.cmpxchg(p, n, n, weak=True, align=8)
        b.addrspacecast(p, ptr(1))
        b.fpext(b.fptrunc(x, BFLOAT), FLOAT)
        b.splat(x, 4, scalable=True)
        b.insert_value(const_struct(b.i32(1), poison(FLOAT)), x, 1)
        b.comment("a comment\nof two lines")
        b.call_asm("nop", "", attrs=["nounwind", ("key", "value")])
        b.unreachable()

    assert "; of two lines" in accepted(body)


def test_for_range():
    def body(b, a):
        total = b.alloca(I64)
        b.store(b.i64(0), total)
        outer = b.for_range(a[0], a[1], 3, "outer", loop=b.module.loop_metadata(unroll=False))
        with outer as i, b.for_range(b.i64(0), b.i64(2), nonempty=True) as j:
            b.store(b.add(b.load(I64, total), b.add(b.mul(i, b.i64(10)), j)), total)
        b.ret(b.load(I64, total))

    f = run(I64, [I64, I64], body)
    for low, high in [(0, 10), (0, 0), (5, 2), (-4, 1), (0, 1)]:
        assert f(low, high) == sum(i * 10 + j for i in range(low, high, 3) for j in range(2))


def test_unsigned_ranges_and_steps_that_are_values():
    def body(b, a):
        count = b.alloca(I32)
        b.store(b.i32(0), count)
        with b.for_range(a[0], a[1], a[2], unsigned=True):
            b.store(b.add(b.load(I32, count), b.i32(1)), count)
        b.ret(b.load(I32, count))

    f = run(I32, [I32, I32, I32], body)
    assert f((1 << 31) - 5, -((1 << 31) - 5), 2) == 5
    assert f(3, 3, 1) == 0


def test_conditionals():
    def body(b, a):
        cell = b.alloca(I32)
        b.store(b.i32(0), cell)
        with b.if_then(b.icmp("sgt", a[0], b.i32(10)), likely=False):
            b.store(b.i32(1), cell)
        with b.if_else(b.icmp("sgt", a[0], b.i32(100)), likely=True) as (then, otherwise):
            with then:
                b.store(b.add(b.load(I32, cell), b.i32(2)), cell)
            with otherwise, b.if_then(b.icmp("slt", a[0], b.i32(0))):
                b.ret(b.i32(-1))
        with b.if_else(b.icmp("eq", a[0], b.i32(7))) as (then, otherwise):
            with then:
                left = b.i32(70)
            with otherwise:
                right = b.mul(a[0], b.i32(0))
        picked = b.phi(I32, "picked", [(left, then.end), (right, otherwise.end)])
        b.ret(b.add(b.load(I32, cell), picked))

    f = run(I32, [I32], body)
    assert [f(x) for x in (5, 50, 500, -5, 7)] == [0, 1, 3, -1, 70]


def test_switch():
    def body(b, a):
        blocks = [b.function.block(f"case{i}") for i in range(3)]
        b.switch(a[0], blocks[0], [(5, blocks[1]), (-7, blocks[2])])
        for i, block in enumerate(blocks):
            b.position_at_end(block)
            b.ret(b.i32(i))

    f = run(I32, [I32], body)
    assert [f(5), f(-7), f(0)] == [1, 2, 0]


def test_a_whole_kernel_through_the_optimiser():
    def body(b, a):
        with b.for_range(b.i64(0), a[2]) as i:
            x = b.load(FLOAT, b.gep(FLOAT, a[0], i), 4)
            b.store(b.fadd(b.fmul(x, x), const(FLOAT, 1)), b.gep(FLOAT, a[1], i), 4)
        b.ret()

    f = run(VOID, [PTR, PTR, I64], body, pipeline="default")
    x = np.linspace(-1, 1, 1001, dtype="float32")
    y = np.empty_like(x)
    f(x.ctypes.data, y.ctypes.data, x.size)
    np.testing.assert_array_equal(y, x * x + np.float32(1))


# -- mistakes ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "mistake",
    [
        lambda b, p, n, x: b.add(n, b.i32(1)),
        lambda b, p, n, x: b.fadd(x, const(DOUBLE, 1)),
        lambda b, p, n, x: b.icmp("eq", p, n),
        lambda b, p, n, x: b.fcmp("oeq", x, n),
        lambda b, p, n, x: b.select(Value(I1, "true"), x, n),
        lambda b, p, n, x: b.phi(FLOAT).add(n, b.block),
        lambda b, p, n, x: b.cmpxchg(p, n, b.i32(1)),
        lambda b, p, n, x: b.insert_element(undef(vector(FLOAT, 4)), n, 0),
        lambda b, p, n, x: b.shuffle(undef(vector(FLOAT, 4)), undef(vector(FLOAT, 2)), [0]),
        lambda b, p, n, x: b.insert_value(undef(struct(I8, I8)), n, 1),
        lambda b, p, n, x: b.extract_value(undef(struct(I8, I8)), 2),
        lambda b, p, n, x: b.cond_br(n, b.block, b.block),
        lambda b, p, n, x: b.call(b.function, [p, n, n]),
        lambda b, p, n, x: b.call(b.function, [p, n]),
        lambda b, p, n, x: b.call(b.function, [p, n, x, x]),
        lambda b, p, n, x: b.for_range(n, b.i32(1)).__enter__(),
    ],
)
def test_wrong_types_are_errors_where_they_are_made(mistake):
    module = Module("test")
    function = module.function("f", VOID, [(PTR, "p"), (I64, "n"), (FLOAT, "x")])
    with pytest.raises(TypeError):
        mistake(Builder(function, function.block()), *function.args)


def test_instructions_need_an_open_block():
    function = Module("test").function("f")
    b = Builder(function)
    with pytest.raises(RuntimeError, match="stands in no block"):
        b.ret()
    with pytest.raises(RuntimeError, match="stands in no block"):
        b.phi(I32)
    entry = function.block()
    b.position_at_end(entry)
    b.ret()
    assert b.terminated
    with pytest.raises(RuntimeError, match="has its terminator"):
        b.add(b.i32(1), b.i32(1))
    b.position_at_end(entry)
    with pytest.raises(RuntimeError, match="has its terminator"):
        b.br(entry)
