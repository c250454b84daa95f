"""A rewrite as a value: what passes and schedule primitives share.

Its options are typed fields, checked where it is made; what it ``needs``, ``gives`` and ``breaks`` is checked where it is
put into an order (:mod:`tirlower.rewrite.order`).
"""

from __future__ import annotations

import copy
import dataclasses
import inspect
import typing
from collections.abc import Mapping
from typing import ClassVar, Self

from tirlower.diagnostics import TransformError
from tirlower.rewrite.context import CONFIG_KEYS, PassContext
from tirlower.rewrite.facts import Fact
from tirlower.rewrite.options import Option, check_options, option

__all__ = ["Rewrite"]


@typing.dataclass_transform(kw_only_default=True, field_specifiers=(option,))
class Rewrite:
    """Base of what rewrites programs: a name, options, and its place in an order.

    A subclass states ``name``, ``needs`` (names of passes that must have run before, and facts that must hold), ``breaks``
    and ``gives`` (facts that no longer hold, or hold again, behind it: :class:`Fact`). Its options are annotated fields
    (``times: int = 3``; :func:`tirlower.rewrite.options.option` says more of one): subclasses become dataclasses of
    them, with this class's constructor.
    """

    name: ClassVar[str] = ""
    needs: ClassVar[tuple[str | Fact, ...]] = ()
    breaks: ClassVar[tuple[str | Fact, ...]] = ()
    gives: ClassVar[tuple[str | Fact, ...]] = ()
    declared: ClassVar[Mapping[str, Option]] = {}

    def __init__(self, *args: object, **kwargs: object) -> None:
        what = type(self).__name__
        positional = _positional(type(self))
        if len(args) > len(positional):
            raise TransformError(f"{what} takes at most {len(positional)} positional options, got {len(args)}")
        given = dict(zip(positional, args, strict=False))
        for key in kwargs:
            if key in given:
                raise TransformError(f"{what}: the option {key!r} is given twice")
        given.update(kwargs)
        check_options(what, given, self.declared)
        for key, declared in self.declared.items():
            if key not in given and declared.default is dataclasses.MISSING:
                raise TransformError(f"{what} has no value for its option {key!r}", help=f"give {declared.takes}")
        self.given: dict[str, object] = {key: self.declared[key].value(value) for key, value in given.items()}
        self.__dict__.update(self.given)

    def __init_subclass__(cls) -> None:
        """Make the annotated fields of a class its options, and check what it states."""
        super().__init_subclass__()
        for word in ("needs", "breaks", "gives"):
            stated = getattr(cls, word)
            if not isinstance(stated, tuple) or not all(isinstance(fact, (str, Fact)) for fact in stated):
                raise TransformError(
                    f"{cls.__name__}.{word} is a tuple of facts and names of passes, got {stated!r}",
                    help=f"write {word} = (Fact.DIVISIONS,) or {word} = ('tir.Simplify',)",
                )
        own = inspect.get_annotations(cls)
        if "options" in cls.__dict__ and "options" not in own:
            raise TransformError(
                f"{cls.__name__}.options declares nothing: an option is a field of the class",
                help="write times: int = 3, and self.times where it is used",
            )
        if own:
            dataclasses.dataclass(init=False, repr=False, eq=False, match_args=False, kw_only=True)(cls)
            for field in dataclasses.fields(cls):  # type: ignore[arg-type]
                if field.name in own and any(_states(base, field.name) for base in cls.__bases__):
                    raise TransformError(
                        f"{cls.__name__}.{field.name} is no option: every pass states it",
                        help=f"write {field.name} = … without a type",
                    )
            cls.declared = _declared(cls)

    def under(self, ctx: PassContext) -> Self:
        """This rewrite with the options that a context gives and its constructor did not; itself where there are none."""
        if not ctx.config or not self.declared:
            return self
        configured = ctx.config.get(self.name)
        if not isinstance(configured, Mapping):
            configured = {}
        found: dict[str, object] = {}
        for key, declared in self.declared.items():
            value = configured[key] if key in configured else ctx.option(declared.key) if declared.key else None
            if key not in self.given and value is not None:
                found[key] = declared.value(value)
        if not found:
            return self
        made = copy.copy(self)
        made.__dict__.update(found)
        return made

    def __repr__(self) -> str:
        text = ", ".join(f"{k}={v!r}" for k, v in self.given.items())
        return f"{type(self).__name__}({text})"


def _states(base: type, name: str) -> bool:
    """Whether a class has an attribute of a name that is no option."""
    return hasattr(base, name) and name not in getattr(base, "declared", {})


def _positional(cls: type) -> list[str]:
    """The options that the constructor takes by position."""
    return (
        [field.name for field in dataclasses.fields(cls) if not field.kw_only] if getattr(cls, "declared", None) else []
    )


def _declared(cls: type) -> dict[str, Option]:
    """The options of the fields of a class."""
    made: dict[str, Option] = {}
    fields = dataclasses.fields(cls)
    try:
        hints = typing.get_type_hints(cls) if fields else {}
    except NameError as error:
        raise TransformError(
            f"the types of the options of {cls.__name__} cannot be told: {error}",
            help="types of options are names of the module that defines the pass, also when it runs",
        ) from error
    for field in fields:
        said = dict(field.metadata)
        least, key = said.pop("least", None), said.get("key")
        base = CONFIG_KEYS[key] if key else Option.of(hints[field.name], field.default, least)
        made[field.name] = declared = dataclasses.replace(base, default=field.default, **said)
        if field.default is not dataclasses.MISSING and not declared.accepts(field.default):
            raise TransformError(
                f"the option {field.name!r} of {cls.__name__} is {declared.takes}, but {field.default!r} by default",
                help="let its type and its default agree",
            )
    return made
