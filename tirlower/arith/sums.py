"""Canonical sums: what an index expression is made of.

A *split* is ``((index % upper) // lower) * scale``, where ``upper`` may be infinite (None) and ``lower`` 1: a digit of
an index in a mixed radix, the form that splitting and fusing loops leaves behind. A *sum* is splits plus a constant.
Digits of one index that are neighbours merge: ``(x // 4) * 4 + x % 4`` is ``x``.

The order in which a sum is written is TIR's: terms by falling scale, then by falling ``lower`` and ``upper``, ties in
order of appearance; positive terms and constant first, then what is subtracted.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

from tirlower.ir import Expr

__all__ = ["FLOOR", "TRUNC", "Split", "Sum", "merge_digits"]

FLOOR, TRUNC = 0, 1
_new_tuple = tuple.__new__
"""Makes a named tuple without the function around it, which costs as much again."""


class Split(NamedTuple):
    """``((index % upper) // lower) * scale``; ``upper`` None means no remainder is taken."""

    atom: Expr
    lower: int = 1
    upper: int | None = None
    scale: int = 1
    mode: int = FLOOR

    @property
    def plain(self) -> bool:
        """Whether it is the index itself, scaled."""
        return self.lower == 1 and self.upper is None

    def scaled(self, factor: int) -> Split:
        """The split times a constant."""
        return self.with_scale(self.scale * factor)

    def with_scale(self, scale: int) -> Split:
        """The split with another scale."""
        return _new_tuple(Split, (self.atom, self.lower, self.upper, scale, self.mode))


class Sum:
    """Splits plus a constant."""

    __slots__ = ("base", "splits")

    def __init__(self, splits: tuple[Split, ...], base: int) -> None:
        self.splits = splits
        self.base = base

    @classmethod
    def of(cls, split: Split) -> Sum:
        """The sum of one split."""
        return cls((split,), 0)

    def scaled(self, factor: int) -> Sum:
        """The sum times a constant."""
        if factor == 0:
            return Sum((), 0)
        if factor == 1:
            return self
        return Sum(tuple([s.with_scale(s.scale * factor) for s in self.splits]), self.base * factor)

    def separate(self, factor: int) -> tuple[Sum, Sum]:
        """The terms that are multiples of ``factor``, and the rest."""
        whole = tuple([s for s in self.splits if s.scale % factor == 0])
        rest = tuple([s for s in self.splits if s.scale % factor])
        if self.base % factor == 0:
            return Sum(whole, self.base), Sum(rest, 0)
        return Sum(whole, 0), Sum(rest, self.base)

    def divided(self, factor: int) -> Sum:
        """The sum of multiples of ``factor``, divided by it."""
        if factor == 1:
            return self
        return Sum(tuple([s.with_scale(s.scale // factor) for s in self.splits]), self.base // factor)

    def plus(self, base: int) -> Sum:
        """The sum with a constant added."""
        return Sum(self.splits, self.base + base) if base else self

    @property
    def is_constant(self) -> bool:
        """Whether it has no splits."""
        return not self.splits


def add_up(parts: Iterable[tuple[Sum, int]], base: int = 0) -> Sum:
    """The sum of sums, each times a factor: equal digits are added, neighbouring ones merged.

    Terms keep the order of their first appearance.
    """
    terms: dict[tuple[Expr, int, int | None, int], Split] = {}
    indices: set[Expr] = set()
    merges = False
    for part, factor in parts:
        base += part.base * factor
        for split in part.splits:
            atom, lower, upper, scale, mode = split
            key = (atom, lower, upper, mode)
            have = terms.get(key)
            if have is not None:
                split = _new_tuple(Split, (atom, lower, upper, scale * factor + have.scale, mode))
            else:
                if factor != 1:
                    split = _new_tuple(Split, (atom, lower, upper, scale * factor, mode))
                merges = merges or atom in indices
                indices.add(atom)
            terms[key] = split
    splits = [s for s in terms.values() if s.scale]
    # Two digits of one index may be neighbours.
    return Sum(tuple(_merge_groups(splits) if merges and len(splits) > 1 else splits), base)


def digits_apart(splits: list[Split]) -> bool:
    """Whether a sum has each digit once, and none that would merge with another."""
    different = {(s.atom, s.lower, s.upper, s.mode) for s in splits}
    return len(different) == len(splits) and len(_merge_groups(splits)) == len(splits)


def _merge_groups(splits: list[Split]) -> list[Split]:
    groups: dict[Expr, list[Split]] = {}
    for split in splits:
        groups.setdefault(split.atom, []).append(split)
    merged: dict[Expr, list[Split]] = {}
    for index, group in groups.items():
        if len(group) > 1:
            digits = merge_digits(group)
            if len(digits) < len(group):
                merged[index] = digits
    result: list[Split] = []
    for split in splits:
        if split.atom not in merged:
            result.append(split)
        else:
            # What a group has become stands where its first digit stood.
            result += merged[split.atom]
            merged[split.atom] = []
    return result


def merge_digits(digits: list[Split]) -> list[Split]:
    """Merge digits of one index where a higher one continues a lower one; highest first.

    ``(x % u) // m * (s * (m // l)) + (x % m) // l * s`` is ``(x % u) // l * s``, and
    ``(x % u) // l * s - (x % u) // m * (s * (m // l))`` is ``(x % m) // l * s``.
    """
    digits = sorted(digits, key=lambda d: (-d.lower, -(d.upper or math.inf)))
    changed = True
    while changed:
        changed = False
        for i, high in enumerate(digits):
            for j in range(i + 1, len(digits)):
                merged = _merge(high, digits[j])
                if merged is not None:
                    digits[i : i + 1] = [merged] if merged.scale else []
                    del digits[j if merged.scale else j - 1]
                    changed = True
                    break
            if changed:
                break
    return digits


def _merge(high: Split, low: Split) -> Split | None:
    if high.lower == low.lower or high.lower % low.lower:
        return None
    if high.mode != low.mode and not (high.plain or low.plain):
        return None
    mode = low.mode if high.plain else high.mode
    ratio = high.lower // low.lower
    if low.upper == high.lower and high.scale == low.scale * ratio:
        return Split(low.atom, low.lower, high.upper, low.scale, mode)
    if low.upper == high.upper and high.scale == -low.scale * ratio:
        return Split(low.atom, low.lower, high.lower, low.scale, mode)
    return None


def writing_key(split: Split) -> tuple[float, ...]:
    """What the terms of a sum are sorted by when it is written."""
    return (-split.scale, -split.lower, -(split.upper or math.inf), -split.mode)


def writing_order(splits: Iterable[Split]) -> list[Split]:
    """The order in which the terms of a sum are written."""
    return sorted(splits, key=writing_key)
