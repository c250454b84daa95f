"""What the machine code of calls reads: our arrays and streams by their slots, and blocks of words that Python fills.

A word is 64 bits. A kernel has a *block*; the block has its parameters, the pairs of arrays that share no memory, and
*lines*: kinds of calls that were checked, each with what its arrays have to be and with what the host function is given.
"""

from __future__ import annotations

import enum
from typing import Final

from tirlower.call.vectorcall import CALLABLE, HEADER

__all__ = [
    "ARRAY_SLOTS",
    "BLOCK",
    "MOST_ARGUMENTS",
    "MOST_SLOTS",
    "MOST_WAITS",
    "STREAM_SLOTS",
    "Api",
    "Block",
    "Expected",
    "Foreign",
    "Giver",
    "Kind",
    "Line",
    "LineArgument",
    "Output",
    "Pair",
    "Parameter",
    "offsets",
]

BLOCK: Final = CALLABLE + 8
"""Where a kernel has the address of its block."""

MOST_ARGUMENTS: Final = 24
MOST_SLOTS: Final = 96
MOST_WAITS: Final = 8
"""Calls with more of them are made in Python."""


def offsets(slots: tuple[str, ...]) -> dict[str, int]:
    """Where an instance of a class without a base has its ``__slots__``: CPython sorts them by name."""
    return {name: HEADER + 8 * i for i, name in enumerate(sorted(s for s in slots if s != "__weakref__"))}


ARRAY_SLOTS: Final = ("__weakref__", "_home", "device", "dtype", "facts", "pointer", "shape", "shown", "users")
STREAM_SLOTS: Final = ("__weakref__", "_event", "_owner", "_owns", "common", "device", "handle")


class Api(enum.IntEnum):
    """The words of the process: functions of Python's C API, and objects."""

    PyObject_Vectorcall = 0
    PyLong_AsUnsignedLongLong = enum.auto()
    PyLong_AsLongLongAndOverflow = enum.auto()
    PyLong_FromUnsignedLongLong = enum.auto()
    PyErr_Clear = enum.auto()
    PyEval_SaveThread = enum.auto()
    PyEval_RestoreThread = enum.auto()
    Py_IncRef = enum.auto()
    Py_DecRef = enum.auto()
    PyTuple_Size = enum.auto()
    PyTuple_GetItem = enum.auto()
    PyTuple_New = enum.auto()
    PyTuple_SetItem = enum.auto()
    PyType_GenericAlloc = enum.auto()
    PyObject_GetAttr = enum.auto()
    PyDict_GetItemWithError = enum.auto()
    PyObject_RichCompareBool = enum.auto()
    PyObject_VectorcallMethod = enum.auto()
    NONE = enum.auto()
    TRUE = enum.auto()
    FALSE = enum.auto()
    TUPLE = enum.auto()
    INT = enum.auto()
    FLOAT = enum.auto()
    DICT = enum.auto()
    ARRAY = enum.auto()
    STREAM = enum.auto()
    NAME_STREAM = enum.auto()
    NAME_INTERFACE = enum.auto()
    NAME_SHAPE = enum.auto()
    NAME_STRIDES = enum.auto()
    NAME_TYPESTR = enum.auto()
    NAME_DATA = enum.auto()
    NAME_MASK = enum.auto()
    NAME_REQUIRES_GRAD = enum.auto()
    NAME_IS_NEG = enum.auto()


class Block(enum.IntEnum):
    """The words of a kernel: addresses, objects (``SLOW`` takes the calls that machine code does not, ``FAILED`` raises what
    went wrong in the call of a line), numbers. ``LINES`` is where the addresses of the lines stand.
    """

    API = 0
    SLOW = 1
    FAILED = 2
    PARAMETERS = 3
    PARAMETER_COUNT = 4
    PAIRS = 5
    PAIR_COUNT = 6
    OUTPUT_COUNT = 7
    TABLE_SLOT = 8
    SYMBOL_COUNT = 9
    LINES = 10
    LINE_COUNT = 11
    WORDS = 12


class Kind(enum.IntEnum):
    """How a parameter is read."""

    ARRAY = 0
    INT = 1
    FLOAT64 = 2
    FLOAT32 = 3
    BOOL = 4


class Parameter(enum.IntEnum):
    """The words of a parameter: its kind, the slot of the host function, whether a line is for one value of it, the least and
    the greatest number; of an array whether it is written, the bits that its address does not have, and all bits.
    """

    KIND = 0
    SLOT = 1
    KEYED = 2
    LEAST = 3
    GREATEST = 4
    WRITTEN = 5
    ALIGNED = 6
    ADDRESS = 7
    WORDS = 8


class Pair(enum.IntEnum):
    """The words of a pair of arrays: their positions."""

    FIRST = 0
    SECOND = 1
    WORDS = 2


class Line(enum.IntEnum):
    """The words of a line. Behind them stand its arguments, its outputs, the host function's symbols, and the addresses that
    were checked last.

    ``FOREIGN``: it has arrays of other libraries (:class:`Foreign`). ``CURRENT`` says, for a device (``ORDINAL``), which stream
    their library works on now; ``STREAM`` is the stream that had the ``HANDLE`` last. ``STRICT``: new addresses are checked in Python. ``ORDER`` and
    ``ORDER_TABLE``: what orders two streams. ``HELD``: the address of a word, not 0 while Python changes users of arrays.
    """

    BUSY = 0
    CALL = 1
    TABLE = 2
    SCRATCH = 3
    RECORD = 4
    RESULT = 5
    DEVICE = 6
    DEFAULT = 7
    FOREIGN = 8
    STRICT = 9
    ORDER = 10
    ORDER_TABLE = 11
    OUTPUTS = 12
    SYMBOLS = 13
    CHECKED = 14
    HELD = 15
    CURRENT = 16
    ORDINAL = 17
    HANDLE = 18
    STREAM = 19
    WORDS = 20


class Foreign(enum.IntEnum):
    """What arrays of other libraries a line has: none, some in the default stream, or tensors in their library's stream."""

    NONE = 0
    IN_DEFAULT = 1
    TENSORS = 2


class LineArgument(enum.IntEnum):
    """The words of an argument of a line: the facts of our array, the class of another one, or a number; the bytes that the
    array reaches from its address; those that its address is moved by; what another library has to say of it
    (:class:`Expected`), or 0.
    """

    KEY = 0
    LOW = 1
    HIGH = 2
    OFFSET = 3
    EXPECTED = 4
    WORDS = 5


class Output(enum.IntEnum):
    """The words of an output of a line: its slot, its bytes, and what the array is made of."""

    SLOT = 0
    BYTES = 1
    DEVICE = 2
    SHAPE = 3
    DTYPE = 4
    FACTS = 5
    WORDS = 6


class Expected(enum.IntEnum):
    """The words of what another library's array has to say: of ``__cuda_array_interface__`` objects, where what is None may
    be left out; of a tensor the C function that tells (0 for an interface), words of its DLTensor, and where its extents
    and strides (in elements) stand.
    """

    TENSOR = 0
    SHAPE = 1
    STRIDES = 2
    TYPESTR = 3
    READONLY = 4
    STREAM = 5
    DEVICE = 6
    TYPE = 7
    RANK = 8
    WORDS = 9


class Giver(enum.IntEnum):
    """The words of what gives memory back: addresses, of which the last two are of the device."""

    API = 0
    GIVE = 1
    TABLE = 2
    WORDS = 3
