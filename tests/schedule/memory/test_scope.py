"""``set_scope``: in whose memory a buffer is; what threads exchange is a witness."""

from __future__ import annotations

from typing import Any

from tests.schedule.stepping import refused, taken
from tirlower.diagnostics import BadArgument, NotApplicable

THREADS = """
@T.prim_func
def f(A: T.Buffer((4, 8), "int32"), C: T.Buffer((4, 8), "int32")):
    for b in T.thread_binding(4, thread="blockIdx.x"):
        B = T.alloc_buffer((8,), "int32", scope="shared")
        for t in T.thread_binding(8, thread="threadIdx.x"):
            B[t] = A[b, t]
            C[b, t] = B[{index}]
"""


def test_a_thread_keeps_what_it_alone_reads() -> None:
    sch = taken(THREADS.format(index="t"), lambda sch: sch.set_scope("B", 0, "local"))
    assert "B_local" in str(sch.mod["main"])


def test_what_another_thread_reads_is_a_witness() -> None:
    refused(THREADS.format(index="7 - t"), lambda sch: sch.set_scope("B", 0, "local"))
    taken(THREADS.format(index="t"), lambda sch: sch.set_scope("B", 0, "shared.dyn"))


def test_parameters_and_scopes_that_there_are_not() -> None:
    refused(THREADS.format(index="t"), lambda sch: sch.set_scope("C", 0, "local"), NotApplicable)
    refused(THREADS.format(index="t"), lambda sch: sch.set_scope("B", 0, "registers"), BadArgument)


def test_handles_stay() -> None:
    def steps(sch: Any) -> None:
        loop = sch.loop("i")
        sch.set_scope("B", 0, "local")
        assert sch.get(loop).loop_var.name == "i"

    taken(
        """
@T.prim_func
def f(A: T.Buffer((8,), "int32"), C: T.Buffer((8,), "int32")):
    B = T.alloc_buffer((8,), "int32")
    for i in range(8):
        B[i] = A[i]
    for j in range(8):
        C[j] = B[j]
""",
        steps,
    )
