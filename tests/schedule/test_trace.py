"""Traces: TVM's text and JSON to the letter, ours, what is damaged, simplified and cut."""

from __future__ import annotations

import json
from typing import Any

import pytest

import tirlower as tl
from tirlower.diagnostics import TraceError
from tirlower.ir.structural import assert_structural_equal
from tirlower.schedule.registry import InstructionKind, all_kinds
from tirlower.schedule.trace import Instruction, Trace
from tirlower.script import parse

FUNC = """
@T.prim_func
def f(A: T.Buffer((16, 8), "int32"), B: T.Buffer((16, 8), "int32")):
    for i, j in T.grid(16, 8):
        with T.block("B"):
            vi, vj = T.axis.remap("SS", [i, j])
            B[vi, vj] = A[vi, vj]
"""


def scheduled() -> Any:
    sch = tl.Schedule(parse(FUNC))
    block = sch.get_block("B")
    i, j = sch.get_loops(block)
    i_0, i_1 = sch.split(i, [None, 4])
    sch.reorder(j, i_1)
    sch.bind(i_0, "blockIdx.x")
    sch.add_unit_loop(block)
    sch.get_child_blocks(i_0)
    sch.get_output_blocks("root")
    sch.enter_postproc()
    sch.annotate(block, "key", "value")
    return sch


TVM = """# from tvm import tir
def apply_trace(sch: tir.Schedule) -> None:
  b0 = sch.get_block(name="B", func_name="main")
  l1, l2 = sch.get_loops(block=b0)
  l3, l4 = sch.split(loop=l1, factors=[None, 4], preserve_unit_iters=True, disable_predication=False)
  sch.reorder(l2, l4)
  sch.bind(loop=l3, thread_axis="blockIdx.x")
  l5 = sch.add_unit_loop(block_or_loop=b0)
  b6, = sch.get_child_blocks(l3)
  b7 = sch.get_block(name="root", func_name="main")
  b8, = sch.get_output_blocks(scope_block=b7)
  sch.enter_postproc()
  sch.annotate(block_or_loop=b0, ann_key="key", ann_val="value")"""


def test_the_text_is_tvms() -> None:
    assert scheduled().trace.text("tvm") == TVM
    assert tl.Schedule(parse(FUNC)).trace.text("tvm").endswith("-> None:\n  pass")


def test_the_json_is_tvms() -> None:
    assert scheduled().trace.as_json() == [
        [
            ["GetBlock", [], ["B", "main"], ["b0"]],
            ["GetLoops", ["b0"], [], ["l1", "l2"]],
            ["Split", ["l1", "None", 4], [True, False], ["l3", "l4"]],
            ["Reorder", ["l2", "l4"], [], []],
            ["Bind", ["l3"], ["blockIdx.x"], []],
            ["AddUnitLoop", ["b0"], [], ["l5"]],
            ["GetChildBlocks", ["l3"], [], ["b6"]],
            ["GetBlock", [], ["root", "main"], ["b7"]],
            ["GetOutputBlocks", ["b7"], [], ["b8"]],
            ["EnterPostproc", [], [], []],
            ["Annotate", ["b0", '"value"'], ["key"], []],
        ],
        [],
    ]


@pytest.mark.parametrize("dialect", ["tvm", "tirlower"])
def test_it_goes_through_text(dialect: str) -> None:
    sch = scheduled()
    text = json.dumps(sch.trace.as_json(dialect=dialect))
    again = tl.Schedule(parse(FUNC))
    Trace.apply_json_to_schedule(text, again)
    assert_structural_equal(again.mod, sch.mod)
    assert json.dumps(again.trace.as_json(dialect=dialect)) == text
    again = tl.Schedule(parse(FUNC))
    exec("\n".join(sch.trace.as_python(dialect=dialect)), {}, {"sch": again})
    assert again.trace.text(dialect) == sch.trace.text(dialect)


def test_simplified_and_cut() -> None:
    trace = scheduled().trace
    short = [inst.kind.name for inst in trace.simplified(remove_postproc=True).insts]
    assert short == ["GetBlock", "GetLoops", "Split", "Reorder", "Bind", "AddUnitLoop"]
    assert "Annotate" in [inst.kind.name for inst in trace.simplified(remove_postproc=False).insts]
    assert "annotate" not in "".join(trace.as_python(remove_postproc=True))
    last = trace.pop()
    assert last is not None and last.kind.name == "Annotate" and len(trace.insts) == 10
    trace.append(last)
    assert len(trace.insts) == 11 and trace.get_decision(last) is None
    assert Trace().pop() is None


