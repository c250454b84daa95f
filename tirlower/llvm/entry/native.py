"""The vectorcall function of a kernel in LLVM IR, and its packed twin; generated into the kernel's own module.

``@f.entry(self, args, nargsf, kwnames)`` is what CPython calls. In the order of the code: the count of arguments; each
argument read and checked; symbols bound; extents, strides and alignment compared; overlap; outputs measured and
allocated; the GIL released where it pays; the kernel; the result. Until outputs are allocated any failed check leaves
for ``self``'s slow path, which makes the whole call anew in Python: there the message is written, or the argument is
accepted after all (an object that only Python can read). Nothing has run by then.
"""

from __future__ import annotations

from tirlower.call.dtypes import element_type, numpy_dtype
from tirlower.call.errors import MAX_ERROR_VALUES
from tirlower.call.gil import GilPolicy
from tirlower.call.signature import BindSite, BufferParam, ScalarParam, Signature, extents_of
from tirlower.emit.llvm_text import (
    I8,
    I16,
    I32,
    I64,
    PTR,
    TRUE,
    VOID,
    Builder,
    FunctionRef,
    Module,
    Type,
    Value,
    null,
)
from tirlower.llvm.entry import layout
from tirlower.llvm.entry.abi import entry_symbol, packed_symbol
from tirlower.llvm.entry.emit_arrays import ArrayFacts, ArrayReader, extent_value
from tirlower.llvm.entry.emit_outputs import OutputMaker
from tirlower.llvm.entry.emit_scalars import box, default_value, read_optional, read_scalar, scalar_type
from tirlower.llvm.entry.entry_frame import Frame

__all__ = ["emit_entry", "emit_packed", "kernel_types"]

_ERROR_SIZE = 8 + 8 * MAX_ERROR_VALUES
# The code is written as it should run. Optimising the entry of a kernel with three arrays gains 1 ns in a call and costs
# 11 ms of compile time, three times what the kernel takes.
_ATTRIBUTES = ("nounwind", "noinline", "optnone")
_COUNT_MASK = (1 << 63) - 1  # all but PY_VECTORCALL_ARGUMENTS_OFFSET


def kernel_types(signature: Signature) -> list[Type]:
    """The LLVM types of a kernel's parameters by the contract of :mod:`tirlower.llvm.entry.abi`."""
    types = [PTR if isinstance(p, BufferParam) else scalar_type(p.dtype) for p in signature.params]
    types += [scalar_type(s.dtype) for s in signature.symbols]
    return [*types, PTR, *([PTR] if signature.returns is not None else [])]


def emit_packed(module: Module, signature: Signature, kernel: FunctionRef, name: str) -> FunctionRef:
    """Define ``i32 @f.packed(ptr slots, ptr err, ptr ret)``: the kernel with its arguments in 64-bit slots."""
    function = module.function(
        packed_symbol(name), I32, [(PTR, "slots"), (PTR, "err"), (PTR, "ret")], attrs=_ATTRIBUTES
    )
    slots, err, ret = function.args
    b = Builder(function, function.block("entry"))
    values: list[Value] = []
    last = 2 if signature.returns is not None else 1
    for i, type in enumerate(kernel_types(signature)[:-last]):
        at = b.gep(I64, slots, i)
        if type.kind == "ptr":
            values.append(b.load(PTR, at, 8))
            continue
        word = b.load(I64, at, 8)
        carrier = {16: I16, 32: I32, 64: I64}[type.bits] if type.kind == "float" else type
        number = word if carrier.bits == 64 else b.trunc(word, carrier)
        values.append(b.bitcast(number, type))
    b.ret(b.call(kernel, [*values, err, ret][: len(values) + last], attrs=["noinline"]))
    return function.ref


def emit_entry(module: Module, signature: Signature, kernel: FunctionRef, name: str, gil: GilPolicy) -> None:
    """Define ``@f.entry``, the vectorcall function of the kernel."""
    _Entry(module, signature, kernel, name, gil).emit()


