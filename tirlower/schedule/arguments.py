"""What a user gives as an argument of a step, as the value that the step has and a trace shows."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import ParamSpec

from tirlower.diagnostics import BadArgument, TirError, nearest_name
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import DataType, DataTypeError
from tirlower.ir.expr import Expr, ExprLike, Var, as_expr
from tirlower.ir.func import PrimFunc
from tirlower.ir.index_map import IndexMap
from tirlower.ir.json_io import load_json
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, Block
from tirlower.ir.tensor_intrin import TensorIntrin
from tirlower.schedule.facts import Facts
from tirlower.schedule.handles import BlockRV, BufferRV, GapRV, Handle, LoopRV, Owner, StmtRV
from tirlower.schedule.kind import SIDES, BufferAt, Kind, Slot, Takes
from tirlower.schedule.lookups import GET_BLOCK, function_of
from tirlower.schedule.policy import Policy
from tirlower.schedule.select import LOOP, STAGE, has_block
from tirlower.schedule.sites import Mark, Memory
from tirlower.schedule.stages import Stage
from tirlower.schedule.state import State
from tirlower.schedule.step import take

__all__ = ["Arguments", "regions_of"]

P = ParamSpec("P")
_HANDLES: dict[Takes, tuple[type[Handle], ...]] = {
    Takes.LOOP: (LoopRV,),
    Takes.BLOCK: (BlockRV,),
    Takes.LOOP_OR_BLOCK: (LoopRV, BlockRV),
    Takes.STAGE: (BlockRV, LoopRV, StmtRV),
    Takes.STATEMENT: (BlockRV, LoopRV, StmtRV),
    Takes.TARGET: (LoopRV, BlockRV),
    Takes.PLACE: (LoopRV, BlockRV),
}
_LISTS = {Takes.BLOCKS: Takes.BLOCK, Takes.LOOPS: Takes.LOOP, Takes.INTEGERS: Takes.INTEGER}
_SCOPES = ("global", "shared", "warp", "local", "wmma", "m16n8k8", "metal", "texture")


class Arguments:
    """Makes the arguments of one step; ``state`` moves on over the look-ups that names are."""

    def __init__(
        self, kind: Kind, state: State, facts: Facts, policy: Policy, owner: Owner, group: tuple[str, ...]
    ) -> None:
        self.kind = kind
        self.state = state
        self.facts = facts
        self.policy = policy
        self.owner = owner
        self.group = group
        self.found: dict[str, object] = {}

    def resolved(self, values: dict[str, object]) -> dict[str, object]:
        """The values of all arguments. Raises TypeError for one of a wrong kind, :class:`ScheduleError` for a wrong one."""
        for slot in self.kind.slots:
            value = values[slot.name]
            if slot.many or slot.rest:
                if not isinstance(value, (list, tuple)):
                    raise self._wrong(slot, value, "a list")
                self.found[slot.name] = [self._one(slot, slot.takes, one) for one in value]
            elif slot.name not in self.found or value is not slot.default:
                # Else it is what another argument said: an index map its axis separators.
                self.found[slot.name] = self._one(slot, slot.takes, value)
        return self.found

    def _wrong(self, slot: Slot, value: object, what: str = "") -> TypeError:
        what = what or slot.takes.value
        return TypeError(f"{self.kind.method}() takes {what} as {slot.name}=, got {value!r}")

    def _one(self, slot: Slot, takes: Takes, value: object) -> object:
        if takes is Takes.FUNCTION and (value is None or isinstance(value, str)):
            return function_of(self.state, value)
        default = slot.default
        same = value is default or (value.__class__ is default.__class__ and value == default)
        if same and (takes is not Takes.BUFFER or value is None):
            return value
        if takes in _HANDLES:
            return self._handle(slot, takes, value)
        if takes in _LISTS:
            if not isinstance(value, (list, tuple)):
                raise self._wrong(slot, value)
            return [self._one(slot, _LISTS[takes], one) for one in value]
        made = self._made(slot, takes, value)
        if made is not None:
            return made
        if not fits(takes, value):
            raise self._wrong(slot, value)
        return value

    def _made(self, slot: Slot, takes: Takes, value: object) -> object:
        """The value of an argument that is not kept as it was given; None for others."""
        match takes:
            case Takes.BUFFER:
                return self._buffer(slot, value)
            case Takes.INDEX_MAP:
                return self._index_map(slot, value)
            case Takes.REGIONS:
                return self._regions(slot, value)
            case Takes.MEMORY:
                return self._memory(value)
            case Takes.LAYOUT:
                return self._layout(slot, value)
            case Takes.EXPR if callable(value) and not isinstance(value, Expr):
                return self._index_map(slot, value)
            case Takes.EXPR if isinstance(value, str):
                return _node(slot, value)
            case Takes.GAP if isinstance(value, GapRV):
                self.state.site(value)
                return value
            case Takes.INTRIN:
                return _intrin(value)
            case Takes.SCOPE if isinstance(value, str):
                if value.split(".")[0] not in _SCOPES:
                    near = nearest_name(value, _SCOPES)
                    raise BadArgument(
                        f"{value!r} is no storage scope",
                        help=f"did you mean {near!r}?"
                        if near
                        else f"there are: {', '.join(_SCOPES)}, with tags as in 'shared.dyn'",
                    )
            case Takes.DTYPE if isinstance(value, (str, DataType)):
                try:
                    return str(DataType(str(value)))
                except DataTypeError as error:
                    raise BadArgument(str(error)) from error
        return None

    def _take(self, kind: Kind, values: dict[str, object]) -> Handle:
        self.state, [found] = take(kind, values, self.state, self.facts, self.policy, self.owner, None, self.group)
        assert isinstance(found, Handle)
        return found

    def _handle(self, slot: Slot, takes: Takes, value: object) -> object:
        if takes is Takes.TARGET and isinstance(value, (list, tuple)):
            return [self._handle(slot, Takes.BLOCK, one) for one in value]
        if isinstance(value, str):
            function = function_of(self.state)
            block = takes is not Takes.PLACE or has_block(self.state.mod[function].body, value, self.facts)
            if takes is Takes.LOOP or not block:
                value = self._take(LOOP, {"selector": value})
            elif takes is Takes.STAGE and not has_block(self.state.mod[function].body, value, self.facts):
                value = self._take(STAGE, {"name": value})
            else:
                value = self._take(GET_BLOCK, {"name": value, "func_name": function})
        if not isinstance(value, _HANDLES[takes]):
            raise self._wrong(slot, value)
        if not isinstance(self.state.place(value), Mark):
            self.state.site(value)
        return value

    def _stage(self, slot: Slot) -> Stage:
        """What computes, that a buffer is of."""
        handle = self.found[slot.of]
        assert isinstance(handle, Handle)
        site, stmt = self.state.site(handle), self.state.stmt(handle)
        if not hasattr(stmt, "child_names") or not site.steps:
            raise BadArgument(f"`{handle.name}` is a function without a root block, of which no buffers are declared")
        return Stage.of(site, stmt, self.facts.uses)  # type: ignore[arg-type]

    def _buffer(self, slot: Slot, value: object) -> BufferAt:
        """Which buffer is meant, as its place."""
        stage = self._stage(slot)
        sides = (slot.side,) if slot.side else SIDES
        if isinstance(value, BufferAt):
            side, index = value
        elif isinstance(value, tuple):
            assert len(value) == 2 and value[0] in SIDES and isinstance(value[1], int), (
                f'a buffer is ("read", 0) or ("write", 0), got {value!r}'
            )
            side, index = value
            assert side in sides, (
                f"{self.kind.method}() takes a buffer that is {'read' if slot.side == 'read' else 'written'}, got {value!r}"
            )
        elif isinstance(value, int) and not isinstance(value, bool):
            side, index = sides[0], value
        else:
            return self._named(slot, value, stage, sides)
        count = len(getattr(stage, f"{side}s"))
        if not 0 <= index < count:
            what = "reads" if side == "read" else "writes"
            raise BadArgument(
                f"{slot.name}={index} is out of range: {count} buffers are {what} there", help=_listed(stage)
            )
        return BufferAt(side, index)

    def _named(self, slot: Slot, value: object, stage: Stage, sides: Sequence[str]) -> BufferAt:
        if isinstance(value, BufferRV):
            place = self.state.place(value)
            assert isinstance(place, Memory)
            value = place.buffer
        if not isinstance(value, (str, Buffer)):
            raise self._wrong(slot, value)
        for side in reversed(sides):  # what is read and written is meant where it is written
            buffers: tuple[Buffer, ...] = getattr(stage, f"{side}s")
            found = [at for at, one in enumerate(buffers) if one is value or one.name == value]
            if len(set(found)) > 1:
                raise BadArgument(f"{len(found)} buffers there are named {value!r}", help="give the buffer itself")
            if found:
                return BufferAt(side, found[0])
        name = value if isinstance(value, str) else value.name
        how = " or ".join("read" if side == "read" else "written" for side in sides)
        raise BadArgument(f"no buffer {name!r} is {how} there", help=_listed(stage))

    def _memory(self, value: object) -> object:
        """The name of a buffer, which is what another program has too."""
        if isinstance(value, BufferRV):
            place = self.state.place(value)
            assert isinstance(place, Memory)
            return place.buffer.name
        return value.name if isinstance(value, Buffer) else value if isinstance(value, str) else None

    def _layout(self, slot: Slot, value: object) -> object:
        """A function of indices as an index map."""
        if isinstance(value, str):
            value = _node(slot, value)
        if isinstance(value, IndexMap) or not callable(value):
            return value if isinstance(value, IndexMap) else None
        given = [*inspect.signature(value).parameters.values()]
        count = len(given)
        if any(one.kind is one.VAR_POSITIONAL for one in given):
            root = self.state.mod[function_of(self.state)].body
            name = self.found.get(slot.of)
            uses = self.facts.uses(root)  # which has nothing of what the function allocates
            mine = [one.buffer for one in each(AllocBuffer, root)]
            named = [one for one in (*uses.reads, *uses.writes, *mine) if one.name == name]
            if not named:
                raise BadArgument(f"no buffer {name!r} is accessed")
            count = len(named[0].shape)
        try:
            return IndexMap.from_func(value, count, index_dtype="int32")
        except TirError as error:
            raise BadArgument(error.message, help=error.help) from error

    def _index_map(self, slot: Slot, value: object) -> object:
        if isinstance(value, str):
            value = _node(slot, value)
        if isinstance(value, IndexMap):
            return value
        if not callable(value):
            return None
        count, dtype = self._dimensions(slot)
        try:
            made, separators = IndexMap.from_func_with_separators(value, count, index_dtype=dtype)
        except TirError as error:
            raise BadArgument(error.message, help=error.help) from error
        if separators:
            if "axis_separators" not in self.kind.slot:
                raise BadArgument(f"{self.kind.method}() takes no IndexMap.AXIS_SEPARATOR")
            self.found["axis_separators"] = separators
        return made

    def _dimensions(self, slot: Slot) -> tuple[int, str]:
        """How many indices a map takes, and their type: that of the first iterator of the block, or of what a map gives."""
        before = self.found.get(slot.of)
        if isinstance(before, IndexMap):
            return len(before.final_indices), str(before.final_indices[0].dtype) if before.final_indices else "int32"
        handle = next(one for one in self.found.values() if isinstance(one, Handle))
        stmt, of = self.state.stmt(handle), self.found.get(slot.of)
        dtype = str(stmt.iters[0].var.dtype) if isinstance(stmt, Block) and stmt.iters else "int32"
        if isinstance(of, BufferAt):
            stage = self._stage(self.kind.slot[slot.of])
            return len(getattr(stage, f"{of.side}s")[of.at].shape), dtype
        if isinstance(stmt, Block):
            return len(stmt.iters), dtype
        raise BadArgument(f"`{handle.name}` has no iterators that an index map could be of")

    def _regions(self, slot: Slot, value: object) -> object:
        """A function to indices or ranges as an index map to the begins and ends, in turn."""
        if isinstance(value, str):
            value = _node(slot, value)
        if isinstance(value, IndexMap):
            return value
        if not callable(value):
            return None
        handle = self.found[slot.of]
        assert isinstance(handle, Handle)
        stmt = self.state.stmt(handle)
        if not isinstance(stmt, Block):
            raise BadArgument(f"`{handle.name}` has no iterators that regions could be of")
        return regions_of(value, [it.var for it in stmt.iters])


def regions_of(function: Callable[P, object], variables: Sequence[Var]) -> IndexMap:
    """A function to indices or ranges as an index map to the begins and ends, in turn.

    >>> i, j = Var("i"), Var("j")
    >>> [str(end) for end in regions_of(lambda i, j: [i, (j, j + 4)], [i, j]).final_indices]
    ['i', 'i + 1', 'j', 'j + 4']
    """
    taken = [*inspect.signature(function).parameters.values()]
    if all(one.kind is not one.VAR_POSITIONAL for one in taken) and len(taken) != len(variables):
        raise BadArgument(f"the function takes {len(taken)} iterators, the block has {len(variables)}")
    given = function(*variables)  # type: ignore[call-arg, arg-type]  # as many as it takes
    ends: list[Expr] = []
    for one in given if isinstance(given, list) else [given]:
        first, last = one if isinstance(one, tuple) and len(one) == 2 else (one, None)
        begin = _index(first)
        ends += [begin, begin + 1 if last is None else _index(last)]
    return IndexMap(tuple(variables), tuple(ends))


def _index(value: object) -> Expr:
    if isinstance(value, (int, Expr)):
        made: ExprLike = value
        return as_expr(made)
    raise BadArgument(f"a region is an index or (begin, end) for each dimension, got {value!r}")


def _listed(stage: Stage) -> str:
    reads, writes = (", ".join(one.name for one in side) or "none" for side in (stage.reads, stage.writes))
    return f"read are: {reads}; written are: {writes}"


def _intrin(value: object) -> TensorIntrin | None:
    """An intrinsic given as itself, as its description and implementation, or as a trace writes these; None for others."""
    if isinstance(value, str) and value.startswith("{"):
        value = load_json(value)
    if isinstance(value, (tuple, list)) and len(value) == 2:
        desc, impl = value
        if isinstance(desc, PrimFunc) and isinstance(impl, PrimFunc):
            return TensorIntrin(desc, impl)
    return value if isinstance(value, TensorIntrin) else None


def _node(slot: Slot, text: str) -> object:
    """A node of a JSON trace."""
    try:
        return load_json(text)
    except TirError as error:
        raise BadArgument(f"{slot.name}= is no text of an expression or index map: {error.message}") from error


def fits(takes: Takes, value: object) -> bool:
    """Whether a value is of a kind."""
    integer = isinstance(value, int) and not isinstance(value, bool)
    match takes:
        case Takes.STRING | Takes.SCOPE | Takes.INTRIN:
            return isinstance(value, str)
        case Takes.INTEGER:
            return integer
        case Takes.FLAG:
            return isinstance(value, bool)
        case Takes.COUNT if isinstance(value, str):
            return True
        case Takes.FACTOR | Takes.COUNT | Takes.GAP:
            return value is None or integer or (isinstance(value, Expr) and value.dtype.is_integral)
        case Takes.TILES:
            return isinstance(value, (list, tuple)) and all(x is not None and fits(Takes.FACTOR, x) for x in value)
        case Takes.NAMES:
            return isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value)
        case Takes.FLOATS:
            return isinstance(value, (list, tuple)) and all(isinstance(one, (int, float)) for one in value)
        case Takes.EXPR:
            return isinstance(value, (int, float, Expr, IndexMap))
        case Takes.VALUE:
            if isinstance(value, (list, tuple)):
                return all(fits(takes, one) for one in value)
            if isinstance(value, dict):
                return all(isinstance(key, str) and fits(takes, one) for key, one in value.items())
            return isinstance(value, (str, int, float, Expr))
    return False
