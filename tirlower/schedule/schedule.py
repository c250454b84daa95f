"""``Schedule``: a program, transformed by name and step by step; each step is proved, recorded, and can be taken back."""

from __future__ import annotations

import contextlib
import dataclasses
from collections.abc import Iterator, Sequence
from os import PathLike
from types import FunctionType
from typing import TYPE_CHECKING

from tirlower.diagnostics import (
    BadArgument,
    IllegalStep,
    NotFound,
    ScheduleError,
    TransformError,
    UnprovedStep,
    nearest_name,
    user_frames,
)
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.stmt import Block, For, Stmt
from tirlower.ir.verify import verify_well_formed
from tirlower.poly.verdict import PROVED, Verdict
from tirlower.schedule.arguments import Arguments
from tirlower.schedule.facts import Facts
from tirlower.schedule.handles import BlockRV, Handle, LoopRV
from tirlower.schedule.kind import Kind
from tirlower.schedule.lookups import GET_BLOCK, GET_LOOPS, function_of
from tirlower.schedule.navigate import NAVIGATE
from tirlower.schedule.policy import Policy
from tirlower.schedule.program import program_of
from tirlower.schedule.registry import VERBS, method_kind
from tirlower.schedule.report import report
from tirlower.schedule.sampling import fork, state_of
from tirlower.schedule.show import show_steps
from tirlower.schedule.sites import Ended, Memory, at_site
from tirlower.schedule.state import Record, State
from tirlower.schedule.step import Step, judge, take
from tirlower.schedule.trace import Trace
from tirlower.schedule.tree import tree
from tirlower.schedule.trust import believed
from tirlower.schedule.views import ScheduleState, StmtSRef

if TYPE_CHECKING:
    from tirlower.schedule.certify import Runner, Validation

__all__ = ["Schedule"]


