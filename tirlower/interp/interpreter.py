"""``interpret``: run a function of the IR, at any stage, on NumPy arrays.

The interpreter is the meaning of the language in executable form. It compiles a function to closures once, shares no
code with the lowering passes or the code generator, and checks every access against its buffer and its allocation,
every read against what was written, every division and conversion.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Final

import numpy as np

from tirlower.diagnostics import ArgumentTypeError, InterpreterError, deep_recursion, nearest_name
from tirlower.interp import (
    intrinsics_async,
    intrinsics_atomics,
    intrinsics_bulk,
    intrinsics_control,
    intrinsics_ldmatrix,
    intrinsics_math,
    intrinsics_matrix,
    intrinsics_memory,
    intrinsics_mma,
    intrinsics_wgmma,
    threads,
)
from tirlower.interp.arguments import Parameters
from tirlower.interp.interleave import Interleaver
from tirlower.interp.intrinsics_extern import EXTERNS, checked_result, libm_function
from tirlower.interp.launching import Limits
from tirlower.interp.memory import Memory, Pointer
from tirlower.interp.races import RaceDetector
from tirlower.interp.scope import Frame, Place, State
from tirlower.interp.statements import StatementCompiler
from tirlower.interp.structs import ResultSlot, pack_arguments
from tirlower.interp.values import Datum, Fault
from tirlower.ir.annotations import entries_of
from tirlower.ir.custom_datatype import any_registered, extern_meaning
from tirlower.ir.data import data_parameters
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Expr, IntImm
from tirlower.ir.func import IRModule, PrimFunc, Scheduled
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.stmt import AttrStmt

__all__ = ["Interpreter", "interpret"]

# Imported for what they register.
_ = (
    intrinsics_async,
    intrinsics_atomics,
    intrinsics_bulk,
    intrinsics_control,
    intrinsics_ldmatrix,
    intrinsics_math,
    intrinsics_matrix,
    intrinsics_memory,
    intrinsics_mma,
    intrinsics_wgmma,
    threads,
)

_PACKED_CONVENTION = 1
"""The value of the attribute ``calling_conv`` of functions that take packed arguments."""

_READY: Final[OrderedDict[PrimFunc | IRModule, Interpreter]] = OrderedDict()
"""What ran last, compiled: most of a small program's time is its compilation, and who tries several inputs, or holds
each stage of a pipeline against the one before, runs each program several times. A run takes its entry out, so that
threads share none, and puts it back when it ended without an error."""
_KEPT: Final = 8


class _Function:
    """A function compiled to closures."""

    def __init__(self, program: Program, func: PrimFunc) -> None:
        compiler = StatementCompiler(program)
        compiler.data.update(data_parameters(func))
        self.func = func
        self.parameters = Parameters(compiler, func)
        self.body = compiler.statement(func.body)
        self.width = compiler.width

    def run(self, prepare: Callable[[Frame], object], caller: Frame | None = None) -> tuple[Datum, Datum]:
        """A fresh frame, prepared (the arguments bound), run; what ``prepare`` and ``T.ret`` returned.

        Called by a thread, the function is run by that thread alone: it keeps its indices, its clock and what is its own.
        """
        frame: Frame = [None] * self.width
        state = frame[0] = State()
        if caller is not None and caller[0].threads:
            thread: State = caller[0]
            state.threads, state.extents = thread.threads, thread.extents
            state.own, state.clock = thread.own, thread.clock
        prepared = prepare(frame)
        try:
            self.body([frame])
        except Fault as fault:
            raise self.parameters.place.error(fault, frame) from None
        return prepared, state.result


class Program:
    """The functions of a module, each compiled when it is first called."""

    def __init__(
        self,
        module: IRModule,
        interleaver: Interleaver,
        detector: RaceDetector | None,
        limits: Limits = Limits(),
    ) -> None:
        self.module = module
        self.interleaver = interleaver
        self.detector = detector
        self.limits = limits
        self.launched: dict[str, int] = {}
        self._compiled: dict[str, _Function] = {}

    def function(self, name: str) -> _Function:
        """A compiled function. Raises TirError when there is none of that name."""
        found = self._compiled.get(name)
        if found is None:
            found = self._compiled[name] = _Function(self, self.module[name])
        return found

    def need_function(self, name: str, place: Place) -> None:
        """Refuse a call of a function that the module does not have."""
        if name not in self.module:
            near = nearest_name(name, self.module)
            raise InterpreterError(
                f"the module has no function {name!r}",
                origin="interpret",
                span=place.span,
                help=f"did you mean {near!r}?" if near else "interpret the whole module, not one function of it",
            )

    def call_function(self, name: str, values: Sequence[Datum], dtype: DataType, caller: Frame | None = None) -> Datum:
        """Call a function of the module with evaluated arguments, from a frame (that of a thread, maybe)."""
        function = self.function(name)
        # A kernel's launch parameters follow its own; its thread loops have to state the same extents.
        launch = tuple(map(str, entries_of(function.func.attrs, "tir.kernel_launch_params")))
        count = len(function.func.params)
        if not launch or len(values) != count + len(launch):
            return function.run(lambda frame: function.parameters.bind(frame, values, ()), caller)[1]
        self.launched.update(zip(launch, values[count:], strict=True))
        try:
            return function.run(lambda frame: function.parameters.bind(frame, values[:count], ()))[1]
        finally:
            self.launched.clear()

    def call_extern(self, name: str, values: Sequence[Datum], dtype: DataType, place: Place) -> Datum:
        """Call a registered extern, a function of the module by its symbol, or one of the C library."""
        fn = EXTERNS.get(name)
        if fn is None:
            for key, func in self.module.items():
                if func.attrs.get("global_symbol") == name:
                    return self.call_function(key, values, dtype)
            fn = extern_meaning(name) or libm_function(name)
        if fn is None:
            near = nearest_name(name, EXTERNS)
            raise InterpreterError(
                f"the external function {name!r} is unknown",
                origin="interpret",
                span=place.span,
                help=(f"did you mean {near!r}? " if near else "")
                + f"give it a meaning with register_extern({name!r}, function)",
            )
        return checked_result(fn(*values), dtype, name)


def _device_type(func: PrimFunc) -> int:
    """DLPack's number of the device for whose arrays a packed function was made; here all are in one memory."""
    found = 1

    def look(op: Node) -> bool:
        nonlocal found
        if isinstance(op, AttrStmt) and op.key == "device_type" and isinstance(op.value, IntImm):
            found = op.value.value
        return not isinstance(op, Expr)

    pre_order_visit(func.body, look)
    return found


