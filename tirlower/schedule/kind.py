"""A primitive as data: its name in the trace, its method, its arguments, its check and its rewrite.

Methods, signatures, docstrings, the forms of the trace and the fuzzer's arguments all come from here. How one is written:

- A file of its own with one :class:`Kind` (or an inseparable pair), which :mod:`tirlower.schedule.registry` lists. Each
  :class:`Slot` says what an argument is (:class:`Takes`); a user's value arrives as the value that the trace shows, names
  looked up: ``step.handle("loop")``, ``step.stage("block")`` (what computes: a block, or a statement or nest that writes
  one buffer), ``step.buffer("buffer")``, ``step["flag"]``. Words and order are TVM's; what TVM does not know is ``extra``.
- ``check(step)`` changes nothing and gives a Verdict by the question of its class (:class:`~tirlower.schedule.facts.Facts`,
  :mod:`tirlower.poly.order_kept`, :mod:`tirlower.poly.dataflow`); ``step.refuse`` where the program has not the form,
  ``BadArgument`` where an argument is out of range. Whatever else is wrong there is a refusal too, never a crash.
- ``rewrite(step)`` makes new nodes and gives a :class:`~tirlower.schedule.sites.Change`: its edits, one for each place (a
  statement replaced, put in, taken out: as low in the tree as it can be), its ``forward`` for each loop, block and store that did not
  stay the same object, its outputs. ``step.exactness`` may be set in either of the two.
- Blocks whose bodies changed get their regions from :func:`tirlower.schedule.regions.with_regions`.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

from tirlower.diagnostics import BadArgument
from tirlower.ir.expr import Var
from tirlower.poly.verdict import PROVED, Verdict

if TYPE_CHECKING:
    from tirlower.schedule.handles import Handle
    from tirlower.schedule.sites import Change
    from tirlower.schedule.step import Step

__all__ = ["NEEDED", "SIDES", "BufferAt", "Do", "Kind", "Slot", "Takes"]


class Takes(enum.Enum):
    """What an argument is."""

    LOOP = "a loop"
    BLOCK = "a block or the name of one"
    LOOP_OR_BLOCK = "a loop or a block"
    FUNCTION = "the name of a function, or None for the one worked on"
    STRING = "a string"
    INTEGER = "an integer"
    FLAG = "True or False"
    FACTOR = "a factor: an integer, an expression or None"
    COUNT = "a factor: an integer, an expression or its text, or None"
    VALUE = "a string, a number, or a list or dict of these"
    NAMES = "a list of names"
    STAGE = "a block, or a statement or nest that writes one buffer, or the name of one of them"
    BLOCKS = "a list of blocks or their names"
    LOOPS = "a list of loops"
    TARGET = "a loop, a block, or a list of blocks"
    BUFFER = "a buffer: its place among the reads or writes, (side, place), its name, or itself"
    INDEX_MAP = "an index map, or a function from indices to indices"
    REGIONS = "a function from the block's iterators to an index or (begin, end) for each dimension"
    EXPR = "a number or an expression, or a function of indices that gives one"
    SCOPE = "the name of a storage scope"
    DTYPE = "the name of a data type"
    INTEGERS = "a list of integers"
    FLOATS = "a list of numbers"
    STATEMENT = "a loop, a block or a statement"
    GAP = "the number of a statement, or a gap"
    PLACE = "a loop, a block, or the name of one"
    TILES = "a list of sizes"
    MEMORY = "a buffer of the function, or its name"
    LAYOUT = "an index map, or a function of a buffer's indices"
    INTRIN = "the name of a tensor intrinsic, one itself, or its description and implementation"


class BufferAt(NamedTuple):
    """Which buffer of a block is meant: of those that it reads or writes ("read", "write"), the how manieth."""

    side: str
    at: int


class Do(Protocol):
    """Takes a step inside a bigger one."""

    def __call__(self, part: Kind, **given: object) -> list[Handle]:
        """Take a step, its arguments given by name; the handles that it gives."""


NEEDED: Final = object()
"""The default of an argument that has none."""


@dataclass(frozen=True)
class Slot:
    """An argument: its name in Python, what it takes, and where it stands in a trace.

    ``many``: a list, flat among the inputs; ``rest``: all positional arguments from here on. ``attr``: among the attributes
    of an instruction, not its inputs. ``keyword``: its word in TVM's text, "" for none. ``extra``: beyond TVM, so it stands
    in no TVM trace. ``quiet``: left out of TVM's text where it is empty or None. ``of``: of a buffer or an index map, the
    argument whose buffers, iterators (of a block) or dimensions (of a buffer) it is about. ``side``: of a buffer, "read" or "write" where only
    these are meant, so that traces hold the place alone; "" where they hold the side too.
    ``placed``: may stand by position though it is beyond TVM.
    """

    name: str
    takes: Takes
    default: object = NEEDED
    many: bool = False
    rest: bool = False
    attr: bool = False
    keyword: str | None = None
    extra: bool = False
    quiet: bool = False
    of: str = "block"
    side: str = ""
    placed: bool = False

    @property
    def word(self) -> str:
        """The keyword in TVM's text; nothing where it stands bare."""
        return self.name if self.keyword is None else self.keyword


