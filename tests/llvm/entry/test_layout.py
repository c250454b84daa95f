from __future__ import annotations

import ctypes
import sys

import numpy as np
import pytest

from tirlower.call.vectorcall import HEADER, word
from tirlower.llvm.entry import layout, make
from tirlower.llvm.entry.process_table import slot, table


def test_the_layouts_of_this_process_are_known():
    if sys.implementation.name == "cpython" and ctypes.sizeof(ctypes.c_void_p) == 8:
        assert layout.self_test() is None and layout.NATIVE


@pytest.mark.parametrize(
    ("name", "wrong", "fact"),
    [
        ("DATA", layout.DIMS, "data"),
        ("NDIM", layout.NDIM + 4, "ndim"),
        ("DESCR", layout.DESCR - 8, "dtype"),
        ("STRIDES", layout.DIMS, "strides"),
        ("FLAGS", layout.NDIM, "C contiguous"),
    ],
)
def test_a_field_elsewhere_is_noticed(monkeypatch, name, wrong, fact):
    monkeypatch.setattr(layout, name, wrong)
    found = layout.self_test()
    assert found is not None and fact in found


def test_an_unknown_header_and_another_interpreter_are_noticed(monkeypatch):
    monkeypatch.setattr(layout, "HEADER", 24)
    assert "unknown object sizes" in (layout.self_test() or "")
    monkeypatch.undo()
    monkeypatch.setattr(sys, "implementation", type("I", (), {"name": "pypy"}))
    assert "pypy" in (layout.self_test() or "")


def test_the_table_holds_the_objects_it_points_to():
    table.require("bfloat16")
    for name, value in (("ndarray", np.ndarray), ("None", None), ("int", int)):
        assert table.has(name)
        at = table.address + 8 * slot(name)
        assert word(at) == id(value)


def test_the_cache_key_names_what_the_code_depends_on():
    key = make.entry_cache_key()
    assert str(HEADER) in key and sys.implementation.name in key
