"""One step as a transaction: check, rewrite, move the handles along, record; a step that fails leaves nothing behind."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator, Mapping
from typing import NoReturn

from tirlower.arith import Analyzer
from tirlower.diagnostics import (
    BadArgument,
    IllegalStep,
    Label,
    NotApplicable,
    ScheduleError,
    Span,
    StricterThanLegal,
    TirError,
    UnprovedStep,
)
from tirlower.ir.buffer import Buffer, Range
from tirlower.ir.dtype import INT32
from tirlower.ir.expr import BufferLoad, Call, Expr, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.index_map import IndexMap
from tirlower.ir.op import Op, Purity
from tirlower.ir.path import Path
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Bind, Block, BufferStore, For, IfThenElse, Seq, Stmt
from tirlower.ir.verify import verify_well_formed
from tirlower.poly.verdict import Verdict
from tirlower.rewrite.fact_mutator import know_shapes, stated_fact
from tirlower.schedule.conditions import violated
from tirlower.schedule.facts import Facts
from tirlower.schedule.handles import BlockRV, GapRV, Handle, LoopRV, Owner, handle_of
from tirlower.schedule.kind import BufferAt, Kind
from tirlower.schedule.policy import Policy
from tirlower.schedule.reproof import proved_again
from tirlower.schedule.sites import Change, Ended, Forward, Gap, Insert, Mark, Memory, Place, Site, at_site, moved
from tirlower.schedule.stages import Stage
from tirlower.schedule.state import Instruction, Record, State
from tirlower.schedule.trust import believed
from tirlower.script.printer import print_with_spans

__all__ = ["Step", "judge", "take"]


class Step:
    """A step that is being taken: its arguments by name (``step["loop"]``), and questions to the program around them."""

    def __init__(
        self,
        kind: Kind,
        values: dict[str, object],
        state: State,
        facts: Facts,
        policy: Policy,
        decision: object = None,
    ) -> None:
        self.kind = kind
        self.values = values
        self.state = state
        self.facts = facts
        self.policy = policy
        self.decision = decision
        self.exactness = "bitwise"
        self.said = ""
        self.word = policy.unchecked
        """On whose word the step is taken, where it is not proved."""
        self.plan: object = None
        """What the check worked out, for the rewrite."""
        self.notes: list[str] = []
        """What the step says of what it left alone."""

    def __getitem__(self, name: str) -> object:
        return self.values[name]

    def __str__(self) -> str:
        """The step as a call in Python."""
        words: list[str] = []
        for slot in self.kind.slots:
            value = self.values[slot.name]
            if slot.rest:
                assert isinstance(value, (list, tuple))
                words += map(_word, value)
            elif value is not slot.default and (value.__class__ is not slot.default.__class__ or value != slot.default):
                words.append(f"{slot.name}={_word(value)}" if slot.extra else _word(value))
        return f"{self.kind.method}({', '.join(words)})"

    def handle(self, name: str) -> Handle:
        """The handle that an argument is."""
        found = self.values[name]
        assert isinstance(found, Handle)
        return found

    def mark(self, name: str = "loop") -> str:
        """Which place of computation an argument is that is no loop: "inline", "root"; nothing where it is a loop."""
        place = self.state.place(self.handle(name))
        return place.what if isinstance(place, Mark) else ""

    def other(self, kind: Kind, **values: object) -> Step:
        """The same moment, asked about another step."""
        given = {slot.name: values.get(slot.name, slot.default) for slot in kind.slots}
        return Step(kind, given, self.state, self.facts, self.policy)

    def handles(self, name: str) -> list[Handle]:
        """The handles that an argument lists."""
        found = self.values[name]
        assert isinstance(found, (list, tuple))
        return [one for one in found if isinstance(one, Handle)]

    def number(self, value: object) -> object:
        """A value, or the number that the schedule gave an expression."""
        if isinstance(value, Var) and value in self.state.values:
            return self.state.values[value]
        return int(value.value) if isinstance(value, IntImm) else value

    def site(self, handle: Handle) -> Site:
        """Where a handle stands."""
        return self.state.site(handle)

    def func(self, site: Site) -> PrimFunc:
        """The function of a place."""
        return self.state.mod[site.func]

    def stmt(self, handle: Handle) -> Stmt | PrimFunc:
        """What a handle stands for."""
        return self.state.stmt(handle)

    def loop(self, handle: Handle) -> For:
        """The loop that a handle stands for."""
        found = self.stmt(handle)
        if not isinstance(found, For):
            raise BadArgument(f"`{handle.name}` is no loop")
        return found

    def stage(self, name: str = "block") -> Stage:
        """What an argument names that computes: a block, or a statement or nest of plain loops."""
        handle = self.handle(name)
        stmt = self.stmt(handle)
        if isinstance(stmt, PrimFunc):
            raise BadArgument("the root of a function without a root block computes nothing by itself")
        return Stage.of(self.site(handle), stmt, self.facts.uses)

    def buffer(self, name: str = "buffer") -> Buffer:
        """The buffer that an argument names."""
        at, stage = self.values[name], self.stage(self.kind.slot[name].of)
        assert isinstance(at, BufferAt)
        return (stage.reads if at.side == "read" else stage.writes)[at.at]

    def scope(self, site: Site) -> Site:
        """The place of the block around a place; of the function where there is none."""
        around = [at for at, stmt in self.way(site) if isinstance(stmt, Block)]
        return around[-1] if around else Site(site.func)

    def way(self, site: Site) -> Iterator[tuple[Site, Stmt]]:
        """The statements around a place with their own places, outermost first."""
        values = Path(site.steps).chain(self.func(site))
        for at, value in enumerate(values[:-1]):
            if isinstance(value, Stmt):
                yield Site(site.func, site.steps[:at]), value

    def allocation(self, buffer: Buffer, scope: Site) -> Insert:
        """The change that allocates a buffer at the head of a block (where its allocations stand), or of a function."""
        if not scope.steps and isinstance(self.func(scope).body, Block):
            scope = scope / ("body",)
        body = scope / ("body",)
        stmt = at_site(self.state.mod, body)
        stmts = stmt.stmts if isinstance(stmt, Seq) else (stmt,)
        count = next((at for at, one in enumerate(stmts) if not isinstance(one, AllocBuffer)), len(stmts))
        made = (AllocBuffer(buffer),)
        if isinstance(stmt, Seq) and count:
            last = count == len(stmts)
            return Insert(body / ("stmts", count - 1 if last else count), made, behind=last)
        return Insert(body, made)

    def removal(self, site: Site) -> Site:
        """The outermost loop, condition or attribute that contains nothing but what stands at a place: what to take out
        with it. Blocks with iterators stay."""
        found = site
        for place, stmt in [*self.way(site)][::-1]:
            if isinstance(stmt, Seq) and len(stmt.stmts) == 1:
                continue
            lone = isinstance(stmt, (For, AttrStmt)) or (isinstance(stmt, IfThenElse) and stmt.else_case is None)
            if not lone:
                break
            found = place
        return found

    def chain(self, site: Site) -> list[Stmt]:
        """The statements from the function's body down to a place, that of the place last."""
        return [one for one in Path(site.steps).chain(self.func(site)) if isinstance(one, Stmt)]

    def ranges(self, site: Site) -> dict[Var, Range]:
        """The ranges of the loops around a place, up to the next block outside."""
        found: dict[Var, Range] = {}
        for stmt in self.chain(site)[:-1]:
            if isinstance(stmt, Block):
                found = {}
            elif isinstance(stmt, For) and self._lasts(site, stmt.min, stmt.extent):
                found[stmt.loop_var] = Range(stmt.min, stmt.extent)
        return found

    def analyzer(self, site: Site) -> Analyzer:
        """An analyzer that knows what holds at a place: ranges of loops and iterators, conditions, facts, shapes."""
        analyzer, chain = Analyzer(), self.chain(site)
        know_shapes(analyzer, self.func(site))
        for stmt, inner in zip(chain, [*chain[1:], None], strict=True):
            if inner is None:
                break
            if isinstance(stmt, For):
                if self._lasts(site, stmt.min, stmt.extent):
                    analyzer.bind(stmt.loop_var, Range(stmt.min, stmt.extent))
            elif isinstance(stmt, Block):
                for it in stmt.iters:
                    analyzer.bind(it.var, it.domain)
            elif isinstance(stmt, IfThenElse) and stmt.then_case is inner:
                if self._lasts(site, stmt.condition):
                    analyzer.enter_constraint(stmt.condition)
            elif isinstance(stmt, Seq):
                stating = self.facts.stating(stmt)
                end = stmt.stmts.index(inner) if stating else 0
                for one in (stmt.stmts[at] for at in stating if at < end):
                    fact = stated_fact(one)
                    if fact is not None and self._lasts(site, fact):
                        analyzer.enter_constraint(fact)
                    if isinstance(one, Bind) and one.var.dtype.is_integral and one.var.dtype.is_scalar:
                        if self._lasts(site, one.value):
                            analyzer.bind(one.var, one.value)
        return analyzer

    def _lasts(self, site: Site, *values: Expr) -> bool:
        """Whether what is read from memory for values is there as long as the function runs, so that it may be read again, or known."""
        read: set[Var] = set()
        for value in values:
            if value.is_leaf and value.__class__ is not BufferLoad:
                continue
            if any(not isinstance(call.op, Op) or call.op.purity > Purity.PURE for call in each(Call, value)):
                return False
            read.update(load.buffer.data for load in each(BufferLoad, value))
        if not read:
            return True
        body = self.func(site).body
        uses = self.facts.uses(body)
        if uses.effects or uses.pointers:
            return False
        return read.isdisjoint(store.buffer.data for store in each(BufferStore, body))

    def refuse(self, message: str, at: Stmt | Expr | None = None, help: str | None = None) -> NoReturn:
        """Raise :class:`NotApplicable`."""
        raise NotApplicable(
            message, labels=[Label(at.span)] if at is not None and at.span is not None else [], help=help
        )


