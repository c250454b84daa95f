"""The test before isl: equations between subscripts, decided by digits and intervals.

Two instances touch one element only where the differences of their subscripts are zero. With ``d`` the difference of
a loop's iterations, an equation like ``8 * d_io + d_ii == 0`` with ``|d_ii| <= 7`` splits into its digits: what is
smaller than the step of the rest must be zero by itself, so ``d_io == 0``. If that contradicts what is asked (that
the iterations of ``io`` differ), there is no dependence. Bounds are those of the dims alone, so a "no" is certain and
anything else means that isl is asked. It is also the whole test where islpy is not installed.

The idea is that of delinearization by digits (Maslov, "Delinearization: an efficient way to break multiloop dependence
equations", PLDI 1992); measured at some 10 us an equation.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import partial

from tirlower.arith.intervals import EVERYTHING, INF, Bound, num
from tirlower.ir import Var
from tirlower.poly.affine import Space
from tirlower.poly.digits import in_digits
from tirlower.poly.forms import Atom, Dim, Form
from tirlower.poly.guarded_ranges import Ranges, bound_within
from tirlower.poly.joined import joined, symbolic_divisions

__all__ = ["Meeting", "Sign", "disjoint", "meeting"]

Sign = str
"""How the source's iteration of a loop relates to the sink's: "=", "<", ">", "!" (different) or "*" (any)."""

Terms = list[tuple[object, int]]


class _Contradiction(Exception):
    pass


class _Digits:
    """Equations over integer unknowns with intervals."""

    def __init__(self) -> None:
        self.known: dict[object, Bound] = {}
        self.equations: list[tuple[Terms, int]] = []
        self.changed = False

    def copy(self) -> _Digits:
        """Equations that can be narrowed on their own."""
        made = _Digits()
        made.known = dict(self.known)
        made.equations = list(self.equations)
        return made

    def bound(self, key: object, low: num, high: num) -> None:
        least, most = self.known.get(key, EVERYTHING)
        if low > least or high < most:
            least, most = max(low, least), min(high, most)
            self.changed = True
            if least > most:
                raise _Contradiction
            self.known[key] = least, most
        elif key not in self.known:
            self.known[key] = EVERYTHING

    def run(self) -> None:
        """Propagate until nothing changes. Raises where there is no solution."""
        for _ in range(6):
            self.changed = False
            equations, self.equations = self.equations, []
            for terms, const in equations:
                self.split(terms, const)
            if not self.changed:
                return

    def split(self, terms: Terms, const: int) -> None:
        """Take an equation ``sum(c * x) + const == 0`` apart into digits, and tighten the bounds by what is left."""
        left: Terms = []
        for key, c in terms:
            low, high = self.known[key]
            if isinstance(low, int) and low == high:
                const += c * low
            else:
                left.append((key, c))
        if not left:
            if const:
                raise _Contradiction
            return
        left.sort(key=lambda term: abs(term[1]))
        low, high = const, const
        for at in range(1, len(left)):
            key, c = left[at - 1]
            least, most = self.known[key]
            if not (isinstance(least, int) and isinstance(most, int)):
                break
            low += min(c * least, c * most)
            high += max(c * least, c * most)
            step = math.gcd(*(abs(c) for _, c in left[at:]))
            first = -(-low // step) * step
            if first > high:
                raise _Contradiction
            if first + step > high:
                self.split(left[:at], const - first)
                self.split(left[at:], first)
                return
        shared = math.gcd(*(abs(c) for _, c in left))
        if const % shared:
            raise _Contradiction
        if len(left) == 1:
            ((key, c),) = left
            self.bound(key, -const // c, -const // c)
            return
        self._tighten(left, const)
        self.equations.append((left, const))

    def _tighten(self, terms: Terms, const: int) -> None:
        ends = []
        # The sums of what is finite, and how much is not.
        low, high, open_low, open_high = const, const, 0, 0
        for key, c in terms:
            least, most = self.known[key] if c > 0 else self.known[key][::-1]
            ends.append((least, most))
            if isinstance(least, int):
                low += c * least
            else:
                open_low += 1
            if isinstance(most, int):
                high += c * most
            else:
                open_high += 1
        for (key, c), (least, most) in zip(terms, ends, strict=True):
            # c * x == -(the others)
            alone_low, alone_high = not isinstance(least, int), not isinstance(most, int)
            rest_low = -INF if open_low > alone_low else low if alone_low else low - c * least
            rest_high = INF if open_high > alone_high else high if alone_high else high - c * most
            first, last = (-rest_high, -rest_low) if c > 0 else (rest_low, rest_high)
            least = -(-first // abs(c)) if isinstance(first, int) else -INF
            self.bound(key, least, last // abs(c) if isinstance(last, int) else INF)


def disjoint(
    space: Space,
    pairs: Iterable[tuple[Form, Form]],
    signs: Mapping[Var, Sign],
    extra: Sequence[tuple[int, int, int]] | None = None,
    ranges: tuple[Ranges, Ranges] = ({}, {}),
) -> bool:
    """Whether source and sink certainly have no instances for which all pairs of forms are equal.

    ``signs`` relates the loops that both share; other loops are independent. ``extra`` adds to each pair a multiple
    ``step`` of an unknown between two numbers, (step, low, high): the offsets of a family of accesses. ``ranges`` holds
    what is known of variables in the source alone, and in the sink.
    """
    return meeting(space, pairs, signs, extra, ranges) is None


class Meeting:
    """What is known of source and sink where they meet: the equations in each way that they were written, solved."""

    def __init__(self, ways: list[_Digits], unequal: list[object], settled: bool) -> None:
        self._ways = ways
        self._unequal = unequal
        #: whether no more could be learnt from divisions by sizes
        self.settled = settled

    def directed(self, var: Var, sign: Sign) -> Meeting | None:
        """What is known where a loop's iterations, of which it was asked whether they differ, are before ("<") or
        after (">") each other; None where source and sink do not meet then."""
        ways = [way.copy() for way in self._ways]
        unequal = [key for key in self._unequal if key != ("d", var)]
        try:
            for way in ways:
                way.bound(("d", var), *((-INF, -1) if sign == "<" else (1, INF)))
                way.run()
        except _Contradiction:
            return None
        if any(way.known[key] == (0, 0) for way in ways for key in unequal):
            return None
        return Meeting(ways, unequal, self.settled)


def meeting(
    space: Space,
    pairs: Iterable[tuple[Form, Form]],
    signs: Mapping[Var, Sign],
    extra: Sequence[tuple[int, int, int]] | None = None,
    ranges: tuple[Ranges, Ranges] = ({}, {}),
) -> Meeting | None:
    """What is known of the instances for which all pairs of forms are equal; None where there certainly are none.

    The arguments are those of :func:`disjoint`.
    """
    given = list(pairs)
    divisions = symbolic_divisions(given)
    equal = {var for var, sign in signs.items() if sign == "="}
    while True:
        found = _solved(space, given, signs, extra, ranges)
        if found is None:
            return None
        ways = [found]
        apart = in_digits(space, given)
        if apart is not None:
            found = _solved(space, apart, signs, extra, ranges)
            if found is None:
                return None
            ways.append(found)
        # A form whose quotient and remainder are equal is one more equation.
        more = joined(divisions, partial(_is_same, space, equal, found.known))
        if not more:
            return Meeting(ways, [("d", var) for var, sign in signs.items() if sign == "!"], not divisions)
        given += [(lin, lin) for lin in more]
        done = {lin.key for lin in more}
        divisions = [dim for dim in divisions if dim.of.key not in done]


def _is_same(space: Space, equal: set[Var], known: Mapping[object, Bound], dim: Dim) -> bool:
    """Whether a dim has one value in source and sink."""
    deps = dim.deps if isinstance(dim, Atom) else {dim} & space.iterated
    return not deps - equal or known.get(("d", dim)) == (0, 0)


def _solved(
    space: Space,
    pairs: Sequence[tuple[Form, Form]],
    signs: Mapping[Var, Sign],
    extra: Sequence[tuple[int, int, int]] | None,
    ranges: tuple[Ranges, Ranges],
) -> _Digits | None:
    """The equations and the bounds of their unknowns, for which all pairs are equal; None where there are none."""
    digits = _Digits()
    try:
        unequal = _collect(digits, space, pairs, signs, extra, ranges)
        digits.run()
    except _Contradiction:
        return None
    return None if any(digits.known[key] == (0, 0) for key in unequal) else digits


def _collect(
    digits: _Digits,
    space: Space,
    pairs: Sequence[tuple[Form, Form]],
    signs: Mapping[Var, Sign],
    extra: Sequence[tuple[int, int, int]] | None,
    ranges: tuple[Ranges, Ranges],
) -> list[object]:
    """The equations; returns the differences that are not zero."""
    equal = {var for var, sign in signs.items() if sign == "="}
    unequal: list[object] = []
    for var, sign in signs.items():
        if sign != "=":
            low, high = _difference(space, var, ranges)
            if sign == "<":
                digits.bound(("d", var), low, -1)
            elif sign == ">":
                digits.bound(("d", var), 1, high)
            else:
                digits.bound(("d", var), low, high)
                if sign == "!":
                    unequal.append(("d", var))
    for at, (a, b) in enumerate(pairs):
        terms: dict[object, int] = {}
        for dim in {**a.terms, **b.terms}:
            _add_dim(digits, space, terms, dim, a.terms.get(dim, 0), b.terms.get(dim, 0), signs, equal, ranges)
        if extra is not None and at < len(extra) and extra[at][0]:
            step, low_offset, high_offset = extra[at]
            digits.bound(("o", at), low_offset, high_offset)
            terms["o", at] = step
        digits.equations.append(([(key, c) for key, c in terms.items() if c], a.const - b.const))
    return unequal


def _add_dim(
    digits: _Digits,
    space: Space,
    terms: dict[object, int],
    dim: Dim,
    ca: int,
    cb: int,
    signs: Mapping[Var, Sign],
    equal: set[Var],
    ranges: tuple[Ranges, Ranges],
) -> None:
    if isinstance(dim, Atom):
        shared, related = not (dim.deps - equal), bool(ca and cb)
        if related and not shared:
            # The values of one function at two places: their difference is an unknown of its own.
            digits.bound(("d", dim), *_difference(space, dim, ranges))
    else:
        shared, related = dim not in space.iterated or dim in equal, dim in signs
    if shared:
        if ca != cb:
            digits.bound(dim, *bound_within(space, dim, ranges[0]))
            terms[dim] = terms.get(dim, 0) + ca - cb
        return
    if related and ca and cb:
        # ca * x - cb * y == ca * (x - y) + (ca - cb) * y
        terms["d", dim] = ca
        if ca != cb:
            digits.bound((2, dim), *bound_within(space, dim, ranges[1]))
            terms[2, dim] = ca - cb
        return
    for side, c in ((1, ca), (2, -cb)):
        if c:
            digits.bound((side, dim), *bound_within(space, dim, ranges[side - 1]))
            terms[side, dim] = c


def _difference(space: Space, dim: Dim, ranges: tuple[Ranges, Ranges]) -> Bound:
    """The bounds of a dim in the source, less the same in the sink."""
    (low, high), (least, most) = (bound_within(space, dim, each) for each in ranges)
    return low - most, high - least
