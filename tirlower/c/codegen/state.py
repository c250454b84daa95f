"""The state of one function while its C text is written: lines, names, variables, what must be freed, what can fail."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from tirlower.c.codegen.runtime import HELPERS
from tirlower.c.codegen.values import UNARY, Kind, Value, kind_of, type_range, value_type
from tirlower.call.errors import MAX_ERROR_VALUES, ErrorTable
from tirlower.diagnostics import LoweringError, Span
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import Var
from tirlower.ir.func import PrimFunc

if TYPE_CHECKING:
    from tirlower.c.codegen.memory import Memory
    from tirlower.c.codegen.module import Callee

__all__ = ["Array", "FunctionState", "Loop", "ModuleState", "c_name"]

_WORDS = frozenset(
    [
        "auto",
        "break",
        "case",
        "char",
        "const",
        "continue",
        "default",
        "do",
        "double",
        "else",
        "enum",
        "extern",
        "float",
        "for",
        "goto",
        "if",
        "inline",
        "int",
        "long",
        "register",
        "restrict",
        "return",
        "short",
        "signed",
        "sizeof",
        "static",
        "struct",
        "switch",
        "typedef",
        "union",
        "unsigned",
        "void",
        "volatile",
        "while",
        "bool",
        "true",
        "false",
        "main",
        "err",
        "ret",
        "errno",
        "math_errhandling",
        "signgam",
        "memcpy",
        "memset",
        "malloc",
        "free",
        "calloc",
        "realloc",
        "abort",
        "exit",
        "abs",
        "labs",
        "llabs",
        "div",
        "ldiv",
        "rand",
        "srand",
        "atof",
        "atoi",
        "atol",
        "strtod",
        "system",
        "getenv",
        "qsort",
        "bsearch",
        "j0",
        "j1",
        "jn",
        "y0",
        "y1",
        "yn",
        "gamma",
        "lgamma",
        "tgamma",
        "NAN",
        "INFINITY",
        "HUGE_VAL",
        "unix",
        "linux",
        "i386",
        "asm",
        "fortran",
        "typeof",
        "near",
        "far",
        "index",
        "rindex",
        "random",
        "select",
        "signal",
        "time",
        "clock",
    ]
)
_LIBM = frozenset(
    [
        "acos",
        "asin",
        "atan",
        "atan2",
        "cos",
        "sin",
        "tan",
        "cosh",
        "sinh",
        "tanh",
        "acosh",
        "asinh",
        "atanh",
        "exp",
        "exp2",
        "exp10",
        "expm1",
        "frexp",
        "ldexp",
        "log",
        "log10",
        "log1p",
        "log2",
        "logb",
        "modf",
        "scalb",
        "scalbn",
        "scalbln",
        "cbrt",
        "fabs",
        "hypot",
        "pow",
        "sqrt",
        "erf",
        "erfc",
        "ceil",
        "floor",
        "nearbyint",
        "rint",
        "lrint",
        "llrint",
        "round",
        "lround",
        "llround",
        "trunc",
        "fmod",
        "remainder",
        "remquo",
        "copysign",
        "nan",
        "nextafter",
        "nexttoward",
        "fdim",
        "fmax",
        "fmin",
        "fma",
        "ilogb",
        "isnan",
        "isinf",
        "isfinite",
        "isnormal",
        "signbit",
        "fpclassify",
        "significand",
        "drem",
        "finite",
        "pow10",
        "sincos",
    ]
)
HEADER_NAMES = _LIBM | {f"{name}{end}" for name in _LIBM for end in "fl"} | _WORDS


def c_name(hint: str) -> str:
    """A C identifier that resembles a name: without the words of C and of its library, and what starts with ``tir_``."""
    made = re.sub(r"[^A-Za-z0-9_]", "_", hint) or "x"
    if made[0].isdigit() or made[0] == "_" or made.startswith("tir_") or (made.isupper() and len(made) > 3):
        made = f"v{made}" if made[0] in "_0123456789" else f"v_{made}"
    return f"{made}_" if made in HEADER_NAMES else made


@dataclass(frozen=True, slots=True)
class Array:
    """A vector held in a C array: the name, and the type of its lanes."""

    name: str
    dtype: DataType


@dataclass(slots=True)
class Loop:
    """An open loop: how much was to be freed at its start; ``parallel`` ones cannot be left."""

    cleanups: int
    parallel: bool = False


@dataclass
class ModuleState:
    """What the functions of one text share.

    ``helpers`` are the functions of the runtime that are used, ``externs`` the prototypes of external functions,
    ``imports`` the names of those whose addresses the loader puts into a table (of the ``registered`` ones).
    """

    errors: ErrorTable = field(default_factory=ErrorTable)
    helpers: set[str] = field(default_factory=set)
    externs: dict[str, str] = field(default_factory=dict)
    imports: dict[str, int] = field(default_factory=dict)
    symbols: set[str] = field(default_factory=set)
    callees: dict[str, Callee] = field(default_factory=dict)
    constants: list[str] = field(default_factory=list)
    registered: frozenset[str] = frozenset()
    check_assumptions: bool = False
    prefix: str = ""
    depth: str = ""

    def need(self, helper: str) -> str:
        """The name of a function of the runtime, which the text will have."""
        if helper not in self.helpers:
            self.helpers.add(helper)
            for other in HELPERS[helper].needs:
                self.need(other)
        return helper

    def depth_symbol(self) -> str:
        """The variable that counts calls which may nest without end."""
        if not self.depth:
            self.depth = self.symbol("tir_depth")
            self.constants.append(f"static _Thread_local int32_t {self.depth} = 0;\n")
        return self.depth

    def symbol(self, hint: str) -> str:
        """A name of the text's file scope, not given before, that starts with ``prefix``."""
        base = re.sub(r"[^A-Za-z0-9_]", "_", f"{self.prefix}{hint}")
        if not base[:1].isalpha():
            base = f"f{base}"
        name, count = base, 0
        while name in self.symbols:
            count += 1
            name = f"{base}_{count}"
        self.symbols.add(name)
        return name


