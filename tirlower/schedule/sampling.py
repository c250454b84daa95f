"""The generator of random numbers of schedules: specified here, so that a seed gives the same on any machine.

The state is a number of 64 bits, which counts up by an odd constant; a draw mixes it (the finalizer of SplitMix64).
"""

from __future__ import annotations

import secrets

__all__ = ["DEFAULT", "draw", "fork", "state_of"]

_MASK = (1 << 64) - 1
_STEP = 0x9E3779B97F4A7C15
DEFAULT = 42
"""The seed of a schedule that was given none."""


def state_of(seed: int | None) -> int:
    """The state that a seed means: the default for None, one asked of the system for -1.

    Raises TypeError for what is no integer, ValueError for one out of range.
    """
    if seed is None:
        return DEFAULT
    if not isinstance(seed, int) or isinstance(seed, bool):
        raise TypeError(f"a seed is an integer or None, got {seed!r}")
    if seed == -1:
        return secrets.randbelow((1 << 31) - 1) + 1
    if not 1 <= seed < 1 << 31:
        raise ValueError(f"a seed is -1 (asked of the system) or from 1 to 2**31 - 1, got {seed}")
    return seed


def draw(state: int, below: int) -> tuple[int, int]:
    """A number from 0 to ``below - 1``, each as likely as the others, and the next state.

    >>> draw(42, 10)[0] == draw(42, 10)[0]
    True
    """
    limit = (1 << 64) - (1 << 64) % below
    while True:
        state = (state + _STEP) & _MASK
        mixed = state
        mixed = ((mixed ^ (mixed >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
        mixed = ((mixed ^ (mixed >> 27)) * 0x94D049BB133111EB) & _MASK
        mixed ^= mixed >> 31
        if mixed < limit:  # else the first numbers would come a little more often
            return mixed % below, state


def fork(state: int) -> tuple[int, int]:
    """A new seed, and the next state."""
    number, state = draw(state, (1 << 31) - 1)
    return number + 1, state
