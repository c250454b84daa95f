"""Loading what was compiled, and functions of this process that it calls."""

from __future__ import annotations

import ctypes
import gc
import weakref

import pytest

import tirlower as tl
from tests.c.batch import needs_compiler
from tirlower.c.compile import compile_text
from tirlower.c.library import Library
from tirlower.diagnostics import CodegenError
from tirlower.llvm.codegen import register_symbol, unregister_symbol
from tirlower.script import parse

pytestmark = needs_compiler


def test_a_symbol_that_nobody_defines_is_told():
    with pytest.raises(CodegenError, match="cannot be loaded") as caught:
        Library(
            compile_text(
                "extern int nobody_has_this(void);\nint f(void) { return nobody_has_this(); }\nint (*p)(void) = nobody_has_this;\n"
            )
        )
    assert "call_extern" in str(caught.value.help)


def test_a_library_goes_with_its_last_kernel():
    kernel = tl.build(parse("@T.prim_func\ndef f() -> T.int32:\n    return T.int32(7)\n"), "c")
    library = weakref.ref(kernel._keep)
    assert kernel() == 7
    run = kernel.slow_path
    del kernel
    gc.collect()
    assert run() == 7
    del run
    gc.collect()
    assert library() is None


def test_registered_functions_are_called_through_a_table():
    seen = []

    def twice(x: int) -> int:
        seen.append(x)
        return 2 * x

    register_symbol("c_library_twice", ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_int32)(twice))
    try:
        kernel = tl.build(
            parse(
                "@T.prim_func\ndef f(x: T.int32) -> T.int32:\n"
                "    return T.call_extern('int32', 'c_library_twice', x) + T.call_extern('int32', 'abs', x)\n"
            ),
            "c",
        )
        assert kernel(-4) == -4 and seen == [-4]
        assert "tir_imports[0]" in kernel.source("c")
    finally:
        unregister_symbol("c_library_twice")
