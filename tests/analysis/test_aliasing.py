from __future__ import annotations

from typing import Any

from tirlower.analysis.aliasing import Aliases, same_place
from tirlower.ir import AllocBuffer, BufferLoad, BufferStore, DeclBuffer, PrimFunc, Var, post_order_visit
from tirlower.script import tir as T


def pointers(func: PrimFunc) -> dict[str, Var]:
    """Data variables by the name of their buffer."""
    found = {buffer.name: buffer.data for buffer in func.buffers}

    def look(op: Any) -> None:
        if isinstance(op, (AllocBuffer, DeclBuffer)):
            found[op.buffer.name] = op.buffer.data

    post_order_visit(func.body, look)
    return found


def test_allocations_are_apart_and_parameters_by_the_attribute() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        C = T.alloc_buffer((4,), "int32")
        D = T.alloc_buffer((4,), "int32")
        for i in range(4):
            C[i] = A[i]
            D[i] = C[i]
            B[i] = D[i]

    p = pointers(func)
    for noalias in (False, True):
        aliases = Aliases(func.with_attr("tir.noalias", noalias))
        assert aliases.local == {p["C"], p["D"]}
        assert aliases.may_alias(p["A"], p["B"]) is not noalias
        assert aliases.may_alias(p["A"], p["A"]) and aliases.may_alias(p["C"], p["C"])
        assert not aliases.may_alias(p["C"], p["D"]) and not aliases.may_alias(p["A"], p["C"])


def test_pointers_of_unknown_origin() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32")):
        T.func_attr({"tir.noalias": True})
        C = T.alloc_buffer((4,), "int32")
        D = T.alloc_buffer((4,), "int32")
        C[0] = A[0]
        D[0] = A[0]
        p: T.handle("int32") = T.address_of(C[0])
        V = T.decl_buffer((4,), "int32", data=p)
        A[0] = V[0] + D[0]

    p = pointers(func)
    aliases = Aliases(func)
    # It may be C, whose address was taken, or come from outside; D was never let out.
    assert aliases.may_alias(p["V"], p["C"]) and aliases.may_alias(p["A"], p["V"])
    assert not aliases.may_alias(p["V"], p["D"])


def test_matched_buffers_have_pointers_of_their_own() -> None:
    @T.prim_func
    def func(A: T.Buffer((4,), "int32"), B: T.Buffer((4,), "int32")):
        T.func_attr({"tir.noalias": True})
        with T.block("root"):
            C = T.alloc_buffer((4,), "int32")
            with T.block("b"):
                T.reads(A[0:4])
                T.writes(C[0:4])
                M = T.match_buffer(C[0:4], (4,), "int32", offset_factor=1)
                M[0] = A[0]
            B[0] = C[0]

    found: dict[str, Var] = pointers(func)
    matched: list[Var] = []
    post_order_visit(
        func.body,
        lambda op: matched.append(op.buffer.data) if isinstance(op, BufferStore) and op.buffer.name == "M" else None,
    )
    assert Aliases(func).may_alias(matched[0], found["C"])


def test_same_place() -> None:
    @T.prim_func
    def func(A: T.Buffer((8,), "int32"), B: T.Buffer((8,), "int32"), n: T.int32):
        A[n + 1] = A[n + 1]
        A[n] = A[n + 1]
        A[n] = B[n]
        A.vstore([T.Ramp(0, 1, 4)], A.vload([T.Ramp(0, 1, 4)], predicate=T.Broadcast(T.bool(True), 4)))
        A[T.call_extern("int32", "abs", n)] = A[T.call_extern("int32", "abs", n)]

    stores: list[Any] = list(func.body.stmts)  # type: ignore[attr-defined]
    assert all(isinstance(store.value, BufferLoad) for store in stores)
    assert [same_place(store, store.value) for store in stores] == [True, False, False, False, False]
