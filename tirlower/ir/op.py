"""Operations: the callables of the IR, as registered objects.

An :class:`Op` knows its name, how many arguments it takes, its purity, and how the type of a call follows from the
arguments. The definitions stand in ``ir/intrinsics/``; nothing matches on bare strings.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, ClassVar

from tirlower.diagnostics import TirError, nearest_name
from tirlower.ir.dtype import DataType

if TYPE_CHECKING:
    from tirlower.ir.expr import Expr, ExprLike

__all__ = ["GlobalVar", "Op", "Purity", "TypeRule"]


class Purity(enum.IntEnum):
    """What evaluating a call may do, from nothing to anything."""

    PURE = 0
    """Depends on its arguments alone."""
    READS = 1
    """Reads memory."""
    WRITES = 2
    """Reads and writes memory, or changes state that other calls see."""
    OPAQUE = 3
    """Unknown, or steers control: never moved, copied or removed."""


TypeRule = Callable[[Sequence["Expr"]], DataType]


class Op:
    """A registered operation.

    ``name`` is the full name (``tir.exp``), ``short`` the name printed after ``T.``; ``arity`` the number of
    arguments as (least, most), most None for any; ``purity`` what a call may do; ``infer`` the type of a call from
    its arguments, or None where the caller states it; ``elementwise`` says that lanes do not mix, so a vector
    argument gives a vector result; ``dtype_first`` that the script writes the type first (``T.op("float32", x)``).
    """

    __slots__ = ("_attrs", "arity", "dtype_first", "elementwise", "infer", "name", "purity", "short")

    _registry: ClassVar[dict[str, Op]] = {}

    def __init__(
        self,
        name: str,
        arity: int | tuple[int, int | None],
        purity: Purity,
        infer: TypeRule | None,
        *,
        elementwise: bool = False,
        dtype_first: bool | None = None,
    ) -> None:
        self.name = name
        self.short = name.removeprefix("tir.").replace(".", "_")
        self.arity = (arity, arity) if isinstance(arity, int) else arity
        self.purity = purity
        self.infer = infer
        self.elementwise = elementwise
        self.dtype_first = infer is None if dtype_first is None else dtype_first
        self._attrs: dict[str, tuple[object, int]] = {}

    @classmethod
    def register(
        cls,
        name: str,
        arity: int | tuple[int, int | None],
        purity: Purity = Purity.PURE,
        infer: TypeRule | None = None,
        *,
        elementwise: bool = False,
        dtype_first: bool | None = None,
    ) -> Op:
        """Add an operation to the registry and return it. Raises ValueError when the name is taken."""
        if name in cls._registry:
            raise ValueError(f"operation {name!r} is registered already")
        op = cls(name, arity, purity, infer, elementwise=elementwise, dtype_first=dtype_first)
        cls._registry[name] = op
        return op

    @classmethod
    def get(cls, name: str) -> Op:
        """The operation of that name. Raises :class:`TirError` naming the nearest one when there is none."""
        found = cls._registry.get(name)
        if found is None:
            near = nearest_name(name, cls._registry)
            raise TirError(f"unknown operation {name!r}", help=f"did you mean {near!r}?" if near else None)
        return found

    @classmethod
    def find(cls, name: str) -> Op | None:
        """The operation of that name, or None."""
        return cls._registry.get(name)

    @classmethod
    def names(cls) -> list[str]:
        """The names of all operations."""
        return list(cls._registry)

    @classmethod
    def list_op_names(cls) -> list[str]:
        """The names of all operations, as :meth:`names`, in TIR's word."""
        return cls.names()

    @property
    def num_inputs(self) -> int:
        """How many arguments it takes; -1 where that varies."""
        return self.arity[0] if self.arity[0] == self.arity[1] else -1

    # -- attributes ------------------------------------------------------------------------------------------------
    def get_attr(self, attr_name: str) -> object:
        """An attribute, or None.

        Every operation has what follows from its registration: ``TCallEffectKind`` (1 for what is pure, 2 for what reads,
        3 for what writes or is unknown), ``TScriptPrinterName`` (what stands after ``T.``) and ``TVectorizable``. Others are those of :meth:`set_attr`.

        >>> Op.get("tir.exp").get_attr("TCallEffectKind"), Op.get("tir.exp").get_attr("TScriptPrinterName")
        (1, 'exp')
        """
        derived = _DERIVED.get(attr_name)
        if derived is not None:
            return derived(self)
        return self._attrs.get(attr_name, (None, 0))[0]

    def has_attr(self, attr_name: str) -> bool:
        """Whether it has an attribute of that name."""
        return attr_name in _DERIVED or attr_name in self._attrs

    def set_attr(self, attr_name: str, value: object, plevel: int = 10) -> None:
        """State an attribute for this process; it is data for whoever asks, and nothing here depends on it.

        Of two values the one of the higher ``plevel`` counts. Raises :class:`TirError` for a second one of the same level,
        and for attributes that follow from the registration.
        """
        if attr_name in _DERIVED:
            raise TirError(
                f"the attribute {attr_name!r} of {self.name!r} follows from its registration and is not set",
                help="register an operation of your own with the purity that it has",
            )
        known = self._attrs.get(attr_name)
        if known is not None and known[1] == plevel:
            raise TirError(
                f"the attribute {attr_name!r} of {self.name!r} is set already, with the same plevel {plevel}",
                help=f"reset_attr({attr_name!r}) first, or give a higher plevel",
            )
        if known is None or known[1] < plevel:
            self._attrs[attr_name] = (value, plevel)

    def reset_attr(self, attr_name: str) -> None:
        """Forget an attribute that was set; nothing where there is none."""
        self._attrs.pop(attr_name, None)

    def __repr__(self) -> str:
        return f"Op({self.name!r})"

    def __reduce__(self) -> tuple[Callable[[str], Op], tuple[str]]:
        return (Op.get, (self.name,))


_DERIVED: dict[str, Callable[[Op], object]] = {
    "TCallEffectKind": lambda op: min(int(op.purity), int(Purity.WRITES)) + 1,
    "TScriptPrinterName": lambda op: op.short,
    "TVectorizable": lambda op: op.elementwise,
}
"""Attributes that say in TIR's words how an operation was registered."""


class GlobalVar:
    """The name of a function in a module, as a callee. Two of the same name are equal.

    Called, it makes a call of the function: ``dtype`` is what the function returns, nothing by default.

    >>> from tirlower.ir import Var
    >>> GlobalVar("main") == GlobalVar("main"), GlobalVar("half")(Var("x"), 2, dtype="int32").dtype
    (True, 'int32')
    """

    __slots__ = ("name",)

    def __init__(self, name: str) -> None:
        self.name = name

    @property
    def name_hint(self) -> str:
        """The name."""
        return self.name

    def __eq__(self, other: object) -> bool:
        return isinstance(other, GlobalVar) and other.name == self.name

    def __hash__(self) -> int:
        return hash(("GlobalVar", self.name))

    def __call__(self, *args: ExprLike, dtype: DataType | str = "void") -> Expr:
        """A call with arguments; of a buffer its pointer is one (``A.data``)."""
        return _expr.Call(self, _expr.as_exprs(args), DataType(dtype))

    def __repr__(self) -> str:
        return f"GlobalVar({self.name!r})"


# Calls are nodes, which need the classes above: the import closes the circle once, here.
from tirlower.ir import expr as _expr  # noqa: E402
