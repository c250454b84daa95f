"""Memory forms: allocations, declarations, constants, views, and accesses of every kind."""

from __future__ import annotations

import numpy as np
import pytest

from tirlower.diagnostics import ScriptError
from tirlower.ir import AllocBuffer, AllocConst, BufferStore, Call, DeclBuffer, PointerType, Ramp, Seq
from tirlower.script import parse
from tirlower.script import tir as T

HEAD = "A: T.Buffer((16,), 'float32'), M: T.Buffer((4, 8), 'float32'), n: T.int32"


def stmts(text, head=HEAD, **options):
    lines = "\n".join("    " + line for line in text.strip("\n").split("\n"))
    body = parse(f"def f({head}):\n{lines}\n", **options).body
    return body.stmts if isinstance(body, Seq) else (body,)


def test_alloc_buffer():
    alloc, store = stmts("B = T.alloc_buffer((4, n), 'int8', scope='shared', align=128)\nB[0, 0] = 1")
    buffer = alloc.buffer
    assert isinstance(alloc, AllocBuffer) and store.buffer is buffer
    assert (buffer.name, buffer.data.name, buffer.dtype, buffer.scope, buffer.align) == (
        "B",
        "B",
        "int8",
        "shared",
        128,
    )
    names = [
        s.buffer.scope
        for s in stmts("a = T.alloc_shared((4,))\nb = T.alloc_local((4,), 'int32')\nc = T.sblock_alloc_buffer(4)")
    ]
    assert names == ["shared", "local", "global"]
    pair = stmts("a, b = T.alloc_buffer((1,)), T.alloc_buffer((2,))\na[0] = b[0]")
    assert [s.buffer.name for s in pair[:2]] == ["a", "b"]


def test_the_first_matching_declaration_is_the_allocation():
    alloc, view, first, second = stmts(
        """
x = T.allocate([4, 4], "float32", "shared", annotations={"k": 1})
B = T.decl_buffer((4, 4), "float32", data=x, scope="shared", align=256, axis_separators=[1])
C = T.decl_buffer((4, 4), "float32", data=x, scope="shared")
B[0, 0] = 1.0
C[0, 0] = 2.0
"""
    )
    assert isinstance(alloc, AllocBuffer) and alloc.annotations == {"k": 1}
    assert isinstance(view, DeclBuffer) and view.buffer.name == "C"
    assert first.buffer is alloc.buffer and second.buffer is view.buffer is not alloc.buffer
    assert (alloc.buffer.name, alloc.buffer.data.name) == ("B", "x")
    assert alloc.buffer.align == 256 and alloc.buffer.axis_separators == (1,)
    assert alloc.buffer.data.type == PointerType("float32", "shared") and view.buffer.data is alloc.buffer.data


@pytest.mark.parametrize(
    "declaration",
    [
        "T.decl_buffer((16,), 'float32', data=x)",
        "T.decl_buffer((4, 4), 'int32', data=x)",
        "T.decl_buffer((4, 4), 'float32', data=x, strides=(4, 1))",
        "T.decl_buffer((4, 4), 'float32', data=x, elem_offset=1)",
    ],
)
def test_any_other_declaration_is_a_view(declaration):
    alloc, view = stmts(f"x = T.allocate([4, 4], 'float32')\nB = {declaration}\n")
    assert isinstance(view, DeclBuffer) and view.buffer is not alloc.buffer and alloc.buffer.name == "x"


def test_buffer_of_data_makes_no_statement():
    alloc, store, other = stmts(
        "x = T.allocate([n], 'float32')\nB = T.Buffer((n,), 'float32', data=x)\nB[0] = 1.0\n"
        "C = T.Buffer((2,), 'float32', data=A.data, strides=(2,))\nC[1] = 2.0"
    )
    assert isinstance(alloc, AllocBuffer) and store.buffer is alloc.buffer and alloc.buffer.name == "B"
    assert isinstance(other, BufferStore) and other.buffer.name == "C" and other.buffer.strides[0].value == 2


def test_declarations_without_data_allocate():
    alloc, _ = stmts("B = T.decl_buffer((4,), 'bool')\nB[0] = True")
    assert isinstance(alloc, AllocBuffer) and alloc.buffer.data.type == PointerType("int8", "global")


