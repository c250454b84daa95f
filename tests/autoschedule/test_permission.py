"""Which sums may be added up in another order."""

from __future__ import annotations

from tirlower.autoschedule.classify import nests_of
from tirlower.autoschedule.permission import any_order, is_float_sum
from tirlower.script import parse


def test_blocks_and_annotations_give_it_and_plain_loops_do_not():
    nests = nests_of(
        parse("""
def f(A: T.Buffer((4, 8), "float32"), I: T.Buffer((8,), "int32"), S: T.Buffer((4,), "float32"), N: T.Buffer((1,), "int32")):
    for i, j in T.grid(4, 8):
        S[i] = S[i] + A[i, j]
    for i in range(4):
        for j in T.serial(8, annotations={"tir.reduction": True}):
            S[i] = S[i] + A[i, j]
    for i, j in T.grid(4, 8):
        with T.block("S"):
            vi, vj = T.axis.remap("SR", [i, j])
            S[vi] = S[vi] + A[vi, vj]
    for i, j in T.grid(4, 8):
        with T.block("T"):
            vi, vj = T.axis.remap("SS", [i, j])
            S[vi] = S[vi] + A[vi, vj]
    for i, j in T.grid(4, 8):
        S[i] = T.max(S[i], A[i, j])
    for j in range(8):
        N[0] = N[0] + I[j]
    for i in range(4):
        S[i] = A[i, 0]
""")
    )
    statements = [nest.statements[-1] for nest in nests]
    found = [any_order(nest, one) for nest, one in zip(nests, statements, strict=True)]
    assert found == [False, True, True, False, True, True, True]
    assert list(map(is_float_sum, statements)) == [True, True, True, True, False, False, False]
