"""May the iterations of a loop run at once? Parallel, vectorized, unrolled and thread-bound loops; races.

Every answer is a :class:`Verdict`. A dependence that certainly exists refutes, with a witness; one that may exist
(an indirect index, a callee) makes the answer unknown; none at all proves. Facts of ``T.assume`` and assertions in
scope are used; sizes of buffers are at least 0. Buffers of different data variables do not overlap, and index arithmetic
does not overflow.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tirlower.ir import For, ForKind, IntImm, PrimFunc, Var, While
from tirlower.poly.conflicts import MAX_PAIRS, Conflicts, Relation
from tirlower.poly.constraint_system import Outcome
from tirlower.poly.digit_test import Sign
from tirlower.poly.execution_order import common_loops, in_step_violations, ways_before
from tirlower.poly.extract import extract
from tirlower.poly.forms import Form, single
from tirlower.poly.isl import Solver, available
from tirlower.poly.privatization import is_private
from tirlower.poly.reductions import Reduction
from tirlower.poly.remedies import remedy_for, remedy_for_unknown
from tirlower.poly.scop import Access, Loop, Scop, of_one_reduction, updates_of_one
from tirlower.poly.verdict import PROVED, Verdict

__all__ = ["Race", "can_bind", "carried_reductions", "is_parallel", "is_unrollable", "is_vectorizable", "races"]

LoopLike = For | While | Var | str | Loop
Case = tuple[Access, Access, Mapping[Loop, Sign], Sequence[Relation]]
"""A way in which two accesses would conflict: the first belongs to the first iteration."""


def is_parallel(
    func: PrimFunc | Scop, loop: LoopLike, *, reductions: bool = False, solver: Solver | None = None
) -> Verdict:
    """Whether the iterations of a loop may run in any order and at once.

    Refuted when two iterations touch one element and one of them writes it. Buffers allocated inside the loop are
    private to an iteration. ``reductions=True`` leaves out what the updates of a recognised reduction do to each
    other (for a loop that is compiled with partial results). ``loop`` is a For node, a variable or a name.

    >>> from tirlower.script import parse
    >>> scan = parse('''
    ... @T.prim_func
    ... def scan(A: T.Buffer((8,), "int32")):
    ...     for i in range(7):
    ...         A[i + 1] = A[i + 1] + A[i]
    ... ''')
    >>> verdict = is_parallel(scan, "i")
    >>> verdict.status, str(verdict.witness)
    ('refuted', 'iteration (i = 0) writes A[1] and iteration (i = 1) reads A[1]')
    """
    check = _Check(func, loop, solver, "parallel", reductions)
    return check.run(check.parallel_cases)


def is_vectorizable(
    func: PrimFunc | Scop, loop: LoopLike, *, reductions: bool = False, solver: Solver | None = None
) -> Verdict:
    """Whether each statement of a loop may run for all lanes in turn: its loads before its store, inner loops in step.

    Refuted when a dependence runs from a lane to a later lane's textually earlier, or same, statement instance (a
    statement's loads come before its store). ``reductions`` as in :func:`is_parallel`.
    """
    check = _Check(func, loop, solver, "vectorized", reductions)
    return check.run(check.vector_cases)


def carried_reductions(func: PrimFunc | Scop, loop: LoopLike, *, solver: Solver | None = None) -> tuple[Reduction, ...]:
    """The reductions that the iterations of a loop may have in common, one for each accumulator, in the text's order.

    Two iterations update one element of each of these (or it is not known that they do not); a loop compiled with
    partial results needs them for these and no others.
    """
    return tuple(_Check(func, loop, solver, "parallel", True).carried().values())


def is_unrollable(func: PrimFunc | Scop, loop: LoopLike, *, jumps: bool = False) -> Verdict:
    """Whether a loop can be replaced by one copy of its body per iteration: its extent is a number, nothing leaves
    or continues it (with ``jumps`` it may, for a compiler that then keeps the loop)."""
    scop = extract(func)
    found = scop.loop(loop)
    if isinstance(found.node, While):
        return Verdict("refuted", "a while loop has no extent", help="use a for loop")
    if (found.leaves or found.continues) and not jumps:
        return Verdict("refuted", f"the body leaves or continues the loop {found.name!r}")
    assert found.extent is not None  # only a while loop has none
    low, high = scop.space.interval(found.extent)
    if found.extent.is_constant or low == high or high <= 0:
        return PROVED
    if isinstance(found.node.extent, IntImm):
        return PROVED
    return Verdict(
        "refuted",
        f"the extent {found.node.extent} of the loop {found.name!r} is not a constant",
        help="split the loop by a constant and unroll the inner one",
    )


def can_bind(
    func: PrimFunc | Scop, loop: LoopLike, thread: str, *, reductions: bool = False, solver: Solver | None = None
) -> Verdict:
    """Whether a loop may become the thread axis ``thread`` (``blockIdx.x``, ``threadIdx.y``, ``vthread.x`` …).

    Blocks are independent. Threads of a block may hand values on through memory that they share (scopes ``shared``,
    ``shared.dyn``, ``warp``) where a barrier can stand between: from a statement to a later one.
    """
    check = _Check(func, loop, solver, f"bound to {thread}", reductions, thread)
    if thread.startswith("threadIdx") or thread.startswith("vthread"):
        return check.run(check.thread_cases)
    return check.run(check.parallel_cases)


@dataclass(frozen=True)
class Race:
    """A concurrent loop that is not proved free of races."""

    loop: Loop
    verdict: Verdict


def races(
    func: PrimFunc | Scop, *, solver: Solver | None = None, reduced: Mapping[For, Collection[Var]] | None = None
) -> list[Race]:
    """The parallel and thread-bound loops of a function that are not proved free of races, with their verdicts.

    ``reduced`` says into which data the threads of a loop combine their terms, which is then no race.
    """
    scop = extract(func)
    found = []
    for loop in scop.loops:
        if loop.kind is ForKind.PARALLEL:
            check = _Check(scop, loop, solver, "parallel", False)
            verdict = check.run(check.parallel_cases)
        elif loop.kind is ForKind.THREAD_BINDING:
            check = _Check(scop, loop, solver, f"bound to {loop.tag}", False, loop.tag)
            check.reduced = (reduced or {}).get(loop.node, ()) if isinstance(loop.node, For) else ()
            is_thread = loop.tag.startswith("threadIdx") or loop.tag.startswith("vthread")
            verdict = check.run(check.gpu_cases if is_thread else check.parallel_cases)
        else:
            continue
        if not verdict.proved:
            found.append(Race(loop, verdict))
    return found


_SHARED = ("shared", "warp")
_PER_THREAD = ("local", "wmma", "m16n8k8", "metal.simdgroup")
_ROWS_OF_LANES = ("threadIdx.y", "threadIdx.z")
_IN_STEPS = (ForKind.SERIAL, ForKind.UNROLLED)
"""The loops whose iterations a thread runs one after another."""


class _Check:
    """One question about one loop."""

    def __init__(
        self,
        func: PrimFunc | Scop,
        loop: LoopLike,
        solver: Solver | None,
        kind: str,
        reductions: bool,
        thread: str = "",
    ) -> None:
        self.scop = extract(func)
        self.loop = self.scop.loop(loop)
        self.conflicts = Conflicts(self.scop, solver)
        self.kind = kind
        self.reductions = reductions
        self.thread = thread
        self.outer: dict[Loop, Sign] = dict.fromkeys(self.loop.outer, "=")
        self.reduced: Collection[Var] = ()
        self.unsure: set[Var] = set()
        self._private: dict[Var, bool] = {}

    def run(self, cases: Callable[[Access, Access], Iterator[Case]]) -> Verdict:
        """Ask about every pair of accesses in the loop."""
        with self.conflicts.solver.verdict():
            return self._run(cases)

    def _run(self, cases: Callable[[Access, Access], Iterator[Case]]) -> Verdict:
        loop = self.loop
        if loop.leaves:
            return Verdict(
                "unknown",
                f"an iteration may leave the loop {loop.name!r} early, so which of them run depends on their order",
                help="compute a flag and test it after the loop",
            )
        low, high = self.scop.space.interval_of_dim(loop.var)
        if high <= low:
            return PROVED  # at most one iteration
        accesses = [a for a in self.scop.inside(loop) if not self.is_private(a.data) and a.data not in self.reduced]
        unknown: Verdict | None = None
        only_reductions: tuple[Case, Outcome] | None = None
        for pair in self.conflicts.pairs(accesses, {**self.outer, loop: "!"}):
            if pair is None:
                unknown = Verdict("unknown", f"gave up after {MAX_PAIRS} pairs of accesses")
                break
            a, b = pair
            if a.atomic and a.atomic == b.atomic:
                continue
            updates = of_one_reduction(a, b)
            if updates and (self.reductions or only_reductions is not None):
                continue
            for case in cases(a, b):
                found = self.conflicts.ask(*case)
                if found.status == "empty":
                    continue
                if found.status == "found" and found.exact and a.data in self.unsure:
                    found = Outcome("found", False, None, self._why_unsure())
                if found.status == "found" and found.exact:
                    if updates:
                        only_reductions = case, found
                        break
                    return self.refuted(case, found)
                if unknown is None:
                    unknown = self.undecided(case, found.reason)
        if only_reductions is not None:
            return self.refuted(*only_reductions, unknown is None and self.late() is None)
        late = self.late() if self.reductions else None
        if late is not None and (late.refuted or unknown is None):
            return late
        return PROVED if unknown is None else unknown

    def late(self) -> Verdict | None:
        """A refusal where the init of a carried reduction may come behind updates of its element.

        Partial results begin with what the inits set before the loop, all of them: what the loop sets anew later on
        would not be forgotten.
        """
        accesses = [a for a in self.scop.inside(self.loop) if a.update is not None]
        carried = self.carried() if any(a.statement.starts for a in accesses) else {}
        accesses = [a for a in accesses if a.data in carried]
        unknown: Verdict | None = None
        for pair in self.conflicts.pairs(accesses, self.outer):
            if pair is None:
                return Verdict("unknown", f"gave up after {MAX_PAIRS} pairs of accesses")
            for update, init in (pair, pair[::-1]):
                if update.statement.starts or not init.statement.starts or not of_one_reduction(update, init):
                    continue
                for signs in ways_before(update, init, common_loops(update, init)[len(self.outer) :]):
                    case: Case = update, init, {**self.outer, **signs}, ()
                    found = self.conflicts.ask(*case)
                    if found.status == "found" and found.exact:
                        return self.refuted(case, found)
                    if found.status != "empty" and unknown is None:
                        unknown = self.undecided(case, found.reason)
        return unknown

    def carried(self) -> dict[Var, Reduction]:
        """The reductions with updates in two iterations of one element, by the memory of it, in the text's order."""
        found: dict[Var, Reduction] = {}
        updates = [a for a in self.scop.inside(self.loop) if a.update is not None and not self.is_private(a.data)]
        for pair in self.conflicts.pairs(updates, {**self.outer, self.loop: "!"}):
            if pair is None:  # too many to ask: take all
                found = {a.data: a.update for a in updates if a.update is not None}
                break
            a, b = pair
            reduction = a.update
            if a.data in found or reduction is None or not of_one_reduction(a, b):
                continue
            if any(self.conflicts.ask(*case).status != "empty" for case in self.parallel_cases(a, b)):
                found[a.data] = reduction
        order = {a.data: a.order for a in reversed(updates)}
        return {data: found[data] for data in sorted(found, key=order.__getitem__)}

    def is_private(self, data: Var) -> bool:
        """Whether every iteration of the loop has a buffer of its own."""
        found = self._private.get(data)
        if found is None:
            found = self._private[data] = self._is_private(data)
        return found

    def _is_private(self, data: Var) -> bool:
        scope = self.scop.scopes.get(data, "")
        if self.thread.startswith(("threadIdx", "vthread")):
            if scope.startswith(_PER_THREAD) and self.loop.tag:
                return True  # of a loop that is not bound yet, an iteration may hand on what a thread could not
            if scope == "warp" and self.thread.startswith(_ROWS_OF_LANES):
                return True  # the lanes along threadIdx.x have it for themselves
            if scope.startswith(_SHARED) and not self.thread.startswith("vthread"):
                return False
        elif self.loop.tag and scope.startswith((*_PER_THREAD, *_SHARED)):
            return True  # a block of threads has its own
        private = is_private(self.scop, data, self.loop, self.conflicts.solver)
        if private is None:
            self.unsure.add(data)
        return bool(private)

    @staticmethod
    def _why_unsure() -> str:
        """Why it is not known whether iterations share memory that a block allocates."""
        why = "each iteration may have the memory for itself"
        return why if available() else f"{why}, and islpy is not installed, which would tell (pip install islpy)"

    # The ways to conflict

    def parallel_cases(self, a: Access, b: Access) -> Iterator[Case]:
        """Any two iterations."""
        yield a, b, {**self.outer, self.loop: "!"}, ()

    def vector_cases(self, a: Access, b: Access) -> Iterator[Case]:
        """An earlier lane whose instance does not run before that of a later lane when they run in step."""
        for first, second in ((a, b), (b, a)) if a is not b else ((a, b),):
            inner = common_loops(first, second)[len(self.outer) + 1 :]
            for signs in in_step_violations(first, second, inner):
                yield self._in_step(first, second, signs)

    def _in_step(self, first: Access, second: Access, signs: Mapping[Loop, Sign]) -> Case:
        """Steps of a loop whose start differs between lanes are counted from its start."""
        related: dict[Loop, Sign] = {**self.outer, self.loop: "<"}
        relations: list[Relation] = []
        skewed = False
        for loop, sign in signs.items():
            if skewed or self._varies(loop.start):
                count = single(loop.var) - loop.start
                relations.append((count, count, sign))
                skewed = True
            else:
                related[loop] = sign
        return first, second, related, relations

    def _varies(self, lin: Form) -> bool:
        return bool(self.scop.space.deps(lin) - {loop.var for loop in self.outer})

    def thread_cases(self, a: Access, b: Access) -> Iterator[Case]:
        """Threads of one block: memory that they share is ordered by barriers between statements."""
        if not self.scop.scopes.get(a.data, "").startswith(_SHARED) and not self.thread.startswith("vthread"):
            yield from self.parallel_cases(a, b)
            return
        for first, second in ((a, b), (b, a)) if a is not b else ((a, b),):
            inner = common_loops(first, second)[len(self.outer) + 1 :]
            for signs in in_step_violations(first, second, inner):
                yield self._in_step(first, second, signs)
            if first.statement is second.statement and not first.is_write and second.is_write:
                # No barrier separates the loads of a statement from its store.
                yield self._in_step(first, second, dict.fromkeys(inner, "="))

    def gpu_cases(self, a: Access, b: Access) -> Iterator[Case]:
        """Loops that are thread axes already: a barrier may order any two statements of shared memory."""
        scope = self.scop.scopes.get(a.data, "")
        if scope.startswith(_SHARED) or self.thread.startswith("vthread"):
            if a.statement is b.statement:
                # Between two steps of a serial loop a barrier may stand; threads of other axes, and lanes, have none.
                steps = [loop for loop in common_loops(a, b)[len(self.outer) + 1 :] if loop.kind in _IN_STEPS]
                yield a, b, {**self.outer, self.loop: "!", **dict.fromkeys(steps, "=")}, ()
            return
        yield from self.parallel_cases(a, b)

    # Verdicts

    def refuted(self, case: Case, found: Outcome, only: bool = False) -> Verdict:
        """The verdict on a dependence that exists."""
        witness = self.conflicts.witness(*case, found)
        a, b = case[0], case[1]
        update = of_one_reduction(a, b)
        if update and not updates_of_one(a, b) and self.reductions:
            reason = f"the init of the block that reduces into {_name(a)} comes behind an update of the same element"
            return Verdict("refuted", reason, witness, "set the accumulator in a loop of its own before this one")
        remedy = remedy_for(self.scop, self.loop, self.kind, a, b, witness, update)
        reason = f"its iterations depend on each other through {_name(a)}"
        if update:
            reduction = a.update
            reason = f"the loop {self.loop.name!r} carries the reduction of {_name(a)} ({reduction})"
            return Verdict("refuted", reason, witness, remedy, str(reduction) if only else "")
        if witness is not None and witness.sink is not None:
            mine, other = witness.source, witness.sink
            variables = [
                f"{name} = {value}" for point in (mine, other) for name, value in point.loops if name == self.loop.name
            ]
            if len(variables) == 2:
                reason = (
                    f"iteration {variables[0]} {mine.action}, which iteration {variables[1]} {other.action.split()[0]}"
                )
        return Verdict("refuted", reason, witness, remedy)

    def undecided(self, case: Case, why: str) -> Verdict:
        """The verdict on a dependence that may exist."""
        a, b = case[0], case[1]
        both = f"{a.text} and {b.text}" if a.text != b.text else a.text
        reason = f"whether iterations of {self.loop.name!r} meet in {_name(a)} through {both} is not known: {why}"
        return Verdict("unknown", reason, help=remedy_for_unknown(self.kind, self.loop, a, of_one_reduction(a, b)))


def _name(access: Access) -> str:
    return access.buffer.name if access.buffer is not None else access.data.name