class Interpreter:
    """A module ready to run: functions are compiled once and may be called many times.

    >>> from tirlower.ir import Buffer, BufferStore, PrimFunc, Var, IntImm
    >>> A = Buffer("A", (1,), "int32")
    >>> a = Var("a", "handle")
    >>> func = PrimFunc((a,), {a: A}, None, {}, BufferStore(A, IntImm("int32", 7), (0,)))
    >>> array = np.zeros(1, "int32")
    >>> Interpreter(func).call("main", array)
    >>> array
    array([7], dtype=int32)
    """

    def __init__(
        self,
        program: PrimFunc | IRModule | Scheduled,
        *,
        seed: int | None = None,
        races: bool = False,
        limits: Limits = Limits(),
    ) -> None:
        if not isinstance(program, (PrimFunc, IRModule)) and isinstance(program, Scheduled):
            program = program.program
        if isinstance(program, PrimFunc):
            program = IRModule(program)
        if not isinstance(program, IRModule):
            raise ArgumentTypeError(
                f"interpret takes a PrimFunc or an IRModule, got {type(program).__name__}", origin="interpret"
            )
        self.program = Program(program, Interleaver(seed), RaceDetector() if races else None, limits)

    def entry(self, name: str | None = None) -> str:
        """The name of the function to call: the one named, the only one, ``main``, the marked entry, or the only host code."""
        module = self.program.module
        if name is not None:
            if name not in module:
                for key, func in module.items():
                    if func.attrs.get("global_symbol") == name:
                        return key
            module[name]  # raises with the nearest name
            return name
        if len(module) == 1:
            return next(iter(module))
        if "main" in module:
            return "main"
        marked = [key for key, func in module.items() if func.attrs.get("tir.is_entry_func")]
        host = [key for key, func in module.items() if not func.attrs.get("tir.is_global_func")]
        for found in (marked, host):
            if len(found) == 1:
                return found[0]
        raise ArgumentTypeError(
            f"the module has {len(module)} functions ({', '.join(module)})",
            origin="interpret",
            help="say which with name=",
        )

    def call(self, name: str | None, *args: object, outputs: Sequence[str] | None = None) -> Datum:
        """Call a function; see :func:`interpret`."""
        key = self.entry(name)
        with deep_recursion(), np.errstate(all="ignore"):
            try:
                return self._call(key, args, outputs)
            except RecursionError as error:
                raise InterpreterError(
                    f"{key} nests too deeply: a function of the module that calls itself, or an expression of more "
                    "than some 40,000 operations in one chain",
                    origin="interpret",
                    help="end the recursion, or bind parts of the expression to variables",
                ) from error
            finally:
                self.program.interleaver.close()

    def _call(self, key: str, args: Sequence[object], outputs: Sequence[str] | None) -> Datum:
        function = self.program.function(key)
        attrs = function.func.attrs
        if attrs.get("calling_conv") == _PACKED_CONVENTION and not function.func.buffer_map:
            return self._call_packed(function, args)
        if outputs is None:
            outputs = tuple(map(str, entries_of(attrs, "tir.outputs")))
        arrays, result = function.run(lambda frame: function.parameters.bind(frame, args, outputs))
        if not arrays:
            return result
        return arrays[0] if len(arrays) == 1 else tuple(arrays)

    @staticmethod
    def _call_packed(function: _Function, args: Sequence[object]) -> Datum:
        """Call a function of the packed convention: (args, type codes, count, result, result code, resource)."""
        values, codes, count = pack_arguments(args, _device_type(function.func))
        result = ResultSlot()
        code = Pointer(Memory.allocate(4, "the result's type code"))
        packed = [values, codes, count, result, code, None][: len(function.func.params)]
        _, status = function.run(lambda frame: function.parameters.bind(frame, packed, ()))
        if status not in (None, 0):
            raise InterpreterError(f"the packed function returned the error code {status}", origin="interpret")
        return result.value(code)


