"""Rules compiled to Python functions.

Each variant of a rule's left side becomes a function of the root's operands that returns the rewritten expression or
None. Functions are compiled when a pair of operand classes first needs them: a process that never meets a ramp never
pays for the rules of ramps. Within a function the cheap questions come first: classes, then constants, then structural
equality, and proofs last.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol, TypeAlias, cast

from tirlower import ir
from tirlower.arith.interner import BINARY
from tirlower.arith.pattern import (
    BOOL_RESULT,
    Domain,
    Pat,
    PConst,
    PFloat,
    PLanes,
    PLit,
    PNode,
    PVar,
    Rule,
    RuleSet,
    is_constant,
)
from tirlower.ir.expr import BinaryOp, Expr, IntImm
from tirlower.ir.integers import truncdiv, truncmod
from tirlower.ir.node import NODES

if TYPE_CHECKING:
    from tirlower.arith.rewrite import Rewriter

__all__ = ["Matcher", "RuleIndex", "compile_variant", "matcher_source"]


class Matcher(Protocol):
    """What a rule makes of a node, given its operands; None where it does not match."""

    def __call__(self, rewriter: Rewriter, /, *operands: Expr | int) -> Expr | None:
        """The expression in place of the node."""


_COMPARISONS = {ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!="}
_PROOFS = {"<": "lt", "<=": "le", ">": "gt", ">=": "ge", "==": "eq", "!=": "ne"}
_CONSTANT_OPS: dict[type | str, str] = {ir.Add: "+", ir.Sub: "-", ir.Mul: "*", ir.FloorDiv: "//", ir.FloorMod: "%"}
_CONSTANT_FUNCTIONS: dict[type | str, str] = {ir.Div: "tdiv", ir.Mod: "tmod", ir.Min: "min", ir.Max: "max"}
_OPERANDS: dict[type | str, tuple[str, ...]] = {
    ir.Not: ("a",),
    ir.Select: ("condition", "true_value", "false_value"),
    ir.Ramp: ("base", "stride", "lanes"),
    ir.Broadcast: ("value", "lanes"),
    ir.Cast: ("value",),
}


Key: TypeAlias = "tuple[str | type, ...]"
"""The root (a class, or an operation's name), and the classes of the operands."""


_SCOPE: dict[str, object] = {
    "gcd": math.gcd,
    "tdiv": truncdiv,
    "tmod": truncmod,
    "copysign": math.copysign,
    **{f"K_{name}": kind for name, kind in NODES.items()},
}


def operand_names(kind: type | str, count: int) -> tuple[str, ...]:
    """The fields that hold a node's operands, in the order of a pattern's arguments."""
    return _OPERANDS.get(kind, ("a", "b")[:count])


class _Writer:
    """Writes the function of one variant."""

    def __init__(self, rule: Rule, domain: Domain) -> None:
        self.rule = rule
        self.domain = domain
        self.lines: list[str] = []
        self.constants: list[str] = []
        self.equalities: list[str] = []
        self.bound: set[str] = set()
        self.nodes: dict[str, str] = {}
        """The locals that hold the matched parts, by what the rule writes for them."""
        self.dtype: str | None = None
        self.fresh = 0

    def name(self, prefix: str) -> str:
        self.fresh += 1
        return f"{prefix}{self.fresh}"

    def match(self, pat: Pat, at: str, checked: bool, sort: str) -> None:
        """Lines that match ``pat`` against the local ``at``; ``checked``: its class is known to fit."""
        if isinstance(pat, PLanes):
            if pat.name in self.bound:
                self.equalities.append(f"{pat.name} is not {at} and not R.same_lanes({pat.name}, {at})")
            else:
                self.bound.add(pat.name)
                self.lines.append(f"{pat.name} = {at}")
            return
        if sort == "int" and self.dtype is None:
            self.dtype = f"{at}.dtype"
        if isinstance(pat, PVar):
            if pat.name in self.bound:
                same = f"{at}.__class__ is {pat.name}.__class__ and same({pat.name}, {at})"
                self.equalities.append(f"{pat.name} is not {at} and not ({same})")
                return
            if not pat.const and not checked:
                self.lines.append(f"if {at}.__class__ is K_IntImm: return None")
            self.bound.add(pat.name)
            self.lines.append(f"{pat.name} = {at}")
        elif isinstance(pat, (PConst, PLit)):
            if not checked:
                self.lines.append(f"if {at}.__class__ is not K_IntImm: return None")
            if isinstance(pat, PLit):
                self.lines.append(f"if {at}.value != {pat.value}: return None")
            elif pat.name in self.bound:
                self.constants.append(f"{pat.name} != {at}.value")
            else:
                self.bound.add(pat.name)
                self.lines.append(f"{pat.name} = {at}.value")
                self.lines.append(f"n_{pat.name} = {at}")
        elif isinstance(pat, PFloat):
            if not checked:
                self.lines.append(f"if {at}.__class__ is not K_FloatImm: return None")
            self.lines.append(
                f"if {at}.value != {pat.value!r} or copysign(1.0, {at}.value) != {math.copysign(1.0, pat.value)!r}: "
                "return None"
            )
        else:
            assert isinstance(pat, PNode)
            if not checked:
                self.lines.append(f"if {at}.__class__ is not K_{pat.word}: return None")
            self.operands(pat, at)

    def operands(self, pat: PNode, at: str) -> None:
        """Lines that match the operands of the node at ``at``."""
        self.nodes.setdefault(str(pat.origin), at)
        if pat.op is not None:
            self.lines.append(f"if {at}.op is not R.ops[{pat.op!r}]: return None")
            names = [f"{at}.args[{i}]" for i in range(len(pat.args))]
        else:
            names = [f"{at}.{field}" for field in operand_names(pat.kind, len(pat.args))]
        locals_: list[tuple[Pat, str, str]] = []
        for position, (arg, source) in enumerate(zip(pat.args, names, strict=True)):
            local = self.name("p")
            self.lines.append(f"{local} = {source}")
            locals_.append((arg, local, operand_sort(pat, position)))
        # Leaves first: a constant that is missing is found before the code descends.
        for arg, local, sort in sorted(locals_, key=lambda one: isinstance(one[0], PNode)):
            self.match(arg, local, False, sort)

    def build(self, pat: Pat, sort: str) -> str:
        """An expression that builds ``pat``; lines it needs are added."""
        if isinstance(pat, (PVar, PLanes)):
            return pat.name
        if isinstance(pat, PConst):
            return f"n_{pat.name}"
        if isinstance(pat, PLit) and (pat.is_bool or sort == "bool"):
            return f"R.{'true' if pat.value else 'false'}"
        if isinstance(pat, PFloat):
            return f"R.float_imm({pat.value!r}, {self.dtype})"
        if is_constant(pat):
            local = self.name("k")
            # In a ring constants wrap like everything else; elsewhere one that does not fit stops the rule.
            make = "wrapped" if self.domain in (Domain.RING, Domain.INT_VECTOR) else "imm"
            self.lines.append(f"{local} = R.{make}({self.compute(pat)}, {self.dtype})")
            self.lines.append(f"if {local} is None: return None")
            return local
        assert isinstance(pat, PNode)
        matched = self.nodes.get(str(pat))
        if matched is not None:
            return matched
        args = [self.build(arg, operand_sort(pat, i)) for i, arg in enumerate(pat.args)]
        if pat.op is not None:
            return f"R.make_call({pat.op!r}, ({', '.join(args)},))"
        if pat.kind in _OPERANDS:
            return f"R.make_{pat.word.lower()}({', '.join(args)})"
        return f"R.make(K_{pat.word}, {', '.join(args)})"

    def compute(self, pat: Pat) -> str:
        """Python arithmetic on the values of constants."""
        if isinstance(pat, PConst):
            return pat.name
        if isinstance(pat, PLit):
            return str(pat.value) if pat.value >= 0 else f"({pat.value})"
        assert isinstance(pat, PNode)
        args = [self.compute(a) for a in pat.args]
        infix = _CONSTANT_OPS.get(pat.kind)
        if infix is not None:
            return f"({args[0]} {infix} {args[1]})"
        name = _CONSTANT_FUNCTIONS.get(pat.kind, pat.word)
        return f"{name}({', '.join(args)})"

    def conditions(self, text: str) -> tuple[list[str], list[str]]:
        """The conjuncts of ``when`` as Python: those on constants alone, and those to prove."""
        if not text:
            return [], []
        body = ast.parse(text, mode="eval").body
        parts = body.values if isinstance(body, ast.BoolOp) and isinstance(body.op, ast.And) else [body]
        plain: list[str] = []
        proofs: list[str] = []
        for part in parts:
            if self.mentions_expr(part):
                proofs.append(self.proof(part))
            else:
                plain.append(f"({ast.unparse(part)})")
        return plain, proofs

    def mentions_expr(self, tree: ast.AST) -> bool:
        return any(isinstance(n, ast.Name) and isinstance(self.rule.names.get(n.id), PVar) for n in ast.walk(tree))

    def proof(self, tree: ast.expr) -> str:
        """A condition on expressions as calls of the prover."""
        if isinstance(tree, ast.BoolOp):
            word = " and " if isinstance(tree.op, ast.And) else " or "
            return "(" + word.join(self.proof(v) for v in tree.values) + ")"
        if isinstance(tree, ast.Call):
            return f"R.{ast.unparse(tree)}"
        if not isinstance(tree, ast.Compare):
            return f"({ast.unparse(tree)})"
        made = []
        left = tree.left
        for operator, right in zip(tree.ops, tree.comparators, strict=True):
            sign = _COMPARISONS[type(operator)]
            made.append(self.atom(left, sign, right))
            left = right
        return "(" + " and ".join(made) + ")"

    def atom(self, left: ast.expr, sign: str, right: ast.expr) -> str:
        left_expr, right_expr = self.mentions_expr(left), self.mentions_expr(right)
        a, b = ast.unparse(left), ast.unparse(right)
        if not left_expr and not right_expr:
            return f"{a} {sign} {b}"
        if left_expr and right_expr:
            return f"R.prove_{_PROOFS[sign]}({a}, {b})"
        if not left_expr:
            a, b = b, a
            sign = {"<": ">", "<=": ">=", ">": "<", ">=": "<="}.get(sign, sign)
        end = {"<": 1, "<=": 1, ">": 0, ">=": 0}.get(sign)
        if end is not None:
            return f"R.bound({a})[{end}] {sign} {b}"
        return f"R.bound_{_PROOFS[sign]}({a}, {b})"


def operand_sort(pat: PNode, position: int) -> str:
    """Whether an operand is a condition, an integer (or float), or anything."""
    if pat.kind in (ir.And, ir.Or, ir.Not) or pat.op == "tir.likely":
        return "bool"
    if pat.kind is ir.Select or pat.op == "tir.if_then_else":
        return "bool" if position == 0 else "any"
    return "int"


def root_operands(variant: PNode) -> list[str]:
    """The parameters of a compiled function: the operands of the root."""
    return ["a", "b", "c", "d"][: len(variant.args)]


def matcher_source(rule: Rule, variant: PNode, domain: Domain) -> str:
    """The Python text of the function that matches one variant of a rule."""
    writer = _Writer(rule, domain)
    roots = root_operands(variant)
    pairs = list(zip(variant.args, roots, strict=True))
    for position, (arg, local) in enumerate(pairs):
        if not isinstance(arg, PNode):
            writer.match(arg, local, True, operand_sort(variant, position))
    for position, (arg, local) in enumerate(pairs):
        if isinstance(arg, PNode):
            writer.match(arg, local, True, operand_sort(variant, position))
    if writer.dtype is None:
        # A rule on values of any sort (Select) takes its constants' type from them.
        writer.dtype = f"{roots[-1]}.dtype"
    plain, proofs = writer.conditions(rule.when)
    writer.lines += [f"if {check}: return None" for check in writer.constants]
    writer.lines += [f"if not {check}: return None" for check in plain]
    if writer.equalities:
        writer.lines.append("same = R.same")
        writer.lines += [f"if {check}: return None" for check in writer.equalities]
    if domain is Domain.INDEX_BOOL:
        compared = next(name for name, leaf in rule.names.items() if isinstance(leaf, PVar))
        writer.lines.append(f"if not R.is_index({compared}): return None")
    writer.lines += [f"if not {check}: return None" for check in proofs]
    result = writer.build(rule.rhs, "bool" if variant.kind in BOOL_RESULT else "int")
    writer.lines.append(f"return {result}")
    return f"def match(R, {', '.join(roots)}):\n    " + "\n    ".join(writer.lines) + "\n"


def compile_variant(rule: Rule, variant: PNode, domain: Domain) -> Matcher:
    """The function that matches one variant of a rule."""
    scope = dict(_SCOPE)
    exec(compile(matcher_source(rule, variant, domain), f"<rule {rule.where}>", "exec"), scope)
    return cast(Matcher, scope["match"])


class Entry:
    """The rules that can match one combination of operand classes, and how often they were tried and applied.

    Rules that ask for a class within an operand of a binary root, or for a small number as its second, are left out by
    :meth:`narrow`, which looks at these; an entry without such rules is ``shallow``.
    """

    __slots__ = ("calls", "deep_a", "deep_b", "hits", "literal", "narrowed", "rules", "shallow", "variants")

    def __init__(self, variants: tuple[tuple[PNode, Matcher, Rule], ...]) -> None:
        self.variants = variants
        self.rules = tuple([(match, rule) for _, match, rule in variants])
        self.calls = 0
        self.hits: dict[Rule, int] = {}
        self.narrowed: dict[object, tuple[tuple[Matcher, Rule], ...]] = {}
        self.deep_a = any(_has_operands(variant.args[0]) for variant, _, _ in variants)
        self.deep_b = any(_has_operands(variant.args[1]) for variant, _, _ in variants if len(variant.args) > 1)
        self.literal = any(isinstance(variant.args[1], PLit) for variant, _, _ in variants if len(variant.args) == 2)
        self.shallow = not (self.deep_a or self.deep_b or self.literal)

    def narrow(self, a: Expr, b: Expr) -> tuple[tuple[Matcher, Rule], ...]:
        """The rules that can match the operands ``a`` and ``b``, by the classes of what they are made of."""
        value = b.value if self.literal and b.__class__ is IntImm and -2 < b.value < 3 else None
        if TYPE_CHECKING:
            # Where the rules look into an operand: the key of the entry says so.
            assert isinstance(a, BinaryOp) and isinstance(b, BinaryOp)
        left = (a.a.__class__, a.b.__class__) if self.deep_a else None
        right = (b.a.__class__, b.b.__class__) if self.deep_b else None
        key = (left, right, value)
        found = self.narrowed.get(key)
        if found is None:
            chosen = []
            for variant, match, rule in self.variants:
                p, q = variant.args
                if _fits_within(p, left) and _fits_within(q, right):
                    if not isinstance(q, PLit) or q.value == value or (value is None and not -2 < q.value < 3):
                        chosen.append((match, rule))
            found = self.narrowed[key] = tuple(chosen)
        return found


def _has_operands(pat: Pat) -> bool:
    """Whether a pattern asks something of the operands of a plain binary operation."""
    return (
        isinstance(pat, PNode)
        and pat.kind in BINARY
        and any(not isinstance(arg, PVar) or not arg.const for arg in pat.args)
    )


def _fits_within(pat: Pat, kinds: tuple[type, ...] | None) -> bool:
    """Whether operands of those classes can match a pattern's; without classes nothing is known of them."""
    return not (kinds and isinstance(pat, PNode)) or all(map(_fits, pat.args, kinds))


class RuleIndex:
    """Rules by root, then by the classes of the root's operands; functions are compiled on first need."""

    def __init__(self, sets: Iterable[RuleSet], domains: Iterable[Domain]) -> None:
        wanted = set(domains)
        self.by_root: dict[object, list[tuple[Rule, Domain]]] = {}
        for one in sets:
            if one.domain in wanted:
                for rule in one:
                    root = rule.lhs.op or rule.lhs.kind
                    self.by_root.setdefault(root, []).append((rule, one.domain))
        self.entries: dict[Key, Entry] = {}

    def entry(self, key: Key) -> Entry:
        """The entry for ``(root, class of operand, …)``."""
        found = self.entries.get(key)
        if found is None:
            found = self.entries[key] = self._make(key)
        return found

    def _make(self, key: Key) -> Entry:
        chosen = []
        for rule, domain in self.by_root.get(key[0], ()):
            for variant in rule.variants:
                if all(_fits(arg, kind) for arg, kind in zip(variant.args, key[1:], strict=False)) and not _differs(
                    variant, key
                ):
                    chosen.append((variant, _compiled(rule, variant, domain), rule))
        return Entry(tuple(chosen))


def _differs(variant: PNode, key: Key) -> bool:
    """Whether a pattern asks for one expression in two places that hold different classes."""
    kinds: dict[str, object] = {}
    return any(
        isinstance(arg, PVar) and kinds.setdefault(arg.name, kind) is not kind
        for arg, kind in zip(variant.args, key[1:], strict=False)
    )


_COMPILED: dict[int, Matcher] = {}


def _compiled(rule: Rule, variant: PNode, domain: Domain) -> Matcher:
    # Keyed by the variant's identity: rules live as long as their module.
    found = _COMPILED.get(id(variant))
    if found is None:
        found = _COMPILED[id(variant)] = compile_variant(rule, variant, domain)
    return found


def _fits(pat: Pat, kind: object) -> bool:
    """Whether an operand of that class can match."""
    if isinstance(pat, (PConst, PLit)):
        return kind is ir.IntImm
    if isinstance(pat, PFloat):
        return kind is ir.FloatImm
    if isinstance(pat, PNode):
        return kind is pat.kind
    return not (isinstance(pat, PVar) and not pat.const and kind is ir.IntImm)
