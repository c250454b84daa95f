"""Quotients of one form by divisors that divide each other, in digits: ``x``, ``x // 8`` and ``x // 256`` as three unknowns
that do not know of each other say little; as ``256 * c + 8 * b + a`` with ``a < 8`` and ``b < 32`` they say what they are.

Threads and blocks that are taken apart into tiles, rows and chunks are such forms. A sum like ``128 * x - 1024 * (x // 8)``
becomes ``128 * a``, and equations between them fall apart in :mod:`tirlower.poly.digit_test`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from tirlower.arith.affine import Affine
from tirlower.ir import FloorDiv, FloorMod, Var
from tirlower.ir.integers import Value, exact
from tirlower.poly.affine import Space
from tirlower.poly.forms import Atom, Dim, Div, Form, single, weight_of

if TYPE_CHECKING:
    from tirlower.poly.evaluate import Valuation

__all__ = ["in_digits"]


class _Digit(Atom):
    """``floor(of / low) % radix``."""

    __slots__ = ("low", "of", "radix")

    def __init__(self, of: Form, low: int, radix: int, deps: frozenset[Var]) -> None:
        super().__init__(weight_of(of), deps, (0, radix - 1), True)
        self.of = of
        self.low = low
        self.radix = radix

    @property
    def name(self) -> str:
        """``(of // low % radix)``."""
        return f"({self.of} // {self.low} % {self.radix})"

    def at(self, point: Valuation) -> Value:
        """The digit."""
        return exact(FloorMod, exact(FloorDiv, point.value(self.of), self.low), self.radix)


class _Base:
    """A form in digits: the weights 1, d1, d2, … of its divisors, and the atom that each digit is."""

    def __init__(self, space: Space, quotients: Sequence[Div]) -> None:
        self.of = of = quotients[0].of
        self.quotients = quotients
        self.weights = [1, *(quotient.divisor for quotient in quotients)]
        deps = space.deps(of)
        self.digits: list[Dim] = []
        for weight, above in itertools.pairwise(self.weights):
            self.digits.append(_Digit(of, weight, above // weight, deps))
        self.digits.append(quotients[-1])

    def sum_from(self, at: int) -> Form:
        """The form divided by the weight at a place: its digits from there."""
        return Affine({d: w // self.weights[at] for d, w in zip(self.digits[at:], self.weights[at:], strict=True)})

    def put_into(self, lin: Form) -> Form:
        """A form with the quotients in digits, and with a multiple of what is divided, where it has one."""
        for at, quotient in enumerate(self.quotients, 1):
            c = lin.terms.get(quotient)
            if c and at < len(self.quotients):
                lin = lin.plus(single(quotient), -c).plus(self.sum_from(at), c)
        dim, c = next(iter(self.of.terms.items()))
        times, left = divmod(lin.terms.get(dim, 0), c)
        if times and not left and all(lin.terms.get(d) == times * each for d, each in self.of.terms.items()):
            lin = lin.plus(self.of, -times).plus(self.sum_from(0), times)
        return lin


def in_digits(space: Space, pairs: Sequence[tuple[Form, Form]]) -> list[tuple[Form, Form]] | None:
    """Pairs of forms with their quotients in digits, and for each form that is divided a pair more: that it is the sum of
    its digits, in source and sink. None where nothing is divided."""
    bases = [_Base(space, quotients) for quotients in _chains(itertools.chain.from_iterable(pairs))]
    if not bases:
        return None
    made = []
    for a, b in pairs:
        for base in bases:
            a, b = base.put_into(a), base.put_into(b)
        made.append((a, b))
    for base in bases:
        nothing = base.of - base.sum_from(0)
        made.append((nothing, nothing))
    return made


def _chains(forms: Iterable[Form]) -> list[list[Div]]:
    """The quotients of each form that is divided, those whose divisors divide each other in turn."""
    found: dict[object, dict[int, Div]] = {}
    for lin in forms:
        for dim in lin.terms:
            if isinstance(dim, Div):
                found.setdefault(dim.of.key, {})[dim.divisor] = dim
    chains = []
    for quotients in found.values():
        chain: list[Div] = []
        for divisor, quotient in sorted(quotients.items()):
            if not chain or divisor % chain[-1].divisor == 0:
                chain.append(quotient)
        chains.append(chain)
    return chains
