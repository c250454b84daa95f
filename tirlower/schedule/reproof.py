"""A step that only changes the order, proved anew from the two programs alone: nothing of its own proof is used.

Both are extracted from scratch. The instances of the new one are related to those of the old one by what the step says of its
loops; then isl is asked whether that relation is one to one and onto, whether related instances touch the same elements,
and whether all pairs that meet keep their order. So a wrong rewrite after a right check is found.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tirlower.diagnostics import ScheduleError
from tirlower.ir.expr import Add, Cast, Expr, FloorDiv, FloorMod, IntImm, Mul, Sub, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.stmt import ForKind
from tirlower.poly import Scop, extract, to_isl
from tirlower.poly.constraint_system import TooManyCases
from tirlower.poly.isl import available, default_solver, isl
from tirlower.poly.scop import Access, Statement, updates_of_one
from tirlower.schedule.sites import Change

__all__ = ["proved_again"]

MOST_ACCESSES = 60
"""In a larger function nothing is asked: pairs grow with the square."""


LARGEST = 1 << 20
"""How far sizes and scalars are from 0 that are asked about."""

MOST_OPERATIONS = 2_000_000
"""Of isl, for one step."""


class _NotAsked(Exception):
    """Why nothing is asked."""


def proved_again(before: PrimFunc, after: PrimFunc, change: Change, reassociated: bool) -> str:
    """Ask whether a change keeps the order of what meets: nothing where it does, else why it was not asked.

    Raises :class:`ScheduleError` where it does not.
    """
    if change.relabel is None:
        return "its iterations are not those of before"
    if not available():
        return "islpy is not installed"
    try:
        with default_solver().limited(MOST_OPERATIONS):
            _Reproof(extract(before), extract(after), change, reassociated).run()
    except _NotAsked as reason:
        return str(reason)
    except (TooManyCases, isl.Error):
        return "its sets are too large"
    return ""


class _Reproof:
    def __init__(self, old: Scop, new: Scop, change: Change, reassociated: bool) -> None:
        self.old = old
        self.new = new
        self.change = change
        self.reassociated = reassociated

    def run(self) -> None:
        for scop in (self.old, self.new):
            if len(scop.accesses) > MOST_ACCESSES:
                raise _NotAsked(f"it has more than {MOST_ACCESSES} accesses")
            if scop.irregular or not all(scop.exact(access) for access in scop.accesses):
                raise _NotAsked("what it accesses is not known exactly")
            if any(loop.leaves for loop in scop.loops):
                raise _NotAsked("a loop is left early")
            if len(set(to_isl.distinct_names(to_isl.parameters(scop)))) < len(
                {v.name for v in to_isl.parameters(scop)}
            ):
                raise _NotAsked("two sizes have one name")
        sizes = self.sizes()
        relation = self.related().intersect_domain(self.new.domains).intersect_params(sizes)
        if not relation.range().is_equal(self.old.domains.intersect_params(sizes)):
            self.fail("some iterations of before do not run any more, or others do")
        if not relation.is_bijective():
            self.fail("an iteration of before runs twice, or two run at once")
        back = relation.reverse()
        for what, mine, other in (
            ("reads", self.old.reads, self.new.reads),
            ("writes", self.old.writes, self.new.writes),
        ):
            if not mine.apply_domain(back).is_equal(other.intersect_params(sizes)):
                self.fail(f"an iteration {what} other elements than before")
        dependences = self.dependences()
        moved = dependences.apply_domain(back).apply_range(back)
        time = self.new.schedule
        if not moved.is_subset(time.lex_lt_union_map(time)):
            self.fail("two iterations that meet in an element come in the other order")
        if not moved.intersect(self.at_once()).is_empty():
            self.fail("two iterations that meet in an element run at once")

    def sizes(self) -> isl.Set:
        """The values of sizes and scalars that are asked about: near the ends of their types what is added to them wraps."""
        params = dict.fromkeys((*to_isl.parameters(self.old), *to_isl.parameters(self.new)))
        names = to_isl.distinct_names(params)
        facts = " and ".join(f"{-LARGEST} <= {name} <= {LARGEST}" for name in names) or "true"
        return isl.Set(f"[{', '.join(names)}] -> {{ : {facts} }}")

    def fail(self, what: str) -> None:
        raise ScheduleError(f"internal error: proved anew from the two programs alone, the step is wrong: {what}")

    def related(self) -> isl.UnionMap:
        """New instances to the old ones that they are."""
        by_node: dict[object, list[Statement]] = {}
        for statement in self.new.statements:
            by_node.setdefault(statement.node, []).append(statement)
        made = isl.UnionMap.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 0))
        reached: set[Statement] = set()
        alike: dict[object, list[Statement]] = {}
        for old in self.old.statements:
            alike.setdefault(old.node, []).append(old)
        for old in self.old.statements:
            node = old.node
            nodes = [self.change.forward.after(node), *self.change.forward.twins.get(node, ())]
            found = [one for each in nodes for one in by_node.get(each, ())]
            if not found:
                raise _NotAsked("a statement of before is not known to be one of after")
            if len(alike[node]) > 1:  # one node that stands in several places, as copies of what names no loop do
                if len(found) != len(alike[node]):
                    raise _NotAsked("a statement stands in several places")
                found = [found[alike[node].index(old)]]
            for new in found:
                reached.add(new)
                made = made.union(isl.UnionMap.from_map(self.one_to_one(new, old)))
        if len(reached) < len(self.new.statements):
            raise _NotAsked("there is a statement that was not there before")
        return made

    def one_to_one(self, new: Statement, old: Statement) -> isl.Map:
        relabel = self.change.relabel
        assert relabel is not None
        names = {loop.var: f"x{at}" for at, loop in enumerate(new.loops)}
        params = to_isl.parameters(self.new)
        names |= dict(zip(params, to_isl.distinct_names(params), strict=True))
        values = [_text(relabel.get(loop.var, loop.var), names, relabel) for loop in old.loops]
        inputs = ", ".join(names[loop.var] for loop in new.loops)
        outputs = ", ".join(f"y{at}" for at in range(len(values)))
        equal = " and ".join(f"y{at} = {value}" for at, value in enumerate(values)) or "true"
        head = ", ".join(names[var] for var in params)
        return isl.Map(f"[{head}] -> {{ {new.name}[{inputs}] -> {old.name}[{outputs}] : {equal} }}")

    def pairs(self) -> Iterator[tuple[Access, Access]]:
        """The accesses of before that may depend on each other."""
        for a in self.old.accesses:
            for b in self.old.accesses:
                if a.data is not b.data or not (a.is_write or b.is_write) or self.old.homes.get(a.data):
                    continue  # what is allocated in a loop is another one in each iteration
                update = a.update
                free = update is not None and updates_of_one(a, b) and (update.reorders or self.reassociated)
                if not free or a.statement.starts or b.statement.starts:
                    yield a, b

    def dependences(self) -> isl.UnionMap:
        made = isl.UnionMap.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 0))
        relations = {id(access): to_isl.relation(self.old, access) for access in self.old.accesses}
        for a, b in self.pairs():
            met = relations[id(a)].apply_range(relations[id(b)].reverse())
            made = made.union(isl.UnionMap.from_map(met))
        time = self.old.schedule
        return made.intersect(time.lex_lt_union_map(time)).coalesce()

    def at_once(self) -> isl.UnionMap:
        """The pairs of new instances in different iterations of one parallel loop."""
        made = isl.UnionMap.empty(isl.Space.set_alloc(isl.DEFAULT_CONTEXT, 0, 0))
        for loop in self.new.loops:
            if loop.kind is not ForKind.PARALLEL and not loop.tag.startswith("blockIdx"):
                continue
            inside = [one for one in self.new.statements if loop in one.loops]
            depth = len(loop.outer)
            for a in inside:
                for b in inside:
                    mine, other = (
                        [f"{side}{at}" for at in range(len(one.loops))] for side, one in (("a", a), ("b", b))
                    )
                    same = [f"{mine[at]} = {other[at]}" for at in range(depth)]
                    facts = " and ".join([*same, f"{mine[depth]} != {other[depth]}"])
                    text = f"{{ {a.name}[{', '.join(mine)}] -> {b.name}[{', '.join(other)}] : {facts} }}"
                    made = made.union(isl.UnionMap.from_map(isl.Map(text)))
        return made


def _text(value: Expr, names: Mapping[Var, str], relabel: Mapping[Var, Expr]) -> str:
    """A quasi-affine expression as isl reads it; loops that are no more in terms of those that came of them."""
    if isinstance(value, Var):
        if value in names:
            return names[value]
        if value in relabel:
            return _text(relabel[value], names, {var: one for var, one in relabel.items() if var is not value})
        raise _NotAsked(f"the loop {value.name!r} is no more")
    if isinstance(value, IntImm):
        return str(int(value.value))
    if isinstance(value, Cast):
        return _text(value.value, names, relabel)
    if isinstance(value, (Add, Sub, Mul, FloorDiv, FloorMod)):
        return _binary(value, _text(value.a, names, relabel), _text(value.b, names, relabel))
    raise _NotAsked(f"{value} is not quasi-affine")


def _binary(value: Add | Sub | Mul | FloorDiv | FloorMod, a: str, b: str) -> str:
    if isinstance(value, (Add, Sub)):
        return f"({a} {'+' if isinstance(value, Add) else '-'} {b})"
    constants: Sequence[bool] = [isinstance(one, IntImm) for one in (value.a, value.b)]
    if isinstance(value, Mul) and any(constants):
        return f"({b} * {a})" if constants[1] else f"({a} * {b})"
    if constants[1] and isinstance(value, FloorDiv):
        return f"floor({a} / {b})"
    if constants[1] and isinstance(value, FloorMod):
        return f"({a} mod {b})"
    raise _NotAsked(f"{value} is not quasi-affine")
