"""From a module whose kernels were split from the host to LLVM IR and PTX."""

from __future__ import annotations

from dataclasses import dataclass

from tirlower.diagnostics import LoweringError
from tirlower.emit import intrinsics as shared_intrinsics
from tirlower.emit.compile import emit_assembly
from tirlower.emit.emitter import ModuleState
from tirlower.emit.llvm_text import Module
from tirlower.emit.loops import NO_MEMCPY
from tirlower.gpu.artifact import DeviceModule, KernelImage
from tirlower.gpu.codegen import intrinsics
from tirlower.gpu.codegen.assembly import corrected
from tirlower.gpu.codegen.kernel import declare_kernel, emit_kernel
from tirlower.gpu.codegen.machine import DATA_LAYOUT, compile_options, machine_of
from tirlower.gpu.codegen.platform import GPU
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.struct_field import CallingConvention
from tirlower.machine.target import Target

__all__ = ["GeneratedKernels", "compile_module", "generate", "is_kernel"]

_FAMILIES = (*shared_intrinsics.__all__, *intrinsics.__all__)  # imported for the rules that they register


@dataclass(frozen=True)
class GeneratedKernels:
    """LLVM IR of a module's kernels, and what their launches must know."""

    text: str
    kernels: dict[str, KernelImage]


def is_kernel(func: PrimFunc) -> bool:
    """Whether a function is launched."""
    return func.attrs.get("calling_conv") == int(CallingConvention.DEVICE_KERNEL_LAUNCH)


def generate(
    module: IRModule, target: Target, *, noalias: bool = True, check_assumptions: bool = False
) -> GeneratedKernels:
    """Generate LLVM IR for the kernels of a module (after LowerDeviceKernelLaunch).

    ``noalias`` says that a kernel's arrays are apart, as its attribute ``tir.noalias`` claims; the host's function knows.

    Raises:
        LoweringError: the module has no kernel, or a kernel has what the passes should have removed.
        CodegenError: something that the architecture does not have, or a wrong program.
    """
    machine = machine_of(target.without_host())
    found = {key: func for key, func in module.items() if is_kernel(func)}
    if not found:
        raise LoweringError(
            "the module has no kernel: nothing in it runs on the device",
            origin="codegen",
            help="bind loops to blockIdx and threadIdx, or run DefaultGPUSchedule",
        )
    out = Module("_".join(found), machine.triple, DATA_LAYOUT)
    images: dict[str, KernelImage] = {}
    for key, func in found.items():
        # A state for each kernel: its numbers of error sites are its own.
        state = ModuleState(out, machine, GPU, dict(module.functions), check_assumptions=check_assumptions)
        name = str(func.attrs.get("global_symbol", key))
        code = declare_kernel(state, name, func, noalias and bool(func.attrs.get("tir.noalias")))
        emit_kernel(state, code)
        images[name] = code.image(state)
    out.mark_callers(NO_MEMCPY)
    return GeneratedKernels(out.text(), images)


def compile_module(
    module: IRModule, target: Target, *, noalias: bool = True, check_assumptions: bool = False
) -> DeviceModule:
    """PTX for the kernels of a module. Raises as :func:`generate`."""
    made = generate(module, target, noalias=noalias, check_assumptions=check_assumptions)
    options = compile_options(target.without_host())
    ptx = corrected(emit_assembly(made.text, options))
    return DeviceModule(ptx=ptx, llvm=made.text, arch=options.cpu, kernels=made.kernels)