def _word(value: object) -> str:
    if isinstance(value, Handle):
        return value.name
    if isinstance(value, BufferAt):
        return repr(tuple(value))
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(map(_word, value))}]"
    return str(value) if isinstance(value, (Expr, IndexMap)) else repr(value)


def judge(step: Step) -> Verdict:
    """What the check of a step says; :class:`ScheduleError` where the step makes no sense."""
    try:
        return step.kind.check(step)
    except ScheduleError:
        raise
    except TirError as error:
        raise NotApplicable(error.message, labels=error.labels, notes=error.notes, help=error.help) from error


def take(
    kind: Kind,
    values: dict[str, object],
    state: State,
    facts: Facts,
    policy: Policy,
    owner: Owner,
    decision: object = None,
    group: tuple[str, ...] = (),
) -> tuple[State, list[Handle | Var]]:
    """The moment after a step, and the handles that the step gives. Raises :class:`ScheduleError`; nothing changes then."""
    step, start = Step(kind, values, state, facts, policy, decision), time.perf_counter()
    if kind.compose is not None:
        return _composed(step, owner, start, decision, group)
    try:
        if policy.accept == "tvm":
            _as_strict_as_tvm(step)
        verdict = judge(step)
        said, why = "proved", ""
        if not verdict.proved and (word := believed(step, verdict, judge)):
            said, why = "trusted", word
            step.word = step.word or f"trusted: {word}"
        elif not verdict.proved:
            if (policy.enable_check and not policy.unchecked) or (verdict.refuted and verdict.witness is None):
                raise _refusal(step, verdict)
            said, why = "unchecked", policy.unchecked or "enable_check=False"
        change = kind.rewrite(step)
        why = why or "; ".join(step.notes)
        made, outputs = _after(step, change, owner)
        if policy.verifies:
            for name in change.of():
                verify_well_formed(made.mod[name])
        if policy.recomputes:
            _remembered(made, facts, change)
        if policy.proves_again and said == "proved":
            reassociated = "reassociated" in step.exactness
            for name in change.of():
                proved_again(state.mod[name], made.mod[name], change, reassociated)
    except ScheduleError as error:
        raise _placed(step, error) from None
    except TirError as error:
        new = NotApplicable(error.message, labels=error.labels, notes=error.notes, help=error.help)
        raise _placed(step, new) from error
    except (KeyError, RecursionError) as error:
        raise _placed(step, ScheduleError(f"internal error: {type(error).__name__}: {error}")) from error
    said = step.said if step.said and said == "proved" else said
    exactness = f"unchecked({why})" if said == "unchecked" else step.exactness
    if exactness == "bitwise":
        exactness = change.exactness
    inputs, attrs, extra = kind.flat(values)
    instruction = Instruction(kind, inputs, attrs, list(outputs), extra)
    decision = change.decision if change.decision is not None else decision
    record = Record(
        instruction, decision, said, why, exactness, time.perf_counter() - start, group, interface=change.interface
    )
    return dataclasses.replace(made, before=state, record=record, steps=state.steps + 1), outputs


