"""An imperative builder in the words of the script: forms that run as Python, one after another.

>>> from tirlower.script.ir_builder import IRBuilder, tir as T
>>> with IRBuilder() as ib:
...     with T.prim_func():
...         T.func_name("double")
...         A = T.arg("A", T.Buffer((8,), "int32"))
...         with T.serial(0, 8) as i:
...             with T.block("update"):
...                 vi = T.axis.spatial(8, i)
...                 T.buffer_store(A, A[vi] * 2, [vi])
>>> print(ib.get().script())
@T.prim_func
def double(A: T.Buffer((8,), "int32")):
    for i in range(8):
        with T.block("update"):
            vi = T.axis.spatial(8, i)
            T.reads(A[vi])
            T.writes(A[vi])
            A[vi] = A[vi] * 2

The members of ``tir`` are those of the script's ``T``, and mean the same; a form that opens a scope is a context
manager. Nothing is parsed: ``if`` and ``for`` are Python's own, and decide when the program is built. Variables and
buffers have the names of the Python variables that hold them when their scope ends; :meth:`IRBuilder.name` gives others.
:class:`tirlower.ir.IRBuilder` builds by methods instead.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType, TracebackType
from typing import Any, TypeVar

from tirlower.diagnostics import TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, IterVar
from tirlower.ir.dtype import HANDLE, VOID, DataType, PointerType
from tirlower.ir.expr import Call, ExprLike, Var, as_expr
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.op import Op, Purity
from tirlower.ir.query import each
from tirlower.ir.stmt import Block, Seq, Stmt, While
from tirlower.script import ir as _ir
from tirlower.script import tir as _tir
from tirlower.script.blocks import implicit_root
from tirlower.script.buffers import parameter_buffer
from tirlower.script.builder import Builder, FunctionState, name_buffer
from tirlower.script.forms import Frame, Let, MetaVar, Sliced, is_unnamed, type_of_annotation
from tirlower.script.loops import LoopFrame
from tirlower.script.scope import activate, active, active_or_none, deactivate

__all__ = ["IRBuilder", "ir", "tir"]

Value = TypeVar("Value")


class _Work(Builder):
    """The statements, functions and module of one :class:`IRBuilder`."""

    def __init__(self, owner: IRBuilder) -> None:
        super().__init__()
        self.owner = owner
        self.func = FunctionState("fragment")
        self.functions: dict[str, PrimFunc] = {}
        self.module_attrs: dict[str, object] | None = None
        self.made: list[Call] = []

    def refuse_lost_calls(self, body: Stmt) -> None:
        """Raise TirError for a call with an effect that was made and stands nowhere, as ``T.ret(x)`` without ``T.evaluate``."""
        there = {id(call) for call in each(Call, body)}
        lost = next((call for call in self.made if id(call) not in there), None)
        self.made.clear()
        if lost is not None:
            raise TirError(
                f"{lost} was made and stands nowhere in the program: nothing would do it",
                help=f"write T.evaluate({lost}), or use its value",
            )

    def name_locals(self, frame: FrameType | None) -> None:
        """Give what has no name yet those of the Python variables that hold it."""
        for name, value in (frame.f_locals if frame is not None else {}).items():
            if is_unnamed(value) or isinstance(value, (Buffer, IterVar)):
                self.take_name(value, name)

    def result(self) -> PrimFunc | IRModule | Stmt:
        """All that was built, as one."""
        stmts = self._levels[-1].out
        self.refuse_lost_calls(Seq(tuple(stmts)))
        if self.module_attrs is not None:
            return IRModule(self.functions, self.module_attrs)
        if self.functions and stmts:
            raise TirError("there are statements outside the function", help="move them into its `with T.prim_func():`")
        if len(self.functions) > 1:
            raise TirError(
                f"several functions were built: {', '.join(self.functions)}", help="put them into `with I.ir_module():`"
            )
        return next(iter(self.functions.values())) if self.functions else self.close()


class IRBuilder:
    """What the forms inside its ``with`` build; ``get`` returns it afterwards."""

    def __init__(self) -> None:
        self._work = _Work(self)
        self._before: Builder | None = None
        self._result: PrimFunc | IRModule | Stmt | None = None
        self._failed = False

    def __enter__(self) -> IRBuilder:
        self._before = activate(self._work)
        self._work.open()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        deactivate(self._before)
        self._failed = kind is not None
        if not self._failed:
            self._work.name_locals(sys._getframe(1))
            self._result = self._work.result()

    def get(self) -> PrimFunc | IRModule | Stmt:
        """What was built: the function, the module, or the statements without a function.

        Raises :class:`TirError` inside the ``with``, and after one that an exception left.
        """
        if self._result is None:
            state = "an exception left it" if self._failed else "it is still open"
            raise TirError(f"the builder has no result: {state}", help="call get after its `with` block")
        return self._result

    @staticmethod
    def current() -> IRBuilder:
        """The builder at work. Raises :class:`TirError` outside one."""
        return _work_of("IRBuilder.current").owner

    @staticmethod
    def name(name: str, value: Value) -> Value:
        """Name a variable, axis or buffer that was just made; returns it."""
        if isinstance(value, Var):
            value.name = name
        elif isinstance(value, IterVar):
            value.var.name = name
        elif isinstance(value, Buffer):
            name_buffer(value, name)
        return value

    @staticmethod
    def name_many(names: Sequence[str], values: Sequence[Value]) -> list[Value]:
        """Name several, in their order. Raises :class:`TirError` for another number of names."""
        if len(names) != len(values):
            raise TirError(f"{len(values)} values take as many names, got {len(names)}")
        return [IRBuilder.name(name, value) for name, value in zip(names, values, strict=True)]


class _Scope:
    """A form as a context manager of Python."""

    def __init__(self, what: str) -> None:
        self.what = what
        self.builder: Builder | None = None

    def begin(self, builder: Builder) -> object:
        """Open the scope; returns the value after ``as``."""
        raise TirError(f"{self.what} opens no scope")

    def end(self, builder: Builder) -> None:
        """Close it."""

    def __enter__(self) -> Any:  # whatever a form makes
        self.builder = active(self.what)
        return self.begin(self.builder)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        assert self.builder is not None
        if kind is None:
            if isinstance(self.builder, _Work):
                self.builder.name_locals(sys._getframe(1))
            self.end(self.builder)


class _Form(_Scope):
    """A frame of the script."""

    def __init__(self, frame: Frame) -> None:
        super().__init__(frame.what)
        self.frame = frame

    def begin(self, builder: Builder) -> object:
        """The frame's own beginning."""
        value = self.frame.begin(builder, None)
        if isinstance(self.frame, Let) and self.frame.var is None and isinstance(value, Var):
            value.name = ""  # that of the Python variable, which is known at the end
        return value

    def end(self, builder: Builder) -> None:
        """Its end."""
        self.frame.end(builder)


