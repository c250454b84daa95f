"""MakePackedAPI: exposed functions take packed arguments, which they unpack and check themselves."""

from __future__ import annotations

from tirlower.analysis.host_abi import CPU, convert_exposed, device_number, exposed_name, host_of, target_of
from tirlower.diagnostics import TransformError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer
from tirlower.ir.dtype import HANDLE, INT32, VOID, DataType, PointerType
from tirlower.ir.expr import EQ, BufferLoad, Call, Expr, StringImm, Var, const
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import StmtMutator
from tirlower.ir.op import Op
from tirlower.ir.stmt import AttrStmt, BufferStore, DeclBuffer, Evaluate, For, ForKind, Seq, Stmt
from tirlower.ir.struct_field import ArgumentCode, CallingConvention, StructField
from tirlower.rewrite.argument_binder import ArgumentBinder, struct_field
from tirlower.rewrite.base import ModulePass, Stage
from tirlower.rewrite.context import PassContext

__all__ = ["DEVICE_CONTEXT", "MakePackedAPI"]

DEVICE_CONTEXT = "device_api_context"
"""The name of a parameter that is no argument: the resource handle that every packed function gets."""

_RET = Op.get("tir.ret")


class _ReturnRewriter(StmtMutator):
    """Returned values are written to the caller's result, and zero is returned: no error."""

    def __init__(self, value: Var, code: Buffer) -> None:
        self.value = value
        self.code = code
        self.slots: dict[DataType, Buffer] = {}
        self.parallel: list[str] = []

    def visit_For(self, op: For) -> Stmt:
        if op.kind is not ForKind.PARALLEL:
            return self.generic(op)
        self.parallel.append(op.loop_var.name)
        made = self.generic(op)
        self.parallel.pop()
        return made

    def visit_Evaluate(self, op: Evaluate) -> Stmt:
        call = op.value
        if not isinstance(call, Call) or call.op is not _RET:
            return op
        if self.parallel:
            raise TransformError(
                f"a return inside parallel loop {self.parallel[-1]!r}",
                span=op.span or call.span,
                help="store the result in a buffer, or make the loop serial",
            )
        done = Evaluate(build.call("tir.ret", const(0, "int32")), span=op.span)
        if not call.args:
            return done
        value, code = _for_result(call.args[0])
        first = (const(0, INT32),)
        return Seq((self._store(value), BufferStore(self.code, const(int(code), INT32), first), done), span=op.span)

    def _store(self, value: Expr) -> Stmt:
        """The result goes where it is taken from: 8 bytes, seen as an array of one element of its kind."""
        kind = value.dtype
        if kind.is_handle:
            return Evaluate(build.call("tir.tvm_struct_set", self.value, 0, int(StructField.VALUE), value))
        slot = self.slots.get(kind)
        if slot is None:
            slot = self.slots[kind] = Buffer(self.value.name, (const(1, INT32),), kind, self.value)
        return BufferStore(slot, value, (const(0, INT32),))


def _for_result(value: Expr) -> tuple[Expr, ArgumentCode]:
    """A value in the 64 bits that a result has, and its type code."""
    dtype = value.dtype
    if dtype.is_vector:
        raise TransformError(f"a function returns a scalar, got {dtype!s}: {value}", span=value.span)
    if dtype.is_bool:
        return build.cast("int64", value), ArgumentCode.ARG_BOOL
    if dtype.is_integral:
        return build.cast("int64", value), ArgumentCode.INT
    if dtype.is_float:
        return build.cast("float64", value), ArgumentCode.FLOAT
    return value, ArgumentCode.HANDLE


def _argument(binder: ArgumentBinder, args: Var, codes: Buffer, index: int, param: Var, func: str) -> None:
    """Check the kind of an argument and bind the parameter to its value."""
    kind = param.dtype
    code = Var(f"{param.name}_code", INT32)
    binder.bind(code, BufferLoad(codes, (const(index, INT32),)), f"{func}.{param.name}")

    def is_code(*which: ArgumentCode) -> Expr:
        return build.any_of(*[EQ(code, const(int(c), "int32")) for c in which])

    def value(dtype: DataType | str) -> Expr:
        return struct_field(args, index, StructField.VALUE, str(dtype))

    expected = f"{func}: Expect arg[{index}] to be"
    if kind.is_handle:
        handles = (ArgumentCode.HANDLE, ArgumentCode.TENSOR, ArgumentCode.NULL)
        binder.require(is_code(*handles), f"{expected} pointer", early=True)
        binder.bind(param, value("handle"), param.name)
    elif kind.is_integral and kind.is_scalar:
        word = "boolean" if kind.is_bool else "int"
        binder.require(is_code(ArgumentCode.INT, ArgumentCode.ARG_BOOL), f"{expected} {word}", early=True)
        wide = value("int64")
        if kind.is_bool:
            binder.bind(param, build.ne(wide, const(0, "int64")), param.name)
        else:
            binder.bind(param, wide, f"{func}.{param.name}")
    elif kind.is_float and kind.is_scalar:
        binder.require(is_code(ArgumentCode.FLOAT, ArgumentCode.INT), f"{expected} float", early=True)
        whole = build.cast("float64", value("int64"))
        number = build.if_then_else(is_code(ArgumentCode.INT), whole, value("float64"))
        binder.bind(param, build.cast(kind, number), param.name)
    else:
        raise TransformError(
            f"the parameter {param.name!r} of {func} has dtype {kind!s}, which no packed argument has",
            help="pass it in a buffer",
        )


def _int32_array(name: str, count: int) -> Buffer:
    return Buffer(name, (const(count, INT32),), INT32, Var(name, PointerType(INT32)))


