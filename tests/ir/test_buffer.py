"""Buffers: addresses against NumPy's strides, regions, slices, and what is refused."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from tirlower import ir
from tirlower.diagnostics import TirError, WellFormedError
from tirlower.ir import decl_buffer, pointer_dtype


def test_defaults():
    A = ir.Buffer("A", (4, 8), "bool", scope="shared")
    assert A.data.name == "A" and A.data.type == ir.PointerType("int8", "shared") and A.ndim == 2 and A.is_compact
    assert A.align == 0 and A.offset_factor == 1 and A.elem_offset.value == 0 and A.strides == ()
    assert (
        ir.Buffer("B", 4).shape[0].value == 4 and ir.Buffer("C", (ir.Var("n", "int64"),)).elem_offset.dtype == "int64"
    )
    view = ir.Buffer("V", (32,), "int8", data=A.data)
    assert view.scope == "shared"
    assert pointer_dtype(ir.DataType("boolx4")) == "int8x4" and pointer_dtype(ir.DataType("float32")) == "float32"


def test_an_alignment_is_what_was_said():
    assert [ir.Buffer("A", (4,), align=said).align for said in (0, -1, 4, 64, 128)] == [0, 0, 4, 64, 128]
    assert [ir.decl_buffer((4,), data_alignment=said).align for said in (0, 64)] == [0, 64]


def test_offsets_agree_with_numpy():
    array = np.zeros((3, 4, 5), "float32")
    A = ir.Buffer("A", array.shape)
    strided = array[::2, 1:, ::-1].strides
    B = ir.Buffer("B", (2, 3, 5), strides=[s // 4 for s in strided], elem_offset=24)
    for at in itertools.product(range(2), range(3), range(5)):
        assert A.offset_of(at).value == np.ravel_multi_index(at, array.shape)
        assert B.offset_of(at).value == 24 + int(np.dot(at, strided)) // 4
    assert ir.Buffer("S", (), elem_offset=3).offset_of(()).value == 3


def test_refused():
    x, f = ir.Var("x"), ir.Var("f", "float32")
    for make, words in (
        (lambda: ir.Buffer("A", (f,)), "integers"),
        (lambda: ir.Buffer("A", (4, 4), strides=(1,)), "1 strides"),
        (lambda: ir.Buffer("A", (4,), data=x), "pointer"),
        (lambda: ir.Buffer("A", (4,), axis_separators=(2,)), "separators"),
        (lambda: ir.Buffer("A", (4, 4, 4), axis_separators=(2, 1)), "separators"),
    ):
        with pytest.raises(WellFormedError, match=words):
            make()


def test_indexing():
    x = ir.Var("x")
    A = ir.Buffer("A", (4, 16))
    load = A[x, 3]
    assert isinstance(load, ir.BufferLoad) and load.indices[0] is x
    lanes = A[x, 4:12:2]
    assert lanes.dtype == "float32x4" and (lanes.indices[1].base.value, lanes.indices[1].stride.value) == (4, 2)
    assert A[x, :].dtype == "float32x16" and A[x, 3:4].dtype == "float32"
    assert A[0, x * 4 : x * 4 + 4].dtype == "float32x4" and A[0, 1 + x : x + 9 : 3].dtype == "float32x3"
    for region in (A[1], A[1:3, 0], A[1:3, 2:4], A[:, :]):
        assert isinstance(region, ir.BufferRegion)
    box = A[1:3, 4]
    assert [(r.min.value, r.extent.value) for r in box.region] == [(1, 2), (4, 1)]
    assert [(r.min.value, r.extent.value) for r in A.region().region] == [(0, 4), (0, 16)]
    for bad, words in (
        (lambda: A[0, 0, 0], "3 indices"),
        (lambda: A[0:4:2, 0], "unit steps"),
        (lambda: A[0, x : x * 2], "not a constant"),
    ):
        with pytest.raises(TirError, match=words):
            bad()


def test_vector_access():
    A = ir.Buffer("A", (4, 16))
    assert A.vload((1, 4), "float32x4").dtype == "float32x4" and A.vload((1, 4)).dtype == "float32"
    store = A.vstore((1, 4), ir.Broadcast(ir.FloatImm("float32", 1.0), 4))
    assert isinstance(store, ir.BufferStore) and store.indices[1].lanes == 4


def test_access_pointer():
    A = ir.Buffer("A", (4, 16), elem_offset=8)
    call = A.access_ptr("rw", offset=4)
    assert call.op.name == "tir.tvm_access_ptr" and call.dtype == "handle" and call.args[1] is A.data
    assert [a.value for a in call.args[2:]] == [12, 60, 3]
    assert A.access_ptr("r").args[4].value == 1 and A.access_ptr(2).args[4].value == 2
    wide = A.access_ptr("w", content_lanes=4)
    assert wide.args[0].dtype == "float32x4" and wide.args[3].value == 16
    assert ir.Buffer("B", (4, 16), strides=(32, 1)).access_ptr("r").args[3].value == 128
    with pytest.raises(TirError, match="'r' and 'w'"):
        A.access_ptr("x")


def test_ranges_and_regions():
    n = ir.Var("n", "int64")
    r = ir.Range(0, n)
    assert r.min.dtype == "int64" and ir.Range(n, 1).extent.dtype == "int64"
    assert ir.Range(ir.Var("i"), n).min.dtype == "int64"
    assert ir.Range.from_extent(n).extent is n and ir.Range.from_extent(3).min.value == 0
    with pytest.raises(WellFormedError, match="2 ranges"):
        ir.BufferRegion(ir.Buffer("A", (4, 4)), (r,))
    x = ir.Var("x")
    with pytest.raises(WellFormedError, match="reducer"):
        ir.CommReducer((x,), (x, x), (x,), (0,))


def test_decl_buffer():
    A = decl_buffer((4, 4), name="A", offset_factor=8)
    assert isinstance(A.elem_offset, ir.Var) and A.elem_offset.name == "A_elem_offset" and not A.is_compact
    B = decl_buffer((4, 4), name="B", buffer_type="auto_broadcast")
    assert [s.name for s in B.strides] == ["B_stride_0", "B_stride_1"] and B.buffer_type == "auto_broadcast"
    assert decl_buffer(4, "int8").dtype == "int8" and decl_buffer((), scope="local").scope == "local"


@pytest.mark.parametrize(
    ("shape", "strides", "separators", "flat", "kept"),
    [
        ((4, 8), None, (), (32,), ()),
        ((4, 8, 2), None, (1,), (4, 16), (1,)),
        ((4, 8, 2), None, (1, 2), (4, 8, 2), (1, 2)),
        ((4, 8), (10, 1), (), (40,), ()),
        ((2, 4, 8), (64, 10, 1), (1,), (128, 40), (1,)),
        ((), None, (), (1,), ()),
        ((16,), None, (), (16,), ()),
    ],
)
def test_flattened(shape, strides, separators, flat, kept):
    made = decl_buffer(shape, "int8", "A", strides=strides, axis_separators=separators, elem_offset=3)
    found = made.get_flattened_buffer()
    assert tuple(e.value for e in found.shape) == flat and found.axis_separators == kept
    assert found.strides == () and found.data is made.data and found.elem_offset is made.elem_offset
    assert (found is made) == (shape == flat and not strides)
    assert found.get_flattened_buffer() is found


def test_iteration_variables_as_tir_makes_them():
    axis = ir.IterVar((2, 10), "i", 2)
    assert (axis.dom.min, axis.dom.extent, axis.var.name, axis.var.dtype, axis.kind) == (
        2,
        8,
        "i",
        "int32",
        "CommReduce",
    )
    var = ir.Var("j")
    assert ir.IterVar(ir.Range(0, 4), var).var is var and ir.IterVar(None, var, "Opaque").dom is None
    for make in (lambda: ir.IterVar((0, 4, 1), "i"), lambda: ir.IterVar(4, "i"), lambda: ir.IterVar((0, 4), "i", 9)):
        with pytest.raises(WellFormedError, match="iteration variable"):
            make()
