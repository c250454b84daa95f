"""The model orders candidates as they were measured to be ordered; its numbers are nobody's business."""

from __future__ import annotations

from tirlower.autoschedule.classify import nests_of
from tirlower.autoschedule.model import cycles_of, footprints, written_seconds
from tirlower.machine.processor import Processor
from tirlower.script import parse

MACHINE = Processor.of("llvm -mcpu=x86-64-v3 -num_threads=1")
PRODUCT = parse("""
def f(A: T.Buffer((64, 64), "float32"), B: T.Buffer((64, 64), "float32"), C: T.Buffer((64, 64), "float32")):
    for i, j, k in T.grid(64, 64, 64):
        C[i, j] = C[i, j] + A[i, k] * B[k, j]
""")


def test_contiguous_loops_inside_cost_least():
    [nest] = nests_of(PRODUCT)
    [statement] = nest.statements
    i, j, k = nest.loops
    costs = [cycles_of(statement, order, MACHINE) for order in ((i, k, j), (i, j, k), (j, k, i))]
    assert costs == sorted(costs) and costs[0] < costs[1] / 4
    assert written_seconds(nest, MACHINE) == written_seconds(nest, MACHINE) > 0


def test_integers_may_be_summed_up_in_lanes():
    text = """
def f(A: T.Buffer((64,), "{0}"), B: T.Buffer((1,), "{0}")):
    for i in range(64):
        B[0] = B[0] + A[i]
"""
    costs = []
    for dtype in ("int32", "float32"):
        [nest] = nests_of(parse(text.format(dtype)))
        costs.append(cycles_of(nest.statements[0], nest.loops, MACHINE))
    assert costs[0] < costs[1] / 4


def test_footprints():
    [nest] = nests_of(PRODUCT)
    assert footprints(nest) == dict.fromkeys("CAB", 64 * 64 * 4)


def test_a_sum_in_order_keeps_what_stands_in_its_loop_from_being_vectors():
    together, apart = (
        sum(written_seconds(nest, MACHINE) for nest in nests_of(parse(text)))
        for text in (
            """
def f(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), S: T.Buffer((1,), "float32")):
    for i in range(4096):
        B[i] = A[i] + T.float32(1)
        S[0] = S[0] + A[i]
""",
            """
def f(A: T.Buffer((4096,), "float32"), B: T.Buffer((4096,), "float32"), S: T.Buffer((1,), "float32")):
    for i in range(4096):
        B[i] = A[i] + T.float32(1)
    for i in range(4096):
        S[0] = S[0] + A[i]
""",
        )
    )
    assert together > apart
