"""A pass that is wrong, under validate=True, in a process that imports nothing else: it is named."""

# expect: TransformError
import tirlower as tl
from tirlower.ir import Add, Mutator, Sub
from tirlower.transforms import prim_func_pass


@prim_func_pass(opt_level=0, name="mine.Careless")
def careless(func, mod, ctx):
    class Rewriter(Mutator):
        def visit_Add(self, op: Add):
            return Sub(op.a, op.b)

    return func.with_body(Rewriter().visit(func.body))


from tirlower.script import tir as T  # noqa: E402


@T.prim_func
def f(A: T.Buffer((4,), "int32"), n: T.int32):
    for i in range(4):
        A[i] = A[i] * 3 + n


with tl.PassContext(validate=True, config={"tir.add_lower_pass": [(2, careless)]}):
    tl.lower(f)
