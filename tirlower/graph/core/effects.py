"""What is not a pure function of values: states that live from call to call, and kernels that are written already.

Accesses of one global keep their order; everything else in a graph is free to move.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, Self

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.dims import Shape
from tirlower.graph.core.nodes import GraphNode, TensorType, Value, extent_exprs
from tirlower.graph.errors import GraphError
from tirlower.ir import Expr, IntImm, Node, PrimFunc
from tirlower.ir.dtype import DataType
from tirlower.ir.node import child, data, node

__all__ = ["OUTSIDE", "Extern", "Global", "KernelCall", "Load", "Store"]


@node
class Global(Node):
    """A tensor that lives from call to call: its name, its type, what it holds at first, and whether it is ever stored to.

    A ``public`` one is read and written between calls too (``exe.state``): passes keep it, with what it holds after a call.
    """

    name: str = data(convert=str)
    extents: tuple[Expr, ...] = child(convert=extent_exprs)
    dtype: DataType = data(convert=DataType)
    initial: ConstantData = data()
    mutable: bool = data(default=True)
    public: bool = data(default=True)

    def check(self) -> None:
        """The initial contents are of the type; extents are numbers. Raises :class:`GraphError`."""
        if not self.name.isidentifier():
            raise GraphError(f"the name of a state is an identifier, got {self.name!r}")
        if (self.initial.shape, self.initial.dtype) != (self.shape, self.dtype):
            raise GraphError(
                f"the state {self.name!r} is {self.type}, and its initial contents are "
                f"{TensorType(self.initial.shape, self.initial.dtype)}",
                help="a state has numbers as extents: upper bounds, with a length beside it where it varies",
            )

    @property
    def shape(self) -> Shape:
        """The extents."""
        return tuple(e.value if isinstance(e, IntImm) else e for e in self.extents)

    @property
    def type(self) -> TensorType:
        """Shape and dtype."""
        return TensorType(self.shape, self.dtype)

    def __repr__(self) -> str:
        return f"<Global {self.name}: {self.type}>"

    def __str__(self) -> str:
        return repr(self)


OUTSIDE: Final = Global("outside", (), DataType("bool"), ConstantData.splat(False, (), "bool"))
"""What kernels with an effect of their own write, for the order among them."""


@node
class Load(GraphNode):
    """What a global holds."""

    source: Global = child()

    @property
    def effects(self) -> tuple[Global, ...]:
        """The global, unless it never changes."""
        return (self.source,) if self.source.mutable else ()

    def __repr__(self) -> str:
        return f"<Load {self.source.name} -> {self._shown()}>"


@node
class Store(GraphNode):
    """A value becomes what a global holds. It has no results."""

    target: Global = child()
    inputs: tuple[Value, ...] = child(convert=tuple)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The value."""
        return self.inputs

    @property
    def effects(self) -> tuple[Global, ...]:
        """The global."""
        return (self.target,)

    @property
    def writes(self) -> tuple[Global, ...]:
        """The global."""
        return (self.target,)

    def with_operands(self, results: Sequence[Value], operands: Sequence[Value]) -> Self:
        """A store of another value."""
        self._count(operands, 1)
        return self.with_(results=tuple(results), inputs=tuple(operands))

    def __repr__(self) -> str:
        return f"<Store {self.target.name}>"


@node
class Extern(Node):
    """A function of machine code by its symbol: ``void symbol(void *operand, ..., void *result, ..., int64_t number, ...)``.

    ``numbers`` are extents that it is given behind the tensors; with ``workspace`` a pointer to so many bytes comes last.
    """

    symbol: str = data(convert=str)
    numbers: tuple[Expr, ...] = child(default=(), convert=extent_exprs)
    workspace: int = data(default=0)

    def __repr__(self) -> str:
        return f"<Extern {self.symbol}>"

    def __str__(self) -> str:
        return repr(self)


@node
class KernelCall(GraphNode):
    """A prim func, or a function of machine code, that writes its results: parameters are operands, results, dims.

    With ``effect`` it does more than that, and is neither dropped nor moved across another such one. ``numbers`` are the
    values of a prim func's scalars, in order; without them, these are extents of its tensors.
    """

    kernel: PrimFunc | Extern = child()
    inputs: tuple[Value, ...] = child(convert=tuple)
    effect: bool = data(default=False)
    numbers: tuple[Expr, ...] = child(default=(), convert=extent_exprs)

    @property
    def operands(self) -> tuple[Value, ...]:
        """The values that it reads."""
        return self.inputs

    @property
    def effects(self) -> tuple[Global, ...]:
        """What is outside of the graph, where it has an effect."""
        return (OUTSIDE,) if self.effect else ()

    @property
    def writes(self) -> tuple[Global, ...]:
        """What is outside of the graph, where it has an effect."""
        return self.effects

    @property
    def name(self) -> str:
        """The name of the prim func, or the symbol."""
        return self.kernel.symbol if isinstance(self.kernel, Extern) else self.kernel.name

    def with_operands(self, results: Sequence[Value], operands: Sequence[Value]) -> Self:
        """The same kernel on other values."""
        self._count(operands, len(self.inputs))
        return self.with_(results=tuple(results), inputs=tuple(operands))

    def __repr__(self) -> str:
        return f"<KernelCall {self.name} -> {self._shown()}>"