def test_a_conditional_allocation():
    (alloc,) = stmts("x = T.allocate([4], 'float32', 'global', n > 3)")
    assert type(alloc.condition).__name__ == "GT"


def test_constants():
    alloc, _ = stmts(
        "x = T.allocate_const([[1, 2], [3, 4]], 'int16', [2, 2])\nB = T.decl_buffer((2, 2), 'int16', data=x)\nT.evaluate(B[0, 1])"
    )
    assert isinstance(alloc, AllocConst) and alloc.buffer.name == "B"
    np.testing.assert_array_equal(alloc.data, np.array([[1, 2], [3, 4]], dtype="int16"))
    table = np.linspace(0, 1, 4, dtype="float32")

    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        x = T.allocate_const(table, "float32", [4])
        B = T.Buffer((4,), "float32", data=x)
        A[0] = B[0]

    np.testing.assert_array_equal(f.body.stmts[0].data, table)


def test_with_opens_a_scope():
    scope, _ = stmts(
        """
with T.allocate([4], "float32") as x:
    with T.decl_buffer((2, 2), "float32", data=x) as B:
        B[0, 0] = 1.0
A[0] = 1.0
"""
    )
    alloc, inner = scope.stmts
    assert isinstance(scope, Seq) and isinstance(alloc, AllocBuffer)
    assert isinstance(inner, Seq) and isinstance(inner.stmts[0], DeclBuffer)
    with pytest.raises(ScriptError, match="'B' is not defined"):
        stmts("with T.decl_buffer((2,), 'float32') as B:\n    B[0] = 1.0\nB[1] = 2.0")
    lone, _ = stmts("with T.decl_buffer((2,), 'float32') as B:\n    pass\nA[0] = 1.0")
    assert isinstance(lone, Seq) and len(lone.stmts) == 1, "the declaration ends with its scope"


def test_vector_accesses():
    a, b, c, d, e = stmts(
        """
A[0:4] = M[n, 2:6]
A[n * 4 : n * 4 + 4] = A[1:16:4]
A[T.Ramp(0, 1, 8)] = T.Broadcast(T.float32(1), 8)
A[3:4] = 1.0
A[7:3:-2] = T.broadcast(0.0, 2)
"""
    )
    assert a.indices[0].lanes == 4 and a.value.indices[1].base.value == 2 and a.value.dtype == "float32x4"
    assert b.indices[0].lanes == 4 and (b.value.indices[0].stride.value, b.value.indices[0].lanes) == (4, 4)
    assert c.indices[0].lanes == 8
    assert not isinstance(d.indices[0], Ramp) and d.value.dtype == "float32"
    assert e.indices[0].stride.value == -2 and e.indices[0].lanes == 2
    whole, part = stmts("A[:] = T.broadcast(0.0, 16)\nM[1, :3] = T.broadcast(0.0, 3)")
    assert whole.indices[0].lanes == 16 and part.indices[1].lanes == 3


def test_scalars_spread_over_the_lanes_of_a_store():
    literal, value = stmts("A[0:4] = 2.0\nA[0:4] = A[n]")
    assert type(literal.value).__name__ == type(value.value).__name__ == "Broadcast"
    assert literal.value.dtype == "float32x4"


def test_vector_buffers_count_their_lanes():
    load, store = stmts(
        "T.evaluate(V[0:2])\nV[1] = V[0] + T.Broadcast(T.float32(1), 4)", "V: T.Buffer((4,), 'float32x4')"
    )
    assert load.value.dtype == "float32x8" and store.value.dtype == "float32x4"


def test_vload_vstore_and_predicates():
    store, masked, bare = stmts(
        """
A.vstore([4], M.vload([n, 0], "float32x4"))
A.vstore([0], A.vload([8], "float32x4", predicate=T.Broadcast(T.bool(True), 4)), predicate=T.Ramp(0, 1, 4) < T.Broadcast(n, 4))
T.buffer_store(A, 1.0, [3])
"""
    )
    assert store.indices[0].lanes == 4 and store.value.indices[0].name == "n"
    assert masked.predicate.dtype == "boolx4" and masked.value.predicate.dtype == "boolx4"
    assert bare.indices[0].value == 3
    load = stmts("T.evaluate(T.BufferLoad(A, [T.Ramp(0, 1, 4)], T.Broadcast(T.bool(True), 4)))")[0].value
    assert load.predicate is not None and load.dtype == "float32x4"


