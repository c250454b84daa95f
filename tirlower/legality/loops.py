"""Loop kinds: proved, taken on the user's word, or refused with the iterations that disagree."""

from __future__ import annotations

from tirlower import poly
from tirlower.diagnostics import Label, LegalityError
from tirlower.ir.annotations import REDUCTION, UNCHECKED
from tirlower.ir.buffer import IterKind
from tirlower.ir.expr import BufferLoad, Expr, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import Mutator, pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.stmt import Block, BufferStore, Evaluate, For, ForKind, Stmt, seq
from tirlower.legality.notes import LoopNote
from tirlower.legality.thread_copies import require_own_copies

__all__ = ["check_loops", "loop_notes", "without_idle_jumps"]

_WORDS = {
    ForKind.PARALLEL: "parallel",
    ForKind.VECTORIZED: "vectorized",
    ForKind.UNROLLED: "unrolled",
    ForKind.THREAD_BINDING: "thread-bound",
}


def _loops(func: PrimFunc) -> list[For]:
    """The loops of a function that are not serial, in the order of the text."""
    found: list[For] = []

    def look(op: Node) -> bool:
        if isinstance(op, For) and op.kind is not ForKind.SERIAL:
            found.append(op)
        return not isinstance(op, Expr)

    pre_order_visit(func.body, look)
    return found


def loop_notes(name: str, func: PrimFunc, status: str) -> list[LoopNote]:
    """A note of one status on each loop that is not serial."""
    return [LoopNote(name, loop.loop_var.name, loop.kind.value, status) for loop in _loops(func)]


def check_loops(name: str, scop: poly.Scop) -> tuple[LoopNote, ...]:
    """Check every loop of a function that is not serial; returns a note on each.

    A parallel or vectorized loop must compute what the serial loop computes; an unrolled one must have a constant
    extent; the threads of a thread-bound one must not race, but those of one block may reduce together. Raises :class:`LegalityError` for the first loop that is
    refuted or cannot be proved and is not annotated as unchecked.
    """
    loops = _loops(scop.func)
    races: dict[int, poly.Verdict] = {}
    if any(loop.kind is ForKind.THREAD_BINDING and UNCHECKED not in loop.annotations for loop in loops):
        reduced = {loop: data for loop in loops if loop.kind is ForKind.THREAD_BINDING and (data := _reduced(loop))}
        races = {id(race.loop.node): race.verdict for race in poly.races(scop, reduced=reduced)}
        require_own_copies(name, scop, reduced)
    notes: dict[int, LoopNote] = {}
    for loop in loops:
        if id(loop) in notes:
            continue  # a statement that stands in several places is one loop
        status, reason = "proved", ""
        if UNCHECKED in loop.annotations:
            status, reason = "trusted", str(loop.annotations[UNCHECKED])
        else:
            verdict = races.get(id(loop)) if loop.kind is ForKind.THREAD_BINDING else _verdict(scop, loop)
            if verdict is not None and not verdict.proved:
                raise _refusal(name, loop, verdict)
        notes[id(loop)] = LoopNote(name, loop.loop_var.name, loop.kind.value, status, reason)
    return tuple(notes.values())


def without_idle_jumps(scop: poly.Scop, func: PrimFunc) -> PrimFunc:
    """The function (of ``scop``, with its guards) without the breaks and continues of parallel and vectorized loops that
    are proved never to happen: code generation knows less of their conditions, and no way to do them."""
    idle = {id(op) for loop, op in scop.idle_jumps if loop.kind is not ForKind.SERIAL}
    # A statement may stand in several places.
    idle -= {id(op) for loop in scop.loops for op in (*loop.leaves, *loop.continues)}
    return func.with_body(_Without(idle).visit(func.body)) if idle else func


class _Without(Mutator):
    """Leaves out statements, by identity."""

    def __init__(self, idle: set[int]) -> None:
        self.idle = idle

    def visit_expr(self, root: Expr) -> Expr:
        """Expressions hold no statements."""
        return root

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        return seq() if id(op) in self.idle else op


def _mentions(expr: Expr | None, var: Var) -> bool:
    found = False

    def look(op: Node) -> None:
        nonlocal found
        found = found or op is var

    if expr is not None:
        pre_order_visit(expr, look)
    return found


def _reduced(loop: For) -> set[Var]:
    """The data into which the threads of a block combine their terms: that of blocks which reduce over the loop.

    LowerCrossThreadReduction makes allreduces of those, as their iterators say. What else in the loop is stored to, or
    read (unless it is shared memory, with its barriers), is no such data.
    """
    found: set[Var] = set()
    others: set[Var] = set()

    def look_into(root: Stmt, own: Stmt | None, reduces: bool) -> None:
        def look(op: Node) -> bool:
            if isinstance(op, Block) and op is not own:
                mine = any(it.kind is IterKind.REDUCE and _mentions(it.value, loop.loop_var) for it in op.iters)
                inner = op.with_(reads=(), writes=())
                look_into(inner, inner, mine)
                return False
            if isinstance(op, BufferStore):
                (found if reduces else others).add(op.buffer.data)
            elif isinstance(op, BufferLoad) and not reduces and not op.buffer.scope.startswith("shared"):
                others.add(op.buffer.data)
            return True

        pre_order_visit(root, look)

    if str(loop.thread_tag).startswith("threadIdx"):
        look_into(loop.body, None, False)
    return found - others


def _verdict(scop: poly.Scop, loop: For) -> poly.Verdict:
    """The answer for a parallel, vectorized or unrolled loop, wherever in the function it stands."""
    reductions = bool(loop.annotations.get(REDUCTION))
    places = [each for each in scop.loops if each.node is loop]
    verdict = poly.Verdict("proved")
    for place in places:
        if loop.kind is ForKind.PARALLEL:
            verdict = poly.is_parallel(scop, place, reductions=reductions)
        elif loop.kind is ForKind.VECTORIZED:
            verdict = poly.is_vectorizable(scop, place, reductions=reductions)
        else:
            verdict = poly.is_unrollable(scop, place, jumps=True)
        if not verdict.proved:
            break
    return verdict


def _refusal(name: str, loop: For, verdict: poly.Verdict) -> LegalityError:
    kind = _WORDS[loop.kind]
    if loop.kind is ForKind.UNROLLED:
        return _placed(verdict.error(f"cannot unroll loop {loop.loop_var.name!r} of {name!r}", "legality"), loop, kind)
    problem = "is not legal" if verdict.refuted else "cannot be proved legal"
    error = verdict.error(f"the {kind} loop `{loop.loop_var.name}` of {name!r} {problem}", "legality")
    trust = f'state the missing fact with T.assume, or annotate the loop {{"{UNCHECKED}": "why it is right"}}'
    error.help = error.help or (f"make it serial, or {trust}" if verdict.refuted else trust)
    return _placed(error, loop, kind)


def _placed(error: LegalityError, loop: For, kind: str) -> LegalityError:
    """The error with the loop's own line."""
    if loop.span is not None:
        error.labels.append(Label(loop.span, f"{kind} here", primary=not error.labels))
    return error
