"""Custom data types, ``custom[name]bits``: what their operations mean, and how they are called.

A custom type is a pattern of ``bits`` bits whose operations are functions that somebody registers: Python functions of
bit patterns, or external (C or LLVM) functions. The interpreter computes with the Python functions; the pass
LowerCustomDatatypes turns every operation into a call on unsigned integers of as many bits, and a Python function is then
called from machine code too.

The names follow those of TVM's "bring your own datatypes" (``tvm.target.datatype``).

>>> _ = register("fixed4")   # four bits of fraction
>>> register_op(lambda a, b: (a + b) & 255, "Add", "llvm", "fixed4")
>>> register_op(lambda x: round(x * 16) & 255, "Cast", "llvm", "float", "fixed4")
>>> register_op(lambda a: a / 16, "Cast", "llvm", "fixed4", "float")
>>> find_op("Add", "llvm", "fixed4").meaning(8)(16, 8)
24
>>> unregister("fixed4")
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from tirlower.diagnostics import ArgumentTypeError, ArgumentValueError, nearest_name
from tirlower.ir.dtype import DataType, DataTypeError, NumpyDType
from tirlower.ir.op import Op

__all__ = [
    "CustomType",
    "ExternFunction",
    "Implementation",
    "OpKey",
    "Resolved",
    "any_registered",
    "custom_name",
    "element_numpy",
    "extern_meaning",
    "find_op",
    "get_type_registered",
    "llvm_definition",
    "python_symbol",
    "register",
    "register_op",
    "resolve",
    "storage_dtype",
    "unregister",
]

PythonFunction: TypeAlias = (
    "Callable[[int], float] | Callable[[float], float] | Callable[[int, int], float] | Callable[[int, int, int], float]"
)
"""Of the patterns of bits of its operands; of a number, where that becomes one."""
Given: TypeAlias = "PythonFunction | Mapping[int, PythonFunction] | ExternFunction"
"""What an operation is registered as: a function, one for each width, or one outside of Python."""

BINARY = ("Add", "Sub", "Mul", "Div", "Mod", "FloorDiv", "FloorMod", "Min", "Max")
COMPARISONS = ("EQ", "NE", "LT", "LE", "GT", "GE")
_OPERATIONS = (*BINARY, *COMPARISONS, "Cast", "FloatImm", "Call")
_NAME = re.compile(r"[A-Za-z_]\w*\Z")


class OpKey(NamedTuple):
    """Which operation an implementation is of; ``source`` and ``target_type`` are names of types without bits."""

    operation: str
    target: str
    source: str
    target_type: str | None
    intrinsic: str | None


@dataclass(frozen=True)
class ExternFunction:
    """An implementation outside of Python: symbols that the linker finds.

    ``symbols`` is one symbol, or a mapping from the bits of the (first) operand, or from its bits and those of the result,
    to symbols. ``llvm`` is the text of an LLVM module that defines the symbols; without it they are found among those
    that :func:`tirlower.register_symbol` knows, or in the process. ``python`` is what the functions compute, for the
    interpreter: a function of the bit patterns, or a mapping from the bits of the type to functions.
    """

    symbols: str | Mapping[int | tuple[int, int], str]
    python: PythonFunction | Mapping[int, PythonFunction] | None = None
    llvm: str | None = field(default=None, repr=False)

    def symbol(self, operand_bits: int, result_bits: int) -> str | None:
        """The symbol for these widths, or None."""
        if isinstance(self.symbols, str):
            return self.symbols
        return self.symbols.get((operand_bits, result_bits)) or self.symbols.get(operand_bits)

    def all_symbols(self) -> tuple[str, ...]:
        """Every symbol that it may be called by."""
        return (self.symbols,) if isinstance(self.symbols, str) else tuple(self.symbols.values())


class Implementation:
    """One registered operation: its Python meaning by the bits of the type, and its external functions."""

    __slots__ = ("extern", "key", "python")

    def __init__(self, key: OpKey, given: Given) -> None:
        self.key = key
        self.extern = given if isinstance(given, ExternFunction) else None
        self.python = given.python if isinstance(given, ExternFunction) else given

    def meaning(self, bits: int) -> PythonFunction | None:
        """The Python function of bit patterns of that width, or None."""
        return self.python.get(bits) if isinstance(self.python, Mapping) else self.python


@dataclass
class CustomType:
    """A registered type: its name and its operations."""

    name: str
    operations: dict[OpKey, Implementation] = field(default_factory=dict)

    def op(self, given: Given, op_name: str, intrinsic_name: str | None = None) -> None:
        """Register an operation on the type itself for the host; as :func:`register_op`."""
        register_op(given, op_name, "llvm", self.name, None, intrinsic_name)


class Resolved(NamedTuple):
    """What a symbol that stands for a Python function takes and gives."""

    function: PythonFunction
    result: DataType
    arguments: tuple[DataType, ...]


_types: dict[str, CustomType] = {}
_externs: dict[str, Implementation] = {}


def register(type_name: str) -> CustomType:
    """Make a type known, without operations; a type of that name registered before is replaced.

    Raises:
        ArgumentValueError: it is no identifier, or a type of the language has that name.
    """
    if not isinstance(type_name, str) or not _NAME.match(type_name) or type_name in ("int", "uint", "float", "bfloat"):
        raise ArgumentValueError(
            f"a custom type is named by an identifier of its own, got {type_name!r}", origin="custom_datatype.register"
        )
    unregister(type_name)
    made = _types[type_name] = CustomType(type_name)
    return made


def unregister(type_name: str) -> None:
    """Forget a type and its operations. Unknown names are ignored."""
    gone = _types.pop(type_name, None)
    if gone is not None:
        for symbol in [symbol for symbol, one in _externs.items() if one.key in gone.operations]:
            del _externs[symbol]


def get_type_registered(type_name: str) -> bool:
    """Whether a type of that name is registered."""
    return type_name in _types


def any_registered() -> bool:
    """Whether any type is registered: then what a program means may change from one moment to the next."""
    return bool(_types)


def _check(given: Given, op_name: str) -> None:
    python = given.python if isinstance(given, ExternFunction) else given
    functions = list(python.values()) if isinstance(python, Mapping) else [python]
    allowed_missing = isinstance(given, ExternFunction)
    if not functions or not all(callable(fn) or (fn is None and allowed_missing) for fn in functions):
        raise ArgumentTypeError(
            f"the implementation of {op_name} is a Python function, or an ExternFunction, got {given!r}",
            origin="register_op",
        )


def register_op(
    lower_func: Given,
    op_name: str,
    target: str,
    src_type_name: str,
    dest_type_name: str | None = None,
    intrinsic_name: str | None = None,
) -> None:
    """Say how an operation of a custom type is computed.

    ``lower_func`` is a Python function of the operands (a mapping from bits to functions where a type has several
    widths), or an :class:`ExternFunction`. A Python function gets and gives values of custom types as their bit patterns
    (non-negative ints) and others as Python numbers. From machine code it is called through ctypes: in the thread that
    runs the kernel, with the GIL taken; an exception in it is reported as Python reports unraisable ones, and the call
    gives zero.

    ``op_name`` is the name of a node: ``Add Sub Mul Div Mod FloorDiv FloorMod Min Max``, a comparison ``EQ NE LT LE GT
    GE`` (which gives a bool), ``Cast`` (then ``src_type_name`` and ``dest_type_name`` name two types without their bits,
    at least one of them custom: ``"float"``, ``"int"``, ``"uint"``, ``"bool"``), ``FloatImm`` (a constant's bits from
    a Python float; by default the cast from ``float``), or ``Call`` with ``intrinsic_name``, as ``"tir.sqrt"``.
    ``target`` is a kind of target, ``"llvm"``.

    Raises:
        ArgumentValueError: the type is not registered, or there is no such operation.
        ArgumentTypeError: the implementation is neither of the three.
    """
    if op_name not in _OPERATIONS:
        near = nearest_name(op_name, _OPERATIONS)
        raise ArgumentValueError(
            f"no operation {op_name!r} of a custom type",
            origin="register_op",
            help=f"did you mean {near!r}?" if near else f"there are {', '.join(_OPERATIONS)}",
        )
    if (dest_type_name is not None) != (op_name == "Cast") or (intrinsic_name is not None) != (op_name == "Call"):
        raise ArgumentValueError(
            f"{op_name} is registered {_wants(op_name)}",
            origin="register_op",
            help="a Cast has two types, a Call a name",
        )
    owner = next((n for n in (dest_type_name, src_type_name) if n in _types), None)
    if owner is None:
        raise ArgumentValueError(
            f"no custom type {src_type_name if dest_type_name is None else dest_type_name!r} is registered",
            origin="register_op",
            help="custom_datatype.register(name) first",
        )
    if intrinsic_name is not None:
        intrinsic_name = Op.get(intrinsic_name if intrinsic_name.startswith("tir.") else f"tir.{intrinsic_name}").name
    _check(lower_func, op_name)
    key = OpKey(op_name, target, src_type_name, dest_type_name, intrinsic_name)
    made = _types[owner].operations[key] = Implementation(key, lower_func)
    if made.extern is not None:
        _externs.update(dict.fromkeys(made.extern.all_symbols(), made))


def _wants(op_name: str) -> str:
    wants = {"Cast": "with dest_type_name", "Call": "with intrinsic_name"}
    return wants.get(op_name, "without dest_type_name and intrinsic_name")


def custom_name(kind: DataType) -> str:
    """The name of a custom type, or the code of another: what :func:`register_op` takes.

    >>> custom_name(DataType("custom[posit8]8x4")), custom_name(DataType("float32"))
    ('posit8', 'float')
    """
    if kind.is_custom:
        return kind.code[len("custom[") : -1]
    return "float" if kind.is_float else kind.code


def storage_dtype(kind: DataType) -> DataType:
    """The unsigned integer of the bits of a custom type, with its lanes; another type stays.

    Raises :class:`DataTypeError` for a type of more than 64 bits.
    """
    if not kind.is_custom:
        return kind
    if not 1 < kind.bits <= 64:
        raise DataTypeError(f"{kind!s} has no storage: a custom type has 2 to 64 bits")
    return DataType.of("uint", kind.bits, kind.lanes, kind.scalable)


def element_numpy(kind: DataType) -> NumpyDType:
    """NumPy's dtype of one lane in memory: of a custom type, that of its bits."""
    return storage_dtype(kind).numpy