def test_pointers():
    made = stmts(
        """
T.evaluate(A.access_ptr("rw", offset=4))
T.evaluate(T.address_of(M[1, 2]))
T.evaluate(T.address_of(M))
T.evaluate(T.tvm_access_ptr(T.type_annotation("float32"), A.data, 0, 16, 3))
T.call_extern("void", "f", A.data, M.strides, M.shape[1], A.elem_offset) if False else T.evaluate(A.scope() == "global")
"""
    )
    access, address, whole, builtin, scope = [s.value for s in made]
    assert isinstance(access, Call) and access.args[4].value == 3 and access.args[2].value == 4
    assert address.args[0].indices[1].value == 2 and [i.value for i in whole.args[0].indices] == [0, 0]
    assert builtin.args[0].dtype == "float32" and scope.value == 1


def test_augmented_stores_read_their_place():
    add, vector = stmts("M[n, 1] += 2.0\nA[0:4] *= A[4:8]")
    load = add.value.a
    assert type(add.value).__name__ == "Add" and load.buffer is add.buffer and load.indices == add.indices
    assert vector.value.a.indices == vector.indices and vector.value.dtype == "float32x4"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("A[0, 0] = 1.0", "buffer 'A' has 1 dimensions, the store has 2 indices"),
        ("A[0] = M[0]", "the access has 1 indices"),
        ("A[M[0, 0]] = 1.0", "an index is an integer"),
        ("x = A[0:n]", "the length of the slice 0:n of buffer 'A' is not a constant"),
        ("A[4:4] = 1.0", "is empty"),
        ("x = M[0:2, 0]", "only the last index"),
        ("A[0:4] = A[0:3]", "takes float32x4, got float32x3"),
        ("B = T.decl_buffer((4,), 'float32', data=n)", "a typed pointer, got int32"),
        ("B = T.decl_buffer((4,), 'float32', data=3)", "data= is a pointer variable"),
        ("A = 3\nA[0] = 1", "only an element of a buffer is assigned"),
        ("x = A[0][1]", "is not indexed"),
        ("B = T.alloc_buffer((4.5,), 'float32')", "are integers"),
        ("B = T.alloc_buffer((4,), 'float31')", "no data type 'float31'"),
        ("A.vstor([0], 1.0)", "has no 'vstor'"),
    ],
)
def test_mistakes(text, message):
    with pytest.raises(ScriptError, match=message):
        stmts(text)


@pytest.mark.parametrize(
    ("match", "message"),
    [
        ("A[0:4, i:i + 4], (4, 5)", "dimension 1 of the region of 'A' has 4 elements, the buffer that matches it 5"),
        ("A[0:4, 0:4], (4,)", "dimension 0 of the region of 'A' has 4 elements, the buffer that matches it 1"),
        ("A[0:4, 0:4], (1, 4, 4)", "a region of 2 dimensions is matched by a buffer of 3"),
    ],
)
def test_a_region_of_another_extent_is_not_matched(match, message):
    text = f"""
def f(A: T.Buffer((16, 16), "float32")):
    for i in range(4):
        with T.block("x"):
            T.reads()
            T.writes(A[0:4, 0:8])
            B = T.match_buffer({match})
            T.evaluate(B.data)
"""
    with pytest.raises(ScriptError, match=message):
        parse(text)


def test_extents_that_may_be_equal_are_matched():
    func = parse(
        """
def f(A: T.Buffer((16, 16), "float32"), n: T.int32):
    for i in range(4):
        with T.block("x"):
            T.reads()
            T.writes(A[0:4, 0:n])
            B = T.match_buffer(A[i, 0:n], (n,))
            C = T.match_buffer(A[0:4, 0:n], (4, 8))
            B[0] = C[0, 0]
""",
        check_well_formed=False,
    )
    assert len(func.body.body.body.match_buffers) == 2
