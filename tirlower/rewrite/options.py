"""Options as declarations: what each is by default, which values it takes, what it means.

A pass declares its own beside its code (``options``), the configuration's global keys stand in
:data:`tirlower.rewrite.context.CONFIG_KEYS`. One function says whether a value fits and what to do where it does
not, whoever gave it: a pass's constructor or a ``PassContext``.
"""

from __future__ import annotations

import enum
import functools
import operator
import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tirlower.diagnostics import TransformError, nearest_name

__all__ = ["Option", "anything", "check_options", "flag", "integer", "one_of", "path", "refuse_unknown"]


@dataclass(frozen=True)
class Option:
    """An option: its default, the values that it takes in words and as a test, what it means, and TIR's other name."""

    default: Any
    takes: str
    fits: Callable[[Any], bool]
    about: str = ""
    useless: str = ""
    """Why it changes nothing here, where it is one of TIR's that does not."""

    def accepts(self, value: Any) -> bool:
        """Whether it takes a value; what has no default may be left open by None."""
        return (value is None and self.default is None) or self.fits(value)

    @staticmethod
    def of(default: Any) -> Option:
        """The option that a default alone declares: a switch, an integer, a word, a number, or anything.

        >>> Option.of(8).takes
        'an integer'
        """
        if isinstance(default, Option):
            return default
        if isinstance(default, (bool, np.bool_)):
            return flag(bool(default))
        if isinstance(default, enum.Flag):
            top = functools.reduce(operator.or_, (int(one.value) for one in type(default).__members__.values()))
            words = f"a {type(default).__name__} or its number, 0 to {top}"
            return Option(default, words, lambda value: _is_integer(value) and 0 <= value <= top)
        if isinstance(default, int):
            return integer(default, least=None)
        if isinstance(default, float):
            return Option(default, "a number", lambda value: _is_integer(value) or isinstance(value, float))
        if isinstance(default, str):
            return Option(default, "a string", lambda value: isinstance(value, str))
        return anything(default)


def _is_integer(value: Any) -> bool:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def flag(default: bool | None = False, about: str = "", useless: str = "") -> Option:
    """A switch: True or False, or 1 or 0 as TVM takes them."""

    def fits(value: Any) -> bool:
        return isinstance(value, (bool, np.bool_)) or (_is_integer(value) and value in (0, 1))

    return Option(default, "True or False", fits, about, useless)


def integer(default: int | None, about: str = "", *, least: int | None = 0) -> Option:
    """An integer, of at least ``least``."""
    words = "an integer" if least is None else f"an integer of at least {least}"
    return Option(default, words, lambda v: _is_integer(v) and (least is None or v >= least), about)


def one_of(*words: str, about: str = "") -> Option:
    """One of a few words, the first where none is given."""
    told = ", ".join(map(repr, words[:-1])) + f" or {words[-1]!r}"
    return Option(words[0], told, lambda value: isinstance(value, str) and value in words, about)


def path(about: str = "") -> Option:
    """A folder or file; none where left out."""
    return Option(None, "a path", lambda value: isinstance(value, (str, os.PathLike)), about)


def anything(default: Any, takes: str = "any value", about: str = "") -> Option:
    """An option whose value the pass itself looks at."""
    return Option(default, takes, lambda _: True, about)


def refuse_unknown(what: str, key: Any, known: Iterable[str], origin: str | None = None) -> None:
    """Raise :class:`TransformError` for an option that is not declared, naming the nearest, or all."""
    names = list(known)
    if key in names:
        return
    near = nearest_name(str(key), names)
    raise TransformError(
        f"{what} has no option {key!r}",
        origin=origin,
        help=f"did you mean {near!r}?" if near else f"its options: {', '.join(names) or 'none'}",
    )


def check_options(what: str, given: Mapping[Any, Any], known: Mapping[str, Option], origin: str | None = None) -> None:
    """Raise :class:`TransformError` unless every option is declared and takes its value.

    ``what`` is whose options they are.
    """
    for key, value in given.items():
        refuse_unknown(what, key, known, origin)
        if not known[key].accepts(value):
            raise TransformError(f"the option {key!r} of {what} is {known[key].takes}, got {value!r}", origin=origin)
