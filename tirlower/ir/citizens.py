"""What prim funcs, and callables made from them, have as functions of Python: docstring, definition, names, signature."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterable, Sequence
from types import FunctionType
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

if TYPE_CHECKING:
    from tirlower.ir.func import PrimFunc

__all__ = ["FunctionLike", "ObjectDoc", "Origin", "of_objects"]

Owner = TypeVar("Owner")
Got = TypeVar("Got")


class Origin:
    """What a function was written as in Python: its docstring, its module, and the function, where this process has it.

    A copy in another process has no function: the name of its definition means the prim func there.
    """

    __slots__ = ("doc", "function", "module")

    def __init__(self, doc: str | None = None, module: str | None = None, function: FunctionType | None = None) -> None:
        self.doc = doc
        self.module = module
        self.function = function

    def definition(self, name: str) -> FunctionType:
        """The Python function. Raises AttributeError where there is none: inspect and doctest then look no further."""
        if self.function is None:
            raise AttributeError(f"`{name}` was not written as a Python function of this process")
        return self.function

    def __reduce__(self) -> tuple[type[Origin], tuple[str | None, str | None]]:
        return Origin, (self.doc, self.module)


class ObjectDoc:
    """A class's docstring on the class, and an object's own on the object."""

    def __init__(self, text: str | None) -> None:
        self.text = text

    def __get__(self, instance: object, owner: type) -> str | None:
        return self.text if instance is None else getattr(instance, "doc", None)

    @staticmethod
    def of(cls: type) -> str | None:
        """A class's own text."""
        return cls.__doc__


class of_objects(Generic[Owner, Got]):
    """A property that the class itself does not have: ``inspect`` would take it for the class's."""

    def __init__(self, get: Callable[[Owner], Got]) -> None:
        self.get = get

    def __get__(self, instance: Owner | None, owner: type) -> Got:
        if instance is None:
            raise AttributeError(f"{self.get.__name__} is of objects of {owner.__name__}")
        return self.get(instance)


class _Parameter(Protocol):
    @property
    def name(self) -> str: ...
    @property
    def dtype(self) -> object: ...


class _Signature(Protocol):
    @property
    def inputs(self) -> Sequence[_Parameter]: ...


class _Function(Protocol):
    """What a kernel has: its prim func, its signature, and what :class:`FunctionLike` makes of them."""

    name: str

    @property
    def func(self) -> PrimFunc: ...
    @property
    def signature(self) -> _Signature: ...
    @property
    def call_text(self) -> str: ...
    def passed(self) -> Iterable[str]: ...


class FunctionLike:
    """Base of kernels: subclasses have ``func``, ``name``, ``signature``, and the names of what a call passes."""

    __slots__ = ()

    name: str

    def __init_subclass__(cls, **kwargs: object) -> None:
        super().__init_subclass__(**kwargs)
        # Python looks for a docstring on the object's own class: one there would hide that of the function.
        cls.__doc__ = ObjectDoc(cls.__dict__.get("__doc__"))  # type: ignore[assignment]

    def named(self, func: PrimFunc, name: str) -> None:
        """Give the object the names of a function."""
        self.__dict__.update(name=name, __name__=name, __qualname__=name)
        if func.origin.module:
            self.__dict__["__module__"] = func.origin.module

    def passed(self: _Function) -> Iterable[str]:
        """The names of the parameters that a call passes."""
        return [param.name for param in self.signature.inputs]

    @property
    def call_text(self: _Function) -> str:
        """The call as texts show it: ``f(A, B)``."""
        return f"{self.name}({', '.join(self.passed())})"

    @property
    def doc(self: _Function) -> str:
        """The function's docstring; where it has none, how it is called."""
        return self.func.origin.doc or self.call_text

    @of_objects
    def __wrapped__(self: _Function) -> FunctionType:
        # How inspect.unwrap, inspect.getsource and doctest find what the user wrote.
        return self.func.origin.definition(self.name)

    @of_objects
    def __signature__(self: _Function) -> inspect.Signature:
        kind = inspect.Parameter.POSITIONAL_OR_KEYWORD
        made = []
        stated = self.func.attrs.get("tir.defaults")
        defaults = stated if isinstance(stated, dict) else {}
        for param in self.signature.inputs:
            made.append(
                inspect.Parameter(
                    param.name,
                    kind,
                    default=defaults.get(param.name, inspect.Parameter.empty),
                    annotation=f"{param.dtype}{getattr(param, 'shape_text', '')}",
                )
            )
        return inspect.Signature(made)