def make_packed_api(func: PrimFunc) -> PrimFunc:
    """The packed form of an exposed function (see :class:`MakePackedAPI`)."""
    name = exposed_name(func) or func.name
    target = target_of(func)
    args = Var("args", HANDLE)
    context = [param for param in func.params if param.name == DEVICE_CONTEXT and param.dtype.is_handle]
    params = [param for param in func.params if param not in context]
    codes = _int32_array("arg_type_ids", len(params))
    count = Var("num_args", INT32)
    result = Var("out_ret_value", PointerType(VOID))
    result_code = _int32_array("out_ret_tcode", 1)
    resource = context[0] if context else Var("resource_handle", HANDLE)

    binder = ArgumentBinder()
    binder.defined.update(context)
    binder.require(EQ(count, const(len(params), "int32")), f"{name}: num_args should be {len(params)}", True)
    if params:
        for pointer, what in ((args, "TVMValue* arg pointer"), (codes.data, "int* type_codes")):
            present = build.logical_not(build.call("tir.isnullptr", pointer))
            binder.require(present, f"{name}: {what} was NULL", early=True)
        binder.init.append(DeclBuffer(codes))
    # All kinds are checked and all scalars bound before any array is looked into.
    for index, param in enumerate(params):
        _argument(binder, args, codes, index, param, name)
    device_type = device_number(target)
    device_id = Var("dev_id", INT32)
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is not None:
            binder.bind_array(buffer, param, device_type, device_id, f"{name}.{buffer.name}")
    _need_bound(func, binder, name)

    body: Stmt = _ReturnRewriter(result, result_code).visit(func.body)
    body = AttrStmt(0, "compute_scope", StringImm(f"{name}_compute_"), body)
    if device_id in binder.defined:
        if device_type != CPU:
            chosen = build.call("tir.tvm_call_packed", StringImm("__tvm_set_device"), device_type, device_id)
            body = Seq((Evaluate(chosen), body))
        body = AttrStmt("default", "device_type", const(device_type, "int32"), body)
        body = AttrStmt("default", "device_id", device_id, body)
    declared = [DeclBuffer(buffer) for buffer in func.buffers]
    success = Evaluate(build.call("tir.ret", const(0, "int32")))
    return func.with_(
        params=(args, codes.data, count, result, result_code.data, resource),
        buffer_map={},
        ret_type=INT32,
        attrs={**func.attrs, "calling_conv": int(CallingConvention.PACKED), "target": host_of(target)},
        body=Seq((*binder.init, *binder.asserts, *declared, body, success)),
    )


def _need_bound(func: PrimFunc, binder: ArgumentBinder, name: str) -> None:
    """Every variable that a parameter buffer mentions is bound by some argument."""
    for buffer in func.buffers:
        for part in (*buffer.shape, *buffer.strides, buffer.elem_offset):
            if not binder.known(part):
                raise TransformError(
                    f"a variable of {part}, in the declaration of buffer {buffer.name!r} of {name}, is bound by no "
                    "argument",
                    span=func.span,
                    help="make it a scalar parameter, or a dimension of its own",
                )


class MakePackedAPI(ModulePass):
    """Exposed functions take packed arguments: values, their type codes, their number, and places for the result.

    The body first asserts the number and the kinds of the arguments, then binds each parameter; of each array it
    asserts rank, dtype, strides, offset, device and that there is memory, and binds or asserts its extents, strides
    and offset: a variable is bound at its first bare occurrence, in parameter order. Then it runs the function and
    returns 0; a returned value is written to the result, as an int64 or a float64. A bool has the type code 15, and
    either serves for the other kind of integer. The asserts are the facts that the compiled entry checks. A handle named
    ``device_api_context`` is no argument: it is the resource handle.

    Functions without ``global_symbol``, those converted already, and those whose target has no host stay as they are;
    the target of the others becomes their target's host. A function of the module that calls an exposed one calls a
    private copy, ``<name>_internal``. Stands last of the passes over whole functions; needs nothing.

    Raises :class:`TransformError` for a return inside a parallel loop, for a symbolic variable that no argument binds,
    and for a parameter of a dtype that no argument has.

    >>> from tirlower.script import parse
    >>> print(MakePackedAPI()(parse('''
    ... @T.prim_func
    ... def first(n: T.int64):
    ...     T.evaluate(T.ret(n + T.int64(1)))
    ... ''')).script())
    @T.prim_func
    def first(args: T.handle, arg_type_ids: T.handle("int32"), num_args: T.int32, out_ret_value: T.handle("void"), out_ret_tcode: T.handle("int32"), resource_handle: T.handle) -> T.int32:
        out_ret_value_1 = T.Buffer((1,), "int64", data=out_ret_value)
        out_ret_tcode_1 = T.Buffer((1,), "int32", data=out_ret_tcode)
        T.func_attr({"calling_conv": 1, "target": T.target({"kind": "llvm"})})
        assert num_args == 1, "first: num_args should be 1"
        assert not T.isnullptr(args), "first: TVMValue* arg pointer was NULL"
        assert not T.isnullptr(arg_type_ids), "first: int* type_codes was NULL"
        arg_type_ids_1 = T.decl_buffer((1,), "int32", data=arg_type_ids)
        n_code: T.int32 = arg_type_ids_1[0]
        assert n_code == 0 or n_code == 15, "first: Expect arg[0] to be int"
        n: T.int64 = T.tvm_struct_get(args, 0, 12, "int64")
        with T.attr(0, "compute_scope", "first_compute_"):
            out_ret_value_1[0] = n + T.int64(1)
            out_ret_tcode_1[0] = 0
            T.ret(0)
        T.ret(0)
    """

    name = "tir.MakePackedAPI"
    stage = Stage.ANY

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Convert the exposed functions of a module."""
        return convert_exposed(mod, make_packed_api)
