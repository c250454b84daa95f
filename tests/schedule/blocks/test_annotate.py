"""Annotations of blocks and loops come, stay and go."""

from __future__ import annotations

from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import BadArgument
from tirlower.ir.stmt import normalize_attr
from tirlower.script import parse


def schedule() -> Any:
    return tl.Schedule(
        parse("""
@T.prim_func
def f(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("A"):
            vi = T.axis.spatial(8, i)
            A[vi] = vi
"""),
        debug_mask="all",
    )


@pytest.mark.parametrize(
    "value",
    ["word", 3, 2.5, [1, "two", [3]], {"key": "value", "list": [1, 2]}, True],
    ids=lambda value: type(value).__name__,
)
def test_a_value_is_put_on_and_taken_off_and_replayed(value: Any) -> None:
    sch = schedule()
    before = sch.mod
    for target in (sch.get_block("A"), sch.get_loops("A")[0]):
        sch.annotate(target, "key", value)
        assert sch.get(target).annotations["key"] == normalize_attr(value)
    again = schedule()
    sch.trace.apply_json_to_schedule(sch.trace.as_json(), again)
    assert str(again.mod) == str(sch.mod)
    again = schedule()
    exec("\n".join(sch.trace.as_python(dialect="tirlower")), {}, {"sch": again})
    assert str(again.mod) == str(sch.mod)
    sch.unannotate("A", "key")
    sch.unannotate(sch.get_loops("A")[0], "key")
    assert str(sch.mod) == str(before)


def test_a_key_that_is_there_keeps_its_value_with_a_warning() -> None:
    sch = schedule()
    sch.annotate("A", "key", 1)
    with pytest.warns(UserWarning, match="keeps its value 1"):
        sch.annotate("A", "key", 2)
    assert sch.get(sch.get_block("A")).annotations["key"] == 1


def test_what_is_not_there_and_what_is_no_value() -> None:
    sch = schedule()
    with pytest.raises(BadArgument, match="no annotation 'key'"):
        sch.unannotate("A", "key")
    for wrong in (object(), [object()], {1: 2}):
        with pytest.raises(TypeError):
            sch.annotate("A", "key", wrong)
    assert not sch.steps


def test_the_text_of_values_is_tvms() -> None:
    sch = schedule()
    sch.annotate("A", "a", 0.2)
    sch.annotate("A", "b", [1.0, "x"])
    sch.annotate("A", "c", {"z": "bare", "k": 1})
    assert [line.split("ann_val=")[1] for line in sch.trace.as_python() if "annotate" in line] == [
        "0.20000000000000001)",
        '[1, "x"])',
        '{"k": 1, "z": bare})',
    ]