def _remembered(state: State, facts: Facts, change: Change) -> None:
    """Raise where what is remembered of the functions that changed is not so, or a handle stands at something else."""
    for name in change.of():
        if wrong := facts.stale(state.mod[name]):
            raise ScheduleError(f"internal error: {name} is remembered wrongly: {wrong}")
    for handle, place in state.places.items():
        if isinstance(place, Site):
            stmt = at_site(state.mod, place)
            wanted = For if isinstance(handle, LoopRV) else (Block, PrimFunc) if isinstance(handle, BlockRV) else object
            if not isinstance(stmt, wanted):
                raise ScheduleError(f"internal error: `{handle.name}` stands at a {type(stmt).__name__}")


def _as_strict_as_tvm(step: Step) -> None:
    """Raise :class:`StricterThanLegal` where TVM has a condition that the step does not meet."""
    said = violated(step)
    if said:
        try:
            legal = judge(step).proved
        except ScheduleError:
            legal = False
        raise StricterThanLegal(said, help="the step is legal: accept='legal' takes it" if legal else None)


def _composed(
    step: Step, owner: Owner, start: float, decision: object, group: tuple[str, ...]
) -> tuple[State, list[Handle | Var]]:
    """The moment after a bigger step, which takes others; what one of them is refused for, it is refused for."""
    kind, state = step.kind, step.state
    assert kind.compose is not None

    def do(part: Kind, **given: object) -> list[Handle]:
        values = {slot.name: given.get(slot.name, slot.default) for slot in part.slots}
        step.state, made = take(part, values, step.state, step.facts, step.policy, owner)
        return [one for one in made if isinstance(one, Handle)]

    try:
        outputs: list[Handle | Var] = [*kind.compose(step, do)]
    except TirError as error:
        if isinstance(error, ScheduleError):
            raise
        new = NotApplicable(error.message, labels=error.labels, notes=error.notes, help=error.help)
        raise _placed(step, new) from error
    except (KeyError, RecursionError) as error:
        raise _placed(step, ScheduleError(f"internal error: {type(error).__name__}: {error}")) from error
    parts: list[Record] = []
    at = step.state
    while at is not state:
        assert at.before is not None
        if at.record is not None:
            parts.append(at.record)
        at = at.before
    parts.reverse()
    inputs, attrs, extra = kind.flat(step.values)
    instruction = Instruction(kind, inputs, attrs, list(outputs), extra)
    said = next((part.verdict for part in parts if part.verdict != "proved"), "proved")
    why = next((part.why for part in parts if part.why), "")
    exactness = next((part.exactness for part in parts if part.exactness != "bitwise"), "bitwise")
    took = time.perf_counter() - start
    record = Record(instruction, decision, said, why, exactness, took, group, tuple(parts))
    return dataclasses.replace(step.state, before=state, record=record, steps=state.steps + 1), outputs


