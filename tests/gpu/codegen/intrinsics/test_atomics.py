from __future__ import annotations

import re

import pytest

from tests.gpu.codegen.building import build, check, kernel
from tirlower.diagnostics import CodegenError, TirError


def atomic(name: str, dtype: str, more: str = "", used: bool = True, scope: str = "global", arch: str = "sm_80"):
    target = "S" if scope == "shared" else "A"
    call = f"T.atomic_{name}(T.address_of({target}[0]), B[tx]{more})"
    body = f"C[tx] = {call}" if used else f"T.evaluate({call})"
    if scope == "shared":
        body = (
            f'S = T.alloc_buffer((32,), "{dtype}", scope="shared")\nS[tx] = B[tx]\nT.tvm_storage_sync("shared")\n{body}\n'
            'T.tvm_storage_sync("shared")\nA[tx] = S[tx]'
        )
    arrays = ", ".join(f'{array}: T.Buffer((64,), "{dtype}")' for array in "ABC")
    return build(kernel(arrays, body), arch)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize(
    ("name", "dtype", "suffix"),
    [
        ("add", "int32", "add.u32"), ("add", "uint32", "add.u32"), ("add", "int64", "add.u64"), ("add", "float32", "add.f32"),
        ("add", "float64", "add.f64"), ("add", "float16", "add.noftz.f16"), ("max", "int32", "max.s32"),
        ("max", "uint32", "max.u32"), ("min", "int64", "min.s64"), ("min", "uint64", "min.u64"), ("and", "int32", "and.b32"),
        ("or", "uint64", "or.b64"), ("xor", "uint32", "xor.b32"), ("exchange", "int32", "exch.b32"),
        ("exchange", "float32", "exch.b32"), ("exchange", "float64", "exch.b64"),
    ],
)  # fmt: skip
def test_one_instruction(name, dtype, suffix, arch):
    module = atomic(name, dtype, arch=arch)
    assert re.search(rf"atom(\.\w+)*\.global\.{re.escape(suffix)}\s", module.ptx)
    check(module)


@pytest.mark.parametrize("arch", ["sm_75", "sm_90"])
@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("add", "int8"), ("add", "uint16"), ("add", "bfloat16"), ("max", "float32"), ("min", "float64"), ("max", "float16"),
        ("min", "bfloat16"), ("and", "uint8"), ("or", "bool"), ("exchange", "float16"), ("exchange", "int8"),
        ("add", "float8_e5m2"),
    ],
)  # fmt: skip
def test_compare_and_swap_until_nothing_came_between(name, dtype, arch):
    module = atomic(name, dtype, arch=arch)
    assert re.search(r"atom\.relaxed\.gpu\.global\.cas\.b(16|32|64)", module.ptx)
    check(module)


ORDERS = [
    (order, word, scope, short)
    for order, word in (("acquire", "acquire"), ("release", "release"), ("acq_rel", "acq_rel"))
    for scope, short in (("device", "gpu"), ("block", "cta"), ("system", "sys"))
] + [("relaxed", "relaxed", "system", "sys")]


@pytest.mark.parametrize(("order", "word", "scope", "short"), ORDERS)
def test_orders_and_scopes_reach_the_instruction(order, word, scope, short):
    for name, dtype, suffix in (
        ("add", "int32", "add.u32"),
        ("max", "int64", "max.s64"),
        ("add", "float32", "add.f32"),
    ):
        module = atomic(name, dtype, f', "{order}", "{scope}"')
        assert re.search(rf"atom\.{word}\.{short}\.{suffix}\s", module.ptx)
        check(module)


@pytest.mark.parametrize(("order", "word", "scope", "short"), ORDERS)
@pytest.mark.parametrize("dtype", ["int32", "uint64", "float32", "int16"])
def test_orders_and_scopes_of_compare_and_swap(order, word, scope, short, dtype):
    arrays = ", ".join(f'{array}: T.Buffer((64,), "{dtype}")' for array in "ABC")
    call = f'T.atomic_cas(T.address_of(A[0]), B[tx], B[tx + 1], "{order}", "{scope}")'
    module = build(kernel(arrays, f"C[tx] = {call}"))
    found = re.findall(r"atom\.(\w+)\.(\w+)\.global\.cas\.(b\d+)", module.ptx)
    assert found
    # Cells of less than a word are parts of one: fences may stand around a relaxed exchange of it.
    fences = set(re.findall(r"fence\.(\w+)\.(\w+);", module.ptx))
    assert {(w, s) for w, s, _ in found} == {(word, short)} or any(s == short for _, s in fences)
    check(module)


def test_relaxed_among_a_devices_threads_is_the_default():
    default, spelled = atomic("add", "int32"), atomic("add", "int32", ', "relaxed", "device"')
    assert default.ptx == spelled.ptx
    assert "fence" not in default.ptx
    assert "membar" not in default.ptx


@pytest.mark.parametrize("order", ["relaxed", "acq_rel"])
def test_shared_memory(order):
    module = atomic("add", "int32", f', "{order}", "block"', scope="shared")
    if order == "relaxed":
        assert re.search(r"atom(\.\w+)*\.shared\.add\.u32", module.ptx)
    else:
        assert "atom.acq_rel.cta.add.u32" in module.ptx  # by a generic address
        assert "cvta.shared" in module.ptx
    check(module)


def test_an_unused_result():
    module = atomic("add", "int32", used=False)
    assert re.search(r"(atom|red)(\.\w+)*\.global\.add\.u32", module.ptx)
    check(module)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        ('T.atomic_add(T.address_of(A[0]), 1, "seq_cst")', "order 'seq_cst'"),
        ('T.atomic_add(T.address_of(A[0]), 1, "relaxed", "cluster")', "scope 'cluster'"),
        ("T.atomic_add(T.address_of(L[0]), 1)", "value of int32 on an element of int64"),
        ("T.atomic_cas(T.address_of(L[0]), 1, 2)", "value of int32 on an element of int64"),
        ("T.atomic_add(A[0] + 1, 1)", "takes an address and a scalar"),
        ("T.atomic_and(T.address_of(F[0]), T.float16(1))", "bitwise operations are of integers"),
    ],
)
def test_what_makes_no_sense(call, message):
    params = 'A: T.Buffer((64,), "int32"), L: T.Buffer((64,), "int64"), F: T.Buffer((64,), "float16")'
    with pytest.raises((CodegenError, TirError), match=message):
        build(kernel(params, f"T.evaluate({call})"))
