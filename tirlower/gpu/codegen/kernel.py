"""A device function as a PTX kernel: its parameters, its launch bounds, and its body."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

from tirlower.call.errors import ErrorSite
from tirlower.diagnostics import CodegenError, LoweringError, deep_recursion
from tirlower.emit.body import Body, give_alias_scopes
from tirlower.emit.emitter import Emitter, FunctionState, ModuleState, Root
from tirlower.emit.facts import DATA
from tirlower.emit.llvm_text import PTR, VOID, Attribute, Function, Param
from tirlower.emit.memory import from_memory
from tirlower.emit.statements import emit_statement
from tirlower.emit.types import memory_bytes, memory_type
from tirlower.gpu.artifact import KernelImage, KernelParam, ReportKind, ReportSite, TensorMapSpec
from tirlower.gpu.codegen.machine import arch_number, max_shared
from tirlower.gpu.codegen.rules import device_state
from tirlower.gpu.codegen.tensor_maps import tensor_maps_of
from tirlower.ir.annotations import MIN_BLOCKS, entries_of, number_of
from tirlower.ir.buffer import Buffer
from tirlower.ir.data import data_parameters
from tirlower.ir.dtype import PointerType
from tirlower.ir.expr import Call, Expr, IntImm, Var
from tirlower.ir.func import PrimFunc
from tirlower.ir.functor import pre_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import Op
from tirlower.ir.query import each
from tirlower.ir.stmt import AllocBuffer, DeclBuffer, For, ForKind

__all__ = ["KernelCode", "declare_kernel", "emit_kernel"]

MAX_STATIC_SHARED: Final = 48 << 10
"""Bytes of static shared memory of a block, on every architecture (CUDA C++ programming guide, compute capabilities)."""
_WAITED_FOR: Final = (Op.get("tir.create_barriers"), Op.get("tir.ptx_wgmma"))
"""Where these are, threads that are there wait for one that has failed: barriers count arrivals, products take whole warps."""
LAUNCH_PARAMS: Final = "tir.kernel_launch_params"
VECTOR_ALIGN: Final = 16
"""The alignment in bytes of every array that a kernel is given (the launch checks it), unless the buffer states less."""


@dataclass
class KernelCode:
    """A kernel before its body is emitted."""

    name: str
    func: PrimFunc
    noalias: bool
    body: Body
    params: tuple[KernelParam, ...]
    tensor_maps: tuple[TensorMapSpec, ...]
    extents: dict[str, int | None]
    dynamic: bool
    views: dict[Var, Buffer]
    function: Function
    reports: bool = False
    """Known once the body is emitted."""

    def image(self, state: ModuleState) -> KernelImage:
        """What a launch must know of the kernel."""
        cluster = tuple(self.extents.get(f"clusterCtaIdx.{axis}") or 1 for axis in "xyz")
        sites = tuple(_report_site(site) for site in state.errors.sites)
        return KernelImage(
            name=self.name,
            symbol=self.name,
            params=self.params,
            launch_params=tuple(map(str, entries_of(self.func.attrs, LAUNCH_PARAMS))),
            tensor_maps=self.tensor_maps,
            static_shared=device_state(state, self.name).shared,
            dynamic_shared=self.dynamic,
            reports=self.reports,
            traps=self.reports and device_state(state, self.name).traps,
            sites=sites if self.reports else (),
            cluster=(cluster[0], cluster[1], cluster[2]),
        )


_VALUES: Final = re.compile(r" \((?:[^(){}=]+ = \{\d+\}(?:, )?)+\)")
_PLACE: Final = re.compile(r"(?<!\{)((?:\{\{)*)\{\d+\}")


def _report_site(site: ErrorSite) -> ReportSite:
    """What a launch says of a failure. A report has the thread's indices, and no room for other values."""
    kind: ReportKind = "assert"
    if issubclass(site.kind, IndexError):
        kind = "bounds"
    elif issubclass(site.kind, ZeroDivisionError):
        kind = "division"
    text = _PLACE.sub(r"\1…", _VALUES.sub("", site.template))
    return ReportSite(kind, text.replace("{{", "{").replace("}}", "}"))


class _Survey:
    """What the body has that the declaration must know: thread extents, views of parameters."""

    def __init__(self, func: PrimFunc) -> None:
        self.extents: dict[str, int | None] = {}
        self.dynamic = False
        self.views: dict[Var, Buffer] = {}
        pre_order_visit(func.body, self._look)

    def _look(self, op: Node) -> bool | None:
        if isinstance(op, Expr):
            return False  # statements alone say these things
        if op.__class__ is For and op.kind is ForKind.THREAD_BINDING:
            self.extents[str(op.thread_tag)] = op.extent.value if isinstance(op.extent, IntImm) else None
        elif op.__class__ is AllocBuffer:
            self.dynamic = self.dynamic or op.buffer.scope == "shared.dyn"
        elif op.__class__ is DeclBuffer:
            self.views.setdefault(op.buffer.data, op.buffer)
        return None


