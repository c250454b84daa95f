from __future__ import annotations

import ctypes

import pytest

from tirlower.call.vectorcall import CALLABLE, call_through_pointer, set_word, vectorcall_type, word

Function = ctypes.PYFUNCTYPE(ctypes.py_object, ctypes.py_object, ctypes.c_void_p, ctypes.c_size_t, ctypes.c_void_p)


def test_an_object_is_called_through_its_pointer():
    base = vectorcall_type("tests.Base", 2)
    made = type("Made", (base,), {})
    call_through_pointer(made, base)
    one = made()
    with pytest.raises(TypeError, match="vectorcall"):
        one()
    seen = []

    def code(this, args, count, names):
        count &= (1 << 63) - 1
        seen.append((this, [word(args + 8 * i) for i in range(count)], names))
        return "result"

    function = Function(code)
    assert word(id(one) + CALLABLE + 8) == word(id(one) + CALLABLE + 16) == 0
    set_word(id(one) + CALLABLE, ctypes.cast(function, ctypes.c_void_p).value)
    first, second = object(), object()
    assert one(first, second) == "result"
    assert seen == [(one, [id(first), id(second)], None)]
    assert one(first, what=second) == "result"
    assert seen[1][2] is not None


def test_a_class_that_has_a_call_of_its_own_keeps_it():
    base = vectorcall_type("tests.Other")
    made = type("Made", (base,), {"__call__": lambda self, *args: args})
    call_through_pointer(made, base)
    assert made()(1, 2) == (1, 2)