def _after(step: Step, change: Change, owner: Owner) -> tuple[State, list[Handle | Var]]:
    """The moment after a change, but for its record, and the handles of its outputs."""
    state, verb = step.state, step.kind.method
    ended = Ended(state.steps + 1, verb)
    change_of = moved(state.mod, state.places, change, ended, step.facts.inside)
    mod, table, found = change_of.mod, change_of.places, change_of.found
    outputs: list[Handle | Var] = []
    of: dict[Stmt, Handle] = {}
    values, twins = state.values, state.twins
    handle: Handle
    for output in change.outputs:
        if isinstance(output, int):
            number = Var(f"v{len(values)}", INT32)
            values = {**values, number: output}
            outputs.append(number)
            continue
        if isinstance(output, Mark):
            handle = LoopRV(output.what, owner)
            table[handle] = output
        elif isinstance(output, Gap):
            name = handle_of(at_site(mod, output.site), owner).name
            handle = GapRV(f"{output.side}_{name}", owner, output.side)
            table[handle] = output.site
        elif isinstance(output, Buffer):
            handle = handle_of(output, owner)
            table[handle] = Memory(next(iter(change.of()), state.working_on or ""), output)
        else:
            site = output if isinstance(output, Site) else found[output]
            handle = handle_of(at_site(mod, site), owner)
            table[handle] = site
            if isinstance(output, Stmt):
                of[output] = handle
        outputs.append(handle)
    if change.forward.ended:
        _tell(table, change_of.gone, change, ended, of)
    if change.forward.twins:
        twins = {**twins}
        for handle in state.places:
            copies = _copies(state, handle, change.forward)
            for copy in copies:
                if copy not in found:
                    continue  # a sequence, which is no statement of its own there
                other = handle_of(copy, owner)
                table[other] = found[copy]
                twins[handle] = (*twins.get(handle, ()), other)
    random = state.random if change.random is None else change.random
    after = dataclasses.replace(state, mod=mod, places=table, values=values, twins=twins, random=random)
    return after, outputs


