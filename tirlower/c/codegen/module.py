"""From a lowered module to the text of one C file, with all that is needed to compile, load and call it."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from tirlower.c.codegen import calls, mathematics
from tirlower.c.codegen.memory import Memory
from tirlower.c.codegen.runtime import HEAD, runtime_text
from tirlower.c.codegen.state import FunctionState, ModuleState
from tirlower.c.codegen.statements import write_scope
from tirlower.c.codegen.values import Kind, Value, is_narrow_float, memory_bits, type_range, value_type
from tirlower.call.errors import ErrorSite
from tirlower.call.parameters import return_type, signature_with_symbols
from tirlower.call.signature import Signature
from tirlower.diagnostics import LoweringError, deep_recursion
from tirlower.emit.body import Bodies, Body
from tirlower.ir.data import data_parameters
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Call, Expr, Var
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import post_order_visit
from tirlower.ir.node import Node
from tirlower.ir.op import GlobalVar

__all__ = ["CKernel", "CModule", "generate", "whole_text"]

_RULES = (calls, mathematics)  # imported for the rules that they register


@dataclass(frozen=True)
class CKernel:
    """An exported kernel: what a call takes, and the symbol of the function that takes it from 64-bit slots."""

    signature: Signature
    symbol: str


@dataclass(frozen=True)
class CModule:
    """The C code of a module.

    ``body`` is the text without its head and the functions of the runtime (``helpers``), so that the bodies of several
    modules (with different ``prefix``) can be one file: :func:`whole_text`. ``imports`` are the external functions whose
    addresses the table ``imports_symbol`` wants, in order.
    """

    body: str
    helpers: frozenset[str]
    kernels: Mapping[str, CKernel]
    errors: tuple[ErrorSite, ...]
    imports: tuple[str, ...] = ()
    imports_symbol: str = ""

    @property
    def text(self) -> str:
        """The file."""
        return whole_text([self])


def whole_text(modules: Sequence[CModule]) -> str:
    """One C file of the code of some modules, whose symbols differ."""
    used = frozenset().union(*(module.helpers for module in modules))
    runtime = runtime_text(used)
    return "\n".join(part for part in (HEAD, runtime, *(module.body for module in modules)) if part)


@dataclass
class Callee:
    """A prim func's outside: its C function, and what that takes and returns."""

    func: PrimFunc
    name: str
    symbol: str
    signature: Signature
    symbols: tuple[Var, ...]
    returns: DataType | None
    body: Body
    circular: bool = False
    """Whether a call of it may come to call it again."""

    def head(self, state: FunctionState) -> str:
        """The function's head, its parameters' names given by the state of its text."""
        params = []
        for param in (*self.func.params, *self.symbols):
            buffer = self.func.buffer_map.get(param)
            if buffer is None:
                ctype = value_type(param.dtype)
                known = state.variable(param.name, param.dtype)
                state.define(param, known)
                params.append(f"{ctype}{'' if ctype.endswith('*') else ' '}{known.text}")
                continue
            typed = state.memory.typed(buffer.data) or "void"
            name = state.fresh(buffer.name)
            pointer = Value(name, Kind.POINTER)
            state.define(buffer.data, pointer)
            if param is not buffer.data:
                state.define(param, pointer)
            params.append(f"{typed}{'' if typed.endswith('*') else ' '}*{name}")
        params.append("tir_error *err")
        if self.returns is not None:
            params.append("uint64_t *ret")
        return f"static int32_t {self.symbol}({', '.join(params)})"


def generate(
    module: IRModule | PrimFunc,
    *,
    outputs: Mapping[str, tuple[str, ...]] | None = None,
    in_place: Mapping[str, Sequence[Sequence[int]]] | None = None,
    registered: Collection[str] = (),
    check_assumptions: bool = False,
    prefix: str = "",
) -> CModule:
    """The C code of all functions of a lowered module.

    Functions with a ``global_symbol`` become exported kernels, found in ``kernels`` under that name. ``outputs`` names, for
    each function, the buffers that a call allocates; ``in_place`` the positions of parameters of exported functions that
    may be one array; ``registered`` the external functions whose address is given when the code is loaded.
    ``check_assumptions`` makes ``T.assume`` a check. File-scope names start with ``prefix``.

    Raises:
        LoweringError: something that the passes should have removed, or that portable C does not have.
    """
    if isinstance(module, PrimFunc):
        module = IRModule.from_expr(module)
    state = ModuleState(registered=frozenset(registered), check_assumptions=check_assumptions, prefix=prefix)
    callees: dict[str, Callee] = {}
    memory = Bodies(module.functions)
    for key, func in module.items():
        exported = func.attrs.get("global_symbol")
        label = str(exported) if exported is not None else key
        if exported is not None and any(c.name == label and "global_symbol" in c.func.attrs for c in callees.values()):
            raise LoweringError(
                f"two functions of the module have the global symbol {label!r}",
                origin="codegen c",
                span=func.span,
                help="give each a name of its own",
            )
        body = memory.of(key)
        returns = return_type(func)
        chosen = tuple((outputs or {}).get(key, ()))
        signature, symbols = signature_with_symbols(label, func, body.written, chosen, returns)
        callee = Callee(func, label, state.symbol(f"{label}_kernel"), signature, symbols, returns, body)
        callees[key] = callee
        state.callees[key] = callee
        state.callees.setdefault(label, callee)
    for callee in _in_circles(state.callees):
        callee.circular = True
    heads, bodies, kernels = [], [], {}
    for callee in callees.values():
        head, text = _function(state, callee, (in_place or {}).get(callee.name, ()))
        heads.append(f"{head};\n")
        bodies.append(text)
        if "global_symbol" in callee.func.attrs:
            symbol = state.symbol(f"{callee.name}_packed")
            bodies.append(_packed(state, callee, symbol))
            kernels[callee.name] = CKernel(callee.signature, symbol)
    table = state.symbol("tir_imports") if state.imports else ""
    parts = [f"{text}\n" for text in state.externs.values()]
    if table:
        parts.append(f"void (*{table}[{len(state.imports)}])(void);\n")
        bodies = [body.replace("tir_imports[", f"{table}[") for body in bodies]
    parts += [*state.constants, "".join(heads), *bodies]
    return CModule(
        "\n".join(parts), frozenset(state.helpers), kernels, tuple(state.errors.sites), tuple(state.imports), table
    )