SIDES: Final = ("read", "write")
"""The sides of a buffer in a trace, by their number there."""


def _side(kind: Kind, number: object) -> str:
    if number not in (0, 1):
        raise BadArgument(f"an instruction {kind.name} names the side {number!r}, not 0 (reads) or 1 (writes)")
    return SIDES[int(number)]


def _always(step: Step) -> Verdict:
    """The check of what is always legal."""
    return PROVED


@dataclass(frozen=True, eq=False)
class Kind:
    """One primitive.

    ``name`` is its name in a trace, ``method`` that of the schedule's method, whose text is ``doc``. ``check`` says
    whether a step keeps what the program computes and changes nothing; ``rewrite`` says what it changes. ``returns``:
    "none", "one" handle, "many", or "asked": many where the argument ``many`` says so; ``result`` makes of the handles what
    the method gives. ``compose`` is a bigger step, made of others: it takes them one by one, and gives its handles. ``draws``:
    takes a ``decision``, which else is drawn. ``pure``: a look-up, which goes from a trace where nobody uses its result. ``tvm``:
    whether TVM has it.
    """

    name: str
    method: str
    slots: tuple[Slot, ...]
    rewrite: Callable[[Step], Change]
    doc: str
    check: Callable[[Step], Verdict] = _always
    returns: str = "none"
    pure: bool = False
    tvm: bool = True
    compose: Callable[[Step, Do], Sequence[Handle]] | None = None
    result: Callable[[Sequence[Handle | Var]], object] | None = None
    draws: bool = False
    slot: dict[str, Slot] = field(init=False, default_factory=dict)

    def __post_init__(self) -> None:
        """The arguments by name."""
        self.slot.update({slot.name: slot for slot in self.slots})

    @property
    def is_pure(self) -> bool:
        """Whether it changes nothing."""
        return self.pure

    @cached_property
    def signature(self) -> inspect.Signature:
        """The signature of the method, without the schedule."""
        made: list[inspect.Parameter] = []
        rest = False
        for slot in self.slots:
            default = inspect.Parameter.empty if slot.default is NEEDED else slot.default
            if slot.rest:
                rest = True
                made.append(inspect.Parameter(slot.name, inspect.Parameter.VAR_POSITIONAL))
            elif rest or (slot.extra and not slot.placed):
                made.append(inspect.Parameter(slot.name, inspect.Parameter.KEYWORD_ONLY, default=default))
            else:
                made.append(inspect.Parameter(slot.name, inspect.Parameter.POSITIONAL_OR_KEYWORD, default=default))
        if self.draws:
            after = inspect.Parameter.KEYWORD_ONLY if rest else inspect.Parameter.POSITIONAL_OR_KEYWORD
            made.append(inspect.Parameter("decision", after, default=None))
        return inspect.Signature(made)

    @cached_property
    def _plain(self) -> tuple[object, ...] | None:
        """The defaults of the arguments that a call may give without their names; None where they are not all told by place."""
        if self.draws or any(slot.rest for slot in self.slots):
            return None
        placed = [not slot.extra or slot.placed for slot in self.slots]
        if placed != sorted(placed, reverse=True):
            return None
        return tuple(slot.default for slot, one in zip(self.slots, placed, strict=True) if one)

    def gives_many(self, values: Mapping[str, object]) -> bool:
        """Whether a step with these arguments gives a list of handles."""
        return self.returns == "many" or (self.returns == "asked" and bool(values["many"]))

    def bind(self, args: Sequence[object], kwargs: dict[str, object]) -> dict[str, object]:
        """The arguments of a call by name, defaults put in. Raises TypeError as a call of the method does."""
        plain = self._plain
        if not kwargs and plain is not None and len(args) <= len(plain) and NEEDED not in plain[len(args) :]:
            values: dict[str, object] = {slot.name: slot.default for slot in self.slots}
            values.update(zip(values, args, strict=False))
            return values
        try:
            bound = self.signature.bind(*args, **kwargs)
        except TypeError as error:
            raise TypeError(f"{self.method}(): {error}") from None
        bound.apply_defaults()
        return dict(bound.arguments)

    def flat(self, values: dict[str, object]) -> tuple[list[object], list[object], dict[str, object]]:
        """Arguments as the inputs and attributes of a trace, lists among the inputs flat, and those beyond TVM."""
        inputs: list[object] = []
        attrs: list[object] = []
        extra: dict[str, object] = {}
        for slot in self.slots:
            value = values[slot.name]
            if slot.extra:
                if value is not slot.default and (
                    value.__class__ is not slot.default.__class__ or value != slot.default
                ):
                    extra[slot.name] = value
            elif slot.takes is Takes.BUFFER and isinstance(value, BufferAt):
                place: list[object] = [value.at] if slot.side else [value.at, SIDES.index(value.side)]
                (attrs if slot.attr else inputs).extend(place)
            elif slot.attr:
                attrs.append(value)
            elif slot.many or slot.rest:
                assert isinstance(value, (list, tuple))
                inputs += value
            else:
                inputs.append(value)
        return inputs, attrs, extra

    def unflat(self, inputs: Sequence[object], attrs: Sequence[object], extra: dict[str, object]) -> dict[str, object]:
        """The arguments that inputs and attributes of a trace are; missing attributes have their defaults."""
        values: dict[str, object] = {}
        at, of_attrs = 0, iter(attrs)
        for slot in self.slots:
            if slot.extra:
                values[slot.name] = extra.get(slot.name, slot.default)
            elif slot.takes is Takes.BUFFER and slot.attr:
                index = next(of_attrs, slot.default)
                if isinstance(index, int) and not isinstance(index, bool):
                    side = slot.side or _side(self, next(of_attrs, 0))
                    index = BufferAt(side, index)
                values[slot.name] = index
            elif slot.attr:
                values[slot.name] = next(of_attrs, slot.default)
            elif slot.many or slot.rest:
                values[slot.name] = list(inputs[at:])
                at = len(inputs)
            else:
                values[slot.name] = inputs[at] if at < len(inputs) else slot.default
                at += 1
            if values[slot.name] is NEEDED:
                raise BadArgument(f"an instruction {self.name} has no {slot.name}")
        if at < len(inputs) or next(of_attrs, NEEDED) is not NEEDED:
            raise BadArgument(f"an instruction {self.name} has more arguments than {len(self.slots)}")
        return values

    def __repr__(self) -> str:
        return f"InstructionKind({self.name!r})"
