"""TIR's names of what has another one here, or no node of its own: asked for, they say what takes their place."""

from __future__ import annotations

from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Var

__all__ = ["INSTEAD", "PrimType", "SizeVar"]


def SizeVar(name: str, dtype: object = "int32") -> Var:
    """A variable that is at least 0: ``Var(name, dtype, nonneg=True)``.

    >>> SizeVar("n", "int64").nonneg
    True
    """
    return Var(name, DataType(dtype), True)


def PrimType(dtype: object) -> DataType:
    """The type of a value that is no pointer: a :class:`DataType` itself, as ``PointerType(PrimType("float32"))`` takes it.

    >>> PrimType("float32")
    'float32'
    """
    return DataType(dtype)


INSTEAD = {
    "Allocate": "AllocBuffer(buffer, condition, annotations), a statement whose scope is the rest of its Seq",
    "AllocateConst": "AllocConst(buffer, data, annotations), a statement whose scope is the rest of its Seq",
    "AssertStmt": "Assert(condition, message), a statement with no body of its own",
    "BlockRealize": "Block(name, iters, predicate, …), whose iterators carry their values: BlockIter(var, domain, kind, value)",
    "BufferRealize": "AllocBuffer(buffer)",
    "LetStmt": "Bind(var, value), a statement whose scope is the rest of its Seq",
    "Prefetch": "loops over Evaluate(Call(Op.get('tir.prefetch'), …)), as T.prefetch(A, region) writes them",
    "PrimExpr": "Expr",
    "ProducerLoad": "BufferLoad(buffer, indices)",
    "ProducerRealize": "AllocBuffer(buffer)",
    "ProducerStore": "BufferStore(buffer, value, indices)",
    "Reduce": "a Block with an iterator of kind reduce and an init",
    "SeqStmt": "Seq(stmts), or stmt_seq(…)",
    "StmtExprMutator": "Mutator",
    "StmtExprVisitor": "Visitor",
    "ExprMutator": "Mutator",
    "ExprVisitor": "Visitor",
    "StmtVisitor": "Visitor",
}
"""What takes the place of TIR's classes that are not here."""
