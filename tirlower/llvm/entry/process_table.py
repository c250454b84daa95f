"""The process table: every address that the machine code of an entry needs and that another process has elsewhere.

An object file with an entry may come from the disk cache, so it has no address of this process in it: it imports one
symbol, :data:`TABLE_SYMBOL`, an array of pointers, and reads Python's API functions, type objects and dtype singletons
from fixed slots of it. The slots are in a fixed order; adding one at the end of a group is a new ``ABI_VERSION``.
Objects that the table points to are kept alive by it.
"""

from __future__ import annotations

import ctypes
from typing import Final

import numpy as np

from tirlower.call.dtypes import numpy_dtype, scalar_class
from tirlower.call.vectorcall import python_function, word
from tirlower.llvm.entry import layout

__all__ = ["TABLE_SIZE", "TABLE_SYMBOL", "ProcessTable", "slot", "table"]

TABLE_SYMBOL: Final = "tirlower.entry.table"

_FUNCTIONS: Final = (
    "PyObject_Vectorcall",
    "PyObject_GetAttr",
    "PyErr_Clear",
    "PyErr_Occurred",
    "PyLong_AsLongLongAndOverflow",
    "PyLong_FromLongLong",
    "PyLong_FromUnsignedLongLong",
    "PyFloat_FromDouble",
    "PyEval_SaveThread",
    "PyEval_RestoreThread",
    "Py_IncRef",
    "Py_DecRef",
    "PyTuple_New",
    "PyTuple_SetItem",
    "PyObject_VectorcallMethod",
)
_NUMPY_FUNCTIONS: Final = {
    "PyArray_NewFromDescr": layout.API_NEW_FROM_DESCR,
    "PyArray_SetBaseObject": layout.API_SET_BASE,
}
_OBJECTS: Final[dict[str, object]] = {
    "None": None,
    "True": True,
    "False": False,
    "ndarray": np.ndarray,
    "int": int,
    "float": float,
    "requires_grad": "requires_grad",
    "is_neg": "is_neg",
}
_DTYPES: Final = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float16", "float32", "float64", "bfloat16", "int2", "uint2", "int4", "uint4"),
    *("float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz", "float8_e4m3fn", "float8_e4m3fnuz"),
    *("float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu", "float6_e2m3fn", "float6_e3m2fn", "float4_e2m1fn"),
)
#: classes of tensors that hand out a DLTensor through a C function: (class, function) pairs
EXCHANGE_PAIRS: Final = 4

#: our own machine code that entries share, made when it is first needed (tirlower.llvm.entry.helpers)
_HELPERS: Final = ("helper:dlpack", "helper:allocate")

_NAMES: Final = (
    *_FUNCTIONS,
    *_NUMPY_FUNCTIONS,
    *_OBJECTS,
    *_HELPERS,
    *[f"dtype:{name}" for name in _DTYPES],
    *[f"scalar:{name}" for name in _DTYPES],
    *[f"exchange:{i}:{part}" for i in range(EXCHANGE_PAIRS) for part in ("type", "function")],
)
TABLE_SIZE: Final = len(_NAMES)
_INDEX: Final = {name: i for i, name in enumerate(_NAMES)}


def slot(name: str) -> int:
    """The index of a slot by its name: a function's, ``"dtype:float32"``, ``"exchange:0:type"``."""
    return _INDEX[name]


class ProcessTable:
    """The table of this process; ``address`` is what :data:`TABLE_SYMBOL` links to."""

    def __init__(self) -> None:
        self._slots = (ctypes.c_void_p * TABLE_SIZE)()
        self._alive: list[object] = []
        self._exchanges = 0
        self.address: Final = ctypes.addressof(self._slots)
        if not layout.NATIVE:
            return
        for name in _FUNCTIONS:
            self._slots[slot(name)] = python_function(name)
        api = layout.array_api()
        for name, index in _NUMPY_FUNCTIONS.items():
            self._slots[slot(name)] = word(api + 8 * index)
        for name, value in _OBJECTS.items():
            self._object(name, value)

    def _object(self, name: str, value: object) -> None:
        self._alive.append(value)
        self._slots[slot(name)] = id(value)

    def require(self, dtype: str) -> None:
        """Fill the slots of a dtype's singleton and of its scalar class, before a call that reads them."""
        if dtype in _DTYPES and not self._slots[slot(f"dtype:{dtype}")]:
            self._object(f"scalar:{dtype}", scalar_class(dtype))
            self._object(f"dtype:{dtype}", numpy_dtype(dtype))

    def has(self, name: str) -> bool:
        """True when the slot is filled."""
        return bool(self._slots[slot(name)])

    def set_helper(self, name: str, address: int, keep: object) -> None:
        """Publish a helper's address; ``keep`` holds its code, which stays for the life of the process."""
        self._alive.append(keep)
        self._slots[slot(name)] = address

    def register_exchange(self, cls: type, function: int) -> bool:
        """Let native entries read tensors of exactly this class through a ``dltensor_from_py_object_no_sync``.

        False where all pairs are taken; such tensors still pass, through ``__dlpack__``.
        """
        if self._exchanges == EXCHANGE_PAIRS:
            return False
        # The function goes in first: an entry in another thread matches the class only when both are there.
        self._slots[slot(f"exchange:{self._exchanges}:function")] = function
        self._object(f"exchange:{self._exchanges}:type", cls)
        self._exchanges += 1
        return True

    def knows_exchange(self, cls: type) -> bool:
        """True when the class has been registered."""
        return any(self._slots[slot(f"exchange:{i}:type")] == id(cls) for i in range(self._exchanges))


#: made at import: a process has one, as it has one Python
table: Final = ProcessTable()
