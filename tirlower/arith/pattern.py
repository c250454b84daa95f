"""The language of the rules: patterns, rules, and sets of them.

A rule is data, with both sides visible::

    rule((x // c0) * c0 + x % c0, x, when="c0 != 0")

``x, y, z`` match any expression, ``c0, c1`` integer constants; ``when`` is a Python condition over the matched names.
A comparison of constants is computed; one that mentions an expression (``0 <= y``) is proved from bounds, modular sets
and facts in scope, and the rule applies only where the proof succeeds. The names of a rule's right side and condition
must be bound by its left side.

Commutative operations match in both orders unless one operand is a constant, which stands on the right by then, or
the rule names them as ``fixed``: rules whose result keeps the order of what it was made of state each order. A part of
the left side that stands on the right again is the matched expression itself, in its own order.
"""

from __future__ import annotations

import enum
import itertools
import re
import sys
from collections.abc import Iterable, Iterator
from typing import TypeAlias

from tirlower import ir

__all__ = [
    "FALSE",
    "TRUE",
    "Domain",
    "PConst",
    "PFloat",
    "PLanes",
    "PLit",
    "PNode",
    "PVar",
    "Pat",
    "Rule",
    "RuleSet",
    "rule",
]


class Domain(enum.Enum):
    """The operand types on which a rule holds (see the package's docstring on overflow)."""

    INDEX = "index"
    """int32 and int64 scalars, whose index arithmetic is taken not to overflow."""
    RING = "ring"
    """Every scalar integer type: the rule holds modulo ``2**bits``, and its constants wrap too."""
    INTEGER = "integer"
    """Every scalar integer type, as the operands' values are not computed with; constants must fit."""
    BOOL = "bool"
    INDEX_BOOL = "index_bool"
    """Conditions on int32 and int64 scalars, whose index arithmetic is taken not to overflow."""
    FLOAT = "float"
    """Float scalars: the rule changes no bit of any result, NaN payloads apart."""
    VECTOR = "vector"
    """Vectors of any element type: the rule moves lanes and computes nothing that the left side did not."""
    INT_VECTOR = "int_vector"
    """Vectors of integers: the rule holds modulo ``2**bits`` in each lane."""
    INDEX_VECTOR = "index_vector"
    """Vectors of int32 or int64, without overflow."""
    ANY = "any"
    """Scalars of every type."""


Operand: TypeAlias = "Pat | int"
"""A pattern, or a number that stands for itself."""


class Pat:
    """A pattern. The operators build patterns of the node classes: ``//`` and ``%`` floor."""

    __slots__ = ()

    def __add__(self, other: Operand) -> PNode:
        return PNode(ir.Add, self, other)

    def __radd__(self, other: Operand) -> PNode:
        return PNode(ir.Add, other, self)

    def __sub__(self, other: Operand) -> PNode:
        return PNode(ir.Sub, self, other)

    def __rsub__(self, other: Operand) -> PNode:
        return PNode(ir.Sub, other, self)

    def __mul__(self, other: Operand) -> PNode:
        return PNode(ir.Mul, self, other)

    def __rmul__(self, other: Operand) -> PNode:
        return PNode(ir.Mul, other, self)

    def __floordiv__(self, other: Operand) -> PNode:
        return PNode(ir.FloorDiv, self, other)

    def __rfloordiv__(self, other: Operand) -> PNode:
        return PNode(ir.FloorDiv, other, self)

    def __mod__(self, other: Operand) -> PNode:
        return PNode(ir.FloorMod, self, other)

    def __rmod__(self, other: Operand) -> PNode:
        return PNode(ir.FloorMod, other, self)

    def __lt__(self, other: Operand) -> PNode:
        return PNode(ir.LT, self, other)

    def __le__(self, other: Operand) -> PNode:
        return PNode(ir.LE, self, other)

    def __gt__(self, other: Operand) -> PNode:
        return PNode(ir.GT, self, other)

    def __ge__(self, other: Operand) -> PNode:
        return PNode(ir.GE, self, other)

    def __and__(self, other: Operand) -> PNode:
        return PNode(ir.And, self, other)

    def __or__(self, other: Operand) -> PNode:
        return PNode(ir.Or, self, other)

    def __invert__(self) -> PNode:
        return PNode(ir.Not, self)

    def __neg__(self) -> PNode:
        return PNode(ir.Sub, PLit(0), self)


class PVar(Pat):
    """Matches any expression; a second occurrence matches the same one.

    ``const=False`` refuses integer constants, for rules that would otherwise undo one another.
    """

    __slots__ = ("const", "name")

    def __init__(self, name: str, const: bool = True) -> None:
        self.name = name
        self.const = const

    def __str__(self) -> str:
        return self.name