class _Loops(_Scope):
    """A loop, or the nest of ``T.grid``: its variable, or a tuple of them."""

    def __init__(self, frame: LoopFrame) -> None:
        super().__init__("a loop")
        self.frame = frame
        self.finish: Callable[..., Stmt] | None = None

    def begin(self, builder: Builder) -> object:
        """The loop variables."""
        builder.open()
        values, self.finish = self.frame.start(builder, [""] * len(self.frame.loops))
        return values[0] if len(values) == 1 else tuple(values)

    def end(self, builder: Builder) -> None:
        """The loops around what was built."""
        assert self.finish is not None
        builder.emit(self.finish(builder.close(), None))


class _While(_Scope):
    def __init__(self, condition: ExprLike) -> None:
        super().__init__("T.While")
        self.condition = build.as_bool(condition)

    def begin(self, builder: Builder) -> None:
        builder.open()

    def end(self, builder: Builder) -> None:
        builder.emit(While(self.condition, builder.close()))


class _Function(_Scope):
    """``with T.prim_func():``."""

    def __init__(self, private: bool) -> None:
        super().__init__("T.prim_func")
        self.private = private
        self.outer: FunctionState | None = None

    def begin(self, builder: Builder) -> None:
        """A function without a name, parameters and attributes."""
        self.outer = builder.func
        if self.outer is not None and self.outer.start:
            raise TirError("T.prim_func stands in no other function")
        builder.open()
        builder.func = FunctionState("")
        builder.func.start = len(builder._levels) - 1

    def end(self, builder: Builder) -> None:
        """The function, among those of its builder."""
        func, builder.func = builder.need_function("T.prim_func"), self.outer
        assert isinstance(builder, _Work)
        body = builder.close()
        builder.refuse_lost_calls(body)
        if func.has_block and implicit_root(body):
            body = Block("root", (), as_expr(True), (), (), None, (), {}, body)
        name = func.name or str(func.attrs.get("global_symbol", "main"))
        if name in builder.functions:
            raise TirError(f"a function {name!r} is built already", help="name functions by T.func_name")
        if not self.private:
            func.attrs.setdefault("global_symbol", name)
        kind = VOID if func.ret_type is None else func.ret_type
        builder.functions[name] = PrimFunc(tuple(func.params), func.buffer_map, kind, func.attrs, body)