class _Entry:
    def __init__(self, module: Module, signature: Signature, kernel: FunctionRef, name: str, gil: GilPolicy) -> None:
        self.signature = signature
        self.kernel = kernel
        self.gil = gil
        self.function = module.function(
            entry_symbol(name),
            PTR,
            [(PTR, "self"), (PTR, "args"), (I64, "nargsf"), (PTR, "kwnames")],
            attrs=_ATTRIBUTES,
        )
        self.b = Builder(self.function, self.function.block("entry"))
        self.frame = Frame(self.b, self.function.new_block("slow"))
        self.env: dict[str, Value] = {}
        self.arrays: dict[str, ArrayFacts] = {}
        self.values: dict[str, Value] = {}

    def emit(self) -> None:
        """The whole function."""
        frame, b = self.frame, self.b
        _, args, nargsf, kwnames = self.function.args
        inputs = self.signature.inputs
        count = b.and_(nargsf, b.i64(_COUNT_MASK))
        defaults = self._defaults()
        counted = b.icmp("eq", count, b.i64(len(inputs)))
        if defaults:
            # One comparison: as many as must be, and at most as many as there are more.
            required = len(inputs) - len(defaults)
            counted = b.icmp("ule", b.sub(count, b.i64(required)), b.i64(len(defaults)))
        frame.require(b.and_(counted, b.icmp("eq", kwnames, null())), "counted")
        if self.signature.buffers:
            dtypes = dict.fromkeys(p.dtype for p in inputs if isinstance(p, BufferParam))
            frame.preload(["ndarray", *[f"dtype:{dtype}" for dtype in dtypes]])
        reader = ArrayReader(frame)
        bound: set[tuple[str, str, int]] = set()
        for i, param in enumerate(inputs):
            if isinstance(param, ScalarParam):
                if param.name in defaults:
                    passed = b.icmp("ugt", count, b.i64(i))
                    value = read_optional(frame, param, defaults[param.name], passed, args, 8 * i)
                else:
                    value = read_scalar(frame, param, frame.field(args, 8 * i, PTR))
                self.values[param.name] = value
                if element_type(param.dtype).kind in ("int", "uint", "bool"):
                    self.env[param.name] = value
                continue
            self.arrays[param.name] = reader.read(param, frame.field(args, 8 * i, PTR))
            for site in self.signature.sites:
                if site.param == param.name:
                    self._bind(site)
                    bound.add((site.param, site.what, site.axis))
        frame.require(frame.all_of(self._extent_checks(bound)), "extents")
        self._place_pointers()
        self._check_overlaps()
        outputs = OutputMaker(frame)
        elements = self._work(outputs)
        made = self._allocate(outputs)
        self._run(made, elements)
        frame.enter(frame.slow)
        self._leave_for_python()

    def _defaults(self) -> dict[str, Value]:
        """What parameters are that a call by position may leave out: those behind which all have defaults."""
        found: dict[str, Value] = {}
        for param in reversed(self.signature.inputs):
            value = default_value(param) if isinstance(param, ScalarParam) else None
            if value is None:
                break
            found[param.name] = value
        return found

    # -- before the kernel -------------------------------------------------------------------------------------------

    def _bind(self, site: BindSite) -> None:
        facts, b = self.arrays[site.param], self.b
        if site.what == "elem_offset":
            value = b.i64(0)
        else:
            value = (facts.dims if site.what == "shape" else facts.strides)[site.axis]
        if site.symbol.dtype == "int32":
            narrow = b.trunc(value, I32)
            if site.what != "elem_offset":
                self.frame.require(b.icmp("eq", b.sext(narrow, I64), value), "narrow")
            value = narrow
        self.env[site.symbol.name] = value

    def _extent_checks(self, bound: set[tuple[str, str, int]]) -> list[Value]:
        """Every declared extent and stride that did not bind a symbol, against what the arrays have."""
        conds: list[Value] = []
        for param in self.signature.buffers:
            facts = self.arrays.get(param.name)
            if facts is None:
                continue
            for what, axis, extent in extents_of(param):
                if what == "elem_offset" or (param.name, what, axis) in bound:
                    continue
                got = (facts.dims if what == "shape" else facts.strides)[axis]
                conds.append(self.b.icmp("eq", got, extent_value(self.frame, extent, self.env)))
        return conds

    def _place_pointers(self) -> None:
        """The pointers that the kernel gets: ``elem_offset`` elements before the first one, and aligned."""
        b, frame = self.b, self.frame
        for param in self.signature.buffers:
            facts = self.arrays.get(param.name)
            if facts is None:
                continue
            pointer = facts.data
            if param.elem_offset != 0:
                offset = extent_value(frame, param.elem_offset, self.env)
                back = b.mul(offset, b.i64(-element_type(param.dtype).itemsize))
                pointer = b.gep(I8, pointer, back, inbounds=False)
            if param.alignment > numpy_dtype(param.dtype).alignment:
                rest = b.and_(b.ptrtoint(pointer), b.i64(param.alignment - 1))
                frame.require(b.icmp("eq", rest, b.i64(0)), "aligned")
            self.values[param.name] = pointer

    def _check_overlaps(self) -> None:
        b, frame = self.b, self.frame
        pairs = self.signature.alias_pairs()
        ranges = {
            param.name: self.arrays[param.name].byte_range(frame, param)
            for param in self.signature.buffers
            if any(param in pair for pair in pairs)
        }
        conds = []
        for first, second in pairs:
            (low_a, high_a), (low_b, high_b) = ranges[first.name], ranges[second.name]
            sizes = [self.arrays[p.name].constant_bytes(p) for p in (first, second)]
            if all(sizes):
                # One comparison: apart unless -size_a < a - b < size_b.
                back, reach = sizes[0] - 1, sizes[0] + sizes[1] - 1
                distance = b.sub(low_a, low_b)
                fits = b.icmp("uge", b.add(distance, b.i64(back)), b.i64(reach))
            else:
                fits = b.or_(b.icmp("ule", high_a, low_b), b.icmp("ule", high_b, low_a))
            conds.append(
                b.or_(fits, b.icmp("eq", low_a, low_b)) if self.signature.may_coincide(first, second) else fits
            )
        frame.require(frame.all_of(conds), "apart")

    def _work(self, outputs: OutputMaker) -> Value | None:
        """Measure the outputs, and decide about the GIL: an ``i1``, or None where the kernel runs with it."""
        b, frame = self.b, self.frame
        sizes = {
            param.name: outputs.measure(param, self.env)
            for param in self.signature.buffers
            if param.name in self.signature.outputs
        }
        fixed = self.gil.constant(self.signature)
        if fixed is not None:
            return TRUE if fixed else None
        if self.gil.work is not None:
            work = extent_value(frame, self.gil.work, self.env)
        else:
            work = b.i64(0)
            for param in self.signature.buffers:
                if param.name in sizes:
                    size = b.udiv(sizes[param.name], b.i64(element_type(param.dtype).itemsize))
                else:
                    size = self.arrays[param.name].elements(frame, param)
                work = b.add(work, size)
        return b.icmp("sge", work, b.i64(self.gil.threshold))

    def _allocate(self, outputs: OutputMaker) -> list[Value]:
        """New arrays for the outputs, in the order of the parameters."""
        made: list[Value] = []
        by_name = {param.name: param for param in self.signature.buffers}
        for name in self.signature.outputs:
            array = outputs.allocate(by_name[name])
            self._or_fail(self.b.icmp("ne", array, null()), made, "allocated")
            self.values[name] = self.frame.field(array, layout.DATA, PTR)
            made.append(array)
        return made

    # -- the kernel and after ----------------------------------------------------------------------------------------

    def _run(self, made: list[Value], release: Value | None) -> None:
        b, frame, sig = self.b, self.frame, self.signature
        err = b.alloca(I8, _ERROR_SIZE, 8, "err")
        storage = b.alloca(I64, align=8, name="ret") if sig.returns is not None else None
        if storage is not None and sig.returns is not None and element_type(sig.returns).bits < 64:
            b.store(b.i64(0), storage, 8)
        args = [self.values[p.name] for p in sig.params] + [self.env[s.name] for s in sig.symbols]
        args += [err] if storage is None else [err, storage]
        state = self._save_thread(release)
        # The kernel is called from here and from the packed twin: inlining it would compile it twice.
        status = b.call(self.kernel, args, attrs=["noinline"])
        self._restore_thread(release, state)
        failed, passed = frame.new_block("failed"), frame.new_block("passed")
        b.cond_br(b.icmp("eq", status, b.i32(0)), passed, failed, likely=True)
        frame.enter(failed)
        self._drop(made)
        report = frame.field(self.function.args[0], layout.SELF_REPORT, PTR)
        b.ret(frame.call_object(report, b.ptrtoint(err)))
        frame.enter(passed)
        results = list(made)
        if storage is not None and sig.returns is not None:
            self_box = frame.field(self.function.args[0], layout.SELF_BOX, PTR)
            value = box(frame, sig.returns, storage, self_box)
            self._or_fail(b.icmp("ne", value, null()), made, "boxed")
            results.append(value)
        if not results:
            nothing = frame.slot("None")
            frame.api("Py_IncRef", VOID, nothing)
            b.ret(nothing)
        elif len(results) == 1:
            b.ret(results[0])
        else:
            answer = frame.api("PyTuple_New", PTR, b.i64(len(results)))
            self._or_fail(b.icmp("ne", answer, null()), results, "packed")
            for i, value in enumerate(results):
                frame.api("PyTuple_SetItem", I32, answer, b.i64(i), value)
            b.ret(answer)

    def _save_thread(self, release: Value | None) -> Value:
        b, frame = self.b, self.frame
        if release is None:
            return null()
        if release is TRUE:
            return frame.api("PyEval_SaveThread", PTR)
        save, after = frame.new_block("release"), frame.new_block("run")
        before = b.block
        b.cond_br(release, save, after)
        frame.enter(save)
        state = frame.api("PyEval_SaveThread", PTR)
        saved = b.block
        b.br(after)
        frame.enter(after)
        return b.phi(PTR, "state", [(null(), before), (state, saved)])

    def _restore_thread(self, release: Value | None, state: Value) -> None:
        b, frame = self.b, self.frame
        if release is None:
            return
        if release is TRUE:
            frame.api("PyEval_RestoreThread", VOID, state)
            return
        with b.if_then(release, name="restore"):
            frame.api("PyEval_RestoreThread", VOID, state)

    def _or_fail(self, cond: Value, made: list[Value], name: str) -> None:
        """Continue where ``cond`` holds; else give up what was made, and the call: an error is set."""
        good, bad = self.frame.new_block(name), self.frame.new_block("gone")
        self.b.cond_br(cond, good, bad, likely=True)
        self.frame.enter(bad)
        self._drop(made)
        self.b.ret(null())
        self.frame.enter(good)

    def _drop(self, objects: list[Value]) -> None:
        for obj in objects:
            self.frame.api("Py_DecRef", VOID, obj)

    def _leave_for_python(self) -> None:
        this, args, nargsf, kwnames = self.function.args
        slow = self.frame.field(this, layout.SELF_SLOW, PTR)
        call = self.frame.slot("PyObject_Vectorcall")
        self.b.ret(self.b.call_pointer(call, PTR, [slow, args, nargsf, kwnames], tail="tail"))