def interpret(
    program: PrimFunc | IRModule | Scheduled,
    *args: object,
    name: str | None = None,
    outputs: Sequence[str] | None = None,
    seed: int | None = None,
    races: bool = False,
) -> Datum:
    """Run a function, or a function of a module, on arrays and scalars.

    ``args`` are NumPy arrays (or objects with ``__dlpack__`` or the buffer protocol) for buffers, numbers for scalars;
    results are written in place. ``name`` chooses a function of the module. ``outputs`` names buffer parameters that
    are allocated here and returned (one array, or a tuple); by default those of the attribute ``tir.outputs``. Without
    outputs the value of ``T.ret`` is returned. A buffer of a vector type takes an array with a last dimension for the
    lanes.

    The threads of a GPU block run in lockstep; with a ``seed`` each runs as far as the next barrier, in an order that
    the seed decides. With ``races`` two accesses of different threads to one element without a barrier in between, one
    of them a write, are an :class:`InterpreterError` that names both.

    Raises :class:`ArgumentError` for wrong arguments; :class:`BoundsError` for an access outside its buffer;
    :class:`UnboundError` for a read of memory that was never written; :class:`RuntimeAssertError` for a failed
    assertion or assumption; :class:`InterpreterError` for what has no meaning: a division by zero, a shift by too
    many bits, a float outside the integer type it is converted to, an unknown external function.
    """
    if not isinstance(program, (PrimFunc, IRModule)) and isinstance(program, Scheduled):
        program = program.program
    if seed is not None or races or any_registered() or not isinstance(program, (PrimFunc, IRModule)):
        return Interpreter(program, seed=seed, races=races).call(name, *args, outputs=outputs)
    ready = _READY.pop(program, None) or Interpreter(program)
    result = ready.call(name, *args, outputs=outputs)
    _READY[program] = ready
    if len(_READY) > _KEPT:
        _READY.popitem(last=False)
    return result
