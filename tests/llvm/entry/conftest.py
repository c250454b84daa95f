"""Kernels to call: one that notes what it was given, and hand-written LLVM text."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from tirlower.call.errors import ErrorSite
from tirlower.call.gil import GilPolicy
from tirlower.call.signature import Signature
from tirlower.emit.compile import CompileOptions
from tirlower.emit.llvm_text import I16, I32, I64, Builder, Module, array
from tirlower.llvm.entry import NATIVE_CALLS, add_entry, entry_for_address, entry_imports, make_entry
from tirlower.llvm.entry.native import kernel_types
from tirlower.llvm.jit import engine

QUICK = CompileOptions.for_host(opt_level=1, pipeline="none")


class Probe:
    """A callable kernel that adds one to ``runs`` and notes its arguments' bits in ``given``, then returns 0."""

    def __init__(self, signature: Signature, native: bool, gil: GilPolicy) -> None:
        types = kernel_types(signature)
        count = len(types) - (2 if signature.returns else 1)
        self._runs = ctypes.c_int64(0)
        self._given = (ctypes.c_uint64 * max(1, count))()
        module = Module(signature.name)
        runs = module.global_variable("runs", I64)
        given = module.global_variable("given", array(max(1, count), I64))
        function = module.function(signature.name, I32, [(t, "x") for t in types], attrs=["nounwind"])
        b = Builder(function, function.block("entry"))
        b.atomicrmw("add", runs, b.i64(1), align=8)
        for i in range(count):
            value = function.args[i]
            if value.type.kind == "ptr":
                value = b.ptrtoint(value)
            elif value.type.kind == "float":
                value = b.bitcast(value, {16: I16, 32: I32, 64: I64}[value.type.bits])
            if value.type.bits < 64:
                value = b.zext(value, I64)
            b.store(value, b.gep(I64, given, i), 8)
        b.ret(b.i32(0))
        exports = add_entry(module, signature, function.ref, gil=gil)
        code = engine().compile_object(module.text(), QUICK)
        addresses = {"runs": ctypes.addressof(self._runs), "given": ctypes.addressof(self._given)}
        linked = engine().link(code.object, exports, {**entry_imports(), **addresses}, keep=(self._runs, self._given))
        self.entry = make_entry(signature, linked, gil=gil, native=native)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.entry(*args, **kwargs)

    @property
    def runs(self) -> int:
        return self._runs.value

    @property
    def given(self) -> list[int]:
        return list(self._given)

    def forbid_python(self) -> None:
        """From now on a call that leaves the machine code for Python raises AssertionError."""

        def fail(*args: Any, **kwargs: Any) -> None:
            raise AssertionError("the machine code handed this call to Python")

        self.entry._slow = fail  # type: ignore[assignment]


@pytest.fixture(params=["native", "ctypes"])
def native(request: pytest.FixtureRequest) -> bool:
    """Both kinds of entry, one after the other."""
    wanted = request.param == "native"
    if wanted and not NATIVE_CALLS:
        pytest.skip("no native entry on this Python")
    return wanted


@pytest.fixture
def probe(native: bool) -> Callable[..., Probe]:
    """``probe(signature)``: a noting kernel behind the entry under test."""

    def make(signature: Signature, gil: GilPolicy | None = None) -> Probe:
        return Probe(signature, native, gil or GilPolicy())

    return make


@pytest.fixture
def fast_probe() -> Callable[..., Probe]:
    """``fast_probe(signature)``: a noting kernel whose calls may not leave the machine code."""
    if not NATIVE_CALLS:
        pytest.skip("no native entry on this Python")

    def make(signature: Signature, gil: GilPolicy | None = None) -> Probe:
        made = Probe(signature, True, gil or GilPolicy())
        made.forbid_python()
        return made

    return make


@pytest.fixture
def text_kernel(native: bool) -> Callable[..., Any]:
    """``text_kernel(signature, llvm_text, errors)``: the kernel ``@k`` of a text, called by its address."""
    return lambda *args, **kwargs: _from_text(*args, native=native, **kwargs)


def _from_text(
    signature: Signature,
    text: str,
    errors: Sequence[ErrorSite] = (),
    *,
    native: bool = True,
    gil: GilPolicy | None = None,
    imports: dict[str, int] | None = None,
) -> Any:
    jit = engine()
    kernel = jit.link(jit.compile_object(text, QUICK).object, ["k"], imports)
    return entry_for_address(signature, kernel["k"], jit, errors, gil=gil or GilPolicy(), native=native, keep=kernel)