class FunctionState:
    """The text of one function as it grows."""

    memory: Memory

    def __init__(self, module: ModuleState, name: str, func: PrimFunc) -> None:
        self.module = module
        self.name = name
        self.func = func
        self.lines: list[str] = []
        self.indent = 1
        self.vars: dict[Var, Value | Array] = {}
        self.memo: dict[Hashable, Value] = {}
        self.uses: dict[int, int] = {}
        self.cleanups: list[str] = []
        self.loops: list[Loop] = []
        self.effects = 0
        self.lane: Value | None = None
        self.lane_count = 1
        self.returns: DataType | None = None
        self.data: set[Var] = set()
        self.wide: dict[Var, Value] = {}
        self.stack_left = 16 << 10
        self.span: Span | None = None
        self._names: dict[str, int] = {}

    # -- text --------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        """Add a line."""
        self.lines.append("    " * self.indent + text)

    @contextlib.contextmanager
    def block(self, head: str, tail: str = "}") -> Iterator[None]:
        """Add a block; what is known inside of it is forgotten behind it."""
        self.line(f"{head} {{" if head else "{")
        self.indent += 1
        known = self.memo
        self.memo = dict(known)
        yield
        self.memo = known
        self.indent -= 1
        self.line(tail)

    def capture(self) -> list[str]:
        """Take the lines away, to be put back by :meth:`restore`."""
        outer, self.lines = self.lines, []
        return outer

    def fresh(self, hint: str) -> str:
        """A name not given in this function before."""
        base = c_name(hint)
        while True:
            count = self._names.get(base, -1) + 1
            self._names[base] = count
            if not count:
                return base
            name = f"{base}_{count}"
            if name not in self._names:
                self._names[name] = 0
                return name

    # -- values ------------------------------------------------------------------------------------------------------

    def define(self, var: Var, value: Value | Array) -> None:
        """Say what a variable is from here on."""
        if var in self.vars:
            self.memo.clear()  # what was computed with the variable was computed with its other value
        self.vars[var] = value
        self.wide.pop(var, None)

    def lookup(self, var: Var, span: Span | None = None) -> Value | Array:
        """What a variable is. Raises LoweringError for one that is not in scope."""
        found = self.vars.get(var)
        if found is None:
            raise self.error(f"`{var.name}` is used where it is not defined", span, "run verify_well_formed first")
        return found

    def variable(self, hint: str, dtype: DataType, low: int | None = None, high: int | None = None) -> Value:
        """A value that is a new name; the caller declares it."""
        least, most = type_range(dtype)
        low, high = least if low is None else max(low, least), most if high is None else min(high, most)
        return Value(self.fresh(hint), kind_of(dtype), low=low, high=high)

    def spill(self, value: Value, dtype: DataType | None = None, hint: str = "t") -> Value:
        """The value in a constant of its own (of a type, or as an index); a name stays."""
        if value.is_name:
            return value
        ctype = value.kind.value if dtype is None else value_type(dtype)
        name = self.fresh(hint)
        space = "" if ctype.endswith("*") else " "
        self.line(f"{'' if ctype.endswith('*') else 'const '}{ctype}{space}{name} = {value.text};")
        kind = value.kind if dtype is None else kind_of(dtype)
        return Value(name, kind, low=value.low, high=value.high)

    # -- failure -----------------------------------------------------------------------------------------------------

    def error(self, message: str, span: object = None, help: str | None = None) -> LoweringError:
        """The error of something that C text is not made of, at a node or a span."""
        where = span if isinstance(span, Span) or span is None else getattr(span, "span", None)
        notes = [f"in function `{self.name}`"]
        return LoweringError(message, origin="codegen c", span=where or self.span, notes=notes, help=help)

    def leave(self, status: str, depth: int = 0) -> None:
        """Free what was allocated since ``depth`` and return."""
        self.unwind(depth)
        self.line(f"return {status};")

    def unwind(self, depth: int) -> None:
        """Free what was allocated since ``depth``, last first."""
        for name in reversed(self.cleanups[depth:]):
            self.line(f"free({name});")

    def recorded(self, value: Value, dtype: DataType) -> tuple[str, str]:
        """A scalar as the 64 bits of an error record, and how to read them."""
        if dtype.is_handle:
            return f"(int64_t)(intptr_t){value.inside(UNARY)}", "uint64"
        if dtype.is_float:
            return f"(int64_t){self.module.need('tir_bits_f64')}({value.text})", "float64"
        how = "bool" if dtype.is_bool else "int64" if dtype.is_int else "uint64"
        return (f"(int64_t){value.inside(UNARY)}" if value.kind is Kind.U64 else value.text), how

    def fail_if(
        self,
        condition: str,
        kind: type[Exception],
        template: str,
        shown: Sequence[tuple[Value, DataType]] = (),
        span: Span | None = None,
    ) -> None:
        """Fill the error record and return where a condition holds."""
        with self.block(f"if ({condition})"):
            self.fail(kind, template, shown, span)

    def fail(
        self, kind: type[Exception], template: str, shown: Sequence[tuple[Value, DataType]], span: Span | None = None
    ) -> None:
        """Fill the error record and return."""
        pairs = [self.recorded(value, dtype) for value, dtype in shown[:MAX_ERROR_VALUES]]
        code = self.module.errors.code(kind, template, tuple(how for _, how in pairs), span)
        self.line(f"err->code = {code};")
        self.line(f"err->nvals = {len(pairs)};")
        for position, (text, _) in enumerate(pairs):
            self.line(f"err->vals[{position}] = {text};")
        self.leave("1")
