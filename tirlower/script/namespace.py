"""What names lead to: the namespaces of the dialect, the module at hand, and its functions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from types import BuiltinFunctionType, FunctionType, ModuleType

from tirlower.diagnostics import TirError
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import HANDLE, VOID, DataType, PointerType
from tirlower.ir.expr import Call, Expr, ExprLike, as_expr
from tirlower.ir.func import PrimFunc
from tirlower.ir.op import GlobalVar
from tirlower.script.scope import MISSING

__all__ = [
    "NAMESPACES", "GlobalCallee", "ModuleRef", "Namespace", "call_tir", "computes", "infers_dtype", "is_header",
    "names_a_span",
]  # fmt: skip


class Namespace:
    """What a module of the dialect (``T``, ``I``) offers to scripts: its members, and those made on demand."""

    def __init__(
        self, module: ModuleType, members: dict[str, object], make: Callable[[str], object] | None = None
    ) -> None:
        self.module = module
        self.members = members
        self.make = make
        self.more: list[str] = []

    def find(self, name: str) -> object:
        """The member of that name, or ``MISSING``."""
        found = self.members.get(name, MISSING)
        if found is MISSING and self.make is not None:
            found = self.make(name)
        return found

    def names(self) -> list[str]:
        """The names of the members, for suggestions."""
        return [*self.members, *self.more]


NAMESPACES: dict[str, Namespace] = {}
"""The namespaces of the dialect by their module's name; each module adds itself when it is imported."""


class ModuleRef:
    """The name of the module being parsed: ``Module.f`` is its function ``f``."""

    __slots__ = ("functions", "name")

    def __init__(self, name: str, functions: dict[str, GlobalCallee]) -> None:
        self.name = name
        self.functions = functions


class GlobalCallee:
    """A function of the module, or a function met in the Python scope, as a callee."""

    __slots__ = ("name", "ret_type")

    def __init__(self, name: str, ret_type: DataType) -> None:
        self.name = name
        self.ret_type = ret_type

    @classmethod
    def of(cls, func: PrimFunc) -> GlobalCallee:
        """A function that is met in the Python scope, called by its name."""
        return cls(func.name, HANDLE if isinstance(func.ret_type, PointerType) else func.ret_type)

    def __call__(self, *args: ExprLike | Buffer) -> Expr:
        """A call; of a buffer the pointer to its data is passed."""
        exprs = tuple(a.data if isinstance(a, Buffer) else as_expr(a) for a in args)
        return Call(GlobalVar(self.name), exprs, self.ret_type)


def call_tir(callee: object, *args: ExprLike | Buffer) -> Expr:
    """A call of another function of the module, as ``Module.f(…)``: ``T.call_tir(Module.f, A.data, 3)``.

    Raises :class:`TirError` where the first argument is no function.
    """
    if isinstance(callee, PrimFunc):
        callee = GlobalCallee.of(callee)
    elif isinstance(callee, GlobalVar):
        callee = GlobalCallee(callee.name, VOID)
    if not isinstance(callee, GlobalCallee):
        raise TirError(
            f"T.call_tir calls a function of the module, got {callee!r}", help="name it: T.call_tir(Module.f, …)"
        )
    return callee(*args)


_OPERATIONS = ("tirlower.ir.build", "tirlower.script.operators")
"""The modules of the functions that make operations."""


_POINTERS = ("address_of",)
"""Operations whose argument is a place in memory."""
_BUILTINS = {min, max, abs}


def computes(func: object) -> bool:
    """Whether calling a value of the script makes an expression of the arguments: an operation, a type, a function.

    Everything else is a form, a macro or a helper of the user's.
    """
    if isinstance(func, (str, GlobalCallee)) or hasattr(func, "op"):
        return True
    if isinstance(func, BuiltinFunctionType):
        return func in _BUILTINS
    return isinstance(func, FunctionType) and func.__module__ in _OPERATIONS and func.__name__ not in _POINTERS


def is_header(func: object) -> bool:
    """Whether a function is a form of a block's header, whose arguments belong in front of the block."""
    name, module = getattr(func, "__name__", ""), getattr(func, "__module__", "")
    return module == "tirlower.script.blocks" or (module == "tirlower.script.buffers" and name == "match_buffer")


def infers_dtype(func: object) -> bool:
    """Whether a function makes an operation, and has no parameter for the type of the result."""
    if not isinstance(func, FunctionType):
        return False
    name, module = func.__name__, func.__module__
    if module not in _OPERATIONS and not (module == "tirlower.script.statement_forms" and name in ("ret", "assume")):
        return False
    return name[:1].islower() and "dtype" not in inspect.signature(func).parameters


def names_a_span(func: object, count: int) -> bool:
    """Whether so many arguments of an operation's function reach its ``span``, which a script does not give."""
    if not isinstance(func, FunctionType) or func.__module__ not in _OPERATIONS:
        return False
    names = func.__code__.co_varnames[: func.__code__.co_argcount]
    return "span" in names[:count]