def _in_circles(callees: Mapping[str, Callee]) -> list[Callee]:
    """The functions that call themselves, by way of others too."""
    called: dict[int, set[int]] = {}
    for callee in callees.values():
        names: set[int] = set()

        def look(op: Node, names: set[int] = names) -> None:
            if isinstance(op, Call) and isinstance(op.op, GlobalVar) and op.op.name in callees:
                names.add(id(callees[op.op.name]))

        post_order_visit(callee.func.body, look)
        called[id(callee)] = names
    found = []
    for callee in {id(c): c for c in callees.values()}.values():
        reached: set[int] = set()
        left = [*called[id(callee)]]
        while left:
            one = left.pop()
            if one not in reached:
                reached.add(one)
                left += called[one]
        if id(callee) in reached:
            found.append(callee)
    return found


def _function(module: ModuleState, callee: Callee, in_place: Sequence[Sequence[int]]) -> tuple[str, str]:
    """The head and the text of a function."""
    func = callee.func
    state = FunctionState(module, callee.name, func)
    data = [buffer.data for buffer in func.buffers]
    if func.attrs.get("tir.noalias") or len(data) < 2:
        # Positions are those of the parameters.
        pairs = {func.params[at] for pair in in_place for at in pair}
        data = [func.buffer_map[param].data for param in func.params if param in pairs and param in func.buffer_map]
    if callee.circular:
        state.stack_left = 0
    with deep_recursion():
        state.memory = Memory(func, data)
        state.returns = callee.returns
        head = callee.head(state)
        state.data = set(data_parameters(func))
        for buffer in func.buffers:
            for extent in buffer.shape:
                _not_negative(state, extent)
        if callee.returns is not None:
            state.line("*ret = 0;")
        if write_scope(state, func.body):
            state.line("return 0;")
    return head, "\n".join((f"{head} {{", *state.lines, "}\n"))


def _not_negative(state: FunctionState, extent: Expr) -> None:
    # The call has compared it with the extent of an array.
    if isinstance(extent, Var):
        known = state.vars.get(extent)
        if isinstance(known, Value) and known.low < 0:
            state.vars[extent] = Value(known.text, known.kind, low=0, high=known.high)


def _packed(module: ModuleState, callee: Callee, symbol: str) -> str:
    """The function that takes the arguments as 64-bit slots: what Python calls."""
    args = []
    params: list[Var] = [*callee.func.params, *callee.symbols]
    for position, param in enumerate(params):
        slot = f"slots[{position}]"
        if param in callee.func.buffer_map or param.dtype.is_handle:
            args.append(f"(void *)(uintptr_t){slot}")
        else:
            args.append(_of_slot(module, slot, param.dtype))
    args.append("err")
    if callee.returns is not None:
        args.append("ret")
    lines = [
        f"int32_t {symbol}(const uint64_t *slots, tir_error *err, uint64_t *ret) {{",
        *([] if params else ["    (void)slots;"]),
        *([] if callee.returns is not None else ["    (void)ret;"]),
        f"    return {callee.symbol}({', '.join(args)});",
        "}\n",
    ]
    return "\n".join(lines)


def _of_slot(module: ModuleState, slot: str, dtype: DataType) -> str:
    if dtype.is_bool:
        return f"({slot} & 1) != 0"
    if is_narrow_float(dtype):
        return f"{module.need(f'tir_{dtype}_of')}((uint{memory_bits(dtype)}_t){slot})"
    if dtype.is_float:
        return (
            f"{module.need('tir_of_bits_f64')}({slot})"
            if dtype.bits == 64
            else f"{module.need('tir_of_bits_f32')}((uint32_t){slot})"
        )
    if dtype.is_int and dtype.bits != memory_bits(dtype):
        return f"({value_type(dtype)}){module.need('tir_sx')}({slot}, {dtype.bits})"
    mask = f" & UINT64_C({type_range(dtype)[1]:#x})" if dtype.is_uint and dtype.bits != memory_bits(dtype) else ""
    return f"({value_type(dtype)})({slot}{mask})" if mask else f"({value_type(dtype)}){slot}"