def _copies(state: State, handle: Handle, forward: Forward) -> tuple[Stmt, ...]:
    """The further copies that a change made of what a handle stands for."""
    place = state.places[handle]
    if not isinstance(place, Site):
        return ()
    old = at_site(state.mod, place)
    return forward.twins.get(old, ()) if isinstance(old, Stmt) else ()


def _tell(
    table: dict[Handle, Place], gone: Mapping[Handle, Stmt], change: Change, ended: Ended, of: Mapping[Stmt, Handle]
) -> None:
    """Say of the handles that ended what they became."""
    for handle, old in gone.items():
        became = tuple(of[new] for new in change.forward.ended.get(old, ()) if new in of)
        table[handle] = dataclasses.replace(ended, became=became)


def _refusal(step: Step, verdict: Verdict) -> ScheduleError:
    """A verdict that is not "proved" as an error."""
    error: ScheduleError
    if verdict.unknown:
        error = UnprovedStep(verdict.reason, help=verdict.help or None)
        error.verdict = verdict
        return error
    if verdict.witness is None:
        return NotApplicable(verdict.reason, help=verdict.help or None)
    labels, notes = verdict.witness.labels(), []
    if any(label.span is None for label in labels):
        notes.append(str(verdict.witness))
        labels = [label for label in labels if label.span is not None]
    elif verdict.witness.parameters:
        notes.append("for example with " + ", ".join(f"{k} = {v}" for k, v in verdict.witness.parameters.items()))
    error = IllegalStep(verdict.reason, labels=labels, notes=notes, help=verdict.help or None)
    error.verdict, error.witness = verdict, verdict.witness
    return error


def _placed(step: Step, error: ScheduleError) -> ScheduleError:
    """An error with what was asked for, and when; a statement that no script has is shown as it is printed now."""
    level = step.policy.error_render_level
    message = f"{step}: {error.message}" if level == "detail" else error.message
    if level == "none":
        message = "ScheduleError: (not rendered)"
    new = type(error)(message, origin=step.kind.method)
    if level == "detail":
        new.labels, new.notes, new.help = error.labels or _printed(step, error), error.notes, error.help
        if step.state.steps:
            new.notes = [*error.notes, f"after step {step.state.steps}"]
    if isinstance(error, (IllegalStep, UnprovedStep)) and isinstance(new, (IllegalStep, UnprovedStep)):
        new.verdict = error.verdict
        if isinstance(error, IllegalStep) and isinstance(new, IllegalStep):
            new.witness = error.witness
    return new


def _printed(step: Step, error: ScheduleError) -> list[Label]:
    """The accesses of a witness underlined in the program as it is now, where they stand in no script."""
    if not isinstance(error, IllegalStep) or not isinstance(error.verdict, Verdict) or error.verdict.witness is None:
        return []
    points = error.verdict.witness.points
    for name, func in step.state.mod.items():
        printed = print_with_spans(func, f"<{name} after step {step.state.steps}>")
        spans: list[Span | None] = [
            printed.spans.get(point.node) or printed.spans.get(point.statement) for point in points
        ]
        if all(span is not None for span in spans):
            return [
                Label(span, f"at {point.iteration} {point.action}", primary=at == len(points) - 1)
                for at, (span, point) in enumerate(zip(spans, points, strict=True))
            ]
    return []
