"""Functions and modules."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from types import FunctionType
from typing import Final, NoReturn, Protocol, runtime_checkable

from tirlower.diagnostics import Span, TirError, WellFormedError, nearest_name
from tirlower.ir import text
from tirlower.ir.buffer import Buffer
from tirlower.ir.callees import rename_callees
from tirlower.ir.citizens import ObjectDoc, Origin, of_objects
from tirlower.ir.dtype import HANDLE, DataType, PointerType
from tirlower.ir.expr import Var
from tirlower.ir.node import REQUIRED, Node, attrs, binds, child, data, hint, node
from tirlower.ir.op import GlobalVar
from tirlower.ir.stmt import Stmt, normalize_attr, normalize_attrs

__all__ = ["IRModule", "Origin", "PrimFunc", "Scheduled"]


def _ret_type(value: object) -> DataType | PointerType:
    return value if isinstance(value, PointerType) else DataType("void" if value is None else value)


NOWHERE: Final = Origin()
"""The origin of what was not written as a function of Python."""


def _name(key: object) -> str:
    return key.name if isinstance(key, GlobalVar) else str(key)


@node
class PrimFunc(Node):
    """A function: parameters, the buffers that handles stand for, a body, and attributes.

    Its free variables are its parameters and the symbolic dimensions, strides and offsets of its parameter buffers. A
    buffer given as a parameter stands for a handle that is mapped to it.

    >>> from tirlower.ir import BufferStore
    >>> A = Buffer("A", (8,), "int32")
    >>> print(PrimFunc([A], attrs={"global_symbol": "f"}, body=BufferStore(A, 1, (0,))))
    @T.prim_func
    def f(A: T.Buffer((8,), "int32")):
        A[0] = 1
    """

    params: tuple[Var, ...] = binds(convert=tuple)
    buffer_map: dict[Var, Buffer] = binds(default=None, convert=lambda m: dict(m or {}))
    ret_type: DataType | PointerType = data(default=None, convert=_ret_type)
    attrs: dict[str, object] = attrs(default=None, convert=normalize_attrs)
    body: Stmt = child(default=REQUIRED)
    origin: Origin = hint(default=NOWHERE, kw_only=True)
    span: Span | None = hint(default=None, kw_only=True)

    def check(self) -> None:
        """Each mapped buffer belongs to a handle parameter; those given as parameters get one."""
        if any(isinstance(param, Buffer) for param in self.params):
            given: tuple[Var | Buffer, ...] = self.params
            handles = {b: Var(f"{b.name}_handle", HANDLE) for b in given if isinstance(b, Buffer)}
            self.params = tuple([handles[p] if isinstance(p, Buffer) else p for p in given])
            self.buffer_map = {**self.buffer_map, **{handle: buffer for buffer, handle in handles.items()}}
        known = set(self.params)
        for var in self.buffer_map:
            if var not in known:
                raise WellFormedError(f"the buffer map names {var.name!r}, which is no parameter", span=self.span)
            if not var.dtype.is_handle:
                raise WellFormedError(f"the parameter {var.name!r} of a buffer is a handle, got {var.dtype!s}")

    @property
    def name(self) -> str:
        """The exported name (``global_symbol``), or "main" where it has none."""
        return str(self.attrs.get("global_symbol", "main"))

    @property
    def doc(self) -> str | None:
        """The docstring that the function was written with; without one, what its class is."""
        return self.origin.doc or ObjectDoc.of(PrimFunc)

    @of_objects
    def __wrapped__(self) -> FunctionType:
        return self.origin.definition(self.name)

    @property
    def buffers(self) -> tuple[Buffer, ...]:
        """The parameter buffers, in parameter order."""
        return tuple(self.buffer_map[p] for p in self.params if p in self.buffer_map)

    def with_body(self, body: Stmt) -> PrimFunc:
        """The function with another body; the same object when it is the same body."""
        return self.with_(body=body)

    def with_attr(self, key: str | Mapping[str, object], value: object = None) -> PrimFunc:
        """The function with an attribute (or a mapping of them) set."""
        new = dict(key) if isinstance(key, Mapping) else {key: value}
        return self.with_(attrs={**self.attrs, **new})

    def with_attrs(self, attrs: Mapping[str, object]) -> PrimFunc:
        """The function with attributes set."""
        return self.with_attr(attrs)

    def without_attr(self, key: str) -> PrimFunc:
        """The function without an attribute; the same object when it has none of that name."""
        if key not in self.attrs:
            return self
        return self.with_(attrs={k: v for k, v in self.attrs.items() if k != key})

    def specialize(self, values: Mapping[Var, object]) -> PrimFunc:
        """The function with parameters fixed: ``{param or symbolic variable: value or buffer}``.

        See :func:`tirlower.ir.specialize.specialize`.
        """
        from tirlower.ir.specialize import specialize

        return specialize(self, values)

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return f"PrimFunc({self.name!r}, {len(self.params)} parameters)"


PrimFunc.__doc__ = ObjectDoc(PrimFunc.__doc__)  # type: ignore[assignment]


@runtime_checkable
class Scheduled(Protocol):
    """What has a program to run or to compile, as a schedule does."""

    @property
    def program(self) -> PrimFunc | IRModule:
        """The function, or the module."""


class IRModule:
    """Functions by name, and the module's attributes. Not changed once built: ``with_func`` makes a new one.

    >>> IRModule({}).attrs
    {}
    """

    __slots__ = ("attrs", "functions")

    def __init__(
        self,
        functions: Mapping[str, PrimFunc] | Mapping[GlobalVar, PrimFunc] | PrimFunc | None = None,
        attrs: Mapping[str, object] | None = None,
    ) -> None:
        if isinstance(functions, PrimFunc):
            functions = {functions.name: functions}
        self.functions: dict[str, PrimFunc] = {}
        for key, func in (functions or {}).items():
            if not isinstance(func, PrimFunc):
                raise WellFormedError(f"a module holds prim funcs, got {type(func).__name__} under {key!r}")
            self.functions[_name(key)] = func
        self.attrs: dict[str, object] = normalize_attrs(attrs)

    @classmethod
    def from_expr(cls, func: PrimFunc) -> IRModule:
        """A module of one function under its own name."""
        return cls({func.name: func})

    def __getitem__(self, key: str | GlobalVar) -> PrimFunc:
        name = key.name if isinstance(key, GlobalVar) else key
        found = self.functions.get(name)
        if found is None:
            near = nearest_name(name, self.functions)
            known = ", ".join(self.functions) or "none"
            raise TirError(
                f"no function {name!r} in the module", help=f"did you mean {near!r}?" if near else f"it has: {known}"
            )
        return found

    def __contains__(self, key: object) -> bool:
        return (key.name if isinstance(key, GlobalVar) else key) in self.functions

    def __iter__(self) -> Iterator[str]:
        return iter(self.functions)

    def __len__(self) -> int:
        return len(self.functions)

    def items(self) -> list[tuple[str, PrimFunc]]:
        """The names and functions."""
        return list(self.functions.items())

    def get_global_vars(self) -> tuple[GlobalVar, ...]:
        """The callees that the functions are."""
        return tuple(GlobalVar(name) for name in self.functions)

    def keys(self) -> list[str]:
        """The names."""
        return list(self.functions)

    def values(self) -> list[PrimFunc]:
        """The functions."""
        return list(self.functions.values())

    def get(self, key: str | GlobalVar, default: PrimFunc | None = None) -> PrimFunc | None:
        """The function of that name, or ``default`` where there is none."""
        return self.functions.get(key.name if isinstance(key, GlobalVar) else key, default)

    def functions_items(self) -> list[tuple[GlobalVar, PrimFunc]]:
        """The callees and functions."""
        return [(GlobalVar(name), func) for name, func in self.functions.items()]

    def get_global_var(self, name: str) -> GlobalVar:
        """The callee of that name. Raises :class:`TirError` when there is no such function."""
        self[name]
        return GlobalVar(name)

    def with_functions(self, functions: Mapping[str, PrimFunc]) -> IRModule:
        """A module of other functions with these attributes; this one when nothing differs."""
        if len(functions) == len(self.functions) and all(
            self.functions.get(name) is func for name, func in functions.items()
        ):
            return self
        return IRModule(functions, self.attrs)

    def map_functions(self, fn: Callable[[PrimFunc], PrimFunc]) -> IRModule:
        """A module with ``fn`` applied to each function; this one when nothing changed."""
        return self.with_functions({name: fn(func) for name, func in self.functions.items()})

    def with_func(self, name: str, func: PrimFunc) -> IRModule:
        """A module with a function added or replaced."""
        return IRModule({**self.functions, name: func}, self.attrs)

    def with_attr(self, key: str, value: object) -> IRModule:
        """A module with an attribute set."""
        return IRModule(self.functions, {**self.attrs, key: normalize_attr(value)})

    def with_attrs(self, attrs: Mapping[str, object]) -> IRModule:
        """A module with attributes set."""
        return IRModule(self.functions, {**self.attrs, **attrs})

    def without_attr(self, key: str) -> IRModule:
        """A module without an attribute."""
        return IRModule(self.functions, {k: v for k, v in self.attrs.items() if k != key})

    def get_attr(self, key: str, default: object = None) -> object:
        """The value of an attribute, or ``default`` where there is none."""
        return self.attrs.get(key, default)

    def clone(self) -> IRModule:
        """A module of the same functions and attributes."""
        return IRModule(self.functions, self.attrs)

    def replace_global_vars(self, names: Mapping[str | GlobalVar, str | GlobalVar]) -> IRModule:
        """A module in which functions have other names, also where they are called.

        A function that exports its old name exports the new one. Raises :class:`TirError` for a function that is not
        there, and where two would have one name.

        >>> from tirlower.ir import Evaluate
        >>> module = IRModule({"f": PrimFunc((), {}, None, {"global_symbol": "f"}, Evaluate(0))})
        >>> module.replace_global_vars({"f": "g"})["g"].name
        'g'
        """
        wanted = {_name(old): _name(new) for old, new in names.items()}
        for old in wanted:
            self[old]
        functions: dict[str, PrimFunc] = {}
        for old, func in self.functions.items():
            name = wanted.get(old, old)
            if name in functions:
                raise TirError(f"two functions of the module would have the name {name!r}")
            if name != old and func.attrs.get("global_symbol") == old:
                func = func.with_attr("global_symbol", name)
            functions[name] = func.with_body(rename_callees(func.body, wanted))
        return IRModule(functions, self.attrs)

    def _unchanged(self, instead: str) -> NoReturn:
        raise TirError("a module is not changed once it is built", help=f"make another one: {instead}")

    def __setitem__(self, key: object, func: object) -> NoReturn:
        self._unchanged(f"module = module.with_func({_name(key)!r}, func)")

    def __delitem__(self, key: object) -> NoReturn:
        self._unchanged("IRModule({name: func for name, func in module.items() if name != …}, module.attrs)")

    def update(self, other: object) -> NoReturn:
        """Refused, as :class:`TirError`: a module does not change."""
        self._unchanged("module = module.with_functions({**module.functions, **other.functions})")

    def update_func(self, key: object, func: object) -> NoReturn:
        """Refused, as :class:`TirError`: a module does not change."""
        self._unchanged(f"module = module.with_func({_name(key)!r}, func)")

    def script(self, **options: object) -> str:
        """The module as a script that parses back to an equal module."""
        return text.script(self, **options)

    def astext(self) -> str:
        """The script, by its older name in TVM."""
        return text.script(self)

    def show(self, *style: str, **options: object) -> None:
        """Print the script, coloured where the terminal shows colours."""
        text.show(self, *style, **options)

    def __str__(self) -> str:
        return self.script()

    def __repr__(self) -> str:
        return f"IRModule({', '.join(self.functions)})"
