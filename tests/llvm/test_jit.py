from __future__ import annotations

import ctypes
import gc
import math
import os
import subprocess
import sys
import weakref

import pytest

from tirlower.diagnostics import CodegenError
from tirlower.emit.compile import CompileOptions
from tirlower.llvm.jit import Engine, engine, undefined_symbols

_INT = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)
_ADD = "define i32 @f(i32 %x) {\n  %y = add i32 %x, 1\n  ret i32 %y\n}\n"


def _link(text: str, exports, imports=None, **more):
    e = engine()
    return e.link(e.compile_object(text).object, exports, imports, **more)


def test_there_is_one_engine():
    assert engine() is engine()
    assert isinstance(engine(), Engine)


def test_text_to_running_code():
    linked = _link(_ADD, ["f"])
    assert _INT(linked["f"])(41) == 42
    assert linked.symbols == {"f": linked["f"]}
    with pytest.raises(KeyError, match="'g' was not exported"):
        linked["g"]


def test_the_same_object_links_many_times():
    data = engine().compile_object(_ADD).object
    many = [engine().link(data, ["f"]) for _ in range(20)]
    assert len({linked["f"] for linked in many}) == 20
    del many[::2]
    gc.collect()
    assert [_INT(linked["f"])(1) for linked in many] == [2] * 10


def test_imported_symbols_far_away():
    called = []

    @_INT
    def callback(x):
        called.append(x)
        return x * 2

    cell = ctypes.c_int32(5)
    text = (
        "declare i32 @twice(i32)\n@cell = external global i32\n"
        "define i32 @f(i32 %x) {\n  %y = call i32 @twice(i32 %x)\n  %c = load i32, ptr @cell\n"
        "  %z = add i32 %y, %c\n  store i32 %z, ptr @cell\n  ret i32 %z\n}\n"
    )
    address = ctypes.cast(callback, ctypes.c_void_p).value
    linked = _link(text, ["f"], {"twice": address, "cell": ctypes.addressof(cell)})
    assert _INT(linked["f"])(21) == 47
    assert (called, cell.value) == ([21], 47)


def test_keep_lives_as_long_as_the_code():
    class Owner:
        pass

    owner = Owner()
    seen = weakref.ref(owner)
    linked = _link(_ADD, ["f"], keep=owner)
    del owner
    gc.collect()
    assert seen() is not None
    del linked
    gc.collect()
    assert seen() is None


@pytest.mark.parametrize("name", ["exp", "log", "sin", "tanh", "erf", "cbrt", "lgamma", "exp2", "fmod", "pow"])
def test_c_mathematics_resolves(name):
    two = name in ("fmod", "pow")
    for type, ctype, suffix in (("double", ctypes.c_double, ""), ("float", ctypes.c_float, "f")):
        params, args = (f"{type} %x, {type} %y", f"{type} %x, {type} %y") if two else (f"{type} %x", f"{type} %x")
        text = (
            f"declare {type} @{name}{suffix}({', '.join([type] * (2 if two else 1))})\n"
            f"define {type} @f({params}) {{\n  %r = call {type} @{name}{suffix}({args})\n  ret {type} %r\n}}\n"
        )
        linked = _link(text, ["f"])
        values = [1.75, 0.5][: 2 if two else 1]
        got = ctypes.CFUNCTYPE(ctype, *[ctype] * len(values))(linked["f"])(*values)
        expected = getattr(math, name)(*values)
        assert math.isclose(got, expected, rel_tol=1e-6 if suffix else 1e-14)


def test_compiler_helpers_resolve():
    text = "define i64 @f(i64 %a, i64 %b) {\n  %x = sext i64 %a to i128\n  %y = sext i64 %b to i128\n"
    text += "  %p = mul i128 %x, %x\n  %q = sdiv i128 %p, %y\n  %r = trunc i128 %q to i64\n  ret i64 %r\n}\n"
    linked = _link(text, ["f"])
    call = ctypes.CFUNCTYPE(ctypes.c_int64, ctypes.c_int64, ctypes.c_int64)(linked["f"])
    assert call(10**15, -(10**14)) == -(10**16)


def test_missing_symbols_are_named():
    text = (
        "declare i32 @no_such_function(i32)\ndeclare i32 @nor_this(i32)\n"
        "define i32 @f(i32 %x) {\n  %a = call i32 @no_such_function(i32 %x)\n  %b = call i32 @nor_this(i32 %a)\n"
        "  ret i32 %b\n}\n"
    )
    data = engine().compile_object(text).object
    with pytest.raises(CodegenError, match="undefined symbol") as caught:
        engine().link(data, ["f"])
    if sys.platform == "linux":
        assert set(undefined_symbols(data)) - {"_GLOBAL_OFFSET_TABLE_"} == {"no_such_function", "nor_this"}
        assert "no_such_function" in str(caught.value) and "nor_this" in str(caught.value)
        with pytest.raises(CodegenError, match="undefined symbol 'nor_this'"):
            engine().link(data, ["f"], {"no_such_function": 1})
    # A failed link leaves the engine working.
    linked = _link(_ADD, ["f"])
    assert _INT(linked["f"])(1) == 2


def test_what_is_no_object_is_refused():
    with pytest.raises(CodegenError, match="cannot link"):
        engine().link(b"not an object", ["f"])
    with pytest.raises(CodegenError, match="cannot link the machine code of g"):
        engine().link(engine().compile_object(_ADD).object, ["g"])
    assert undefined_symbols(b"not an object") == []
    assert undefined_symbols(engine().compile_object(_ADD).object[:300]) == []


def test_options_reach_the_compiler():
    done = engine().compile_object(_ADD, CompileOptions(opt_level=0))
    assert done.options.opt_level == 0


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this system")
def test_works_in_a_forked_child():
    code = (
        "import ctypes, os\n"
        "from tirlower.llvm.jit import engine\n"
        f"text = {_ADD!r}\n"
        "call = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)\n"
        "before = engine().link(engine().compile_object(text).object, ['f'])\n"
        "pid = os.fork()\n"
        "after = engine().link(engine().compile_object(text).object, ['f'])\n"
        "assert call(before['f'])(1) == call(after['f'])(1) == 2\n"
        "if pid: assert os.waitpid(pid, 0)[1] == 0\n"
    )
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env, timeout=60)
    assert done.returncode == 0, done.stderr
