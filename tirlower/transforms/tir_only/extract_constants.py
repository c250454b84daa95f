"""ExtractPrimFuncConstants: the constant arrays of a module, each once, in one place."""

from __future__ import annotations

import numpy as np

from tirlower.ir.annotations import entries_of
from tirlower.ir.dtype import Array
from tirlower.ir.func import IRModule
from tirlower.ir.functor import StmtMutator
from tirlower.ir.stmt import AllocConst, Stmt
from tirlower.rewrite.base import ModulePass
from tirlower.rewrite.context import PassContext

__all__ = ["CONSTANTS", "STORAGE_INDEX", "ExtractPrimFuncConstants"]

CONSTANTS = "constants"
"""The module's attribute: a tuple of arrays."""
STORAGE_INDEX = "irmod_storage_idx"
"""The annotation of a constant's declaration: its position there."""

_Array = Array


class _Pool:
    """Arrays, equal ones once: equal in dtype, shape and every bit."""

    def __init__(self, arrays: tuple[_Array, ...]) -> None:
        self.arrays = list(arrays)
        self.known = {self.key(array): index for index, array in enumerate(arrays)}

    @staticmethod
    def key(array: _Array) -> tuple[str, tuple[int, ...], bytes]:
        """What two equal arrays have in common."""
        return array.dtype.name, array.shape, np.ascontiguousarray(array).tobytes()

    def index(self, array: _Array) -> int:
        """The position of an array, added when it is new."""
        key = self.key(array)
        found = self.known.get(key)
        if found is None:
            found = self.known[key] = len(self.arrays)
            self.arrays.append(array)
        return found


class _Collector(StmtMutator):
    def __init__(self, pool: _Pool) -> None:
        self.pool = pool

    def visit_AllocConst(self, op: AllocConst) -> Stmt:
        index = self.pool.index(op.data)
        data = self.pool.arrays[index]
        if op.annotations.get(STORAGE_INDEX) == index and op.data is data:
            return op
        return op.with_(data=data, annotations={**op.annotations, STORAGE_INDEX: index})


class ExtractPrimFuncConstants(ModulePass):
    """The constant arrays of all functions are collected in the module's attribute ``constants``, equal ones once.

    The declaration of each (``T.allocate_const``) says in the annotation ``irmod_storage_idx`` where its array stands
    there, and shares it: functions with equal constants hold one array. A module that has constants already keeps
    their positions. Needs nothing, raises nothing.

    >>> from tirlower.script import parse
    >>> mod = ExtractPrimFuncConstants()(parse('''
    ... @I.ir_module
    ... class Module:
    ...     @T.prim_func
    ...     def main(A: T.Buffer((2,), "int32")):
    ...         K_data = T.allocate_const([5, 7], "int32", [2])
    ...         K = T.Buffer((2,), "int32", data=K_data)
    ...         for i in range(2):
    ...             A[i] = K[i]
    ... '''))
    >>> mod.attrs["constants"]
    (array([5, 7], dtype=int32),)
    >>> print(mod["main"].script())
    @T.prim_func
    def main(A: T.Buffer((2,), "int32")):
        K_data = T.allocate_const([5, 7], "int32", [2], annotations={"irmod_storage_idx": 0})
        K = T.Buffer((2,), "int32", data=K_data)
        for i in range(2):
            A[i] = K[i]
    """

    name = "tir.ExtractPrimFuncConstants"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Collect the constants of a module."""
        before: tuple[_Array, ...] = tuple(np.asarray(one) for one in entries_of(mod.attrs, CONSTANTS))
        pool = _Pool(before)
        worker = _Collector(pool)
        after = mod.map_functions(lambda func: func.with_body(worker.visit(func.body)))
        if len(pool.arrays) == len(before):
            return after
        return after.with_attr(CONSTANTS, tuple(pool.arrays))
