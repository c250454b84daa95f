"""Programs that see memory through views and bound pointers: what each loop of theirs may be is found by running them.

``A``, ``B`` have 64 elements of int32, ``C`` is a 8 x 8 of float32, ``H`` has 64 of int8.
"""

from __future__ import annotations

__all__ = ["DISJOINT", "MEETING", "SIGNATURE"]

SIGNATURE = (
    'def f(A: T.Buffer((64,), "int32"), B: T.Buffer((64,), "int32"), C: T.Buffer((8, 8), "float32"), '
    'H: T.Buffer((64,), "int8")):\n'
)

MEETING = {
    "a name for a pointer": """
        q = T.bind(A.data)
        V = T.Buffer((64,), "int32", data=q)
        for i in range(63):
            V[i + 1] = A[i]
    """,
    "a name for a name": """
        p = T.bind(A.data)
        q = T.bind(p)
        V = T.decl_buffer((64,), "int32", data=q)
        for i in range(63):
            V[i + 1] = A[i]
    """,
    "two names": """
        p = T.bind(A.data)
        q = T.bind(A.data)
        V = T.Buffer((64,), "int32", data=q)
        W = T.Buffer((64,), "int32", data=p)
        for i in range(63):
            V[i] = W[i + 1]
    """,
    "a let": """
        with T.LetStmt(A.data) as q:
            V = T.Buffer((64,), "int32", data=q)
            for i in range(63):
                V[i + 1] = A[i]
    """,
    "the address of an element": """
        q: T.handle("int32") = T.address_of(A[3])
        V = T.Buffer((16,), "int32", data=q)
        for i in range(16):
            V[i] = A[i + 4]
    """,
    "the address of an element of another size": """
        q: T.handle("int32") = T.address_of(H[2])
        V = T.Buffer((8,), "int32", data=q)
        for i in range(8):
            V[i] = T.Cast("int32", H[i * 4 + 7])
    """,
    "a pointer reinterpreted": """
        q: T.handle("int32") = T.reinterpret("handle", A.data)
        V = T.Buffer((64,), "int32", data=q)
        for i in range(63):
            V[i + 1] = A[i]
    """,
    "an access pointer": """
        q: T.handle("int32") = T.tvm_access_ptr(T.type_annotation("int32"), A.data, 5, 16, 3)
        V = T.Buffer((16,), "int32", data=q)
        for i in range(16):
            V[i] = A[i + 4]
    """,
    "a pointer bound in the loop": """
        for i in range(8):
            q: T.handle("int32") = T.address_of(A[i * 4])
            V = T.Buffer((5,), "int32", data=q)
            for j in range(5):
                V[j] = i
    """,
    "a view that moves": """
        for i in range(16):
            V = T.decl_buffer((8,), "int32", data=A.data, elem_offset=i)
            V[0] = V[1]
    """,
    "a view that moves backwards": """
        for i in range(16):
            V = T.decl_buffer((8,), "int32", data=A.data, elem_offset=15 - i)
            V[i % 2] = i
    """,
    "strides that grow": """
        for i in range(8):
            V = T.decl_buffer((8,), "int32", data=A.data, strides=(i + 1,))
            V[2] = i
            V[4] = i
    """,
    "stride 0": """
        V = T.decl_buffer((4, 4), "int32", data=A.data, strides=(0, 1))
        for i in range(4):
            V[i, 0] = i
    """,
    "stride 0 below": """
        V = T.decl_buffer((4, 4), "int32", data=A.data, strides=(1, 0))
        for i in range(4):
            for j in range(4):
                V[i, j] = i
    """,
    "strides that overlap": """
        V = T.decl_buffer((4, 4), "int32", data=A.data, strides=(2, 1))
        for i in range(4):
            for j in range(4):
                V[i, j] = i
    """,
    "strides that overlap at one pair": """
        V = T.decl_buffer((4, 4), "int32", data=A.data, strides=(3, 1))
        for i in range(4):
            for j in range(4):
                V[i, j] = i
    """,
    "views of other widths": """
        V = T.decl_buffer((32, 2), "int32", data=A.data)
        W = T.decl_buffer((16, 4), "int32", data=A.data)
        for i in range(16):
            V[i, 0] = W[i, 2]
    """,
    "one view wider than its stride": """
        V = T.decl_buffer((8, 2), "int32", data=A.data, strides=(2, 1))
        W = T.decl_buffer((1, 16), "int32", data=A.data, strides=(2, 1))
        for i in range(8):
            V[i, 0] = W[0, i + 1]
    """,
    "an element in the middle of another": """
        V = T.decl_buffer((32,), "int16", data=A.data)
        for i in range(16):
            A[i] = T.Cast("int32", V[i])
    """,
    "a condition on what a name writes": """
        q = T.bind(A.data)
        V = T.Buffer((64,), "int32", data=q)
        for i in range(8):
            V[0] = B[i]
            B[i + 8] = A[0]
    """,
    "an allocation under two names": """
        t = T.alloc_buffer((16,), "int32")
        q = T.bind(t.data)
        V = T.Buffer((16,), "int32", data=q)
        for i in range(15):
            V[i + 1] = t[i]
    """,
}