def find_op(
    op_name: str,
    target: str | None,
    src_type_name: str,
    dest_type_name: str | None = None,
    intrinsic_name: str | None = None,
) -> Implementation | None:
    """The implementation of an operation for a target (None: any that has a Python meaning first), or None."""
    owner = next((_types[n] for n in (dest_type_name, src_type_name) if n in _types), None)
    if owner is None:
        return None
    owners = [owner] if dest_type_name is None else [_types[n] for n in (dest_type_name, src_type_name) if n in _types]
    for one in owners:
        if target is not None:
            found = one.operations.get(OpKey(op_name, target, src_type_name, dest_type_name, intrinsic_name))
            if found is not None:
                return found
            continue
        wanted = (op_name, src_type_name, dest_type_name, intrinsic_name)
        same = [made for key, made in one.operations.items() if (key.operation, *key[2:]) == wanted]
        if same:
            return next((made for made in same if made.python is not None), same[0])
    return None


# -- symbols of Python functions -------------------------------------------------------------------------------------


def python_symbol(key: OpKey, result: DataType, arguments: tuple[DataType, ...]) -> str:
    """The symbol under which machine code calls a Python function: it says everything that :func:`resolve` needs.

    >>> byte = DataType("uint8")
    >>> python_symbol(OpKey("Add", "llvm", "posit8", None, None), byte, (byte, byte))
    'custom.posit8.Add.llvm.uint8.uint8.uint8'
    """
    owner, what = key.source, key.operation
    if key.operation == "Cast":
        assert key.target_type is not None
        # Casts between two custom types belong to the one that they make.
        owner, what = (key.target_type, f"from_{key.source}") if _is_custom_name(key.target_type) else (owner, what)
        what = f"to_{key.target_type}" if what == "Cast" else what
    elif key.intrinsic is not None:
        what = key.intrinsic.removeprefix("tir.")
    return ".".join(("custom", owner, what, key.target, str(result), *map(str, arguments)))


