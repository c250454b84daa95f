"""The walk over fields: scopes end where the language ends them, and everything is met in the order of the fields."""

from __future__ import annotations

from typing import Any

import pytest

from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Expr, Var
from tirlower.ir.field_walk import FieldWalk, Scopes
from tirlower.ir.query import each
from tirlower.script import parse


def test_a_scope_gives_back_what_it_hid() -> None:
    scopes = Scopes()
    scopes.bind("a", 1)
    scopes.push()
    scopes.bind("a", 2)
    scopes.bind("a", 3)
    scopes.push()
    assert scopes.depth == 2
    scopes.bind("b", 4, 0)
    scopes.bind("c", 5, 1)
    assert scopes.pop() == [] and scopes.table == {"a": 3, "b": 4, "c": 5}
    assert [item for item, _ in scopes.pop()] == ["a", "a", "c"]
    assert scopes.table == {"a": 1, "b": 4} and scopes.depth == 0


class Log(FieldWalk):
    """Names in the order in which they are met: defined, used, or used where nothing defines them."""

    def __init__(self) -> None:
        super().__init__()
        self.met: list[str] = []

    def use(self, item: Any) -> None:
        self.met.append(f"{item.name}" if item in self.scopes.table else f"?{item.name}")

    def expr(self, root: Expr) -> None:
        for var in each(Var, root):
            self.use(var)

    def attr(self, value: Any) -> None:
        if isinstance(value, Var):
            self.use(value)

    def use_var(self, var: Var) -> None:
        self.use(var)

    def use_buffer(self, buffer: Buffer) -> None:
        self.use(buffer)

    def define_var(self, var: Var) -> None:
        self.met.append(f"{var.name}=")
        self.scopes.bind(var, True)

    def define_buffer(self, kind: str, buffer: Buffer) -> None:
        self.met.append(f"{buffer.name}={kind}")
        self.scopes.bind(buffer, True)


HEAD = 'def f(A: T.Buffer((8,), "int32"), n: T.int32):\n'


@pytest.mark.parametrize(
    ("body", "met"),
    [
        ("for i in range(n):\n    A[i] = n\n", "n i= A n i"),
        ("for i in range(4):\n    x: T.let[T.int32] = i\n    A[x] = x\nA[n] = 0\n", "i= i x= A x x A n"),
        ("L = T.alloc_buffer((4,), 'int32')\nL[n] = A[0]\n", "L=AllocBuffer L n"),
        (
            "with T.block('b'):\n    v = T.axis.spatial(8, n)\n    T.reads(A[v])\n    T.writes(A[v])\n"
            "    with T.init():\n        A[v] = 0\n    L = T.alloc_buffer((1,), 'int32')\n    A[v] = A[v] + v\n",
            "n v= A v A v L=AllocBuffer A v A v v",
        ),
    ],
)
def test_definitions_and_uses_are_met_in_order(body: str, met: str) -> None:
    func = parse("@T.prim_func\n" + HEAD + "".join(f"    {line}\n" for line in body.splitlines()))
    log = Log()
    log.node(func)
    params = log.met.index("A=PrimFunc") + 1
    assert " ".join(log.met[params:]) == met
    assert not log.scopes.depth


def test_a_definition_ends_with_its_scope() -> None:
    func = parse("@T.prim_func\n" + HEAD + "    for i in range(4):\n        A[i] = 0\n")
    log = Log()
    log.node(func)
    log.expr(func.body.loop_var)
    assert log.met[-1] == "?i"
