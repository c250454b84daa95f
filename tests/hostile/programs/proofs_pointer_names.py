"""Racing loops through a pointer that has a name."""

# expect: ok
import tirlower as tl
from tirlower.script import parse

POINTERS = (
    "q = T.bind(A.data)",
    "p = T.bind(A.data)\n    q = T.bind(p)",
    'q: T.handle("int32") = T.address_of(A[0])',
    'q: T.handle("int32") = T.reinterpret("handle", A.data)',
    'q: T.handle("int32") = T.reinterpret("handle", T.reinterpret("int64", A.data))',
    'q: T.handle("int32") = T.tvm_access_ptr(T.type_annotation("int32"), A.data, 0, 64, 3)',
)
for pointer in POINTERS:
    for kind in ("parallel", "vectorized"):
        func = parse(f"""
@T.prim_func
def f(A: T.Buffer((64,), "int32")):
    {pointer}
    V = T.Buffer((64,), "int32", data=q)
    for k in T.{kind}(63):
        V[k + 1] = A[k] + 1
""")
        try:
            tl.build(func)
        except tl.LegalityError:
            continue
        raise SystemExit(f"built: {pointer} {kind}")