class Schedule:
    """A module that is transformed by named steps, each of which is proved to keep what the program computes.

    ``mod`` is a function (then the module is ``{"main": func}``) or a module. ``seed``: None for a fixed one, -1 for one
    asked of the system, else 1 to 2**31 - 1. ``debug_mask="all"`` verifies each changed function, compares what is
    remembered of it with what is found anew, and proves steps that only change the order anew from the two programs (bits 1, 2, 4).
    ``error_render_level``: "detail", "fast" (the sentence alone) or "none". ``enable_check=False`` takes each step on the
    user's word, and records that. ``accept="tvm"`` asks in addition what TVM asks of a step (:mod:`tirlower.schedule.conditions`).
    ``trust``: what is believed where a step is neither proved nor refuted, of "regions" (an opaque call touches what its block
    declares) and "axes" (iterators are what they say). ``reassociate``: whether the updates of a reduction of floats may change their order:
    "declared" (where a block with reduction iterators says so), True or False. ``validate=True`` runs the program before
    and after each step, where it is small enough (:meth:`validate`).

    Raises TypeError and ValueError for wrong options, :class:`ScheduleError` from steps, which then leave the schedule
    as it was.

    >>> from tirlower.script import parse
    >>> sch = Schedule(parse('''
    ... def f(A: T.Buffer((6, 20), "int32")):
    ...     for i, j in T.grid(6, 20):
    ...         A[i, j] = i + j
    ... '''))
    >>> i, j = sch.loops("A")
    >>> j_0, j_1 = sch.split(j, [None, 4])
    >>> sch.reorder(j_0, i)
    >>> sch.vectorize(j_1)
    >>> print(sch.mod["main"])
    @T.prim_func
    def f(A: T.Buffer((6, 20), "int32")):
        for j_0, i in T.grid(5, 6):
            for j_1 in T.vectorized(4):
                A[i, j_0 * 4 + j_1] = i + (j_0 * 4 + j_1)
    """

    def __init__(
        self,
        mod: PrimFunc | IRModule,
        *,
        seed: int | None = None,
        debug_mask: str | int = "none",
        error_render_level: str = "detail",
        enable_check: bool = True,
        accept: str = "legal",
        trust: tuple[str, ...] = ("regions",),
        reassociate: str | bool = "declared",
        validate: bool = False,
    ) -> None:
        if not isinstance(mod, (PrimFunc, IRModule)):
            raise TypeError(f"a schedule is of a PrimFunc or an IRModule, got {type(mod).__name__}")
        if not isinstance(validate, bool):
            raise TypeError(f"validate= is True or False, got {validate!r}")
        self._policy = Policy(debug_mask, error_render_level, enable_check, accept, trust, reassociate)
        self._validate = validate
        module = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
        with user_frames():
            verify_well_formed(module)
        names = list(module.functions)
        working_on = "main" if "main" in names else names[0] if len(names) == 1 else None
        self._state = State(module, {}, state_of(seed), working_on)
        self._facts = Facts()
        self._group: tuple[str, ...] = ()
        self._single = isinstance(mod, PrimFunc)

    # What it is now

    @property
    def mod(self) -> IRModule:
        """The module as it is now."""
        return self._state.mod

    @property
    def program(self) -> PrimFunc | IRModule:
        """What is to be compiled: the function where the schedule is of one, else the module.

        Steps are proved for parameters that are apart, and a build of the new program alone cannot know what the old one
        did with arrays that overlap. So a function whose instances run in another order, or elsewhere, says
        ``tir.noalias``: calls with such arrays are refused. ``tir.sums_apart`` says how its sums were rounded where that
        depends on the loops. (A bare :attr:`mod` is a program like any other.)
        """
        mod = program_of(self._state)
        return mod["main"] if self._single else mod

    @property
    def state(self) -> ScheduleState:
        """The moment as TVM shows it: statements with their parents, edges, flags (:mod:`tirlower.schedule.views`)."""
        return ScheduleState(self._state.mod)

    def get_sref(self, rand_var_or_stmt: Handle | Block | For) -> StmtSRef:
        """Where a loop or block stands, given by its handle or itself."""
        found = self.get(rand_var_or_stmt) if isinstance(rand_var_or_stmt, Handle) else rand_var_or_stmt
        if not isinstance(found, (Block, For)):
            raise BadArgument("a loop or a block has a place, nothing else")
        return self.state.get_sref(found)

    @property
    def trace(self) -> Trace:
        """The steps so far."""
        return Trace.of(self._state.records(), self._state.first.mod)

    @property
    def steps(self) -> list[Record]:
        """The steps so far with what is known of each: verdict, exactness, time."""
        return self._state.records()

    @property
    def func_working_on(self) -> str | None:
        """The name of the function in which names are looked up."""
        return self._state.working_on

    def work_on(self, func_name: str) -> None:
        """Look names up in another function of the module."""
        if func_name not in self._state.mod:
            near = nearest_name(func_name, self._state.mod.functions)
            raise NotFound(
                f"no function {func_name!r} in the module",
                help=f"did you mean {near!r}?" if near else f"it has: {', '.join(self._state.mod.functions)}",
            )
        self._state = dataclasses.replace(self._state, working_on=func_name)

    def get(self, rand_var_or_handle: Handle | Var) -> Stmt | PrimFunc | Buffer | int:
        """What a handle stands for now: a loop, a block, a statement, a buffer; the number of an expression.

        Raises :class:`DeadHandle` for one that ended, or of another schedule.
        """
        if isinstance(rand_var_or_handle, Var):
            if rand_var_or_handle not in self._state.values:
                raise BadArgument(f"the schedule gave `{rand_var_or_handle.name}` no value")
            return self._state.values[rand_var_or_handle]
        if not isinstance(rand_var_or_handle, Handle):
            raise TypeError(f"get() takes a handle, got {type(rand_var_or_handle).__name__}")
        with user_frames():
            place = self._state.place(rand_var_or_handle)
            if isinstance(place, Memory):
                return place.buffer
            return at_site(self._state.mod, self._state.site(rand_var_or_handle))

    def remove_rv(self, rand_var: Handle | Var) -> None:
        """Forget a handle."""
        with user_frames():
            self.get(rand_var)
        places, values = dict(self._state.places), dict(self._state.values)
        if isinstance(rand_var, Var):
            del values[rand_var]
        else:
            del places[rand_var]
        self._state = dataclasses.replace(self._state, places=places, values=values)

    def loop_at(self, handle: LoopRV) -> For:
        """The loop that a handle stands for."""
        found = self.get(handle)
        assert isinstance(found, For)
        return found

    def block_at(self, handle: BlockRV) -> Block | PrimFunc:
        """The block that a handle stands for; the function where it is the root of one without a root block."""
        found = self.get(handle)
        assert isinstance(found, (Block, PrimFunc))
        return found

    def loops_around(self, handle: BlockRV) -> list[LoopRV]:
        """The loops around a block, as :meth:`get_loops` gives them."""
        return [one for one in self.apply_kind(GET_LOOPS, {"block": handle}) if isinstance(one, LoopRV)]

    def beside(self, handle: Handle, to: str) -> list[Handle]:
        """The handles of what stands around, in, or beside what a handle stands for: :meth:`navigate`."""
        found = self.apply_kind(NAVIGATE, {"stmt": handle, "to": to})
        return [one for one in found if isinstance(one, Handle)]

    def buffers_of(self, handle: Handle, side: str) -> list[Buffer]:
        """The buffers that what a handle stands for reads, or writes ("read", "write"), in the order of the text."""
        stmt = self.get(handle)
        uses = self._facts.uses(stmt if isinstance(stmt, Stmt) else self._state.mod[self._state.site(handle).func].body)
        return list(uses.reads if side == "read" else uses.writes)

    def twins_of(self, handle: Handle) -> list[Handle]:
        """The handles of the other copies of what a handle stands for."""
        return [one for one in self._state.twins.get(handle, ()) if not isinstance(self._state.places.get(one), Ended)]

    def block(self, name: str) -> BlockRV:
        """The only block of a name in the function worked on (:meth:`get_block`)."""
        found = self._call(GET_BLOCK, (name,), {})
        assert isinstance(found, BlockRV)
        return found

    def show(
        self, *, steps: bool | tuple[int, int] = False, level: str = "step", html: str | PathLike[str] | None = None
    ) -> None:
        """Print the module and the trace; with ``steps`` what each step did (a pair: those from one number to another).

        Of a step that is its line, its verdict, and the nests that it changed, before beside after: a line is marked ``|`` where it
        became another one, ``-`` and ``+`` where it is gone or new, ``<`` and ``>`` where it moved. ``level="op"`` shows a user's operation
        as one step. ``html`` names a file that is written instead, and needs nothing else.

        >>> from tirlower.script import parse
        >>> sch = Schedule(parse('''
        ... def f(A: T.Buffer((9,), "int32")):
        ...     for i in range(9):
        ...         A[i] = i
        ... '''))
        >>> sch.parallel("i")
        >>> sch.show(steps=True)  # doctest: +ELLIPSIS
        [2] sch.parallel(i)    # proved, bitwise, ... ms
            for i in range(9): | for i in T.parallel(9):
                A[i] = i             A[i] = i
        """
        if steps is False and html is None:
            self._state.mod.show()
            self.trace.show()
            return
        show_steps(self._state.moments(), steps, level, html)

    # Back and beside

    def copy(self) -> Schedule:
        """A schedule of the same past, which goes on by itself. Handles of before are valid in both."""
        made = object.__new__(Schedule)
        made.__dict__.update(self.__dict__)
        return made

    def branch(self) -> Schedule:
        """A copy, to try something."""
        return self.copy()

    def undo(self, steps: int = 1) -> None:
        """Take back the last steps, look-ups counted too."""
        if not isinstance(steps, int) or isinstance(steps, bool):
            raise TypeError(f"undo() takes a number of steps, got {steps!r}")
        if not 0 <= steps <= self._state.steps:
            raise BadArgument(f"{self._state.steps} steps were taken, {steps} are to be taken back")
        self.goto(self._state.steps - steps)

    def goto(self, step: int) -> None:
        """Be as after a step (0: as at first)."""
        if not isinstance(step, int) or isinstance(step, bool):
            raise TypeError(f"goto() takes the number of a step, got {step!r}")
        if not 0 <= step <= self._state.steps:
            raise BadArgument(f"{self._state.steps} steps were taken, there is no step {step}")
        state = self._state
        while state.steps > step:
            assert state.before is not None
            state = state.before
        self._state = state

    @contextlib.contextmanager
    def attempt(self) -> Iterator[None]:
        """A context that takes all back, and goes on behind it, where a step in it is refused."""
        before = self._state
        try:
            yield
        except ScheduleError:
            self._state = before
        except BaseException:
            self._state = before
            raise

    @contextlib.contextmanager
    def grouped(self, name: str) -> Iterator[None]:
        """A context whose steps belong together under a name, and are all taken or none (:func:`~tirlower.schedule.compose.schedule_op`)."""
        before, group = self._state, self._group
        self._group = (*group, name)
        try:
            yield
        except BaseException:
            self._state = before
            raise
        finally:
            self._group = group

    def become(self, other: Schedule) -> None:
        """Go on where a copy of this schedule is."""
        self._state = other._state

    @contextlib.contextmanager
    def unchecked(self, reason: str) -> Iterator[None]:
        """A context whose steps are taken on the user's word, for a reason that the trace and the loops then say."""
        if not isinstance(reason, str) or not reason:
            raise TypeError(f"unchecked() takes a reason, got {reason!r}")
        before = self._policy
        self._policy = dataclasses.replace(before, unchecked=reason)
        try:
            yield
        finally:
            self._policy = before

    def seed(self, seed: int) -> None:
        """Start the generator anew: -1 asks the system, else 1 to 2**31 - 1."""
        self._state = dataclasses.replace(self._state, random=state_of(seed))

    def fork_seed(self) -> int:
        """A seed for another schedule."""
        made, random = fork(self._state.random)
        self._state = dataclasses.replace(self._state, random=random)
        return made

    # What is known of it

    def validate(self, seeds: int = 3, run: Runner | None = None, directory: str | None = None) -> Validation:
        """Run the program that the schedule started from and the one that it is now, on ``seeds`` sets of arguments.

        What is equal to the bit is compared so, zeros of both signs, infinities and NaN among the inputs; where the order of sums
        may differ, inputs are such that sums are exact. A program that is too large is made smaller, and the steps are
        taken on that; what is not run is said. ``run`` makes a function of a program instead of the interpreter
        (``tl.build``); nothing is too large then. Raises :class:`ValidationError`, which names the first step after which
        results differ, and writes a file that shows it into ``directory`` (the system's temporary one).

        >>> from tirlower.script import parse
        >>> sch = Schedule(parse('''
        ... def f(A: T.Buffer((9,), "int32")):
        ...     for i in range(9):
        ...         A[i] = A[i] + i
        ... '''))
        >>> _ = sch.split("i", [None, 4])
        >>> print(sch.validate())
        3 runs agree
        """
        if not isinstance(seeds, int) or isinstance(seeds, bool) or seeds < 1:
            raise BadArgument(f"validate() runs 1 or more sets of arguments, got {seeds!r}")
        from tirlower.schedule.certify import validated

        return validated(self._state, seeds, run, self.anew, directory)

    def anew(self, mod: PrimFunc | IRModule, debug_mask: str | int | None = None) -> Schedule:
        """A schedule of another program with the same options, no steps taken; ``debug_mask`` may be another one."""
        made = self.copy()
        made._validate, made._group = False, ()
        made._single = isinstance(mod, PrimFunc)
        if debug_mask is not None:
            made._policy = dataclasses.replace(self._policy, debug_mask=debug_mask)
        mod = IRModule({"main": mod}) if isinstance(mod, PrimFunc) else mod
        names = list(mod.functions)
        made._state = State(
            mod, {}, self._state.random, self._state.working_on or (names[0] if len(names) == 1 else None)
        )
        return made

    def moments(self) -> list[State]:
        """The moments of the schedule, the first one first."""
        return self._state.moments()

    def tree(self) -> str:
        """The loops of the function worked on: extents, kinds, what iterations carry, bytes that one iteration touches.

        >>> from tirlower.script import parse
        >>> print(Schedule(parse('''
        ... def f(A: T.Buffer((8, 4), "int32")):
        ...     for i, j in T.grid(7, 4):
        ...         A[i + 1, j] = A[i, j]
        ... ''')).tree())
        i: 7  carries A  A 32 B
          j: 4  independent  A 8 B
            A = A
        """
        return tree(self._state.mod[function_of(self._state)], self._facts)

    def report(self) -> str:
        """What each step rests on and what its results are up to, and what all are together.

        >>> from tirlower.script import parse
        >>> sch = Schedule(parse('''
        ... def f(A: T.Buffer((8,), "int32")):
        ...     for i in range(8):
        ...         A[i] = i
        ... '''))
        >>> sch.parallel("i")
        >>> sch.report().splitlines()[-1]
        'bitwise equal'
        """
        return report(self._state.records())

    # Steps

    def can(self, verb: str, *args: object, **kwargs: object) -> Verdict:
        """The verdict on a step that is not taken. A step that makes no sense here is refuted, with the reason.

        >>> from tirlower.script import parse
        >>> sch = Schedule(parse('''
        ... def f(A: T.Buffer((9,), "int32")):
        ...     for i in range(8):
        ...         A[i + 1] = A[i]
        ... '''))
        >>> sch.can("parallel", "i").status
        'refuted'
        """
        kind = method_kind(verb)
        with user_frames():
            try:
                given = kind.bind(args, kwargs)
                given.pop("decision", None)
                state, values = self._resolved(kind, given)
                if kind.compose is not None:
                    take(kind, values, state, self._facts, self._policy, self)
                    return PROVED
                step = Step(kind, values, state, self._facts, self._policy)
                found = judge(step)
                word = believed(step, found, judge)
                return dataclasses.replace(PROVED, reason=f"trusted: {word}") if word else found
            except (IllegalStep, UnprovedStep) as error:
                return error.verdict if isinstance(error.verdict, Verdict) else Verdict("unknown", error.message)
            except ScheduleError as error:
                return Verdict("refuted", error.message, help=error.help or "")

    def can_decompose_padding(self, block: BlockRV | str, loop: LoopRV | str) -> bool:
        """Whether :meth:`decompose_padding` is legal there."""
        return self.can("decompose_padding", block, loop).proved

    def why_not(self, verb: str, *args: object, **kwargs: object) -> str:
        """The message with which a step would be refused; nothing where it would be taken."""
        before = self._state
        try:
            self._call(method_kind(verb), args, kwargs)
        except TransformError as error:
            return str(error)
        finally:
            self._state = before
        return ""

    def apply_kind(self, kind: Kind, values: dict[str, object], decision: object = None) -> list[Handle | Var]:
        """Take a step given as a primitive and its arguments by name; the handles that it gives."""
        with user_frames():
            state, resolved = self._resolved(kind, values)
            before = state
            state, outputs = take(kind, resolved, state, self._facts, self._policy, self, decision, self._group)
            if self._validate and state.mod is not before.mod:
                from tirlower.schedule.certify import validated

                only = dataclasses.replace(state, before=dataclasses.replace(before, before=None, record=None))
                validated(only, 1, None, self.anew)
            self._state = state
            return outputs

    def _call(self, kind: Kind, args: Sequence[object], kwargs: dict[str, object]) -> object:
        values = kind.bind(args, kwargs)
        decision = values.pop("decision") if kind.draws else None
        outputs = self.apply_kind(kind, values, decision)
        if kind.result is not None:
            return kind.result(outputs)
        if kind.returns == "none":
            return None
        return outputs if kind.gives_many(values) else outputs[0]

    def _resolved(self, kind: Kind, values: dict[str, object]) -> tuple[State, dict[str, object]]:
        """Arguments of the kinds that a primitive takes, names looked up; the moment after these look-ups."""
        arguments = Arguments(kind, self._state, self._facts, self._policy, self, self._group)
        found = arguments.resolved(values)
        return arguments.state, found


def _method(kind: Kind) -> FunctionType:
    """The method of a primitive."""

    def method(self: Schedule, *args: object, **kwargs: object) -> object:
        return self._call(kind, args, kwargs)

    method.__name__ = kind.method
    method.__qualname__ = f"Schedule.{kind.method}"
    method.__module__ = __name__
    method.__doc__ = kind.doc
    method.__signature__ = kind.signature  # type: ignore[attr-defined]
    assert isinstance(method, FunctionType)
    return method


class _Verb:
    """Stands for the method of a primitive until that is asked for."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __get__(self, schedule: Schedule | None, owner: type[Schedule]) -> object:
        method = _method(method_kind(self.name))
        setattr(Schedule, self.name, method)  # from here on it is found at once
        return method.__get__(schedule, owner)


for _name in VERBS:
    setattr(Schedule, _name, _Verb(_name))