class _Module(_Scope):
    def __init__(self) -> None:
        super().__init__("I.ir_module")

    def begin(self, builder: Builder) -> None:
        _work_of(self.what).module_attrs = {}


def _work_of(what: str) -> _Work:
    """The imperative builder at work. Raises :class:`TirError` outside one, naming the form."""
    found = active(what)
    if not isinstance(found, _Work):
        raise TirError(f"{what} has a meaning only inside `with IRBuilder():`")
    return found


def _function(what: str) -> FunctionState:
    func = _work_of(what).func
    if func is None or not func.start:
        raise TirError(f"{what} has a meaning only inside `with T.prim_func():`")
    return func


def _prim_func(is_private: bool = False, *, private: bool = False) -> _Function:
    """A function: its statements stand in the ``with``."""
    return _Function(is_private or private)


def _func_name(name: str) -> None:
    """The name of the function, and its ``global_symbol`` unless it is private."""
    _function("T.func_name").name = str(name)


def _func_ret(ret_type: object) -> object:
    """The type that the function returns."""
    kind = VOID if ret_type is None else type_of_annotation(ret_type)
    if kind is None:
        raise TirError(f"a function returns a type such as T.int32, or None, got {ret_type!r}")
    # A pointer is returned as a handle.
    _function("T.func_ret").ret_type = HANDLE if isinstance(kind, PointerType) else kind
    return ret_type


def _arg(name: str, obj: object) -> Any:  # what is given
    """A parameter: a variable (``T.int32()``, ``T.handle()``) or a buffer; returns it."""
    func = _function("T.arg")
    builder = _work_of("T.arg")
    if isinstance(obj, DataType | str) or not isinstance(obj, (Var, Buffer)):
        raise TirError(
            f"a parameter is a variable or a buffer, got {type(obj).__name__}",
            help="write T.int32() or T.Buffer(shape)",
        )
    if isinstance(obj, Var):
        obj.name = str(name)
        func.params.append(obj)
        return obj
    buffer = parameter_buffer(builder, str(name), obj)
    handle = Var(str(name), HANDLE)
    func.params.append(handle)
    func.buffer_map[handle] = buffer
    builder.know_buffer(buffer)
    return buffer


def _module_attrs(attrs: Mapping[str, object]) -> None:
    """Attributes of the module."""
    builder = _work_of("I.module_attrs")
    if builder.module_attrs is None:
        raise TirError("I.module_attrs has a meaning only inside `with I.ir_module():`")
    builder.module_attrs.update(attrs)


_AT_ONCE = frozenset(
    ("alloc_buffer", "sblock_alloc_buffer", "alloc_shared", "alloc_local", "match_buffer", "env_thread")
)
"""The forms that make something for the rest of their scope, and open none."""


class _Words:
    """A namespace of the script whose forms run."""

    def __init__(self, module: Any, own: Mapping[str, object], doc: str) -> None:
        self._module = module
        self._own = own
        self.__doc__ = doc

    def __getattr__(self, name: str) -> Any:  # whatever the script has under that name
        own = self._own.get(name)
        if own is not None:
            return own
        found = getattr(self._module, name)
        return found if isinstance(found, (str, type)) or not callable(found) else _Running(name, found)

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._module), *self._own})


class _Running:
    """A form that runs when it is called."""

    def __init__(self, name: str, form: Callable[..., object]) -> None:
        self._name = name
        self._form = form

    def __call__(self, *args: object, **kwargs: object) -> object:
        made = self._form(*args, **kwargs)
        if isinstance(made, Frame):
            return made.enter(active(made.what), None) if self._name in _AT_ONCE else _Form(made)
        if isinstance(made, LoopFrame):
            return _Loops(made)
        if isinstance(made, Sliced):
            return made.as_expr()
        work = active_or_none()
        if (
            isinstance(work, _Work)
            and isinstance(made, Call)
            and isinstance(made.op, Op)
            and made.op.purity >= Purity.WRITES
        ):
            work.made.append(made)
        return made.value if isinstance(made, MetaVar) else made

    def __getattr__(self, name: str) -> Any:
        return getattr(self._form, name)

    def __getitem__(self, args: object) -> object:
        return self._form[args]  # type: ignore[index]


tir: Any = _Words(
    _tir,
    {
        "prim_func": _prim_func, "func_name": _func_name, "func_ret": _func_ret, "arg": _arg, "While": _While,
        "axis": _tir.axis,
    },
    "The namespace ``T`` of programs that are built by running it.",
)  # fmt: skip
ir: Any = _Words(
    _ir,
    {"ir_module": _Module, "module_attrs": _module_attrs},
    "The namespace ``I`` of programs that are built by running it.",
)
