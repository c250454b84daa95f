"""The host functions of a GPU build as machine code of this processor: its code generator, with launches as external calls."""

from __future__ import annotations

import functools
import threading
from collections.abc import Sequence
from typing import Final

from tirlower.emit.compile import CompileOptions
from tirlower.emit.emitter import Emitter
from tirlower.emit.expressions import call_control
from tirlower.emit.llvm_text import Module, Value
from tirlower.gpu.artifact import DeviceModule, HostCode, HostEntry
from tirlower.gpu.codegen.host_call import emit_call, emit_give, emit_order
from tirlower.gpu.codegen.host_function import PACKED, check_host, with_plain_parameters
from tirlower.gpu.codegen.launches import HostLaunches
from tirlower.gpu.codegen.native_call import NATIVE_CALL, emit_native_call
from tirlower.gpu.codegen.native_give import NATIVE_GIVE, emit_native_give
from tirlower.gpu.launch.signature import device_signature
from tirlower.ir.expr import Var, is_const_int
from tirlower.ir.func import IRModule
from tirlower.ir.stmt import AllocBuffer, AllocConst, Seq, Stmt
from tirlower.llvm.cache import default_cache
from tirlower.llvm.codegen.allocate import size_in_bytes
from tirlower.llvm.codegen.machine import compile_options
from tirlower.llvm.codegen.module import generate
from tirlower.llvm.codegen.platform import HostPlatform
from tirlower.llvm.codegen.rules import HOST_CONTROLS
from tirlower.llvm.codegen.symbols import resolve_imports
from tirlower.llvm.entry.abi import packed_symbol
from tirlower.llvm.entry.native import emit_packed, kernel_types
from tirlower.llvm.jit import Linked, engine
from tirlower.machine.target import Target
from tirlower.transforms.memory.bound_checkers import AccessGuards

__all__ = ["host_code"]

TARGET: Final = Target("llvm -opt-level=0", num_threads=1)
"""Loops around launches run in order: the order of the stream is that of the program. Between two launches there is little
to optimize, and the first call waits for the compiler.
"""

NATIVE: Final = Target("llvm", num_threads=1)
"""What every call goes through is compiled once, and as well as can be."""

_LINKING: Final = threading.Lock()


class _LaunchingHost(HostPlatform):
    """The host with a device: it launches kernels, and has memory there."""

    def __init__(self, launches: HostLaunches) -> None:
        self.launches = launches
        self.controls = dict(HOST_CONTROLS)
        call_control(PACKED.name, table=self.controls)(launches.launch)

    def sequence(self, em: Emitter, op: Seq) -> bool:
        """All in one function: what it holds of the device is given back on every way out of it."""
        return False

    def ahead_of(self, em: Emitter, loop: Stmt, *variables: Var) -> list[Var]:
        """Nothing: what a loop's kernels need is allocated in the order of the stream."""
        return []

    def allocate(self, em: Emitter, op: AllocBuffer) -> None:
        """Memory of the device where kernels are given it."""
        if op.buffer.data not in self.launches.on_device:
            super().allocate(em, op)
            return
        needed = None if is_const_int(op.condition, 1) else em.value(op.condition)
        self.launches.check_extents(em, op)
        self.launches.allocate(em, op, size_in_bytes(em, op.buffer, needed))

    def constant(self, em: Emitter, op: AllocConst) -> None:
        """A constant on the device where kernels are given it."""
        if op.buffer.data in self.launches.on_device:
            self.launches.constant(em, op)
        else:
            super().constant(em, op)

    def leave(self, em: Emitter, status: Value) -> None:
        """End the function; without an error of its own, with that of memory that could not be given back."""
        if status.text == "0":
            self.launches.finish(em)
        super().leave(em, status)


def host_code(lowered: IRModule, key: str, module: DeviceModule, check_assumptions: bool = False) -> HostCode:
    """The host function of a module (after LowerDeviceKernelLaunch), which launches the kernels of ``module``.

    Raises :class:`LoweringError` for what host code cannot do, and as :func:`tirlower.llvm.codegen.module.generate` does.
    """
    func = lowered[key]
    check_host(func, module)
    _, symbols = device_signature(func)
    # What the host keeps for itself between launches is little: each access of it is checked, whatever was proved.
    plain = with_plain_parameters(func.with_body(AccessGuards().visit(func.body)), symbols)
    launches = HostLaunches(plain, module)
    platform = _LaunchingHost(launches)
    made = generate(IRModule({key: plain}), TARGET, check_assumptions=check_assumptions, platform=platform)
    (info,) = made.kernels.values()
    text = made.text
    packed = emit_packed(made.module, info.signature, info.ref, info.symbol)
    symbol = f"{packed_symbol(info.symbol)}.call"
    slots = len(kernel_types(info.signature)) - (1 if info.signature.returns is None else 2)
    emit_call(made.module, packed, symbol, table=len(func.params), outputs=slots)
    emit_give(made.module, f"{symbol}.give")
    emit_order(made.module, f"{symbol}.order")
    return HostCode(
        func,
        text,
        symbol,
        info.signature.returns,
        info.errors,
        launches.failures,
        frozenset(launches.services),
        tuple(launches.constants),
        launches.scratch,
        launches.reports,
        functools.cache(functools.partial(_linked, made.module.text(), symbol, made.imports)),
    )


def _linked(text: str, symbol: str, imports: Sequence[str]) -> HostEntry:
    """The machine code: from the disk cache, or compiled."""
    data = _object("host of a device", text, compile_options(TARGET))
    names = [symbol, f"{symbol}.give", f"{symbol}.order"]
    linked = engine().link(data, names, resolve_imports(imports))
    call, give, order = (linked[name] for name in names)
    # Two threads that are the first would each link one, and one of them be dropped with those who jump into it.
    with _LINKING:
        native = native_calls()
    return HostEntry(call, give, order, linked, native[NATIVE_CALL], native[NATIVE_GIVE])


@functools.cache
def native_calls() -> Linked:
    """The functions that Python calls for kernels and arrays of a GPU: one for the process, which keeps them."""
    module = Module("native calls")
    emit_native_call(module)
    emit_native_give(module)
    options = compile_options(NATIVE)
    return engine().link(_object("native calls of a device", module.text(), options), [NATIVE_CALL, NATIVE_GIVE], {})


def _object(what: str, text: str, options: CompileOptions) -> bytes:
    """The machine code of a module: from the disk cache, or compiled."""
    cache = default_cache()
    key = cache.key({what: text, **options.key()})
    entry = cache.load(key)
    if entry is not None:
        return entry.object
    data = engine().compile_object(text, options).object
    cache.store(key, data)
    return data
