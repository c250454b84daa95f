"""The stack's end: functions that may need much of it look whether it is there, and raise RecursionError if not.

Such are functions that call each other in a circle or in a long chain, and those with large arrays. They compare the
stack pointer, as it is once the frame is taken, with the end of the thread's stack. Python threads may have 32 KB. The
end is asked for once a thread and kept in thread-local storage: on the main thread glibc reads ``/proc`` for it. Among
functions whose calls nest deep it is handed on, so that a call costs a comparison.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final

from tirlower.analysis.call_graph import CallGraph
from tirlower.emit.emitter import Emitter, FunctionState, ModuleState
from tirlower.emit.llvm_text import I8, I32, I64, PTR, Builder, Function, FunctionRef, Type, Value, array, null
from tirlower.emit.types import memory_bytes
from tirlower.ir.annotations import ELSEWHERE, number_of
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.query import statements
from tirlower.ir.stmt import AllocBuffer
from tirlower.llvm.codegen.allocate import STACK_LIMIT, constant_elements
from tirlower.llvm.stack_key import STACK_KEY

__all__ = [
    "NO_STACK",
    "call_deep",
    "call_depth",
    "emit_guarded",
    "enter_deep",
    "fill_deep",
    "fill_guarded",
    "functions_to_check",
    "guard_stack",
    "is_checkable",
    "no_stack",
]

MARGIN: Final = 16 << 10
"""What must be left for what does not look itself: small functions, the C library."""
BEYOND: Final = 512 << 10
"""How far past the end a frame may reach; a stack pointer farther off is of another stack (a coroutine's), of which we know nothing."""
SMALL: Final = 4 << 10
"""Arrays of so many bytes in a function need no look: the margin has room for them."""
NO_STACK: Final = -9113
"""What a guarded task returns without having run."""
CHAIN: Final = 16
"""Calls nested so deep at most need no look."""
NOTHING: Final[Mapping[str, int]] = MappingProxyType({})


def is_checkable(state: ModuleState) -> bool:
    """Whether the system tells where a stack ends in a way that we know."""
    return "linux" in state.machine.triple


def functions_to_check(functions: Mapping[str, PrimFunc]) -> tuple[set[str], set[str]]:
    """The functions of a module, by key, whose calls may nest deep; and those that have large arrays."""
    callees = CallGraph(IRModule(functions)).callees
    depths = {key: number_of(func.attrs, ELSEWHERE) for key, func in functions.items()}
    beyond = {key: depth for key, depth in depths.items() if depth is not None}
    here = [key for key in functions if key not in beyond]
    deep = {key for key in here if call_depth(key, callees, beyond) > CHAIN}
    return deep, {key for key in here if _array_bytes(functions[key]) > SMALL}


def _array_bytes(func: PrimFunc) -> int:
    """The bytes of a function's arrays on the stack, about."""
    size = 0
    for op in statements(func.body):
        if not isinstance(op, AllocBuffer):
            continue
        elements = constant_elements(op.buffer)
        if elements is not None:
            own = elements * memory_bytes(op.buffer.dtype) * op.buffer.dtype.lanes
            size += own if own <= STACK_LIMIT else 0
    return size


def call_depth(start: str, callees: Mapping[str, Iterable[str]], beyond: Mapping[str, int] = NOTHING) -> int:
    """How deep calls from a function may nest, itself counted, to a little over :data:`CHAIN`.

    ``beyond`` says it of functions whose callees are not known.
    """
    level, depth, most = {start}, 0, 0
    while level and depth <= CHAIN:
        most = max([most, *[depth + beyond[key] for key in level if key in beyond]])
        level = {callee for key in level for callee in callees[key]}
        depth += 1
    return min(max(depth, most), CHAIN + 1)


def no_stack(em: Emitter) -> int:
    """The code of the error."""
    name = em.kernel.name.replace("{", "{{").replace("}", "}}")
    return em.state.errors.code(
        RecursionError,
        f"no stack is left for `{name}` in this thread: its calls nest too deep, or its arrays are too large for the "
        "thread (set threading.stack_size before the thread is started)",
    )


def enter_deep(em: Emitter, descent: Value) -> Value:
    """Begin a function whose calls may nest deep with what it was handed; gives the error record.

    A descent is two words: the least address that the stack pointer may have, and the record of the call.
    """
    em.descent = descent
    return em.b.load(PTR, em.b.offset(descent, 8), 8, "err")


def guard_stack(em: Emitter) -> None:
    """Go on where the stack has room for small frames; else RecursionError."""
    assert em.descent is not None
    b = em.b
    limit = b.load(I64, em.descent, 8, "limit")
    em.fail_if(b.icmp("ult", _stack_pointer(b), limit), no_stack(em))


def call_deep(em: Emitter, kernel: FunctionRef, values: Sequence[Value]) -> tuple[Value, Value | None] | None:
    """The status and result of a kernel whose calls may nest deep, called by another such in the same thread with the same
    error record; None where this is no such call."""
    deep = em.state.deep.get(kernel.text)
    if deep is None or em.descent is None:
        return None
    made = em.b.call(deep, [*values, em.descent])
    if made.type is I32:
        return made, None
    return em.b.extract_value(made, 0), em.b.extract_value(made, 1)


def fill_deep(state: ModuleState, function: Function, deep: Function) -> None:
    """Define a kernel as the first call of the function that does its work."""
    b = Builder(function, function.block("entry"))
    descent = b.alloca(array(2, I64), align=8, name="descent")
    base = b.call(_base(state), [])
    # A stack pointer below is of another stack, of which we know nothing.
    elsewhere = b.icmp("ult", _stack_pointer(b), base)
    b.store(b.select(elsewhere, b.i64(0), b.add(base, b.i64(BEYOND + MARGIN))), descent, 8)
    given = len(deep.args) - 1
    b.store(function.args[given], b.offset(descent, 8), 8)
    made = b.call(deep, [*function.args[:given], descent])
    if made.type is not I32:
        b.store(b.extract_value(made, 1), function.args[given + 1], 8)
        made = b.extract_value(made, 0)
    b.ret(made)


def fill_guarded(
    state: ModuleState, function: Function, body: Function, size: int, kernel: FunctionState, err: int
) -> None:
    """Define a kernel as a call of its body, which takes ``size`` bytes of stack; argument ``err`` is the error record.

    The frame of a function is taken before its first instruction: it cannot look by itself.
    """
    em = Emitter(state, kernel, function)
    em.b.position_at_end(function.block("entry"))
    em.err = function.args[err]
    em.fail_if(_is_near_the_end(state, em.b, size), no_stack(em))
    em.b.ret(em.b.call(body.ref, function.args, attrs=["noinline"]))


def emit_guarded(state: ModuleState, task: Function, size: int) -> Function:
    """A task function that calls another one where the stack has room for it, and gives :data:`NO_STACK` where not."""
    f = state.module.function(
        state.module.unique_name(f"{task.ref.text.strip('@').strip(chr(34))}.guarded"),
        I32,
        [(PTR, "context"), (I64, "begin"), (I64, "end"), (I32, "thread")],
        linkage="internal",
        attrs=state.attrs,
    )
    f.separable = True
    b = Builder(f, f.block("entry"))
    good, bad = f.new_block("good"), f.new_block("overflow")
    b.cond_br(_is_near_the_end(state, b, size), bad, good, likely=False)
    b.position_at_end(f.place(bad))
    b.ret(b.i32(NO_STACK))
    b.position_at_end(f.place(good))
    b.ret(b.call(task.ref, f.args, attrs=["noinline"]))
    return f


def _is_near_the_end(state: ModuleState, b: Builder, size: int) -> Value:
    """Whether fewer than ``size`` bytes and the margin are left."""
    left = b.sub(_stack_pointer(b), b.call(_base(state), []))
    return b.icmp("ult", left, b.i64(BEYOND + MARGIN + size))


def _stack_pointer(b: Builder) -> Value:
    return b.ptrtoint(b.intrinsic("llvm.stacksave", PTR, [], [PTR]))


def _base(state: ModuleState) -> FunctionRef:
    return state.helper("stack base", lambda: _make_base(state))


def _make_base(state: ModuleState) -> FunctionRef:
    """A function that gives the address :data:`BEYOND` below the end of the thread's stack."""
    module = state.module
    f = module.function(
        module.unique_name("tirlower.stack.base"), I64, [], linkage="internal", attrs=["nounwind", "noinline"]
    )
    key_at = module.symbol(STACK_KEY) or module.global_variable(STACK_KEY, I32)
    state.imports[STACK_KEY] = None

    def c(name: str, ret: Type, *params: Type) -> FunctionRef:
        return module.get_or_declare(name, ret, params, attrs=("nounwind",))

    b = Builder(f, f.block("entry"))
    key = b.load(I32, key_at, 4)
    known = b.call(c("pthread_getspecific", PTR, I32), [key])
    found, ask, asked = f.new_block("found"), f.new_block("ask"), f.new_block("asked")
    b.cond_br(b.icmp("ne", known, null()), found, ask, likely=True)
    b.position_at_end(f.place(found))
    b.ret(b.ptrtoint(known))
    b.position_at_end(f.place(ask))
    attributes = b.alloca(array(16, I64), align=16, name="attributes")
    low, size = b.alloca(PTR, align=8, name="low"), b.alloca(I64, align=8, name="size")
    b.store(null(), low, 8)
    this = b.call(c("pthread_self", I64), [])
    status = b.call(c("pthread_getattr_np", I32, I64, PTR), [this, attributes])
    tell, ready = f.new_block("tell"), f.new_block("ready")
    b.cond_br(b.icmp("eq", status, b.i32(0)), tell, ready, likely=True)
    b.position_at_end(f.place(tell))
    b.call(c("pthread_attr_getstack", I32, PTR, PTR, PTR), [attributes, low, size])
    b.call(c("pthread_attr_destroy", I32, PTR), [attributes])
    b.br(ready)
    b.position_at_end(f.place(ready))
    end = b.load(PTR, low, 8)
    # Where nothing is known the address is one that no stack pointer is near.
    base = b.select(
        b.icmp("eq", end, null()), b.inttoptr(b.i64(1), PTR), b.gep(I8, end, b.i64(-BEYOND), inbounds=False)
    )
    b.call(c("pthread_setspecific", I32, I32, PTR), [key, base])
    b.br(asked)
    b.position_at_end(f.place(asked))
    b.ret(b.ptrtoint(base))
    return f.ref
