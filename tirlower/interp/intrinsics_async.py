"""Asynchronous copies of a thread (``cp.async``), their groups, and barrier objects (``mbarrier``).

A copy reads and writes between its issue and the wait for its group: here as late as it may, or under a seed at a
moment of the seed's choice (:mod:`tirlower.interp.asynchronous`). A race detector takes it for an actor of its own,
from its issue to the wait for it.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tirlower.diagnostics import InterpreterError
from tirlower.interp.asynchronous import (
    Barrier,
    Work,
    barrier_of,
    create_barriers,
    groups_of,
    init_barrier,
    start,
    stir,
)
from tirlower.interp.expressions import ExpressionCompiler, intrinsic
from tirlower.interp.operands import Operand
from tirlower.interp.scope import Frame, Value
from tirlower.interp.threads import waiting
from tirlower.interp.values import Fault
from tirlower.ir.expr import Call

__all__ = ["barrier_key", "group_calls"]

_COPIES = "cp.async"


def barrier_key(barrier: Barrier, phase: int) -> tuple[str, int, int]:
    """What a race detector knows the phase of a barrier by."""
    return "barrier", id(barrier), phase


# ---------------------------------------------------------------- copies and groups


@intrinsic("tir.ptx_cp_async", own_arguments=True)
def _cp_async(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(target, offset, source, offset, bytes[, predicate]): a copy; zeros where the predicate is false."""
    target, source = Operand(compiler, call, 0), Operand(compiler, call, 2)
    size = compiler.expression(call.args[4])
    predicate = compiler.expression(call.args[5]) if len(call.args) > 5 else None
    place, program = compiler.place(call.span), compiler.program

    def run(frame: Frame) -> int:
        count = size(frame)
        if count not in (4, 8, 16):
            raise InterpreterError(
                f"ptx_cp_async copies 4, 8 or 16 bytes, got {count}",
                origin="interpret",
                span=place.span,
                notes=place.notes(frame),
                help="cover the bytes with copies of 16, 8 or 4, or use plain loads and stores",
            )
        detector = program.detector
        agent = None if detector is None else detector.issue(frame, _COPIES)
        into = target.aligned(frame, count, count)
        into.touch(True, agent)
        into = into.unwatched()
        if predicate is None or predicate(frame):
            out_of = source.aligned(frame, count, count)
            out_of.touch(False, agent)
            out_of = out_of.unwatched()
            work = Work(lambda: into.copy_from(out_of), agent)
        else:
            work = Work(lambda: into.write(np.zeros(count, np.uint8)), agent)
        groups_of(frame, _COPIES).add(work)
        start(frame, work, program.interleaver.seed)
        return 0

    return run


def group_calls(kind: str, commit: str, wait: str) -> None:
    """Register the operations that end a group of a kind of work, and that wait for groups."""

    @intrinsic(commit)
    def build_commit(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
        def run(frame: Frame) -> int:
            groups_of(frame, kind).commit()
            stir(frame)
            return 0

        return run

    @intrinsic(wait)
    def build_wait(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
        (newest,) = args
        program = compiler.program

        def run(frame: Frame) -> int:
            stir(frame)
            over = groups_of(frame, kind).wait(newest(frame))
            if over and program.detector is not None:
                for work in over:
                    program.detector.finish(frame, work.agent)
            return 0

        return run


group_calls(_COPIES, "tir.ptx_commit_group", "tir.ptx_wait_group")


# ---------------------------------------------------------------- barrier objects


@intrinsic("tir.create_barriers")
def _create(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    (count,) = args

    def run(frame: Frame) -> int:
        create_barriers(frame, count(frame))
        return 0

    return run


@intrinsic("tir.ptx_init_barrier_thread_count")
def _init(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    number, threads = args

    def run(frame: Frame) -> int:
        init_barrier(frame, number(frame), threads(frame))
        return 0

    return run


@intrinsic("tir.ptx_fence_barrier_init")
def _fence_init(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """The copy engines see the barrier objects."""
    return lambda frame: 0


@intrinsic("tir.ptx_fence_proxy_async")
def _fence(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """What is written to shared memory can be read by the copy engines and the tensor cores."""
    detector = compiler.program.detector
    if detector is None:
        return lambda frame: 0

    def run(frame: Frame) -> int:
        detector.fence(frame)
        return 0

    return run


@intrinsic("tir.ptx_arrive_barrier", "tir.ptx_arrive_barrier_expect_tx")
def _arrive(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    number, program = args[0], compiler.program
    count = args[1] if len(args) > 1 else None

    def run(frame: Frame) -> int:
        barrier = barrier_of(frame, number(frame))
        if program.detector is not None:
            program.detector.release(frame, barrier_key(barrier, barrier.phase))
        if count is not None:
            barrier.expect(count(frame))
        barrier.arrive()
        stir(frame)
        return 0

    return run


@intrinsic("tir.ptx_cp_async_barrier")
def _arrive_when_copied(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """The barrier expects one arrival more in this phase, which comes when the thread's copies so far are done."""
    (number,) = args
    program = compiler.program

    def run(frame: Frame) -> int:
        barrier = barrier_of(frame, number(frame))
        copies = groups_of(frame, _COPIES).under_way()
        if barrier.pending == 0:
            raise Fault(
                f"barrier {barrier.number} has all arrivals of its phase {barrier.phase}, and awaits bytes only"
            )
        barrier.pending += 1
        work = Work(barrier.arrive, follows=copies)
        barrier.work.append(work)
        if program.detector is not None:
            for copy in copies:
                program.detector.finish_into(barrier_key(barrier, barrier.phase), copy.agent)
        start(frame, work, program.interleaver.seed)
        return 0

    return run


@intrinsic("tir.ptx_wait_barrier", own_arguments=True)
def _wait(compiler: ExpressionCompiler, call: Call, args: list[Value]) -> Value:
    """(barrier[, parity]): until the phase of that parity has completed."""
    number = compiler.expression(call.args[0])
    parity: Callable[[Frame], int] = compiler.expression(call.args[1]) if len(call.args) > 1 else lambda frame: 0
    place, program = compiler.place(call.span), compiler.program

    def found(frame: Frame) -> tuple[Barrier, int]:
        try:
            return barrier_of(frame, number(frame)), parity(frame) & 1
        except Fault as fault:
            raise place.error(fault, frame) from None

    def ready(frame: Frame) -> bool:
        stir(frame)
        barrier, odd = found(frame)
        try:
            return barrier.passed(odd)
        except Fault as fault:
            raise place.error(fault, frame) from None

    def run(frame: Frame) -> None:
        barrier, _ = found(frame)
        if program.detector is not None:
            program.detector.acquire(frame, barrier_key(barrier, barrier.phase - 1))

    def describe(frame: Frame) -> str:
        return found(frame)[0].state()

    return waiting(compiler, ready, run, describe, place)
