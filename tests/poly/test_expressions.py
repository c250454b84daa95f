"""Expressions as quasi-affine forms: what is asked to know that they stay in their types."""

from __future__ import annotations

from tirlower.ir import Var
from tirlower.ir.dtype import DataType
from tirlower.poly.affine import Space
from tirlower.poly.conditions import Condition, at_least
from tirlower.poly.expressions import Converter
from tirlower.poly.forms import Form, single


def test_isl_is_asked_only_where_a_condition_speaks_of_the_form() -> None:
    i, j = Var("i"), Var("j")
    asked: list[Form] = []
    holds: list[Condition] = []
    conv = Converter(Space(), ())
    conv.facts = lambda: holds
    conv.infeasible = lambda violation: asked.append(violation) is None
    byte, form = DataType("uint8"), single(i).scaled(3)
    assert not conv.stays_below(byte, form)
    holds.append(at_least(single(j).scaled(-2).shifted(9)))
    assert not conv.stays_below(byte, form) and not asked  # a function may ask a few times only
    holds.append(at_least((single(j) - single(i)).scaled(2)))
    assert conv.stays_below(byte, form) and len(asked) == 1
