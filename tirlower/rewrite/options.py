"""Options as declarations: what each is by default, which values it takes, what it means.

A pass declares its own as fields (:func:`option`, whose types say what they take), the configuration's global keys stand
in :data:`tirlower.rewrite.context.CONFIG_KEYS`. One function says whether a value fits and what to do where it does
not, whoever gave it: a pass's constructor or a ``PassContext``.
"""

from __future__ import annotations

import dataclasses
import enum
import functools
import operator
import os
import types
import typing
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeGuard, TypeVar, cast

import numpy as np

from tirlower.diagnostics import TransformError, nearest_name

__all__ = ["Option", "anything", "check_options", "flag", "integer", "one_of", "option", "path", "refuse_unknown"]

T = TypeVar("T")


@dataclass(frozen=True)
class Option:
    """An option: its default, the values that it takes in words and as a test, what it means."""

    default: object
    takes: str
    fits: Callable[[object], bool]
    about: str = ""
    useless: str = ""
    """Why it changes nothing here, where it is one of TIR's that does not."""
    convert: Callable[[float], object] | None = None
    """Makes a value of the declared type of a number that fits: True of 1."""
    key: str = ""
    """The global configuration key that says it too."""

    def accepts(self, value: object) -> bool:
        """Whether it takes a value; what has no default may be left open by None."""
        return (value is None and self.default is None) or self.fits(value)

    def value(self, given: object) -> object:
        """A value that it takes, in its declared type."""
        if TYPE_CHECKING:
            assert isinstance(given, float)
        return given if given is None or self.convert is None else self.convert(given)

    @staticmethod
    def of(kind: object, default: object, least: int | None = None) -> Option:
        """The option that a type declares: a switch, an integer, a word of some, an enumeration's, an object of a class.

        >>> Option.of(int, 8).takes
        'an integer'
        >>> Option.of(typing.Literal["slow", "fast"] | None, None).takes
        "'slow' or 'fast'"
        """
        if isinstance(kind, types.UnionType) or typing.get_origin(kind) is typing.Union:
            kinds = [part for part in typing.get_args(kind) if part is not types.NoneType]
            return Option.of(kinds[0], default, least) if len(kinds) == 1 else anything(default)
        if typing.get_origin(kind) is typing.Literal:
            return dataclasses.replace(one_of(*typing.get_args(kind)), default=default)
        if not isinstance(kind, type):
            return anything(default)
        if issubclass(kind, enum.Flag):
            top = functools.reduce(operator.or_, (int(member.value) for member in kind.__members__.values()))
            words = f"a {kind.__name__} or its number, 0 to {top}"
            return Option(default, words, lambda v: _is_integer(v) and 0 <= v <= top, convert=lambda v: kind(int(v)))
        simple: dict[type, Callable[[], Option]] = {
            bool: flag,
            int: lambda: integer(None, least=least),
            float: lambda: Option(None, "a number", _is_number, convert=float),
            str: lambda: Option(None, "a string", lambda value: isinstance(value, str)),
        }
        if kind in simple:
            return dataclasses.replace(simple[kind](), default=default)
        return Option(default, f"a {kind.__name__}", lambda value: isinstance(value, kind))


def option(
    *,
    default: T | dataclasses._MISSING_TYPE = dataclasses.MISSING,
    about: str = "",
    least: int | None = None,
    takes: str = "",
    fits: Callable[[T], bool] | None = None,
    key: str = "",
    kw_only: bool = True,
) -> T:
    """A field of a pass that says more than its type and default.

    ``least`` of an integer; ``takes`` and ``fits``: which values, where the type does not say it; ``key``: the global key
    of the configuration that means the same, and declares it; ``kw_only=False``: the constructor takes it by position.
    """
    said = {"about": about, "takes": takes, "fits": fits, "key": key, "least": least}
    metadata = {name: value for name, value in said.items() if value not in ("", None)}
    # To the type checker it is a value of the field's type, so that `times: int = option(…)` type-checks.
    return cast(T, dataclasses.field(default=default, kw_only=kw_only, metadata=metadata))


def _is_integer(value: object) -> TypeGuard[int]:
    return isinstance(value, (int, np.integer)) and not isinstance(value, bool)


def _is_number(value: object) -> bool:
    return _is_integer(value) or isinstance(value, float)


def flag(default: bool | None = False, about: str = "", useless: str = "") -> Option:
    """A switch: True or False, or 1 or 0 as TVM takes them."""

    def fits(value: object) -> bool:
        return isinstance(value, (bool, np.bool_)) or (_is_integer(value) and value in (0, 1))

    return Option(default, "True or False", fits, about, useless, bool)


def integer(default: int | None, about: str = "", *, least: int | None = 0) -> Option:
    """An integer, of at least ``least``."""
    words = "an integer" if least is None else f"an integer of at least {least}"
    return Option(default, words, lambda v: _is_integer(v) and (least is None or v >= least), about, convert=int)


def one_of(*words: str, about: str = "") -> Option:
    """One of a few words, the first where none is given."""
    told = " or ".join(filter(None, (", ".join(map(repr, words[:-1])), repr(words[-1]))))
    return Option(words[0], told, lambda value: isinstance(value, str) and value in words, about)


def path(about: str = "") -> Option:
    """A folder or file; none where left out."""
    return Option(None, "a path", lambda value: isinstance(value, (str, os.PathLike)), about)


def anything(default: object, takes: str = "any value", about: str = "") -> Option:
    """An option whose value the pass itself looks at."""
    return Option(default, takes, lambda _: True, about)


def refuse_unknown(what: str, key: object, known: Iterable[str], origin: str | None = None) -> None:
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


def check_options(
    what: str, given: Mapping[str, object], known: Mapping[str, Option], origin: str | None = None
) -> None:
    """Raise :class:`TransformError` unless every option is declared and takes its value.

    ``what`` is whose options they are.
    """
    for key, value in given.items():
        refuse_unknown(what, key, known, origin)
        declared = known[key]
        if not declared.accepts(value):
            no_default = declared.default in (None, dataclasses.MISSING)
            raise TransformError(
                f"the option {key!r} of {what} is {declared.takes}, got {value!r}",
                origin=origin,
                help=f"give {declared.takes}"
                + ("" if no_default else f", or leave it out: it is {declared.default!r} then"),
            )