def _is_custom_name(name: str) -> bool:
    return name not in ("float", "int", "uint", "bool", "handle")


def _key_of(owner: str, what: str, target: str) -> OpKey:
    if what.startswith("from_"):
        return OpKey("Cast", target, what.removeprefix("from_"), owner, None)
    if what.startswith("to_"):
        return OpKey("Cast", target, owner, what.removeprefix("to_"), None)
    if what in _OPERATIONS:
        return OpKey(what, target, owner, None, None)
    return OpKey("Call", target, owner, None, f"tir.{what}")


def resolve(symbol: str) -> Resolved | None:
    """The Python function behind a symbol that :func:`python_symbol` made, or None for any other symbol.

    A symbol of an :class:`ExternFunction` with a Python meaning is not one of machine code, but has that meaning: see
    :func:`extern_meaning`.
    """
    parts = symbol.split(".")
    if parts[0] != "custom" or len(parts) < 6:
        return None
    owner, what, target, result, *arguments = parts[1:]
    key = _key_of(owner, what, target)
    found = find_op(key.operation, target, key.source, key.target_type, key.intrinsic)
    if found is None:
        return None
    kinds = tuple([DataType(name) for name in arguments])
    made = DataType(result)
    function = found.meaning(made.bits if what.startswith("from_") else kinds[0].bits)
    return None if function is None else Resolved(function, made, kinds)


def extern_meaning(symbol: str) -> PythonFunction | None:
    """The Python meaning of an operation's symbol, external or not, or None."""
    resolved = resolve(symbol)
    if resolved is not None:
        return resolved.function
    found = _externs.get(symbol)
    if found is None or found.extern is None or found.python is None:
        return None
    if not isinstance(found.python, Mapping):
        return found.python
    symbols = found.extern.symbols
    if isinstance(symbols, str):
        return next(iter(found.python.values())) if len(found.python) == 1 else None
    bits = next(width for width, name in symbols.items() if name == symbol)
    made = found.key.operation == "Cast" and found.key.target_type in _types
    return found.meaning((bits[1] if made else bits[0]) if isinstance(bits, tuple) else bits)


def llvm_definition(symbol: str) -> str | None:
    """The text of the LLVM module that defines an operation's symbol, or None."""
    found = _externs.get(symbol)
    return None if found is None or found.extern is None else found.extern.llvm
