"""Marks on printed scripts: under the texts of the objects and nowhere else; and the options of the text itself."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tirlower as tl
from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir import IndexMap, IterVar, PointerType, Range, Var, structural_equal
from tirlower.ir.path import Path
from tirlower.script import parse
from tirlower.script import tir as T


@T.prim_func
def scaled(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32")):
    for i in range(8):
        B[i] = A[i] * 2 + A[i] * 3


STORE = scaled.body.body


def underlined(text: str) -> list[str]:
    """The texts above the carets."""
    found = []
    rows = text.split("\n")
    for above, row in itertools.pairwise(rows):
        if row.strip(" ^") == "" and "^" in row:
            for start, end in _runs(row):
                found.append(above[start:end])
    return found


def _runs(row: str) -> list[tuple[int, int]]:
    starts = [k for k, ch in enumerate(row) if ch == "^" and (k == 0 or row[k - 1] != "^")]
    return [(s, s + len(row[s:]) - len(row[s:].lstrip("^"))) for s in starts]


def test_objects_are_underlined_wherever_they_stand():
    left = STORE.value.a
    assert underlined(scaled.script(obj_to_underline=[left])) == ["A[i] * 2"]
    assert underlined(scaled.script(obj_to_underline=[STORE])) == ["B[i] = A[i] * 2 + A[i] * 3"]
    variable = scaled.body.loop_var
    assert underlined(scaled.script(obj_to_underline=[variable])) == ["i"] * 4
    assert underlined(scaled.script(obj_to_underline=[left, STORE.value.b])) == ["A[i] * 2", "A[i] * 3"]


def test_paths_lead_to_one_place():
    value = Path(("body", "body", "value"))
    assert underlined(scaled.script(path_to_underline=[value / "b" / "b"])) == ["3"]
    text = scaled.script(path_to_annotate={value / "a": "twice"}, obj_to_annotate={STORE: "five times"})
    assert text.splitlines()[-1].endswith("A[i] * 3  # five times  # twice")
    assert "\n".join(line.split("  # ")[0] for line in text.splitlines()) == scaled.script()


def test_what_the_text_does_not_show_is_not_marked():
    with pytest.raises(TirError, match="does not show the Var"):
        scaled.script(obj_to_underline=[Var("j")])


def test_line_numbers_and_context():
    numbered = scaled.script(print_line_numbers=True, obj_to_underline=[STORE])
    assert [line[:2] for line in numbered.splitlines()] == ["1 ", "2 ", "3 ", "4 ", "  "]
    assert underlined(numbered) == ["B[i] = A[i] * 2 + A[i] * 3"]
    near = scaled.script(obj_to_underline=[STORE], num_context_lines=1).splitlines()
    assert near[0] == "(... 2 lines skipped ...)" and near[1].strip().startswith("for") and len(near) == 4
    first = scaled.script(obj_to_underline=[scaled], num_context_lines=0).splitlines()
    assert first[-1] == "(... 2 lines skipped ...)"


def test_other_prefixes_and_names():
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        T.func_attr({"note": "T.block and I.Range"})
        A[0] = T.exp(T.float32(1))  # T.exp

    text = f.script(tir_prefix="tir", name="g", indent_spaces=2)
    assert text.splitlines()[:2] == ["@tir.prim_func", 'def g(A: tir.Buffer((4,), "float32")):']
    assert "T.block and I.Range" in text and "tir.exp(tir.float32(1))" in text
    module = ir.IRModule({"f": f}).script(ir_prefix="M", name="Program")
    assert module.startswith("@M.ir_module\nclass Program:\n    @T.prim_func")
    assert structural_equal(parse(f.script(name="f")), f)


def test_addresses_tell_objects_apart():
    text = scaled.script(show_object_address=True)
    variable = scaled.body.loop_var
    assert text.count(f"i_{id(variable):#x}") == 4
    assert structural_equal(parse(text).body, scaled.body, map_free_vars=True)


def test_metadata_hold_the_contents_of_constants():
    @T.prim_func
    def f(A: T.Buffer((3,), "float32"), B: T.Buffer((2,), "int32")):
        p = T.allocate_const([1.5, -2.0, 0.25], "float32", [3])
        C = T.Buffer((3,), "float32", data=p)
        q = T.allocate_const([7, 8], "int32", [2])
        D = T.Buffer((2,), "int32", data=q)
        for i in range(3):
            A[i] = C[i]
        for i in range(2):
            B[i] = D[i]

    text = f.script(show_meta=True)
    first, _, rest = text.partition("\n\n")
    assert first == 'metadata = {"array": [[1.5, -2.0, 0.25], [7, 8]]}'
    assert 'T.allocate_const(metadata["array"][1], "int32", [2])' in rest
    assert structural_equal(parse(text), f)
    assert scaled.script(show_meta=True) == scaled.script()
    a, b = np.zeros(3, "float32"), np.zeros(2, "int32")
    tl.build(parse(text))(a, b)
    assert a.tolist() == [1.5, -2.0, 0.25] and b.tolist() == [7, 8]
    assert underlined(f.script(show_meta=True, obj_to_underline=[f.body.stmts[-1].body])) == ["B[i] = D[i]"]


def test_styles(capsys):
    scaled.show("plain")
    assert capsys.readouterr().out == scaled.script() + "\n"
    colours = set()
    for style in ("light", "dark", "ansi"):
        scaled.show(style=style)
        shown = capsys.readouterr().out
        assert "\x1b[" in shown
        colours.add(shown)
    assert len(colours) == 3
    capsys.readouterr()
    scaled.show("plain", black_format=True)
    assert capsys.readouterr().out == scaled.script() + "\n"
    with pytest.raises(TirError, match="no style 'pink'"):
        scaled.show(style="pink")


def test_everything_has_a_script():
    x, A = Var("x"), ir.Buffer("A", (4, 8), "int8")
    texts = {
        "x + 1": x + 1,
        "x": x,
        "T.int64": ir.DataType("int64"),
        'T.handle("int8", "shared")': PointerType("int8", "shared"),
        'T.Buffer((4, 8), "int8")': A,
        "A[0:4, 0:8]": A.region([]),
        "T.Range(x, extent=4)": Range(x, 4),
        'T.iter_var(x, None, "DataPar", "")': IterVar(None, x, "DataPar", ""),
        "T.evaluate(x)": ir.Evaluate(x),
        "T.index_map(lambda i: [i // 4, i % 4])": IndexMap.from_func(lambda i: [i // 4, i % 4]),
    }
    for text, value in texts.items():
        assert value.script() == text