def test_an_instruction_of_ones_own() -> None:
    sch = tl.Schedule(parse(FUNC))
    block = sch.get_block("B")
    trace = Trace([Instruction(InstructionKind.get("GetBlock"), [], ["B", "main"], [block])])
    assert trace.as_python() == ['b0 = sch.get_block(name="B", func_name="main")']
    with pytest.raises(AttributeError, match="did you mean 'Split'"):
        InstructionKind.get("Splitt")


@pytest.mark.parametrize(
    ("damaged", "word"),
    [
        ("{", "no JSON"),
        ([[]], "instructions, decisions"),
        ([[["Nothing", [], [], []]], []], "there is no instruction"),
        ([[["GetLoops", ["b0"], [], ["l1"]]], []], "nothing gave the handle 'b0'"),
        ([[["GetBlock", [], ["B"], ["x0"]]], []], "no name of a block"),
        ([[["GetBlock", [], [], ["b0"]]], []], "has no name"),
        ([[["GetBlock", [], ["B", "main", 3], ["b0"]]], []], "more arguments"),
        ([[["GetBlock", [], ["B", "main"], ["b0"]], ["GetLoops", ["b0"], [], ["l1"]]], []], "gives 2 results here, 1"),
        ([[], [[3, 1]]], "names instruction 3"),
        ({"format": "other", "version": 1, "steps": []}, "format is 'other'"),
        ({"format": "tirlower.trace", "version": 9, "steps": []}, "version is 9"),
    ],
)
def test_what_is_damaged_is_said(damaged: Any, word: str) -> None:
    with pytest.raises(TraceError, match=word):
        Trace.apply_json_to_schedule(damaged, tl.Schedule(parse(FUNC)))


def test_fields_of_a_later_version_of_a_step_are_ignored() -> None:
    obj = scheduled().trace.as_json(dialect="tirlower")
    for step in obj["steps"]:
        step["more"] = 1
    again = tl.Schedule(parse(FUNC))
    Trace.apply_json_to_schedule(obj, again)
    assert_structural_equal(again.mod, scheduled().mod)


def test_a_step_beyond_tvm_names_itself() -> None:
    sch = tl.Schedule(parse(FUNC))
    sch.split(sch.get_loops("B")[0], [4, None], names=["outer", "inner"])
    with pytest.raises(TraceError, match=r"split\(names=…\) has no form in TVM"):
        sch.trace.as_json()
    again = tl.Schedule(parse(FUNC))
    Trace.apply_json_to_schedule(sch.trace.as_json(dialect="tirlower"), again)
    assert_structural_equal(again.mod, sch.mod)
    assert 'names=["outer", "inner"]' in str(sch.trace)
    with pytest.raises(ValueError, match="dialect="):
        sch.trace.as_json(dialect="other")


def test_every_kind_has_a_method_with_its_signature_and_text() -> None:
    for kind in all_kinds():
        method = getattr(tl.Schedule, kind.method)
        assert method.__doc__ == kind.doc and list(method.__signature__.parameters) == [
            *(slot.name for slot in kind.slots),
            *(["decision"] if kind.draws else []),
        ]
        assert InstructionKind.get(kind.name) is kind
        if not kind.pure and kind.slots:
            assert ">>>" in kind.doc, kind.name


def test_files_of_traces(tmp_path: Any) -> None:
    func = parse(FUNC)
    sch: Any = tl.Schedule(func)
    sch.split(sch.loop("i"), [None, 4])
    path = tmp_path / "trace.json"
    sch.trace.save(path)
    loaded = Trace.load(path)
    assert loaded.source == sch.trace.source and len(loaded.source) == 16
    assert loaded.source != tl.Schedule(parse(FUNC.replace("16", "15"))).trace.source
    again: Any = tl.Schedule(func)
    loaded.apply_to_schedule(again)
    assert_structural_equal(again.mod, sch.mod)
    sch.trace.save(tmp_path / "trace.py")
    names: dict[str, Any] = {}
    exec((tmp_path / "trace.py").read_text(), names)
    other: Any = tl.Schedule(func)
    names["schedule"](other)
    assert_structural_equal(other.mod, sch.mod)


def test_look_ups_that_only_a_keyword_argument_uses_stay() -> None:
    func = parse("""
@T.prim_func
def f(A: T.Buffer((16,), "int32"), B: T.Buffer((16,), "int32"), n: T.int32):
    for i in range(16):
        A[i] = n
    for i in range(16):
        B[i] = A[i]
""")
    sch = tl.Schedule(func)
    first, _, last = sch.loop("i#0"), sch.loop("i#1"), sch.loop("i#1")
    sch.specialize(first, "n == 1", upto=last)
    short = sch.trace.simplified(False)
    assert len(short.insts) == 3
    other = tl.Schedule(func)
    short.apply_to_schedule(other)
    assert_structural_equal(other.mod["main"], sch.mod["main"])
