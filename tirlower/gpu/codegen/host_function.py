"""The host's function of a GPU build made ready for the host's code generator, and what it may not do."""

from __future__ import annotations

from typing import Final

from tirlower.diagnostics import LoweringError, deep_recursion
from tirlower.gpu.artifact import DeviceModule
from tirlower.ir.data import DATA_PARAMS, data_parameters
from tirlower.ir.dtype import HANDLE
from tirlower.ir.expr import BufferLoad, Call, Expr, StringImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, AllocConst, Bind, BufferStore, For, ForKind

__all__ = ["PACKED", "SCRATCH", "STREAM", "TABLE", "check_host", "device_memory", "with_plain_parameters"]

PACKED: Final = Op.get("tir.tvm_call_packed")
TABLE: Final = Var("table", HANDLE)
"""The parameter with the driver's functions (:class:`~tirlower.gpu.artifact.Service`)."""
STREAM: Final = Var("stream", HANDLE)
SCRATCH: Final = Var("scratch", HANDLE)
"""The parameter with memory that no other call uses meanwhile."""

_ADDRESS: Final = Op.get("tir.address_of")
_HARMLESS: Final = frozenset(Op.get(f"tir.{name}") for name in ("ret", "break_loop", "continue_loop", "assume"))


def with_plain_parameters(func: PrimFunc, symbols: tuple[Var, ...]) -> PrimFunc:
    """A host function that takes pointers and numbers: its arrays' addresses and its scalars in their order, the table, the
    stream, the call's memory, and its symbols. Which of them are data stays as it was.
    """
    own = tuple(func.buffer_map[p].data if p in func.buffer_map else p for p in func.params)
    params = (*own, TABLE, STREAM, SCRATCH, *symbols)
    data = data_parameters(func)
    attrs: dict[str, object] = {
        "global_symbol": func.name,
        DATA_PARAMS: tuple(i for i, param in enumerate(params) if param in data),
    }
    return PrimFunc(params, {}, func.ret_type, attrs, func.body, span=func.span)


def device_memory(func: PrimFunc) -> frozenset[Var]:
    """The data variables that a host function gives to kernels, or to other names: memory on the device."""
    found: set[Var] = set()
    for op in each((Call, Bind), func.body):
        given = (op.value,) if isinstance(op, Bind) else op.args if op.op is PACKED else ()
        found.update(*map(_pointed, given))
    return frozenset(found)


def _pointed(expr: Expr) -> set[Var]:
    """The data variables that an address is computed from."""
    if not expr.dtype.is_handle or isinstance(expr, Var):
        return {expr} if isinstance(expr, Var) and expr.dtype.is_handle else set()
    if isinstance(expr, Call) and expr.op is _ADDRESS and isinstance(expr.args[0], BufferLoad):
        return {expr.args[0].buffer.data}
    return set().union(*map(_pointed, expr.children()))


def check_host(func: PrimFunc, module: DeviceModule) -> None:
    """Raise :class:`LoweringError` for what a host function cannot do: access the device's memory, run threads, or call
    anything but the kernels of the module.
    """
    checker = _Checker(func, module)
    with deep_recursion():
        pre_order_visit(func.body, checker.check)


class _Checker:
    def __init__(self, func: PrimFunc, module: DeviceModule) -> None:
        self.name = func.name
        self.module = module
        self.on_device = device_memory(func)
        made = (op.buffer.data for op in each((AllocBuffer, AllocConst), func.body))
        self.own = {data for data in made if data not in self.on_device}

    def error(self, message: str, node: object, help: str) -> LoweringError:
        text = f"the host code of `{self.name}`: {message}"
        return LoweringError(text, origin="launch", span=getattr(node, "span", None), help=help)

    def check(self, op: Node) -> bool:
        """Look at a node; whether to look at what is in it."""
        if isinstance(op, For) and op.kind is ForKind.THREAD_BINDING:
            raise self.error(
                f"loop {op.loop_var.name!r} over {op.thread_tag} stands in host code",
                op,
                "run AnnotateDeviceRegions, SplitHostDevice and LowerDeviceKernelLaunch first",
            )
        if isinstance(op, AllocBuffer) and op.buffer.data in self.on_device and op.buffer.scope != "global":
            raise self.error(
                f"host code allocates {op.buffer.name!r} in scope {op.buffer.scope!r} and gives it to a kernel",
                op,
                "allocate it in the kernel, or in scope global",
            )
        if isinstance(op, Call):
            return self._call(op)
        if isinstance(op, (BufferLoad, BufferStore)) and op.buffer.data not in self.own:
            raise self.error(
                f"host code accesses {op.buffer.name!r}, which is in device memory",
                op,
                "access it in a kernel: bind the loops around it to threads",
            )
        return True

    def _call(self, op: Call) -> bool:
        callee = op.op
        if callee is PACKED:
            self._launch(op)
        elif callee is _ADDRESS and isinstance(op.args[0], BufferLoad):
            for index in op.args[0].indices:
                pre_order_visit(index, self.check)
            return False
        elif not isinstance(callee, Op) or (callee.purity and callee not in _HARMLESS):
            raise self.error(
                f"host code calls {op}", op, "call functions of the device in a kernel; host code launches kernels"
            )
        return True

    def _launch(self, op: Call) -> None:
        head, args = op.args[0], op.args[1:]
        image = self.module.kernels.get(head.value) if isinstance(head, StringImm) else None
        if image is None:
            known = ", ".join(self.module.kernels) or "none"
            raise self.error(f"host code calls {head}, which is no kernel of the module", op, f"it has: {known}")
        wanted = len(image.params) + len(image.launch_params)
        if len(args) != wanted:
            raise self.error(
                f"the launch of {image.name!r} has {len(args)} arguments, and the kernel takes {wanted}",
                op,
                "run LowerDeviceKernelLaunch after the last pass that changes the parameters of kernels",
            )
