"""TIR's names: those that make something here, and what is said of those that do not."""

from __future__ import annotations

import pytest

import tirlower as tl
from tirlower import ir
from tirlower.ir.tir_names import INSTEAD


def test_a_size_is_a_variable_that_is_at_least_zero():
    n = ir.SizeVar("n", "int64")
    assert n.name == "n" and n.dtype == "int64" and n.nonneg and ir.SizeVar("m").dtype == "int32"


def test_a_prim_type_is_the_type_that_a_pointer_points_to():
    assert ir.PrimType("float32") == "float32"
    assert ir.PointerType(ir.PrimType("float16"), "shared") == ir.PointerType("float16", "shared")


@pytest.mark.parametrize("name", sorted(INSTEAD))
def test_a_name_of_tir_says_what_takes_its_place(name):
    with pytest.raises(AttributeError, match=rf"tirlower.ir has no {name!r}; here it is "):
        getattr(ir, name)
    word = INSTEAD[name].split("(")[0].split(",")[0]
    assert " " in word or hasattr(ir, word), f"{name} names {word}, which is not there either"


def test_other_names_are_missing_as_anywhere():
    with pytest.raises(AttributeError, match=r"no 'Nothing'$"):
        _ = ir.Nothing
    assert not hasattr(ir, "__path_to_nowhere__")


@pytest.mark.parametrize(
    ("name", "way"), [("tir", "tirlower.ir"), ("transform", "tirlower.transforms"), ("nd", "NumPy")]
)
def test_modules_of_tvm_say_what_takes_their_place(name, way):
    with pytest.raises(AttributeError, match=rf"no attribute {name!r}; here it is {way}"):
        getattr(tl, name)
