"""Paths: they print as the messages of structural equality do, lead to what stands there, and replace nothing else."""

from __future__ import annotations

import random

import pytest

from tirlower import ir
from tirlower.diagnostics import TirError
from tirlower.ir.node import Node
from tirlower.ir.path import Key, Path, node_at, places, replace_at
from tirlower.ir.query import nodes
from tirlower.ir.structural import StructuralMismatch, assert_structural_equal, structural_equal
from tirlower.script import parse

TEXT = """
@T.prim_func
def f(A: T.Buffer((8, 8), "float32"), n: T.int32):
    for i in range(n):
        if i > 2:
            A[i, 0] = A[i, 1] + 1.0
        for j in T.serial(8, annotations={"hint": 3}):
            A[i, j] = T.max(A[i, j], A[j, i]) * 2.0
"""


def test_paths_print_as_fields_indices_and_keys() -> None:
    func = parse(TEXT)
    assert str(Path()) == ""
    assert str(Path(("body", "stmts", 0)) / "annotations" / Key("hint")) == "body.stmts[0].annotations['hint']"
    assert str(Path(("buffer_map", Key(func.params[0]), "shape", 1))) == "buffer_map[A_handle].shape[1]"
    assert str(Path(("functions", Key("f"), "body"))) == "functions['f'].body"


def test_every_place_is_found_once_and_leads_to_its_node() -> None:
    func = parse(TEXT)
    found = list(places(func))
    assert len({path for path, _ in found}) == len(found)
    for path, op in found:
        assert node_at(func, path) is op
        assert path.chain(func)[0] is func and path.chain(func)[-1] is op
    assert {id(op) for _, op in found} == {id(op) for op in nodes(func)}
    # A node that stands in two places comes twice, in order.
    x = ir.Var("x")
    twice = ir.Add(ir.Mul(x, 2), x)
    assert [str(path) for path, op in places(twice) if op is x] == ["a.a", "b"]


def test_what_is_not_entered_is_left_out() -> None:
    func = parse(TEXT)
    statements = [op for _, op in places(func, lambda op: not isinstance(op, ir.Expr))]
    assert [type(op).__name__ for op in statements if isinstance(op, ir.Stmt)] == [
        "For", "Seq", "IfThenElse", "BufferStore", "For", "BufferStore",
    ]  # fmt: skip


def test_only_what_lies_on_the_way_is_made_anew() -> None:
    func = parse(TEXT)
    marker = ir.Evaluate(ir.IntImm("int32", 77))
    for path, op in places(func):
        new: Node
        if isinstance(op, ir.Stmt):
            new = marker
        elif isinstance(op, ir.Expr):
            new = ir.const(0, op.dtype)
        else:
            continue
        after = replace_at(func, path, new)
        assert node_at(after, path) is new
        assert replace_at(func, path, op) is func
        # All nodes but those on the way and those inside what was replaced.
        way = {id(value) for value in path.chain(func)} | {id(x) for x in nodes(op)}
        for other, there in places(func):
            if id(there) not in way and other.steps[: len(path.steps)] != path.steps:
                assert node_at(after, other) is there
        assert structural_equal(replace_at(after, path, op), func)


def test_the_message_of_a_mismatch_says_the_path_of_what_was_replaced() -> None:
    func = parse(TEXT)
    rng = random.Random(5)
    tried = 0
    for path, op in places(func):
        if isinstance(op, ir.IntImm):
            after = replace_at(func, path, ir.const(op.value + rng.randrange(1, 9), op.dtype))
            with pytest.raises(StructuralMismatch) as caught:
                assert_structural_equal(func, after)
            assert caught.value.path == str(path)
            tried += 1
    assert tried >= 5


def test_attributes_mappings_and_modules() -> None:
    func = parse(TEXT)
    loop = Path(("body", "body", "stmts", 1))
    hint = loop / "annotations" / Key("hint")
    assert node_at(func, hint) == 3
    after = replace_at(func, hint, 4)
    assert node_at(after, hint) == 4 and node_at(after, loop / "body") is node_at(func, loop / "body")
    mod = ir.IRModule({"f": func, "g": func.with_attr("global_symbol", "g")}, {"key": 1})
    changed = replace_at(mod, Path(("functions", Key("f"), *hint.steps)), 5)
    assert changed["g"] is mod["g"] and changed.attrs == mod.attrs
    assert node_at(changed["f"], hint) == 5 and node_at(mod["f"], hint) == 3
    assert replace_at(mod, Path(("attrs", Key("key"))), 2).attrs == {"key": 2}
    assert replace_at(mod, Path(("functions", Key("f"))), func) is mod


def test_an_empty_field_is_filled() -> None:
    func = parse(TEXT)
    otherwise = Path(("body", "body", "stmts", 0, "else_case"))
    assert node_at(func, otherwise) is None
    after = replace_at(func, otherwise, ir.Evaluate(0))
    assert "else:" in after.script()


@pytest.mark.parametrize(
    ("path", "end", "kind"),
    [
        (Path(("body", "stmts", 0)), "body", "For"),
        (Path(("body", "body", "stmts", 2)), "body.body.stmts", "tuple"),
        (Path(("attrs", Key("no"))), "attrs", "dict"),
        (Path(("body", 0)), "body", "For"),
        (Path((Key("f"),)), None, "PrimFunc"),
    ],
)
def test_a_place_that_the_tree_has_not(path: Path, end: str | None, kind: str) -> None:
    func = parse(TEXT)
    for ask in (lambda: node_at(func, path), lambda: replace_at(func, path, ir.Evaluate(0))):
        with pytest.raises(TirError) as caught:
            ask()
        where = "the root" if end is None else f"`{end}`"
        assert f"nothing stands at `{path}`: the way ends at {where}, a {kind}" in str(caught.value)
        assert "find the place anew" in str(caught.value)


def test_a_value_of_another_kind_is_refused() -> None:
    func = parse(TEXT)
    with pytest.raises(TirError, match="a statement stands at `body`, and a IntImm cannot take its place"):
        replace_at(func, Path(("body",)), ir.const(1))
    with pytest.raises(TirError, match=r"an expression stands at `body.extent`, and a Evaluate cannot take its place"):
        replace_at(func, Path(("body", "extent")), ir.Evaluate(0))