DISJOINT = {
    "a name for a pointer": """
        q = T.bind(A.data)
        V = T.Buffer((64,), "int32", data=q)
        for i in range(64):
            V[i] = A[i] + 1
    """,
    "names for two": """
        p = T.bind(A.data)
        q = T.bind(B.data)
        V = T.Buffer((64,), "int32", data=p)
        W = T.Buffer((64,), "int32", data=q)
        for i in range(63):
            V[i + 1] = W[i]
    """,
    "tiles that move": """
        for i in range(16):
            V = T.decl_buffer((4,), "int32", data=A.data, elem_offset=i * 4)
            for j in range(4):
                V[j] = i
    """,
    "rows that move": """
        for i in range(8):
            V = T.decl_buffer((8,), "float32", data=C.data, elem_offset=i * 8)
            for j in range(8):
                V[j] = V[j] * T.float32(2)
    """,
    "columns that move": """
        for i in range(8):
            V = T.decl_buffer((8,), "float32", data=C.data, elem_offset=i, strides=(8,))
            for j in range(8):
                V[j] = T.float32(1)
    """,
    "pointers to rows": """
        for i in range(8):
            q: T.handle("float32") = T.address_of(C[i, 0])
            V = T.Buffer((8,), "float32", data=q)
            for j in range(8):
                V[j] = T.float32(1)
    """,
    "halves of one buffer": """
        q: T.handle("int32") = T.address_of(A[32])
        V = T.Buffer((32,), "int32", data=q)
        for i in range(32):
            A[i] = V[31 - i]
    """,
    "even and odd": """
        V = T.decl_buffer((32,), "int32", data=A.data, strides=(2,))
        W = T.decl_buffer((32,), "int32", data=A.data, strides=(2,), elem_offset=1)
        for i in range(32):
            V[i] = W[31 - i]
    """,
    "backwards": """
        V = T.decl_buffer((64,), "int32", data=A.data, strides=(-1,), elem_offset=63)
        for i in range(32):
            V[i] = A[i]
    """,
    "a transposed view": """
        V = T.decl_buffer((8, 8), "float32", data=C.data, strides=(1, 8))
        for i in range(8):
            for j in range(8):
                V[i, j] = T.float32(1)
    """,
    "strides 3 and 2": """
        V = T.decl_buffer((2, 2), "int32", data=A.data, strides=(3, 2))
        for i in range(2):
            for j in range(2):
                V[i, j] = 1
    """,
    "bytes of a word": """
        for i in range(16):
            q: T.handle("int8") = T.address_of(A[i])
            V = T.Buffer((4,), "int8", data=q)
            for j in range(4):
                V[j] = T.int8(1)
    """,
}
