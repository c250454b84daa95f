"""Traces: the steps that a schedule took, as values that print, are read back, and are taken again elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from os import PathLike
from pathlib import Path
from typing import Protocol

from tirlower.diagnostics import ScheduleError, TraceError
from tirlower.ir.digest import structural_hash
from tirlower.ir.expr import Var
from tirlower.ir.func import IRModule
from tirlower.schedule.handles import Handle
from tirlower.schedule.kind import Kind
from tirlower.schedule.replay import Replay, ReplayedStep, renamed, stopped
from tirlower.schedule.samples import choices
from tirlower.schedule.state import Instruction, Record
from tirlower.schedule.trace_json import load_trace, source_of, tvm_json
from tirlower.schedule.trace_text import function_text, python_lines, with_groups

__all__ = ["Choice", "Instruction", "Target", "Trace"]

Provider = Callable[[Instruction, Sequence[object], Sequence[object], object], object]


class Target(Protocol):
    """What a trace is applied to: a schedule."""

    def apply_kind(self, kind: Kind, values: dict[str, object], decision: object = None) -> list[Handle | Var]:
        """Take a step, and give the handles that it makes."""


class Drawing(Protocol):
    """A source of random numbers: ``random.Random`` is one."""

    def randrange(self, stop: int, /) -> int:
        """A number from 0 to ``stop - 1``."""


FEW = 64
"""Up to how many decisions are listed to draw another one."""


class Choice:
    """A step that draws: its instruction, its decision, and all decisions in order, ``count`` of them."""

    def __init__(self, inst: Instruction, decision: object) -> None:
        self.inst = inst
        self.decision = decision

    @property
    def count(self) -> int:
        """How many decisions there are; 0 where that is not known."""
        return choices(self.inst, self.decision)[0]

    def __iter__(self) -> Iterator[object]:
        return choices(self.inst, self.decision)[1]

    def nth(self, number: int) -> object:
        """The decision of a number."""
        return choices(self.inst, self.decision, number)[1].__next__()


class Trace:
    """Instructions in order, and the decisions of those that drew one.

    >>> from tirlower import Schedule
    >>> from tirlower.script import parse
    >>> sch = Schedule(parse('''
    ... def f(A: T.Buffer((16,), "int32")):
    ...     for i in range(16):
    ...         with T.block("A"):
    ...             vi = T.axis.spatial(16, i)
    ...             A[vi] = 1
    ... '''))
    >>> i, = sch.get_loops("A")
    >>> i_0, i_1 = sch.split(i, [None, 4])
    >>> sch.vectorize(i_1)
    >>> print("\\n".join(sch.trace.as_python()))
    b0 = sch.get_block(name="A", func_name="main")
    l1, = sch.get_loops(block=b0)
    l2, l3 = sch.split(loop=l1, factors=[None, 4], preserve_unit_iters=True, disable_predication=False)
    sch.vectorize(loop=l3)
    """

    def __init__(
        self,
        insts: Sequence[Instruction] = (),
        decisions: Mapping[Instruction, object] | None = None,
        records: Mapping[Instruction, Record] | None = None,
        source: str | IRModule = "",
    ) -> None:
        self.insts = list(insts)
        self._source = source
        self.decisions = dict(decisions or {})
        self._records = dict(records or {})

    @classmethod
    def of(cls, records: Sequence[Record], source: str | IRModule = "") -> Trace:
        """The trace of steps that were taken; ``source`` is the module that they were taken on, or its digest."""
        decided = {record.instruction: record.decision for record in records if record.decision is not None}
        return cls([record.instruction for record in records], decided, {r.instruction: r for r in records}, source)

    @property
    def source(self) -> str:
        """The digest of the module that the steps were taken on, which is the same in any process; nothing where that is not known."""
        if isinstance(self._source, IRModule):
            self._source = f"{structural_hash(self._source):016x}"
        return self._source

    def get_decision(self, inst: Instruction) -> object:
        """What an instruction drew; None where it drew nothing."""
        return self.decisions.get(inst)

    def append(self, inst: Instruction, decision: object = None) -> None:
        """Add an instruction at the end."""
        self.insts.append(inst)
        if decision is not None:
            self.decisions[inst] = decision

    def pop(self) -> Instruction | None:
        """Take the last instruction away; None where there is none."""
        if not self.insts:
            return None
        last = self.insts.pop()
        self.decisions.pop(last, None)
        return last

    def _kept(self, remove_postproc: bool) -> list[Instruction]:
        """The instructions, up to the mark of post-processing where that is asked for."""
        names = [inst.kind.name for inst in self.insts]
        end = names.index("EnterPostproc") if remove_postproc and "EnterPostproc" in names else len(names)
        return self.insts[:end]

    def apply_to_schedule(
        self, sch: Target, remove_postproc: bool = False, decision_provider: Provider | None = None
    ) -> None:
        """Take the steps on another schedule. ``decision_provider`` gives the decision of each instruction that has one."""
        self._replay(sch, self._kept(remove_postproc), decision_provider, {}, "raise")

    def apply(
        self,
        sch: Target,
        on_error: str = "stop",
        rename: Mapping[str, str] | None = None,
        remove_postproc: bool = False,
    ) -> Replay:
        """Take the steps on a schedule of another program, each proved anew; what became of each.

        ``on_error="skip"`` leaves out a step that does not apply, and those that need what it would have given; "stop" raises
        :class:`TraceError` there. ``rename`` gives names of blocks, loops and buffers in look-ups that are others there.
        """
        if on_error not in ("stop", "skip"):
            raise ValueError(f"on_error= is 'stop' or 'skip', got {on_error!r}")
        return self._replay(sch, self._kept(remove_postproc), None, rename or {}, on_error)

    def _replay(
        self,
        sch: Target,
        insts: Sequence[Instruction],
        provider: Provider | None,
        rename: Mapping[str, str],
        on_error: str,
    ) -> Replay:
        known: dict[object, object] = {}
        lost: set[object] = set()
        found = Replay()
        for number, inst in enumerate(insts):
            missing = [one for value in (*inst.inputs, *inst.extra.values()) for one in _handles(value) if one in lost]
            if missing:
                lost.update(inst.outputs)
                found.steps.append(ReplayedStep(inst, "skipped", "what gives one of its arguments was skipped"))
                continue
            try:
                made = self._taken(sch, number, renamed(inst, rename), self.decisions.get(inst), known, provider)
            except (ScheduleError, TypeError) as error:
                if on_error == "raise":
                    raise
                if on_error == "stop":
                    raise stopped(number, inst, error) from error
                lost.update(inst.outputs)
                found.steps.append(ReplayedStep(inst, "skipped", getattr(error, "message", str(error))))
                continue
            known.update(zip(inst.outputs, made, strict=True))
            found.steps.append(ReplayedStep(inst, "applied"))
        return found

    def _taken(
        self,
        sch: Target,
        number: int,
        inst: Instruction,
        decision: object,
        known: Mapping[object, object],
        provider: Provider | None,
    ) -> Sequence[object]:
        """The results of an instruction on another schedule."""
        try:
            inputs = [_translated(value, known) for value in inst.inputs]
            extra = {key: _translated(value, known) for key, value in inst.extra.items()}
        except KeyError as error:
            raise TraceError(f"instruction {number}, {inst.kind.name}, uses a handle that nothing gave") from error
        if provider is not None and decision is not None:
            decision = provider(inst, inputs, inst.attrs, decision)
        made = sch.apply_kind(inst.kind, inst.kind.unflat(inputs, inst.attrs, extra), decision)
        if len(made) != len(inst.outputs):
            raise TraceError(
                f"instruction {number}, {inst.kind.name}, gives {len(made)} results here, {len(inst.outputs)} in the trace",
                help="the trace is of a program with another number of loops or blocks",
            )
        return made

    # Tuning

    def space(self) -> list[Choice]:
        """The steps that draw something, each with how many decisions it has and an iterator over them.

        The extent of a loop is what its decision multiplies to; 0 where the number of decisions is not known.
        """
        return [Choice(inst, self.decisions.get(inst)) for inst in self.insts if inst.kind.draws]

    def mutate(self, rng: Drawing) -> Trace:
        """The trace with another decision of one of its steps. Raises :class:`TraceError` where there is nothing to draw."""
        open_ = [one for one in self.space() if one.count > 1]
        if not open_:
            raise TraceError("there is nothing to draw in the trace: no step has two decisions")
        chosen = open_[rng.randrange(len(open_))]
        others = [one for one in chosen if one != chosen.decision] if chosen.count <= FEW else None
        while others is None:
            drawn = chosen.nth(rng.randrange(chosen.count))
            others = [drawn] if drawn != chosen.decision else None
        return self.with_decision(chosen.inst, others[rng.randrange(len(others))], remove_postproc=False)

    def crossover(self, other: Trace, rng: Drawing) -> Trace:
        """The trace with each decision from this one or another one of the same instructions. Raises :class:`TraceError`."""
        mine, theirs = ([inst for inst in one.insts if inst.kind.draws] for one in (self, other))
        if [inst.kind for inst in self.insts] != [inst.kind for inst in other.insts]:
            raise TraceError("the traces have other instructions, so that their decisions do not correspond")
        decisions = dict(self.decisions)
        for a, b in zip(mine, theirs, strict=True):
            if b in other.decisions and rng.randrange(2):
                decisions[a] = other.decisions[b]
        return Trace(self.insts, decisions)

    def with_decision(self, inst: Instruction, decision: object, remove_postproc: bool) -> Trace:
        """The trace with another decision of an instruction."""
        kept = self._kept(remove_postproc)
        decisions = {one: value for one, value in self.decisions.items() if one in kept}
        return Trace(kept, {**decisions, inst: decision})

    def simplified(self, remove_postproc: bool) -> Trace:
        """The trace without look-ups whose results nobody uses."""
        used: set[object] = set()
        kept: list[Instruction] = []
        for inst in reversed(self._kept(remove_postproc)):
            if inst.kind.pure and not any(output in used for output in inst.outputs):
                continue
            kept.append(inst)
            used.update(value for one in (*inst.inputs, *inst.extra.values()) for value in _handles(one))
        kept.reverse()
        return Trace(kept, {one: value for one, value in self.decisions.items() if one in kept}, self._records)

    def as_python(self, remove_postproc: bool = False, *, dialect: str = "tvm") -> list[str]:
        """The lines of the trace as Python; ``dialect`` is ``"tvm"`` or ``"tirlower"``.

        Raises :class:`TraceError` where a step has no form in TVM.
        """
        return python_lines(self._kept(remove_postproc), self.decisions, dialect)

    def as_json(self, remove_postproc: bool = False, *, dialect: str = "tvm") -> object:
        """The trace as JSON values: TVM's lists, or ``dialect="tirlower"``, an object with all that is known."""
        return tvm_json(
            self._kept(remove_postproc), self.decisions, dialect, self._records, self.source if dialect != "tvm" else ""
        )

    def save(self, path: str | PathLike[str]) -> None:
        """Write the trace to a file: as JSON of our dialect, or as Python where the name ends in ``.py``."""
        text = self.text() + "\n"
        if not str(path).endswith(".py"):
            text = json.dumps(self.as_json(dialect="tirlower"), indent=1) + "\n"
        Path(path).write_text(text, encoding="utf-8")

    @staticmethod
    def load(path: str | PathLike[str]) -> Trace:
        """The trace of a file of JSON, of either dialect. Raises :class:`TraceError` for what is none.

        ``trace.source`` is the digest of the module that it was taken on, where the file says it.
        """
        text = Path(path).read_text(encoding="utf-8")
        insts, decisions = load_trace(text)
        return Trace(insts, decisions, source=source_of(text))

    @staticmethod
    def apply_json_to_schedule(json_obj: object, sch: Target) -> None:
        """Take the steps of a JSON trace of either dialect on a schedule. Raises :class:`TraceError`."""
        insts, decisions = load_trace(json_obj)
        Trace(insts, decisions).apply_to_schedule(sch)

    def text(self, dialect: str = "tirlower", remove_postproc: bool = False) -> str:
        """The trace as a function of Python."""
        lines = self.as_python(remove_postproc, dialect=dialect)
        if dialect != "tvm":
            groups = [
                self._records[inst].group if inst in self._records else () for inst in self._kept(remove_postproc)
            ]
            lines = with_groups(lines, groups)
        return function_text(lines, dialect)

    def show(self) -> None:
        """Print the trace."""
        print(self.text())

    def __str__(self) -> str:
        return self.text()


def _translated(value: object, known: Mapping[object, object]) -> object:
    """An input with the handles of another schedule put in."""
    if isinstance(value, Handle):
        return known[value]
    if isinstance(value, Var):
        return known.get(value, value)
    if isinstance(value, (list, tuple)):
        return [_translated(one, known) for one in value]
    if isinstance(value, dict):
        return {key: _translated(one, known) for key, one in value.items()}
    return value


def _handles(value: object) -> list[object]:
    if isinstance(value, (list, tuple)):
        return [one for inner in value for one in _handles(inner)]
    if isinstance(value, dict):
        return _handles(list(value.values()))
    return [value] if isinstance(value, (Handle, Var)) else []
