"""The rules of operations on a GPU (see ``tirlower/emit/expressions.py``), and what they build code with."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field
from typing import Final

from tirlower.emit.emitter import Emitter, ModuleState
from tirlower.emit.expressions import (
    CallRule,
    CallRules,
    Control,
    Controls,
    Run,
    call_control,
    call_rule,
)
from tirlower.emit.llvm_text import I32, I64, VOID, Block, Type, Value, ptr, struct
from tirlower.emit.types import memory_type
from tirlower.gpu.artifact import TensorMapSpec
from tirlower.gpu.codegen.machine import arch_number
from tirlower.ir.dtype import DataType, PointerType
from tirlower.ir.expr import Call, IntImm, StringImm, Var
from tirlower.ir.op import Op

__all__ = [
    "GLOBAL",
    "GPU_CALLS",
    "GPU_CONTROLS",
    "SHARED",
    "DeviceState",
    "asm",
    "constant_int",
    "device_state",
    "element_of",
    "global_address",
    "gpu_control",
    "gpu_rule",
    "need_arch",
    "pointer_at",
    "report_of",
    "shared_address",
    "text_of",
    "word",
]

GPU_CALLS: Final[CallRules] = {}
GPU_CONTROLS: Final[Controls] = {}


@dataclass
class DeviceState:
    """What is known of a kernel, or of a function that it calls, beside its code."""

    #: where the first failure is said, and whether there is one to say
    report: Value | None = None
    reported: bool = False
    #: whether others may wait for a thread that fails, so that it has to end the launch
    traps: bool = False
    #: of the launch: thread axis -> extent, None where that is no constant
    extents: dict[str, int | None] = field(default_factory=dict)
    maps: tuple[TensorMapSpec, ...] = ()
    map_addresses: Sequence[Value] = ()
    #: bytes of static shared memory, and of dynamic as far as they are constant
    shared: int = 0
    dynamic: int = 0
    #: the address of the first barrier
    barriers: Value | None = None
    #: accumulators of products under way, as data and offset -> PTX's type and how many
    sums: dict[tuple[Var, int], tuple[str, int]] = field(default_factory=dict)
    #: function and thread axis -> the index, and the block in which it is known
    indices: dict[tuple[int, str], tuple[Value, Block]] = field(default_factory=dict)


def device_state(state: ModuleState, name: str) -> DeviceState:
    """What is known of the function of a name."""
    return state.helper(("device", name), DeviceState)


def report_of(em: Emitter) -> Value:
    """The address at which a failure is said, which the function takes as its last parameter from now on."""
    device = device_state(em.state, em.kernel.name)
    if device.report is None:
        raise em.error("the kernel cannot report a failure here", em.statement)
    device.reported = True
    return device.report


GLOBAL: Final = ptr(1)
SHARED: Final = ptr(3)


def gpu_rule(*names: str, indices: Collection[int] = ()) -> Callable[[CallRule], CallRule]:
    """Register the code of calls whose arguments are simply evaluated first.

    ``indices`` are the positions of offsets into global memory, which may exceed 32 bits: they are computed in 64.
    """
    if not indices:
        return call_rule(*names, table=GPU_CALLS)

    def register(rule: CallRule) -> CallRule:
        def schedule(run: Run, op: Call) -> None:
            def finish(_: object) -> None:
                args = [run.get_index(arg) if i in indices else run.get(arg) for i, arg in enumerate(op.args)]
                run.set(op, rule(run.em, op, args))

            run.then(finish)
            for i in reversed(range(len(op.args))):
                (run.evaluate_index if i in indices else run.evaluate)(op.args[i])

        call_control(*names, table=GPU_CONTROLS)(schedule)
        return rule

    return register


def gpu_control(*names: str) -> Callable[[Control[Call]], Control[Call]]:
    """Register the code of calls that decide when their arguments are evaluated."""
    return call_control(*names, table=GPU_CONTROLS)


def need_arch(em: Emitter, op: Call, least: int, what: str, exact: str = "") -> None:
    """Raise a CodegenError unless the target's architecture has an instruction.

    ``least`` is the number of the first architecture; ``exact`` names the one that alone has it (``"sm_90a"``).
    """
    arch = em.machine.cpu
    if (exact and arch != exact) or arch_number(arch) < least:
        need = exact or f"sm_{least}"
        raise em.error(
            f"{what} needs {need}{'' if exact else ' or newer'}, and the target is {arch}",
            op,
            f"build with Target('nvptx -arch={need}')",
        )


def constant_int(em: Emitter, op: Call, position: int, what: str) -> int:
    """The value of an argument that the instruction encodes. Raises a CodegenError where it is not constant."""
    arg = op.args[position]
    if isinstance(arg, IntImm):
        return arg.value
    raise em.error(
        f"{what} of {op.op.name} is {arg}, and the instruction takes a constant", op, "unroll the loop around it"
    )


def text_of(em: Emitter, op: Call, position: int, what: str) -> str:
    """The text of an argument that is a string. Raises a CodegenError for any other."""
    arg = op.args[position]
    if isinstance(arg, StringImm):
        return arg.value
    raise em.error(f"{what} of {op.op.name} is {arg}, not a string", op)


def element_of(em: Emitter, op: Call, position: int) -> DataType:
    """The type of the elements that a pointer argument points to."""
    arg = op.args[position]
    if isinstance(arg, Var) and isinstance(arg.type, PointerType):
        return arg.type.element
    if isinstance(arg, Call) and arg.op in (Op.get("tir.tvm_access_ptr"), Op.get("tir.address_of")):
        return arg.args[0].dtype
    raise em.error(f"argument {position} of {op.op.name} is {arg}, not the data of a buffer", op, "pass A.data")


def pointer_at(em: Emitter, op: Call, args: Sequence[Value], position: int) -> Value:
    """The address of the element given by the data and offset arguments at ``position`` and behind it."""
    dtype = element_of(em, op, position)
    index = args[position + 1]
    if index.type.bits != 64:
        index = (em.b.zext if op.args[position + 1].dtype.is_uint else em.b.sext)(index, I64)
    scale = dtype.lanes
    if scale != 1:
        index = em.b.mul(index, em.b.i64(scale))
    return em.b.gep(memory_type(dtype), args[position], index, inbounds=False)


def shared_address(em: Emitter, pointer: Value) -> Value:
    """The 32-bit address in shared memory of a generic pointer into it."""
    return em.b.cast("ptrtoint", em.b.addrspacecast(pointer, SHARED), I32)


def global_address(em: Emitter, pointer: Value) -> Value:
    """The 64-bit address in global memory of a generic pointer into it."""
    return em.b.cast("ptrtoint", em.b.addrspacecast(pointer, GLOBAL), I64)


def asm(
    em: Emitter,
    text: str,
    constraints: str,
    results: Sequence[Type] = (),
    args: Sequence[Value] = (),
    *,
    memory: bool = True,
    convergent: bool = True,
) -> list[Value]:
    """Inline PTX; gives its results. ``memory`` says that it touches memory, ``convergent`` that a warp runs it together."""
    ret = VOID if not results else results[0] if len(results) == 1 else struct(*results)
    if memory:
        constraints = f"{constraints},~{{memory}}" if constraints else "~{memory}"
    made = em.b.call_asm(
        text,
        constraints,
        ret,
        args,
        side_effect=memory,
        attrs=[
            "nounwind",
            *(["convergent"] if convergent else []),
            *([] if memory else ["memory(none)", "willreturn"]),
        ],
    )
    if len(results) <= 1:
        return [made] if results else []
    return [em.b.extract_value(made, i) for i in range(len(results))]


def word(em: Emitter, value: Value) -> Value:
    """An integer as an i32, cut or filled with zeros."""
    bits = value.type.bits
    return value if bits == 32 else em.b.trunc(value, I32) if bits > 32 else em.b.zext(value, I32)
