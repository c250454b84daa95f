"""The waits and commits of asynchronous stages, checked by an evaluator in which nothing arrives before it must."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tests.checking import check
from tests.transforms.loops.test_software_pipeline import annotated
from tirlower.ir import AttrStmt, PrimFunc, post_order_visit
from tirlower.script import tir as T
from tirlower.transforms import InjectSoftwarePipeline, Simplify, UnrollLoop

PASS = InjectSoftwarePipeline()


def waits(func: PrimFunc) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    post_order_visit(
        func.body,
        lambda op: found.append((op.key, str(op.value))) if isinstance(op, AttrStmt) and "async" in op.key else None,
    )
    return found


def test_asynchronous_stages_commit_and_wait() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "float32"), C: T.Buffer((16,), "float32")):
        for i in T.serial(16):
            B = T.alloc_buffer((1,), "float32")
            B[0] = A[i] * T.float32(2)
            C[i] = B[0] + T.float32(1)

    one = waits(Simplify()(check(PASS, annotated(before, [0, 1], [0, 1], [0]))))
    assert one.count(("async_commit_queue_scope", "0")) == 2
    assert [value for key, value in one if key == "async_wait_inflight_count"] == ["1", "0"]
    two = check(PASS, annotated(before, [0, 3], [0, 1], [0]))
    counts = [value for key, value in waits(UnrollLoop()(two)) if key == "async_wait_inflight_count"]
    assert counts == ["3", "2", "1", "0"]
    reverse = check(PASS, annotated(before, [0, 1], [1, 0], [0]))
    assert [v for key, v in waits(reverse) if key == "async_wait_inflight_count"] == ["0", "0"]


def test_asynchronous_groups() -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32")):
        for i in T.serial(16):
            B = T.alloc_buffer((1,), "int32")
            C = T.alloc_buffer((1,), "int32")
            B[0] = A[i] * 2
            C[0] = A[i] + 1
            D[i] = B[0] * C[0]

    together = waits(check(PASS, annotated(before, [0, 0, 2], [0, 1, 2], [0])))
    assert together.count(("async_scope", "1")) == 4 and together.count(("async_commit_queue_scope", "0")) == 2
    apart = waits(check(PASS, annotated(before, [0, 0, 2], [0, 2, 1], [0])))
    # Two commits an iteration: two of the one are later when the third statement starts, and one of the other.
    assert [value for key, value in apart if key == "async_wait_inflight_count"] == ["3", "2 - i * 2"]


class Flight:
    """Runs a program whose asynchronous writes arrive as late as the waits allow, and checks that no read is early.

    A small evaluator of its own, for stores, loops, ifs, blocks and attributes over int32 buffers: what a statement in
    ``async_scope`` writes stays in flight until a wait leaves fewer commits than came after it.
    """

    def __init__(self, func: PrimFunc, arrays: dict[str, np.ndarray], scalars: dict[str, int]) -> None:
        self.memory: dict[Any, dict[tuple[int, ...], int]] = {}
        for buffer in func.buffers:
            array = arrays[buffer.name]
            self.memory[buffer.data] = {at: int(array[at]) for at in np.ndindex(array.shape)}
        self.vars: dict[Any, int] = {p: scalars[p.name] for p in func.params if p.name in scalars}
        self.queues: dict[int, list[list[Any]]] = {}
        self.open: list[Any] | None = None
        # Places written (and read) by what is under way, with the queues; a queue does its work in order.
        self.late: dict[Any, list[int]] = {}
        self.in_use: dict[Any, list[int]] = {}
        self.queue = -1
        self.own: set[Any] = set()
        self.is_async = False
        self.most = 0
        self.run(func.body)

    def value(self, op: Any) -> int:
        kind = type(op).__name__
        if kind == "Var":
            return self.vars[op]
        if kind == "IntImm":
            return int(op.value)
        if kind == "BufferLoad":
            at = tuple(self.value(i) for i in op.indices)
            place = (op.buffer.data, at)
            assert place in self.own or not self.late.get(place), f"{op} is read while its value is under way"
            self.begin(self.in_use, place)
            return self.memory[op.buffer.data][at]
        a, b = self.value(op.a), self.value(op.b)
        return {
            "Add": a + b, "Sub": a - b, "Mul": a * b, "FloorMod": a % b if b else 0, "FloorDiv": a // b if b else 0,
            "Min": min(a, b), "Max": max(a, b), "LT": a < b, "LE": a <= b, "GT": a > b, "GE": a >= b, "EQ": a == b,
            "And": a and b, "Or": a or b,
        }[kind]  # fmt: skip

    def run(self, op: Any) -> None:
        kind = type(op).__name__
        if kind == "Seq":
            for stmt in op.stmts:
                self.run(stmt)
        elif kind == "For":
            low = self.value(op.min)
            for i in range(low, low + self.value(op.extent)):
                self.vars[op.loop_var] = i
                self.run(op.body)
        elif kind == "IfThenElse":
            case = op.then_case if self.value(op.condition) else op.else_case
            if case is not None:
                self.run(case)
        elif kind == "Block":
            if self.value(op.predicate):
                self.run(op.body)
        elif kind == "AllocBuffer":
            self.memory[op.buffer.data] = {}
        elif kind == "AttrStmt":
            self.attribute(op)
        elif kind == "BufferStore":
            at, value = tuple(self.value(i) for i in op.indices), self.value(op.value)
            place = (op.buffer.data, at)
            busy = self.late.get(place, []) + self.in_use.get(place, [])
            assert all(q == self.queue and self.is_async for q in busy), (
                f"{op.buffer.name}{list(at)} is written while in use by {busy}"
            )
            self.memory[op.buffer.data][at] = value
            self.begin(self.late, place)
            if self.is_async:
                self.own.add(place)
        else:
            assert kind == "Evaluate"

    def begin(self, table: dict[Any, list[int]], place: Any) -> None:
        if self.is_async:
            assert self.open is not None
            self.open.append((table, place))
            table.setdefault(place, []).append(self.queue)

    def attribute(self, op: Any) -> None:
        if op.key == "async_scope":
            assert self.open is not None, "asynchronous work that nothing commits"
            self.is_async = True
            self.run(op.body)
            self.is_async, self.own = False, set()
        elif op.key == "async_commit_queue_scope":
            assert self.open is None
            self.open, self.queue = [], op.value.value
            self.run(op.body)
            self.queues.setdefault(self.queue, []).append(self.open)
            self.open = None
        elif op.key == "async_wait_queue_scope":
            queue, count = self.queues.get(op.value.value, []), self.value(op.body.value)
            assert op.body.key == "async_wait_inflight_count" and count >= 0
            self.most = max(self.most, count)
            while len(queue) > count:
                for table, place in queue.pop(0):
                    table[place].pop(0)
            self.run(op.body.body)
        else:
            raise AssertionError(op.key)


@pytest.mark.parametrize("extent", [0, 1, 2, 3, 9])
@pytest.mark.parametrize(
    ("stages", "orders", "queues", "most"),
    [
        ([0, 0, 2, 2], [0, 1, 2, 3], [0], 2), ([0, 0, 2, 2], [0, 3, 1, 2], [0], 2), ([0, 0, 2, 2], [1, 3, 0, 2], [0], 3),
        ([0, 1, 2, 3], [0, 1, 2, 3], [0, 1], 2), ([0, 1, 1, 3], [3, 2, 1, 0], [0], 2), ([0, 0, 0, 3], [0, 1, 3, 2], [0], 5),
        ([1, 1, 2, 2], [2, 3, 0, 1], [1], 0), ([0, 0, 1, 4], [0, 1, 2, 3], [0, 1], 3),
    ],
)  # fmt: skip
def test_no_value_is_read_before_it_arrives(
    extent: int, stages: list[int], orders: list[int], queues: list[int], most: int
) -> None:
    @T.prim_func
    def before(A: T.Buffer((16,), "int32"), D: T.Buffer((16,), "int32"), n: T.int32):
        for i in range(2, 2 + n):
            B = T.alloc_buffer((2,), "int32")
            C = T.alloc_buffer((1,), "int32")
            E = T.alloc_buffer((1,), "int32")
            B[0] = A[i] * 2
            C[0] = A[i] + 1
            E[0] = B[0] + i
            D[i] = E[0] * C[0] + B[0]

    func = annotated(before, stages, orders, queues)
    a = np.arange(16, dtype="int32") - 5
    wanted = np.zeros(16, "int32")
    wanted[2 : 2 + extent] = [(x * 2 + i) * (x + 1) + x * 2 for i, x in enumerate(a[2 : 2 + extent].tolist(), 2)]
    for after in (PASS(func), Simplify()(PASS(func)), PASS(func.specialize({func.params[2]: extent}))):
        flight = Flight(after, {"A": a, "D": np.zeros(16, "int32")}, {"n": extent})
        data = next(b.data for b in after.buffers if b.name == "D")
        assert [flight.memory[data][i,] for i in range(16)] == wanted.tolist()
        # As many are under way as the stages allow: waiting for everything each time would be no pipeline.
        assert flight.most == most or extent < 9, flight.most
