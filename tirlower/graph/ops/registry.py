"""The operations by name: what each takes, and what follows from its one definition.

An operation is defined by a function of its operands and attributes:

- ``@op`` on a function of :class:`~tirlower.graph.ops.compute.Formal` operands that returns what ``compute`` makes;
- ``@opaque`` on a function of such operands that returns an :class:`~tirlower.graph.ops.opaque.Opaque`: what is no loops;
- ``@macro`` on a function of a builder and values that returns values: a graph of other operations under a name.

Parameters before the ``*`` are operands (``None`` as default: may be left out; ``*xs``: any number of them), those behind
it attributes. Signature, types, the reference, the prim func and the page of the operation derive from the function.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import TYPE_CHECKING, TypeAlias, TypeVar, cast

import numpy as np

from tirlower.diagnostics import nearest_name
from tirlower.graph.core.nodes import TensorType, Value
from tirlower.graph.errors import GraphError
from tirlower.graph.ops import families
from tirlower.graph.ops.compute import Formal
from tirlower.graph.ops.generic import Generic
from tirlower.graph.ops.opaque import Opaque
from tirlower.ir.dtype import DataType

if TYPE_CHECKING:
    from tirlower.graph.ops.builder import GraphBuilder

__all__ = ["Definition", "Parameter", "common_dtype", "definition", "macro", "names", "op", "opaque"]

Groups: TypeAlias = tuple[int | None, ...]
"""What each operand parameter got (:class:`tirlower.graph.core.nodes.Op`)."""


@dataclass(frozen=True)
class Parameter:
    """A parameter for operands."""

    name: str
    optional: bool = False
    variadic: bool = False


@dataclass(frozen=True, eq=False)
class Definition:
    """An operation: its name, parameters, attributes with their defaults, and the function that defines it."""

    name: str
    function: FunctionType
    is_macro: bool
    commutative: bool
    doc: str
    parameters: tuple[Parameter, ...]
    attributes: Mapping[str, object]
    is_opaque: bool = False

    @property
    def signature(self) -> str:
        """As it is written: ``softmax(x, *, axis=-1)``."""
        shown = [f"*{p.name}" if p.variadic else f"{p.name}=None" if p.optional else p.name for p in self.parameters]
        if self.attributes and not any(p.variadic for p in self.parameters):
            shown.append("*")
        shown += [k if v is inspect.Parameter.empty else f"{k}={v!r}" for k, v in self.attributes.items()]
        return f"{self.name}({', '.join(shown)})"

    def arranged(self, args: Sequence[object]) -> tuple[list[object], Groups]:
        """The operands given in a call, in order, and what each parameter got. Raises :class:`GraphError`."""
        flat: list[object] = []
        groups: list[int | None] = []
        rest = list(args)
        for parameter in self.parameters:
            if parameter.variadic:
                several = rest[0] if len(rest) == 1 and isinstance(rest[0], (list, tuple)) else rest
                flat += several
                groups.append(len(several))
                rest = []
            elif rest and rest[0] is not None:
                flat.append(rest.pop(0))
                groups.append(-1)
            elif parameter.optional:
                del rest[:1]
                groups.append(None)
            else:
                raise GraphError(f"{self.name} lacks its operand {parameter.name!r}", help=f"it is {self.signature}")
        if rest:
            raise GraphError(f"{self.name} got {len(rest)} operands too many", help=f"it is {self.signature}")
        return flat, tuple(groups)

    def completed(self, attrs: Mapping[str, object]) -> dict[str, object]:
        """The attributes with the defaults of those that are not given. Raises :class:`GraphError`."""
        for name in attrs:
            if name not in self.attributes:
                near = nearest_name(name, self.attributes)
                hint = f"did you mean {near!r}?" if near else f"it is {self.signature}"
                raise GraphError(f"{self.name} has no attribute {name!r}", help=hint)
        whole = {**self.attributes, **attrs}
        for name, value in whole.items():
            if value is inspect.Parameter.empty:
                raise GraphError(f"{self.name} lacks its attribute {name!r}", help=f"it is {self.signature}")
        return whole

    def called(
        self, operands: Sequence[object], groups: Groups, attrs: Mapping[str, object], *before: object
    ) -> object:
        """The function, called with operands as its parameters want them."""
        rest = list(operands)
        args: list[object] = []
        for group in groups:
            if group is None:
                args.append(None)
            else:
                taken = rest[: abs(group)]
                del rest[: abs(group)]
                args += taken
        return self.function(*before, *args, **attrs)

    def generic(self, types: Sequence[TensorType], groups: Groups, attrs: Mapping[str, object]) -> Generic:
        """The loops of the operation on operands of these types. Raises :class:`GraphError` where it has none."""
        made, formals = self._defined(types, groups, attrs)
        if not isinstance(made, Generic):
            raise GraphError(f"the definition of {self.name} returns what compute makes, got {type(made).__name__}")
        return replace(made, name=self.name, operands=tuple(f.buffer for f in formals))

    def opaque(self, types: Sequence[TensorType], groups: Groups, attrs: Mapping[str, object]) -> Opaque:
        """An opaque operation on operands of these types. Raises :class:`GraphError` where it is none."""
        made, _ = self._defined(types, groups, attrs)
        if not isinstance(made, Opaque):
            raise GraphError(f"the definition of {self.name} returns no opaque operation, got {type(made).__name__}")
        return made

    def _defined(
        self, types: Sequence[TensorType], groups: Groups, attrs: Mapping[str, object]
    ) -> tuple[object, list[Formal]]:
        names = [p.name for p, g in zip(self.parameters, groups, strict=True) for _ in range(abs(g or 0))]
        formals = [
            Formal(n if names.count(n) == 1 else f"{n}{i}", t.shape, t.dtype)
            for i, (n, t) in enumerate(zip(names, types, strict=True))
        ]
        return self.called(formals, groups, attrs), formals

    def expand(
        self, builder: GraphBuilder, operands: Sequence[Value], groups: Groups, attrs: Mapping[str, object]
    ) -> tuple[Value, ...]:
        """The results of a macro, made by other operations of a builder."""
        made = self.called(operands, groups, attrs, builder)
        values = made if isinstance(made, tuple) else (made,)
        for value in values:
            if not isinstance(value, Value):
                raise GraphError(f"the definition of {self.name} returns values, got {type(value).__name__}")
        return values


_DEFINITIONS: dict[str, Definition] = {}


def _define(
    name: str, function: FunctionType, is_macro: bool, commutative: bool, doc: str, is_opaque: bool = False
) -> None:
    if name in _DEFINITIONS:
        raise GraphError(f"an operation {name!r} is defined already")
    parameters: list[Parameter] = []
    attributes: dict[str, object] = {}
    for p in list(inspect.signature(function).parameters.values())[is_macro:]:
        if p.kind is inspect.Parameter.KEYWORD_ONLY:
            attributes[p.name] = p.default
        else:
            variadic = p.kind is inspect.Parameter.VAR_POSITIONAL
            parameters.append(Parameter(p.name, p.default is None, variadic))
    text = doc or inspect.getdoc(function) or ""
    _DEFINITIONS[name] = Definition(
        name, function, is_macro, commutative, text, tuple(parameters), attributes, is_opaque
    )


Function = TypeVar("Function")
"""A function of Python."""


def op(name: str, doc: str = "", *, commutative: bool = False) -> Callable[[Function], Function]:
    """Register a function of formal operands as the definition of an operation.

    >>> definition("matmul").signature
    'matmul(a, b)'
    """

    def register(function: Function) -> Function:
        _define(name, cast(FunctionType, function), False, commutative, doc)
        return function

    return register


def opaque(name: str, doc: str = "") -> Callable[[Function], Function]:
    """Register a function of formal operands as an operation that is no loops: it has a reference and a kernel of its own."""

    def register(function: Function) -> Function:
        _define(name, cast(FunctionType, function), False, False, doc, True)
        return function

    return register


def macro(name: str, doc: str = "") -> Callable[[Function], Function]:
    """Register a function of a builder and values as an operation that is a graph of others."""

    def register(function: Function) -> Function:
        _define(name, cast(FunctionType, function), True, False, doc)
        return function

    return register


def definition(name: str) -> Definition:
    """The operation of a name. Raises :class:`GraphError` with the nearest one where there is none."""
    families.load()
    found = _DEFINITIONS.get(name)
    if found is None:
        near = nearest_name(name, _DEFINITIONS)
        raise GraphError(f"there is no operation {name!r}", help=f"did you mean {near!r}?" if near else None)
    return found


def names() -> list[str]:
    """The names of all operations, sorted."""
    families.load()
    return sorted(_DEFINITIONS)


def common_dtype(*operands: TensorType | Formal) -> DataType:
    """The dtype to which operands of an operation are converted, by the array API's rules.

    >>> str(common_dtype(TensorType((), DataType("int8")), TensorType((), DataType("uint8"))))
    'int16'
    """
    kinds = {t.dtype: t.dtype.numpy for t in operands}
    try:
        return DataType(np.result_type(*kinds.values()).name)
    except TypeError:  # NumPy knows nothing of float16 beside bfloat16
        if all(kind.is_float for kind in kinds):
            return DataType("float32")
        raise GraphError(f"there is no common dtype of {', '.join(kinds)}", help="convert one with astype") from None