def declare_kernel(state: ModuleState, name: str, func: PrimFunc, noalias: bool) -> KernelCode:
    """The LLVM function of a kernel, without its body.

    Raises:
        LoweringError: a parameter is a buffer (SplitHostDevice passes pointers) or of a type that no launch can pass.
        CodegenError: a block has more threads than there can be.
    """
    body, survey = Body(func), _Survey(func)
    if func.buffer_map:
        raise LoweringError(
            f"the kernel `{name}` has buffer parameters",
            origin="codegen",
            span=func.span,
            help="run SplitHostDevice, whose kernels take pointers",
        )
    params: list[Param] = []
    described: list[KernelParam] = []
    for param in func.params:
        if isinstance(param.type, PointerType):
            # An array that threads write may change behind a barrier: only one that is read is marked. That written
            # ones are apart is said by alias scopes, which barriers are no part of.
            marks = []
            if param not in body.written:
                marks = ["noalias", "readonly"] if noalias else ["readonly"]
            marks.append(f"align {_align(survey.views.get(param), param.type)}")
            params.append((PTR, param.name, marks))
            described.append(KernelParam(param, param.type.element, pointer=True))
        elif param.dtype.is_vector or param.dtype.is_handle or param.dtype.code == "void":
            raise LoweringError(
                f"the parameter `{param.name}` of kernel `{name}` is {param.dtype!s}, which no launch passes",
                origin="codegen",
                span=param.span,
                help="pass an array",
            )
        else:
            # As the launch has it in memory: PTX has no parameters of other widths.
            params.append((memory_type(param.dtype), param.name))
            described.append(KernelParam(param, param.dtype))
    maps = tensor_maps_of(func)
    for number, _ in enumerate(maps):
        params.append((PTR, f"map{number}", ["byval([128 x i8])", "align 64", '"nvvm.grid_constant"']))
    # Whether something can fail is known when the body is there: the parameter is taken back where nothing can.
    params.append((PTR, "report", ["noalias", "align 16"]))
    attributes = _attributes(name, func, survey.extents, state.machine.cpu)
    function = state.module.function(name, VOID, params, attrs=attributes, callconv="ptx_kernel")
    return KernelCode(
        name, func, noalias, body, tuple(described), maps, survey.extents, survey.dynamic, survey.views, function
    )


def _align(view: Buffer | None, pointer: PointerType) -> int:
    natural = memory_bytes(pointer.element)
    if view is None:
        return natural
    return max(natural, min(view.align or VECTOR_ALIGN, VECTOR_ALIGN))


def _attributes(name: str, func: PrimFunc, extents: dict[str, int | None], arch: str) -> list[Attribute]:
    out: list[Attribute] = ["nounwind"]
    block = [extents.get(f"threadIdx.{axis}", 1) for axis in "xyz"]
    if None not in block:
        total = 1
        for extent in block:
            total *= extent or 1
        if total > 1024:
            raise CodegenError(
                f"the kernel `{name}` has blocks of {' x '.join(map(str, block))} = {total} threads; 1024 is the most",
                origin="codegen",
                span=func.span,
                help="split the loops bound to threadIdx",
            )
        if (block[2] or 0) > 64:
            raise CodegenError(
                f"the kernel `{name}` has blocks of {block[2]} threads along z; 64 is the most",
                origin="codegen",
                span=func.span,
                help="bind the longer loops to threadIdx.x and threadIdx.y",
            )
        out.append(("nvvm.reqntid", ",".join(map(str, block))))
    else:
        out.append(("nvvm.maxntid", "1024"))
    cluster = [extents.get(f"clusterCtaIdx.{axis}") for axis in "xyz"]
    if any(cluster):
        if arch_number(arch) < 90:
            raise CodegenError(
                f"the kernel `{name}` has clusters of blocks, which need sm_90 or newer, and the target is {arch}",
                origin="codegen",
                span=func.span,
                help="build with Target('nvptx -arch=sm_90'), or bind no loop to clusterCtaIdx",
            )
        out.append(("nvvm.cluster_dim", ",".join(str(extent or 1) for extent in cluster)))
    least = number_of(func.attrs, MIN_BLOCKS)
    if least is not None:
        out.append(("nvvm.minctasm", str(least)))
    return out


def emit_kernel(state: ModuleState, code: KernelCode) -> None:
    """Emit the body of a declared kernel."""
    func, function = code.func, code.function
    kernel = FunctionState(code.name, func)
    kernel.allocates = False
    em = Emitter(state, kernel, function)
    em.b.position_at_end(function.block("entry"))
    args = list(function.args)
    data = data_parameters(func)
    for param, argument in zip(func.params, args, strict=False):
        em.define(param, argument if isinstance(param.type, PointerType) else from_memory(em, argument, param.dtype))
        if isinstance(param.type, PointerType):
            kernel.roots[param] = Root(param.name, align=_align(code.views.get(param), param.type))
        elif not param.dtype.is_handle:
            kernel.facts.define(param, None, None, flags=DATA if param in data else 0)
    following = args[len(func.params) :]
    device = device_state(state, code.name)
    device.maps, device.map_addresses = code.tensor_maps, following[: len(code.tensor_maps)]
    device.extents, device.report = code.extents, following[-1]
    device.traps = any(call.op in _WAITED_FOR for call in each(Call, func.body))
    distinct = [*(p.var for p in code.params if p.pointer and code.noalias), *code.body.allocated]
    give_alias_scopes(state, kernel, func.without_attr("tir.noalias"), distinct)
    with deep_recursion():
        emit_statement(em, func.body)
    if not em.b.terminated:
        em.leave(em.b.i32(0))
    if device.shared > MAX_STATIC_SHARED:
        raise CodegenError(
            f"the kernel `{code.name}` has {device.shared} bytes of static shared memory; {MAX_STATIC_SHARED} is the most",
            origin="codegen",
            span=func.span,
            help='allocate it with scope "shared.dyn", of which there is more',
        )
    most = max_shared(state.machine.cpu)
    if device.shared + device.dynamic > most:
        static = f" and {device.shared} bytes of static shared memory" if device.shared else ""
        raise CodegenError(
            f"the kernel `{code.name}` has {device.dynamic} bytes of dynamic{static or ' shared memory'}; a block has at "
            f"most {most} on {state.machine.cpu}",
            origin="codegen",
            span=func.span,
            help="use smaller tiles or fewer stages",
        )
    code.reports = device.reported
    if not code.reports:
        function.drop_last_parameter()
