"""Statements as closures: each becomes a function that runs it for a team of frames in lockstep.

A runner takes the team that reaches the statement and returns the frames that go on behind it: the same list when all
do. A frame that breaks, continues or returns leaves the team with its signal set; loops take theirs back. Ordinary
code runs as a team of one. In a vectorized loop each lane is a frame, so that each statement in turn runs for all lanes
(every load before the first store), inner loops advance in step, and an ``if`` runs each branch for its lanes.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from tirlower.diagnostics import InterpreterError, RuntimeAssertError, TirError
from tirlower.interp.access import make_view
from tirlower.interp.blocks import compile_block
from tirlower.interp.expressions import ExpressionCompiler
from tirlower.interp.launching import Launching, count_shared, has_inner_axis, polls_memory, schedule_of
from tirlower.interp.loops import (
    after_loop,
    next_iteration,
    running,
    serial_loop,
    thread_loop,
    vector_loop,
)
from tirlower.interp.memory import Memory, Pointer, layout_size
from tirlower.interp.scope import Collective, Frame, Place, State, Team, Value
from tirlower.interp.threads import WARP_SIZE, is_block_axis, is_virtual
from tirlower.interp.values import Datum, Fault
from tirlower.ir import stmt as ir
from tirlower.ir.annotations import REDUCTION
from tirlower.ir.buffer import CommReducer
from tirlower.ir.custom_datatype import element_numpy
from tirlower.ir.data import stop_of
from tirlower.ir.expr import Call, Expr, Var
from tirlower.ir.failure_message import failure_of
from tirlower.ir.functor import by_class, pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.stmt import AllocBuffer, ForKind, Stmt

if TYPE_CHECKING:
    pass

__all__ = ["Runner", "StatementCompiler"]

Runner = Callable[[Team], Team]

_SIGNALS = {
    Op.get("tir.break_loop"): "break",
    Op.get("tir.continue_loop"): "continue",
    Op.get("tir.ret"): "return",
    Op.get("tir.thread_return"): "return",
}


class StatementCompiler(ExpressionCompiler):
    """Compiles statements in a scope."""

    _runners: ClassVar[dict[type, Callable[[StatementCompiler, object], Runner]]] = {}

    def statement(self, stmt: Stmt) -> Runner:
        """The runner of a statement, with the calls that its threads make together in front."""
        compile_one = self._runners.get(stmt.__class__)
        if compile_one is None:
            raise InterpreterError(f"{type(stmt).__name__} is no statement of the IR", span=stmt.span)
        outer, self.collectives = self.collectives, []
        run = compile_one(self, stmt)
        calls, self.collectives = self.collectives, outer
        return _after(self._together(calls, stmt), run) if calls else run

    def _together(self, calls: list[Collective], stmt: Stmt) -> list[Callable[[Team], None]]:
        """How a team makes calls together: at once in lockstep, else when all have come."""
        place = self.place(stmt.span)
        made = [call if call.place is not None else call._replace(place=place) for call in calls]
        self.meets = self.meets or bool(made)
        if self.schedule == "lockstep":
            return [_by_those_who_come(call, call.run if call.ready is None else self._wait(call)) for call in made]
        return [_by_those_who_come(call, self._wait(call)) for call in made]

    def _wait(self, call: Collective) -> Callable[[Team], None]:
        return functools.partial(self.program.interleaver.make, call)

    def values(self, *exprs: Expr) -> tuple[list[Value], list[Collective]]:
        """Closures of expressions that are evaluated repeatedly, with the collective calls to make before each time."""
        outer, self.collectives = self.collectives, []
        compiled = [self.expression(expr) for expr in exprs]
        calls, self.collectives = self.collectives, outer
        return compiled, calls

    # ------------------------------------------------------------ sequences and declarations

    def sequence(self, stmts: Sequence[Stmt]) -> Runner:
        """The runner of statements in order; what they declare stays in scope (the caller ends it)."""
        runners = [self.statement(stmt) for stmt in stmts]

        def run(team: Team) -> Team:
            for runner in runners:
                team = runner(team)
                if not team:
                    break
            return team

        return run

    def _seq(self, stmt: ir.Seq) -> Runner:
        mark = self.mark()
        run = self.sequence(stmt.stmts)
        self.leave(mark)
        return run

    def _bind(self, stmt: ir.Bind) -> Runner:
        value, place = self.expression(stmt.value, exact=True), self.place(stmt.span)
        slot = self.define(stmt.var)
        self.bind(stmt.var, stmt.value)

        def run(team: Team) -> Team:
            frame = team[0]
            try:
                for frame in team:
                    frame[slot] = value(frame)
            except Fault as fault:
                raise place.error(fault, frame) from None
            return team

        return run

    def _alloc(self, stmt: AllocBuffer) -> Runner:
        buffer, place = stmt.buffer, self.place(stmt.span)
        layout, condition = self.layout(buffer), self.expression(stmt.condition)
        data, slot = self.define(buffer.data), self.declare(buffer)
        owner = _owner(buffer.scope)
        # Where threads come one by one, or races are looked for, what they share is one memory for each block, as it is
        # on a device: a later iteration has it too.
        watched = self.schedule != "lockstep" or self.program.detector is not None
        held = watched and buffer.scope.startswith(("shared", "warp"))
        grows = held and not layout.constant
        private = self.in_thread and owner is _own_state
        scratch = self._is_scratch(buffer.scope)
        limits = self.program.limits
        counted = buffer.scope.startswith("shared") and limits.shared_bytes is not None

        def allocate(frame: Frame) -> Memory:
            try:
                size = layout_size(buffer, *layout.values(frame))
            except Fault as fault:
                raise place.error(fault, frame) from None
            memory = Memory.allocate(size, buffer.name)
            memory.private = private
            if scratch:
                memory.written = None
            if counted:
                count_shared(frame, (buffer.scope, slot), size, limits, place)
            return memory

        def run(team: Team) -> Team:
            fresh: dict[object, Memory] = {}
            for frame in team:
                if not condition(frame):
                    # A null pointer; the buffer has no memory, which every access of it finds out.
                    frame[data] = None
                    frame[slot] = make_view(layout, Pointer(Memory.allocate(0, buffer.name)), frame, place)
                    continue
                group = frame[0].group
                key, memories = (frame[0] if group is None else owner(frame)), fresh
                if held and group is not None:
                    key, memories = (slot, key), group.memories
                memory = memories.get(key)
                if memory is None or (grows and memory.size < layout_size(buffer, *layout.values(frame))):
                    memory = memories[key] = allocate(frame)
                frame[data] = Pointer(memory)
                frame[slot] = make_view(layout, frame[data], frame, place)
            return team

        return run

    def _alloc_const(self, stmt: ir.AllocConst) -> Runner:
        buffer, place = stmt.buffer, self.place(stmt.span)
        constant = stmt.data.astype(element_numpy(buffer.dtype)).copy()
        constant.flags.writeable = False
        pointer, layout = Pointer.of_array(constant, buffer.name), self.layout(buffer)
        data, slot = self.define(buffer.data), self.declare(buffer)

        def run(team: Team) -> Team:
            for frame in team:
                frame[data] = pointer
                frame[slot] = make_view(layout, pointer, frame, place)
            return team

        return run

    def _decl(self, stmt: ir.DeclBuffer) -> Runner:
        buffer, place = stmt.buffer, self.place(stmt.span)
        data, layout = self.variable(buffer.data, stmt.span), self.layout(buffer)
        slot = self.declare(buffer)

        def run(team: Team) -> Team:
            for frame in team:
                frame[slot] = make_view(layout, data(frame), frame, place)
            return team

        return run

    # ------------------------------------------------------------ effects

    def _store(self, stmt: ir.BufferStore) -> Runner:
        place = self.place(stmt.span)
        value = self.expression(stmt.value)
        indices = [self.expression(index, exact=True) for index in stmt.indices]
        predicate = None if stmt.predicate is None else self.expression(stmt.predicate)
        access = self.access(stmt.buffer, indices, predicate, place)
        store = access.store(value, stmt.value.dtype.is_vector)

        def run(team: Team) -> Team:
            try:
                store(team)
            except Fault as fault:
                raise place.error(fault, team[0]) from None
            return team

        return run

    def _evaluate(self, stmt: ir.Evaluate) -> Runner:
        expr, place = stmt.value, self.place(stmt.span or stmt.value.span)
        if expr.__class__ is Call and expr.op in _SIGNALS:
            return self._signal(expr, place)
        value = self.expression(expr)

        def run(team: Team) -> Team:
            frame = team[0]
            try:
                for frame in team:
                    value(frame)
            except Fault as fault:
                raise place.error(fault, frame) from None
            return team

        return run

    def _signal(self, call: Call, place: Place) -> Runner:
        signal = _SIGNALS[call.op]  # type: ignore[index]  # checked by the caller
        value = self.expression(call.args[0]) if call.args else None

        def run(team: Team) -> Team:
            for frame in team:
                state: State = frame[0]
                state.signal = signal
                if value is not None:
                    try:
                        state.result = value(frame)
                    except Fault as fault:
                        raise place.error(fault, frame) from None
                if signal == "return" and state.group is not None:
                    state.group.block.live -= 1
            return []

        return run

    def _assert(self, stmt: ir.Assert) -> Runner:
        place = self.place(stmt.span)
        condition = self.expression(stmt.condition)
        stated = failure_of(stmt.message)
        kind, template, values = stated or (RuntimeAssertError, "{0}", (stmt.message,))
        shown = [self.expression(value) for value in values]

        def run(team: Team) -> Team:
            frame = team[0]
            try:
                for frame in team:
                    if not condition(frame):
                        text = template.format(*[value(frame) for value in shown])
                        if issubclass(kind, TirError):
                            raise kind(text, origin="assert", span=place.span, notes=place.notes(frame))
                        raise kind(text)
            except Fault as fault:
                raise place.error(fault, frame) from None
            return team

        return run

    def _attr(self, stmt: ir.AttrStmt) -> Runner:
        if not isinstance(stmt.node, CommReducer):
            return self._scoped(stmt.body)  # all other attributes say how to run, not what to compute
        self.reducers.append(stmt.node)
        run = self._scoped(stmt.body)
        self.reducers.pop()
        return run

    def _is_scratch(self, scope: str) -> bool:
        """Whether memory is a register of a reduction, which other lanes may ask for before it is set.

        What a shuffle then gives reaches no result: zeros stand for what the register has.
        """
        return bool(self.reducers) and scope == "local"

    # ------------------------------------------------------------ branches and loops

    def _if(self, stmt: ir.IfThenElse) -> Runner:
        place = self.place(stmt.span or stmt.condition.span)
        condition = self.expression(stmt.condition)
        then_case = self._scoped(stmt.then_case)
        else_case = self._scoped(stmt.else_case) if stmt.else_case is not None else None

        def run(team: Team) -> Team:
            frame = team[0]
            try:
                chosen = []
                for frame in team:
                    chosen.append(bool(condition(frame)))
            except Fault as fault:
                raise place.error(fault, frame) from None
            if all(chosen):
                return then_case(team)
            if not any(chosen):
                return else_case(team) if else_case is not None else team
            yes = [frame for frame, flag in zip(team, chosen, strict=True) if flag]
            no = [frame for frame, flag in zip(team, chosen, strict=True) if not flag]
            after_yes = then_case(yes)
            after_no = else_case(no) if else_case is not None else no
            return team if after_yes is yes and after_no is no else running(team)

        return run

    def _scoped(self, stmt: Stmt) -> Runner:
        mark = self.mark()
        run = self.statement(stmt)
        self.leave(mark)
        return run

    def _while(self, stmt: ir.While) -> Runner:
        place = self.place(stmt.span or stmt.condition.span)
        (condition,), collectives = self.values(stmt.condition)
        calls = self._together(collectives, stmt)
        body = self._scoped(stmt.body)
        polls = self.schedule != "lockstep" and polls_memory(stmt)
        poll = functools.partial(self.program.interleaver.poll, place) if polls else None
        self.meets = self.meets or poll is not None

        def run(team: Team) -> Team:
            active = team
            while True:
                for call in calls:
                    call(active)
                frame = active[0]
                try:
                    going = []
                    for frame in active:
                        if condition(frame):
                            going.append(frame)
                except Fault as fault:
                    raise place.error(fault, frame) from None
                if len(going) != len(active):
                    active = going
                if not active:
                    break
                if body(active) is not active:
                    active = next_iteration(active)
                    if not active:
                        break
                if poll is not None:
                    poll(active)
            return after_loop(team)

        return run

    def _for(self, stmt: ir.For) -> Runner:
        place = self.place(stmt.span)
        stop = stop_of(stmt)
        low, extent = (self.expression(e, exact=True) for e in (stmt.min, stmt.extent if stop is None else stop))
        most = int(stmt.loop_var.dtype.max_value)
        launching = self._launching(stmt) if stmt.kind is ForKind.THREAD_BINDING else None
        outer = self.schedule, self.in_thread
        met, self.meets = self.meets, False
        if launching is not None:
            self.schedule, self.in_thread = launching.schedule, self.in_thread or launching.innermost
        mark = self.mark()
        slot = self.define_loop(stmt.loop_var)
        if stmt.thread_tag is not None:
            self.tag(stmt.loop_var, stmt.thread_tag)
        body = self.statement(stmt.body)
        self.leave(mark)
        self.schedule, self.in_thread = outer
        if launching is not None and not self.meets and launching.schedule == "threads":
            launching = replace(launching, schedule="alone")
        self.meets = self.meets or met

        def ranges(team: Team) -> list[range]:
            found = []
            for frame in team:
                try:
                    start, count = low(frame), extent(frame)
                    end = start + count if stop is None else count
                    if end > max(start, most + 1) or end - start > most:
                        raise Fault(f"the loop {stmt.loop_var.name} runs past the values of {stmt.loop_var.dtype!s}")
                    found.append(range(start, end))
                except Fault as fault:
                    raise place.error(fault, frame) from None
            return found

        if launching is not None:
            return thread_loop(stmt, ranges, slot, body, place, launching)
        # Lanes in step would lose updates of one element, which with this annotation all count.
        if stmt.kind is ForKind.VECTORIZED and not stmt.annotations.get(REDUCTION):
            return vector_loop(ranges, slot, body, place)
        return serial_loop(ranges, slot, body)

    def _launching(self, stmt: ir.For) -> Launching:
        """How the threads of an axis run: decided for a kernel where its outermost axis stands."""
        program = self.program
        schedule = self.schedule if self.tags else schedule_of(stmt, program.interleaver.seed)
        innermost = not has_inner_axis(stmt, {*self.tags.values(), stmt.thread_tag})
        private = () if is_virtual(str(stmt.thread_tag)) else self._private(stmt)
        return Launching(
            program.interleaver,
            program.detector,
            innermost,
            schedule,
            program.limits.threads,
            program.launched,
            private,
        )

    def _private(self, stmt: ir.For) -> tuple[tuple[int, tuple[int, ...], bool], ...]:
        """The slots of memory of threads (the scope ``local``) that stands outside of a loop over them and is used inside.

        Memory of a warp belongs to the lanes along ``threadIdx.x``: those of another ``threadIdx.y`` have their own. Each
        block has shared memory of its own.
        """
        of_blocks = is_block_axis(str(stmt.thread_tag))
        views: dict[Var, list[int]] = {}
        of_lanes: set[Var] = set()
        for buffer, slot in self.views.items():
            scope, together = buffer.scope, False
            if of_blocks:
                together = scope.startswith("shared") or scope == "warp"
            elif scope == "warp":
                together = stmt.thread_tag != "threadIdx.x"
            if (together or (scope == "local" and not of_blocks)) and buffer.data in self.slots:
                views.setdefault(buffer.data, []).append(slot)
                if together:
                    of_lanes.add(buffer.data)
        if not views:
            return ()
        used: set[object] = set()

        def look(op: Node) -> None:
            used.add(op if op.__class__ is Var else getattr(getattr(op, "buffer", None), "data", None))

        pre_order_visit(stmt.body, look)
        return tuple(
            (self.slots[data], tuple(slots), data in of_lanes) for data, slots in views.items() if data in used
        )

    def _block(self, stmt: ir.Block) -> Runner:
        return compile_block(self, stmt)


def _own_state(frame: Frame) -> Datum:
    return frame[0]


def _owner(scope: str) -> Callable[[Frame], Datum]:
    """What has memory of a scope to itself: a block (of a virtual thread), a warp, or each thread."""
    if scope.startswith("shared"):
        return lambda frame: frame[0].group
    if scope == "warp":
        return _lanes
    if scope.startswith("wmma."):
        return lambda frame: (frame[0].group, frame[0].linear_thread() // WARP_SIZE)
    return _own_state


def _lanes(frame: Frame) -> Datum:
    """The lanes of a warp that share its memory: those along ``threadIdx.x``, as far as they are of one warp."""
    state: State = frame[0]
    others = tuple([item for item in state.threads.items() if item[0].startswith(("threadIdx.y", "threadIdx.z"))])
    return state.group, others, state.linear_thread() // WARP_SIZE


def _by_those_who_come(call: Collective, make: Callable[[Team], None]) -> Callable[[Team], None]:
    """A call that is made by the threads whose evaluation comes to it."""
    reached = call.reached
    if reached is None:
        return make

    def made(team: Team) -> None:
        those = [frame for frame in team if reached(frame)]
        if those:
            make(those)

    return made


def _after(calls: list[Callable[[Team], None]], run: Runner) -> Runner:
    def run_after(team: Team) -> Team:
        for call in calls:
            call(team)
        return run(team)

    return run_after


StatementCompiler._runners = by_class(
    {
        ir.Seq: StatementCompiler._seq,
        ir.Bind: StatementCompiler._bind,
        AllocBuffer: StatementCompiler._alloc,
        ir.AllocConst: StatementCompiler._alloc_const,
        ir.DeclBuffer: StatementCompiler._decl,
        ir.BufferStore: StatementCompiler._store,
        ir.Evaluate: StatementCompiler._evaluate,
        ir.Assert: StatementCompiler._assert,
        ir.AttrStmt: StatementCompiler._attr,
        ir.IfThenElse: StatementCompiler._if,
        ir.While: StatementCompiler._while,
        ir.For: StatementCompiler._for,
        ir.Block: StatementCompiler._block,
    }
)
