"""Random iteration maps: at every level of checking the forms found have the values of the indices."""

from __future__ import annotations

import itertools
import random

from evaluate import NoValue, evaluate, show

from tirlower.arith import IterMapLevel, detect_iter_map, normalize_iter_map_to_expr
from tirlower.ir import Expr, IntImm, Range, Var, build

LEVELS = tuple(IterMapLevel.__members__.values())


def _index(rng: random.Random, variables: list[Var], symbol: Var, depth: int) -> Expr:
    """Sums, multiples, quotients and remainders of iterators, with constants and a symbol among them."""
    if depth == 0:
        return rng.choice(variables)
    roll = rng.random()
    inner = _index(rng, variables, symbol, depth - 1)
    if roll < 0.35:
        return build.add(build.mul(inner, rng.choice((1, 2, 3, 4, 6, 8))), _index(rng, variables, symbol, depth - 1))
    if roll < 0.5:
        return build.add(inner, rng.choice((1, 2, 3, 5, 8)) if rng.random() < 0.7 else symbol)
    divisor = rng.choice((2, 3, 4, 5, 6, 8, 12))
    return build.floordiv(inner, divisor) if roll < 0.75 else build.floormod(inner, divisor)


def check_map(seed: int) -> None:
    """Detect the map of a seed at each level, and compare with the indices at every point of the iterators."""
    if seed % 4 == 0:
        check_nested(seed)
    rng = random.Random(seed)
    variables = [Var(name) for name in "ijk"]
    n = Var("n", nonneg=True)
    extents = {var: rng.choice((1, 2, 3, 4, 5, 6, 8, 12)) for var in variables}
    starts = {var: rng.choice((0, 0, 0, 1, 4)) for var in variables}
    indices = [_index(rng, variables, n, rng.choice((1, 2, 2, 3))) for _ in range(rng.choice((1, 1, 2)))]
    predicate: Expr = IntImm("bool", 1)
    if rng.random() < 0.3:
        predicate = build.lt(_index(rng, variables, n, 1), rng.randint(1, 20))
    iters = {var: Range(starts[var], extents[var]) for var in variables}
    points = [
        {**dict(zip(variables, at, strict=True)), n: rng.choice((0, 1, 2, 3, 7))}
        for at in itertools.product(*[range(starts[v], starts[v] + extents[v]) for v in variables])
    ]
    points = [env for env in points if evaluate(predicate, env) is True]
    for level in LEVELS:
        found = detect_iter_map(indices, iters, predicate, level)
        if not found.indices:
            continue
        padded = not (isinstance(found.padding_predicate, IntImm) and found.padding_predicate.value == 0)
        assert not (padded and level is IterMapLevel.BIJECTIVE), f"seed {seed}: padded, and taken to be one to one"
        images = set()
        for env in points:
            image = []
            for index, total in zip(indices, found.indices, strict=True):
                before, after = evaluate(index, env), evaluate(normalize_iter_map_to_expr(total), env)
                assert isinstance(before, NoValue) or before == after, (
                    f"seed {seed} {level.name}: {show(index)} at { ({v.name: x for v, x in env.items()}) } is {before}, "
                    f"its map {after}"
                )
                image.append((before, env[n]))
            images.add(tuple(image))
            padding = evaluate(found.padding_predicate, env)
            assert padding is False, f"seed {seed} {level.name}: a value of the iterators counts as padding"
        if level is IterMapLevel.BIJECTIVE and not any(_mentions(index, n) for index in indices):
            assert len(images) == len(points), f"seed {seed}: not one to one"


def check_nested(seed: int) -> None:
    """A sum within a sum, each within bounds of its own: what is found has its values, and takes every one of its extent.

    A sum whose parts follow each other without a gap is found, whatever the order of its conditions.
    """
    rng = random.Random(f"nested {seed}")
    i, j, k = variables = [Var(name) for name in "ijk"]
    extents = dict(zip(variables, (rng.choice((2, 3, 4)), rng.choice((2, 3, 5)), rng.choice((2, 3, 4))), strict=True))
    count = extents[j] * extents[k]
    low, high = rng.choice((0, 0, 1)), count - rng.choice((0, 0, 1))
    scale = rng.choice((high - low, high - low, count, count + 1))
    inner = build.add(build.mul(j, extents[k]), k)
    outer = build.add(build.mul(i, scale), inner)
    top = (extents[i] - 1) * scale + high
    first, last = low + rng.choice((0, 0, 1)), top - rng.choice((0, 0, 1, 2))
    conditions = [build.ge(inner, low), build.lt(inner, high), build.le(first, outer), build.lt(outer, last)]
    rng.shuffle(conditions)
    predicate = build.logical_and(*conditions[:2])
    for condition in conditions[2:]:
        predicate = build.logical_and(predicate, condition)
    points = [dict(zip(variables, at, strict=True)) for at in itertools.product(*[range(n) for n in extents.values()])]
    points = [env for env in points if evaluate(predicate, env) is True]
    values = sorted(evaluate(outer, env) for env in points)
    shown = f"seed {seed}: {show(outer)} where {show(predicate)} in { ({v.name: n for v, n in extents.items()}) }"
    for level in LEVELS:
        found = detect_iter_map([outer], {var: Range(0, n) for var, n in extents.items()}, predicate, level)
        assert found.indices or scale != high - low, f"{shown}: not found, {found.errors}"
        if not found.indices:
            continue
        total = found.indices[0]
        assert all(evaluate(normalize_iter_map_to_expr(total), env) == evaluate(outer, env) for env in points), shown
        (part,) = total.args
        base, step, size = (evaluate(e, {}) for e in (total.base, part.scale, part.extent))
        if level is not IterMapLevel.NO_CHECK:
            assert sorted(set(values)) == [base + step * n for n in range(size)], f"{shown}: its extent is another one"
        if level is IterMapLevel.BIJECTIVE:
            assert len(set(values)) == len(values), f"{shown}: not one to one"


def _mentions(index: Expr, var: Var) -> bool:
    stack = [index]
    while stack:
        op = stack.pop()
        if op is var:
            return True
        stack += op.children()
    return False
