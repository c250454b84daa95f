"""The host function of a module as Python source: its loops, conditions, temporaries and launches, written out once.

The generated function takes a stream, the addresses of the arrays, the scalars and the symbols; it is compiled once, and
bound to each device on which it runs. Temporaries are allocated and freed in the order of the stream, on every path.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

import numpy as np

from tirlower.diagnostics import BoundsError, LoweringError, RuntimeAssertError, deep_recursion
from tirlower.gpu.artifact import DeviceModule
from tirlower.gpu.launch.expressions import ExpressionWriter
from tirlower.ir.buffer import Buffer
from tirlower.ir.custom_datatype import element_numpy
from tirlower.ir.data import data_parameters
from tirlower.ir.dtype import VOID
from tirlower.ir.expr import BufferLoad, Call, Expr, StringImm, Var
from tirlower.ir.failure_message import failure_of
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.op import Op
from tirlower.ir.stmt import (
    AllocBuffer,
    AllocConst,
    Assert,
    AttrStmt,
    Bind,
    BufferStore,
    DeclBuffer,
    Evaluate,
    For,
    ForKind,
    IfThenElse,
    Seq,
    Stmt,
    While,
    true_condition,
)

__all__ = ["HostFunction", "launches_of", "write_host"]

_PACKED: Final = Op.get("tir.tvm_call_packed")
_RET: Final = Op.get("tir.ret")
_BREAK: Final = Op.get("tir.break_loop")
_CONTINUE: Final = Op.get("tir.continue_loop")
_IGNORED: Final = frozenset(("tir.assume", "tir.type_annotation", "tir.prefetch"))


@dataclass(frozen=True)
class HostFunction:
    """A host function as Python: ``source`` defines ``host(stream, arrays and scalars…, symbols…)``.

    ``launches`` are the symbols of the kernels it launches, ``constants`` the arrays that it needs on the device, by
    the names under which the source knows them.
    """

    source: str
    code: CodeType
    scope: Mapping[str, Any]
    launches: Mapping[str, str]
    constants: Mapping[str, np.ndarray[Any, Any]]

    def bind(
        self,
        launch: Callable[[str], Callable[..., None]],
        allocate: Callable[[int, int], int],
        free: Callable[[int, int], None],
        upload: Callable[[np.ndarray[Any, Any]], int],
    ) -> Callable[..., Any]:
        """The function for one device: how it launches a kernel, and allocates, frees and uploads memory there."""

        def release(live: list[int], count: int, stream: int) -> None:
            while len(live) > count:
                free(live.pop(), stream)

        scope: dict[str, Any] = {**self.scope, "_allocate": allocate, "_release": release}
        scope.update({name: launch(symbol) for symbol, name in self.launches.items()})
        scope.update({name: upload(array) for name, array in self.constants.items()})
        exec(self.code, scope)
        made: Callable[..., Any] = scope["host"]
        return made


def launches_of(func: PrimFunc) -> dict[str, list[tuple[Expr, ...]]]:
    """The kernels that a host function launches by symbol, with the arguments of each call."""
    found: dict[str, list[tuple[Expr, ...]]] = {}

    def look(op: Any) -> None:
        if isinstance(op, Call) and op.op is _PACKED and isinstance(op.args[0], StringImm):
            found.setdefault(op.args[0].value, []).append(op.args[1:])

    pre_order_visit(func.body, look)
    return found


def write_host(func: PrimFunc, symbols: Sequence[Var], device: DeviceModule) -> HostFunction:
    """Write the Python of a host function (after LowerDeviceKernelLaunch).

    ``symbols`` are the variables that its arrays' extents bind. Raises :class:`LoweringError` for what host code cannot do: access device
    memory, run threads, or call anything but the kernels of ``device``.
    """
    with deep_recursion():
        return _HostWriter(func, symbols, device).written()


class _HostWriter:
    """Writes statements; the expressions are the writer's."""

    def __init__(self, func: PrimFunc, symbols: Sequence[Var], device: DeviceModule) -> None:
        self.func = func
        self.symbols = symbols
        self.device = device
        self.out = ExpressionWriter(f"the host code of `{func.name}`")
        self.lines: list[str] = []
        self.launches: dict[str, str] = {}
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.on_device: set[Var] = set()
        #: whose arithmetic wraps, so that an extent which has them is what it wraps to
        self.data: set[Var] = set(data_parameters(func))
        self.allocated = 0
        self.temporaries = False
        for calls in launches_of(func).values():
            for args in calls:
                for arg in args:
                    pre_order_visit(arg, self._note)

    def _note(self, op: Any) -> None:
        if isinstance(op, Var) and op.dtype.is_handle:
            self.on_device.add(op)
        elif isinstance(op, Expr):
            buffer = getattr(op, "buffer", None)
            if isinstance(buffer, Buffer):
                self.on_device.add(buffer.data)

    def written(self) -> HostFunction:
        """The whole function."""
        names = ["_stream"]
        for param in self.func.params:
            buffer = self.func.buffer_map.get(param)
            names.append(self.out.define(param if buffer is None else buffer.data))
        names += [self.out.define(symbol) for symbol in self.symbols]
        self.stmt(self.func.body, 2)
        head = [f"def host({', '.join(names)}):"]
        if self.temporaries:
            head += ["    _live = []", "    try:", *self.lines, "    finally:", "        _release(_live, 0, _stream)"]
        else:
            head += [line[4:] for line in self.lines]
        source = "\n".join(head) + "\n"
        try:
            code = compile(source, f"<host code of {self.func.name}>", "exec")
        except (SyntaxError, MemoryError, RecursionError) as error:
            raise LoweringError(
                f"the host code of `{self.func.name}` nests too deeply for Python: {error}",
                origin="launch",
                span=self.func.span,
                help="move loops into kernels, or split the function",
            ) from None
        return HostFunction(source, code, self.out.constants, self.launches, self.constants)

    def line(self, depth: int, text: str) -> None:
        """One line of source."""
        self.lines.append("    " * depth + text)

    # -- statements --------------------------------------------------------------------------------------------------

    def stmt(self, op: Stmt | None, depth: int) -> None:
        """Write a statement; at least one line."""
        before = len(self.lines)
        if isinstance(op, Seq):
            outer = self.allocated
            for inner in op.stmts:
                self.stmt(inner, depth)
            if self.allocated > outer:
                self.line(depth, f"_release(_live, len(_live) - {self.allocated - outer}, _stream)")
                self.allocated = outer
        elif op is not None:
            self._one(op, depth)
        if len(self.lines) == before:
            self.line(depth, "pass")

    def _one(self, op: Stmt, depth: int) -> None:
        value = self.out.value
        if isinstance(op, For):
            self._for(op, depth)
        elif isinstance(op, While):
            self.line(depth, f"while {value(op.condition)}:")
            self._body(op.body, depth + 1)
        elif isinstance(op, IfThenElse):
            self.line(depth, f"if {value(op.condition)}:")
            self._body(op.then_case, depth + 1)
            if op.else_case is not None:
                self.line(depth, "else:")
                self._body(op.else_case, depth + 1)
        elif isinstance(op, Bind):
            text = self.out.pointer(op.value) if op.value.dtype.is_handle else value(op.value)
            if self._is_data(op.value):
                self.data.add(op.var)
            self.line(depth, f"{self.out.define(op.var)} = {text}")
        elif isinstance(op, AllocBuffer):
            self._allocation(op, depth)
        elif isinstance(op, AllocConst):
            name = self.out.define(op.buffer.data)
            held = self.out.constant("array", None)
            self.constants[held] = np.ascontiguousarray(op.data, element_numpy(op.buffer.dtype))
            self.line(depth, f"{name} = {held}")
        elif isinstance(op, BufferStore):
            self.line(depth, f"{self.out.element(op)} = {value(op.value)}")
        elif isinstance(op, Assert):
            self._assert(op, depth)
        elif isinstance(op, AttrStmt):
            self.stmt(op.body, depth)
        elif isinstance(op, Evaluate):
            self._evaluate(op, depth)
        elif not isinstance(op, DeclBuffer):
            raise self.out.error(f"host code has a {type(op).__name__}", op, "run the passes of the target first")

    def _body(self, op: Stmt | None, depth: int) -> None:
        """A statement that is a scope of its own, such as a loop's body."""
        outer = self.allocated
        self.stmt(op, depth)
        if self.allocated > outer:
            # An allocation that is a whole body is in scope nowhere.
            self.line(depth, f"_release(_live, len(_live) - {self.allocated - outer}, _stream)")
            self.allocated = outer

    def _for(self, op: For, depth: int) -> None:
        if op.kind is ForKind.THREAD_BINDING:
            raise self.out.error(
                f"loop {op.loop_var.name!r} over {op.thread_tag} stands in host code",
                op,
                "run AnnotateDeviceRegions, SplitHostDevice and LowerDeviceKernelLaunch first",
            )
        first, extent = self.out.value(op.min), self.out.value(op.extent)
        bounds = extent if first == "0" else f"{first}, {first} + {extent}"
        self.line(depth, f"for {self.out.define(op.loop_var)} in range({bounds}):")
        self._body(op.body, depth + 1)

    def _allocation(self, op: AllocBuffer, depth: int) -> None:
        buffer = op.buffer
        count = " * ".join([self._size(extent) for extent in buffer.shape]) or "1"
        name = self.out.define(buffer.data)
        if buffer.data not in self.on_device:
            # No kernel sees it: it is the host's own, such as the counter of a while loop.
            self.out.lists.add(buffer.data)
            self.line(depth, f"{name} = [0] * ({count})")
            return
        if buffer.scope != "global":
            raise self.out.error(
                f"host code allocates {buffer.name!r} in scope {buffer.scope!r} and gives it to a kernel",
                op,
                "allocate it in the kernel, or in scope global",
            )
        size = element_numpy(buffer.dtype).itemsize * buffer.dtype.lanes
        self.temporaries = True
        self.line(depth, f"{name} = _allocate({count} * {size}, _stream)")
        self.line(depth, f"_live.append({name})")
        self.allocated += 1

    def _assert(self, op: Assert, depth: int) -> None:
        if true_condition(op.condition):
            return
        stated = failure_of(op.message)
        if stated is None:
            text = op.message.value if isinstance(op.message, StringImm) else str(op.message)
            kind: type[Exception] = RuntimeAssertError
            values: tuple[Expr, ...] = ()
        else:
            kind, text, values = stated
        shown = ", ".join([self.out.pointer(v) if v.dtype.is_handle and not isinstance(v, StringImm) else self.out.value(v) for v in values])  # fmt: skip
        name = self.out.constant("fail", _failure(kind, text, op, bool(values)))
        self.line(depth, f"if not {self.out.value(op.condition)}:")
        self.line(depth + 1, f"raise {name}({shown})")

    def _evaluate(self, op: Evaluate, depth: int) -> None:
        call = op.value
        if not isinstance(call, Call):
            return  # a value of no use
        if call.op is _PACKED:
            self._launch(call, depth)
        elif call.op is _RET:
            self.line(
                depth, f"return {self.out.value(call.args[0])}" if call.args and call.dtype is not VOID else "return"
            )
        elif call.op is _BREAK or call.op is _CONTINUE:
            self.line(depth, "break" if call.op is _BREAK else "continue")
        elif not (isinstance(call.op, Op) and (call.op.name in _IGNORED or not call.op.purity)):
            self.line(depth, self.out.value(call))

    def _launch(self, call: Call, depth: int) -> None:
        head, args = call.args[0], call.args[1:]
        image = self.device.kernels.get(head.value) if isinstance(head, StringImm) else None
        if not isinstance(head, StringImm) or image is None:
            known = ", ".join(self.device.kernels) or "none"
            raise self.out.error(f"host code calls {head}, which is no kernel of the module", call, f"it has: {known}")
        wanted = len(image.params) + len(image.launch_params)
        if len(args) != wanted:
            raise self.out.error(
                f"the launch of {image.name!r} has {len(args)} arguments, and the kernel takes {wanted}",
                call,
                "run LowerDeviceKernelLaunch after the last pass that changes the parameters of kernels",
            )
        if head.value not in self.launches:
            self.launches[head.value] = self.out.constant("launch", None)
        texts = [
            self.out.pointer(arg) if param.pointer else self.out.value(arg)
            for param, arg in zip(image.params, args, strict=False)
        ]
        texts += [self._size(arg) for arg in args[len(image.params) :]]
        self.line(depth, f"{self.launches[head.value]}({', '.join(['_stream', *texts])})")

    def _size(self, expr: Expr) -> str:
        """An extent, of a launch or an allocation."""
        return self.out.value(expr) if self._is_data(expr) else self.out.size(expr)

    def _is_data(self, expr: Expr) -> bool:
        found = False

        def look(op: Any) -> bool:
            nonlocal found
            found = found or op in self.data or op.__class__ is BufferLoad
            return not found

        pre_order_visit(expr, look)
        return found


def _failure(kind: type[Exception], text: str, op: Assert, formatted: bool) -> Callable[..., Exception]:
    """What makes the exception of an assertion."""

    def make(*values: Any) -> Exception:
        message = text.format(*values) if formatted else text
        if issubclass(kind, (RuntimeAssertError, BoundsError)):
            return kind(message, origin="call", span=op.span)
        return kind(message)

    return make
