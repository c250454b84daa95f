"""Tensor intrinsics: pairs of functions, what one does and how it is done, under a name."""

from __future__ import annotations

from typing import ClassVar

from tirlower.diagnostics import TirError, nearest_name
from tirlower.ir.buffer import Buffer
from tirlower.ir.expr import IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.structural import structural_equal

__all__ = ["TensorIntrin"]


class TensorIntrin:
    """A computation (``desc``) and its implementation by special instructions (``impl``).

    Both are functions of the same buffers. A schedule replaces a block that matches ``desc`` by ``impl``.
    Raises :class:`TirError` when the two do not have the same parameters: their number, all of them buffers, of the
    same dtypes and shapes (symbolic dimensions correspond one to one).

    >>> a, b = Var("a", "handle"), Var("b", "handle")
    >>> from tirlower.ir import Evaluate
    >>> desc = PrimFunc((a,), {a: Buffer("A", (16,))}, "void", {}, Evaluate(0))
    >>> impl = PrimFunc((b,), {b: Buffer("B", (16,))}, "void", {}, Evaluate(1))
    >>> TensorIntrin(desc, impl).impl is impl
    True
    """

    __slots__ = ("desc", "impl")

    _registry: ClassVar[dict[str, TensorIntrin]] = {}

    def __init__(self, desc: PrimFunc, impl: PrimFunc) -> None:
        for what, func in (("description", desc), ("implementation", impl)):
            if not isinstance(func, PrimFunc):
                raise TirError(f"the {what} of a tensor intrinsic is a PrimFunc, got {type(func).__name__}")
            for param in func.params:
                if param not in func.buffer_map:
                    raise TirError(
                        f"the {what} of a tensor intrinsic has buffers for parameters, {param.name!r} is none",
                        help="declare it as T.Buffer, or match it with T.match_buffer",
                    )
        if len(desc.params) != len(impl.params):
            raise TirError(
                f"the description of a tensor intrinsic has {len(desc.params)} parameters, "
                f"the implementation {len(impl.params)}"
            )
        symbols: dict[Var, Var] = {}
        for position, (a, b) in enumerate(zip(desc.buffers, impl.buffers, strict=True)):
            _check_pair(position, a, b, symbols)
        self.desc = desc
        self.impl = impl

    @classmethod
    def register(cls, name: str, desc: PrimFunc, impl: PrimFunc, override: bool = False) -> TensorIntrin:
        """Make an intrinsic and put it under a name.

        Raises :class:`TirError` when the name is taken, unless ``override`` is set.
        """
        if name in cls._registry and not override:
            raise TirError(
                f"the tensor intrinsic {name!r} is registered already",
                help="use another name, or override=True to replace it",
            )
        made = cls(desc, impl)
        cls._registry[name] = made
        return made

    @classmethod
    def get(cls, name: str, allow_missing: bool = False) -> TensorIntrin | None:
        """The intrinsic of that name; None when there is none and ``allow_missing`` is set.

        Raises :class:`TirError` naming the nearest one otherwise.
        """
        found = cls._registry.get(name)
        if found is None and not allow_missing:
            near = nearest_name(name, cls._registry)
            raise TirError(
                f"no tensor intrinsic {name!r}",
                help=f"did you mean {near!r}?" if near else "register it with TensorIntrin.register",
            )
        return found

    @classmethod
    def names(cls) -> list[str]:
        """The names of all registered intrinsics."""
        return list(cls._registry)

    def __repr__(self) -> str:
        return f"TensorIntrin({self.desc.name!r}, {self.impl.name!r})"


def _check_pair(position: int, a: Buffer, b: Buffer, symbols: dict[Var, Var]) -> None:
    where = f"parameter {position} of a tensor intrinsic"
    if a.dtype is not b.dtype:
        raise TirError(f"{where}: the description has dtype {a.dtype!s}, the implementation {b.dtype!s}")
    if len(a.shape) != len(b.shape):
        raise TirError(f"{where}: the description has {len(a.shape)} dimensions, the implementation {len(b.shape)}")
    for axis, (x, y) in enumerate(zip(a.shape, b.shape, strict=True)):
        if isinstance(x, Var) and isinstance(y, Var):
            same = symbols.setdefault(x, y) is y
        elif isinstance(x, IntImm) and isinstance(y, IntImm):
            same = x.value == y.value
        else:
            same = structural_equal(x, y, map_free_vars=True)
        if not same:
            raise TirError(f"{where}: dimension {axis} is {x} in the description, {y} in the implementation")