class PConst(Pat):
    """Matches an integer constant; stands for its value."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class PLanes(Pat):
    """Matches the lanes of a ramp or broadcast, which are no operand: a number, or a multiple of vscale."""

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    def __str__(self) -> str:
        return self.name


class PFloat(Pat):
    """Matches a float constant of a stated value (``-0.0`` is not ``0.0``)."""

    __slots__ = ("value",)

    def __init__(self, value: float) -> None:
        self.value = value

    def __str__(self) -> str:
        return repr(self.value)


class PLit(Pat):
    """Matches the integer (or, on the side of conditions, the truth value) that it is."""

    __slots__ = ("is_bool", "value")

    def __init__(self, value: int | bool) -> None:
        self.value = int(value)
        self.is_bool = isinstance(value, bool)

    def __str__(self) -> str:
        return str(bool(self.value)) if self.is_bool else str(self.value)


TRUE, FALSE = PLit(True), PLit(False)


def as_pat(value: Operand) -> Pat:
    """A pattern from a pattern, an int or a bool."""
    return value if isinstance(value, Pat) else PLit(value)


_INFIX: dict[type | str, str] = {
    ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.FloorDiv: "//", ir.FloorMod: "%", ir.LT: "<", ir.LE: "<=", ir.GT: ">",
    ir.GE: ">=", ir.EQ: "==", ir.NE: "!=", ir.And: "and", ir.Or: "or",
}  # fmt: skip
_COMMUTATIVE = frozenset((ir.Add, ir.Mul, ir.Min, ir.Max, ir.EQ, ir.NE, ir.And, ir.Or))
BOOL_RESULT = frozenset((ir.LT, ir.LE, ir.GT, ir.GE, ir.EQ, ir.NE, ir.And, ir.Or, ir.Not))


class PNode(Pat):
    """Matches a node of a class (or a call of an operation) whose operands match."""

    __slots__ = ("args", "kind", "leaves", "op", "origin", "word")

    def __init__(self, kind: type | str, *args: Operand, op: str | None = None, origin: PNode | None = None) -> None:
        self.kind = kind
        self.word = kind if isinstance(kind, str) else kind.__name__
        self.args: tuple[Pat, ...] = tuple(map(as_pat, args))
        self.op = op
        found: list[Pat] = []
        for arg in self.args:
            if isinstance(arg, PNode):
                found += arg.leaves
            else:
                found.append(arg)
        self.leaves: tuple[Pat, ...] = tuple(found)
        self.origin: PNode = self if origin is None else origin
        """The part of the rule as written that this is a reordering of."""

    def __str__(self) -> str:
        infix = _INFIX.get(self.kind)
        if infix is not None:
            return f"({self.args[0]} {infix} {self.args[1]})"
        name = self.op.removeprefix("tir.") if self.op else self.word
        return f"{name}({', '.join(map(str, self.args))})"


def leaves(pat: Pat) -> tuple[Pat, ...]:
    """The leaves of a pattern, left to right."""
    return pat.leaves if isinstance(pat, PNode) else (pat,)


def is_constant(pat: Pat) -> bool:
    """Whether a pattern is made of integer constants alone, so that the right side computes it."""
    if isinstance(pat, PNode) and pat.kind not in CONSTANT_ARITHMETIC:
        return False
    return all(isinstance(leaf, PConst) or (isinstance(leaf, PLit) and not leaf.is_bool) for leaf in leaves(pat))


CONSTANT_ARITHMETIC = frozenset(
    (ir.Add, ir.Sub, ir.Mul, ir.FloorDiv, ir.FloorMod, ir.Div, ir.Mod, ir.Min, ir.Max, "gcd", "abs")
)

PROOF_FUNCTIONS = frozenset(("divides", "integral", "in_block"))
"""``divides(c, x)``: x is a multiple of c. ``integral(x)``: x is no float, so that exactly one of ``<``, ``==``, ``>``
holds. ``in_block(x, c0, c1, lanes)``: the lanes of ``ramp(x, c0, lanes)`` have one quotient by c1,
which may be an expression."""

CONSTANT_FUNCTIONS = frozenset(("gcd", "abs", "min", "max"))


_IDENTIFIER = re.compile(r"[A-Za-z_]\w*")
_WORDS = PROOF_FUNCTIONS | CONSTANT_FUNCTIONS | {"and", "or", "not"}


class Rule:
    """``lhs`` becomes ``rhs`` where ``when`` holds.

    ``where`` is the file and line that states it. Raises ValueError for
    names that the left side does not bind.
    """

    __slots__ = ("_variants", "fixed", "lhs", "names", "rhs", "when", "where")

    def __init__(self, lhs: Pat, rhs: Pat, when: str, where: str, fixed: tuple[type, ...] = ()) -> None:
        if not isinstance(lhs, PNode):
            raise ValueError(f"{where}: the left side of a rule is an operation, got {lhs}")
        self.lhs = lhs
        self.rhs = rhs
        self.when = when
        self.where = where
        self.fixed = fixed
        self.names = {leaf.name: leaf for leaf in leaves(lhs) if isinstance(leaf, (PVar, PConst, PLanes))}
        used = {leaf.name for leaf in leaves(rhs) if isinstance(leaf, (PVar, PConst, PLanes))}
        used |= set(_IDENTIFIER.findall(when)) - _WORDS
        unbound = sorted(used - set(self.names))
        if unbound:
            raise ValueError(f"{where}: {lhs} -> {rhs} uses {', '.join(unbound)}, which the left side does not bind")
        self._variants: tuple[PNode, ...] | None = None

    @property
    def variants(self) -> tuple[PNode, ...]:
        """The left sides, with the operands of commutative operations in each order that matches something new."""
        if self._variants is None:
            self._variants = tuple(_commuted(self.lhs, not self.when, _COMMUTATIVE - set(self.fixed)))
        return self._variants

    def __str__(self) -> str:
        condition = f"  when {self.when}" if self.when else ""
        return f"{self.lhs} -> {self.rhs}{condition}"

    def __repr__(self) -> str:
        return f"<rule {self} at {self.where}>"


def rule(lhs: Operand, rhs: Operand, when: str = "", fixed: tuple[type, ...] = ()) -> Rule:
    """A rule; operations of the node classes ``fixed`` match in the order written only.

    Raises ValueError for a name that the left side does not bind.

    >>> x, c0 = PVar("x"), PConst("c0")
    >>> print(rule((x + c0) - x, c0))
    ((x + c0) - x) -> c0
    """
    frame = sys._getframe(1)
    where = f"{frame.f_code.co_filename.rsplit('/', 1)[-1]}:{frame.f_lineno}"
    return Rule(as_pat(lhs), as_pat(rhs), when, where, fixed)


def _commuted(pat: Pat, renaming: bool, commutative: frozenset[type]) -> Iterator[PNode]:
    """The pattern in each order of its commutative operations, without those that match nothing new."""
    seen: set[str] = set()
    for variant in _orders(pat, commutative):
        # Without a condition, variants that differ in the names alone match the same expressions.
        key = _shape(variant, {} if renaming else None)
        if key not in seen:
            seen.add(key)
            assert isinstance(variant, PNode)
            yield variant


def _orders(pat: Pat, commutative: frozenset[type]) -> Iterable[Pat]:
    if not isinstance(pat, PNode):
        return [pat]
    choices = [list(_orders(arg, commutative)) for arg in pat.args]
    made = [PNode(pat.kind, *args, op=pat.op, origin=pat) for args in itertools.product(*choices)]
    if pat.kind in commutative and not any(isinstance(a, (PConst, PLit, PFloat)) for a in pat.args):
        made += [PNode(pat.kind, *reversed(p.args), origin=pat) for p in made]
    return made


def _shape(pat: Pat, names: dict[str, str] | None) -> str:
    if isinstance(pat, PNode):
        return f"{pat.op or pat.word}({','.join(_shape(a, names) for a in pat.args)})"
    text = str(pat)
    if names is not None and isinstance(pat, (PVar, PConst)):
        kind = "v" if isinstance(pat, PVar) and pat.const else "n" if isinstance(pat, PVar) else "c"
        text = names.setdefault(text, f"{kind}{len(names)}")
    return text


class RuleSet:
    """Rules in order of preference, all of one domain.

    Sets are added with ``+``; each is indexed by the class of its rules' roots where it is used.
    """

    __slots__ = ("domain", "rules")

    def __init__(self, domain: Domain, *rules: Rule) -> None:
        self.domain = domain
        self.rules = rules

    def __iter__(self) -> Iterator[Rule]:
        return iter(self.rules)

    def __len__(self) -> int:
        return len(self.rules)


# -- pattern builders for what has no operator ------------------------------------------------------------------------
def eq(a: Operand, b: Operand) -> PNode:
    """``a == b``."""
    return PNode(ir.EQ, a, b)


def ne(a: Operand, b: Operand) -> PNode:
    """``a != b``."""
    return PNode(ir.NE, a, b)


def pmin(a: Operand, b: Operand) -> PNode:
    """``min(a, b)``."""
    return PNode(ir.Min, a, b)


def pmax(a: Operand, b: Operand) -> PNode:
    """``max(a, b)``."""
    return PNode(ir.Max, a, b)


def tdiv(a: Operand, b: Operand) -> PNode:
    """Truncating division."""
    return PNode(ir.Div, a, b)


def tmod(a: Operand, b: Operand) -> PNode:
    """Remainder of the truncating division."""
    return PNode(ir.Mod, a, b)


def gcd(a: Operand, b: Operand) -> PNode:
    """The greatest common divisor of two constants (right sides only)."""
    return PNode("gcd", a, b)


def select(condition: Operand, true_value: Operand, false_value: Operand) -> PNode:
    """``Select``."""
    return PNode(ir.Select, condition, true_value, false_value)


def if_then_else(condition: Operand, true_value: Operand, false_value: Operand) -> PNode:
    """A call of ``tir.if_then_else``."""
    return PNode(ir.Call, condition, true_value, false_value, op="tir.if_then_else")


def call(name: str, *args: Operand) -> PNode:
    """A call of an operation."""
    return PNode(ir.Call, *args, op=f"tir.{name}")


def ramp(base: Operand, stride: Operand, lanes: Operand) -> PNode:
    """``Ramp``."""
    return PNode(ir.Ramp, base, stride, lanes)


def broadcast(value: Operand, lanes: Operand) -> PNode:
    """``Broadcast``."""
    return PNode(ir.Broadcast, value, lanes)
