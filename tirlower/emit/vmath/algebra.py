"""The notation in which the vector functions are written: formulas over lanes that emit LLVM IR.

A :class:`Formula` is one function being emitted for one element type, number of lanes and set of target features; a
:class:`V` is one of its values (all lanes), with Python's operators. Nothing here knows a mathematical function.

Every arithmetic instruction is emitted without fast-math flags, so that the exact steps of range reductions and
compensated sums stay exact whatever the options of the code around the call.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from tirlower.emit.llvm_text import (
    DOUBLE,
    FLOAT,
    I1,
    I8,
    I16,
    I32,
    I64,
    Attribute,
    Builder,
    FunctionRef,
    Module,
    Type,
    Value,
    const,
    const_array,
    const_vector,
    vector,
    zero,
)
from tirlower.emit.machine import FMA_FEATURES

__all__ = ["Formula", "V"]

_INT_OF: Final = {FLOAT: I32, DOUBLE: I64}
_FLOAT_OF: Final = {I32: FLOAT, I64: DOUBLE}


class V:
    """All lanes of one value of a kernel. Comparisons of floats are ordered (false for NaN) except ``ne``."""

    __slots__ = ("k", "value")

    def __init__(self, kernel: Formula, value: Value) -> None:
        self.k = kernel
        self.value = value

    @property
    def type(self) -> Type:
        """The LLVM type, vector or scalar."""
        return self.value.type

    def _peer(self, other: V | float) -> V:
        return other if isinstance(other, V) else V(self.k, const(self.type, other))

    def _binary(self, float_op: str, int_op: str, other: V | float, swap: bool = False) -> V:
        a, b = self, self._peer(other)
        if swap:
            a, b = b, a
        return self.k.instruction(float_op if self.type.is_float else int_op, a, b)

    def __add__(self, other: V | float) -> V:
        return self._binary("fadd", "add", other)

    __radd__ = __add__

    def __sub__(self, other: V | float) -> V:
        return self._binary("fsub", "sub", other)

    def __rsub__(self, other: float) -> V:
        return self._binary("fsub", "sub", other, swap=True)

    def __mul__(self, other: V | float) -> V:
        return self._binary("fmul", "mul", other)

    __rmul__ = __mul__

    def __truediv__(self, other: V | float) -> V:
        return self._binary("fdiv", "sdiv", other)

    def __rtruediv__(self, other: float) -> V:
        return self._binary("fdiv", "sdiv", other, swap=True)

    def __neg__(self) -> V:
        if self.type.is_float:
            return V(self.k, self.k.b.fneg(self.value))
        return 0 - self

    def __and__(self, other: V | int) -> V:
        return self._binary("", "and", other)

    def __or__(self, other: V | int) -> V:
        return self._binary("", "or", other)

    def __xor__(self, other: V | int) -> V:
        return self._binary("", "xor", other)

    def __invert__(self) -> V:
        return self ^ (1 if self.type.scalar == I1 else -1)

    def __lshift__(self, other: V | int) -> V:
        return self._binary("", "shl", other)

    def sar(self, other: V | int) -> V:
        """Shift right, keeping the sign."""
        return self._binary("", "ashr", other)

    def shr(self, other: V | int) -> V:
        """Shift right, filling with zeros."""
        return self._binary("", "lshr", other)

    def __lt__(self, other: V | float) -> V:
        return self.k.compare("olt", "slt", self, self._peer(other))

    def __le__(self, other: V | float) -> V:
        return self.k.compare("ole", "sle", self, self._peer(other))

    def __gt__(self, other: V | float) -> V:
        return self.k.compare("ogt", "sgt", self, self._peer(other))

    def __ge__(self, other: V | float) -> V:
        return self.k.compare("oge", "sge", self, self._peer(other))

    def eq(self, other: V | float) -> V:
        """Equal (so -0 and 0 are, and a NaN is not)."""
        return self.k.compare("oeq", "eq", self, self._peer(other))

    def ne(self, other: V | float) -> V:
        """Different, or one is NaN."""
        return self.k.compare("une", "ne", self, self._peer(other))

    def bits(self) -> V:
        """The floats' bit patterns as integers."""
        return self.k.cast("bitcast", self, _INT_OF[self.type.scalar])

    def as_float(self) -> V:
        """The integers taken as bit patterns of floats."""
        return self.k.cast("bitcast", self, _FLOAT_OF[self.type.scalar])

    def to_float(self) -> V:
        """Signed integers converted to floats of the same width."""
        return self.k.cast("sitofp", self, _FLOAT_OF[self.type.scalar])

    def to(self, scalar: Type) -> V:
        """Converted between float32 and float64, or between int32 and int64 (sign-extended)."""
        if scalar == self.type.scalar:
            return self
        up = scalar.bits > self.type.scalar.bits
        if self.type.is_float:
            return self.k.cast("fpext" if up else "fptrunc", self, scalar)
        return self.k.cast("sext" if up else "trunc", self, scalar)


class Formula:
    """One vector function while it is emitted.

    ``elem`` is ``FLOAT`` or ``DOUBLE``; ``lanes`` 1 makes scalars. ``fma_ok`` and ``avx512`` tell formulas which variant
    the target runs fast; all variants give results within the documented error. ``attrs`` are the attributes of functions
    that the kernel calls, ``fast`` is that of :func:`tirlower.emit.vmath.emit`.
    """

    def __init__(
        self,
        module: Module,
        builder: Builder,
        elem: Type,
        lanes: int,
        features: frozenset[str],
        attrs: Sequence[Attribute] = (),
        fast: bool = False,
    ) -> None:
        self.module = module
        self.b = builder
        self.elem = elem
        self.lanes = lanes
        self.features = features
        self.attrs = attrs
        self.fast = fast
        self.mantissa = 23 if elem == FLOAT else 52
        self.sign_bit = 31 if elem == FLOAT else 63
        self.bias = 127 if elem == FLOAT else 1023
        #: a sum with it is an integer, which stands in the low bits; those of the number itself are `round_bits`
        self.round = 1.5 * 2.0**self.mantissa
        self.round_bits = (self.bias + self.mantissa << self.mantissa) | 1 << (self.mantissa - 1)
        #: a quarter of the distance from 1 to the next number
        self.epsilon = 2.0 ** -(self.mantissa + 2)
        self.fma_ok = not FMA_FEATURES.isdisjoint(features)
        self.avx512 = "avx512f" in features
        #: whether subnormal results take a hundred cycles: those of GPUs take as long as others
        self.slow_subnormals = not module.triple.startswith("nvptx")

    @staticmethod
    def variant(features: frozenset[str]) -> str:
        """What of the features makes a difference, as the end of a function's name."""
        if "avx512f" in features:
            return ".avx512vl" if "avx512vl" in features else ".avx512"
        return "" if FMA_FEATURES.isdisjoint(features) else ".fma"

    # ---- constants and conversions

    def shape(self, scalar: Type) -> Type:
        """The type of a value of this kernel with the given element type."""
        return scalar if self.lanes == 1 else vector(scalar, self.lanes)

    def f(self, value: float) -> V:
        """A float constant of the kernel's element type in all lanes."""
        return V(self, const(self.shape(self.elem), value))

    def cast(self, op: str, a: V, scalar: Type) -> V:
        """A conversion instruction."""
        return V(self, self.b.cast(op, a.value, self.shape(scalar)))

    # ---- instructions

    def instruction(self, op: str, a: V, b: V) -> V:
        """A two-operand instruction."""
        return V(self, self.b.binary(op, a.value, b.value))

    def compare(self, float_pred: str, int_pred: str, a: V, b: V) -> V:
        """A comparison: a mask."""
        if a.type.is_float:
            return V(self, self.b.fcmp(float_pred, a.value, b.value))
        return V(self, self.b.icmp(int_pred, a.value, b.value))

    def select(self, mask: V, a: V | float, b: V | float) -> V:
        """``a`` where the mask is set, else ``b``; numbers are constants of the other operand's type."""
        if not isinstance(a, V):
            a = b._peer(a) if isinstance(b, V) else self.f(a)
        return V(self, self.b.select(mask.value, a.value, a._peer(b).value))

    def intrinsic(self, name: str, *args: V) -> V:
        """An LLVM intrinsic overloaded on its (single) operand type, ``llvm.<name>.<type>``."""
        type = args[0].type
        return V(self, self.b.intrinsic(f"llvm.{name}", type, [a.value for a in args], [type]))

    def below(self, a: V, bound: int) -> V:
        """``a < bound`` of unsigned integers."""
        return V(self, self.b.icmp("ult", a.value, a._peer(bound).value))

    def unordered(self, a: V, b: V) -> V:
        """Where at least one is NaN."""
        return self.compare("uno", "ne", a, b)

    def fma(self, a: V, b: V | float, c: V | float) -> V:
        """``a*b + c``: rounded once where the target has FMA, twice where it has not."""
        b, c = a._peer(b), a._peer(c)
        return self.intrinsic("fma", a, b, c) if self.fma_ok else a * b + c

    def horner(self, x: V, coefficients: Sequence[float]) -> V:
        """The polynomial with the given coefficients, constant term first."""
        result = V(self, const(x.type, coefficients[-1]))
        for c in reversed(coefficients[:-1]):
            result = self.fma(result, x, c)
        return result

    def estrin(self, x: V, coefficients: Sequence[float]) -> V:
        """The same polynomial by Estrin's scheme: a few products more, but about half as long a chain of them."""
        terms = [V(self, const(x.type, c)) for c in coefficients]
        while len(terms) > 1:
            pairs = [self.fma(terms[i + 1], x, terms[i]) for i in range(0, len(terms) - 1, 2)]
            terms = [*pairs, terms[-1]] if len(terms) % 2 else pairs
            if len(terms) > 1:
                x = x * x
        return terms[0]

    def abs(self, x: V) -> V:
        """``|x|``."""
        return self.intrinsic("fabs", x)

    def copysign(self, magnitude: V, sign: V) -> V:
        """The magnitude of one with the sign of the other."""
        return self.intrinsic("copysign", magnitude, sign)

    def sqrt(self, x: V) -> V:
        """The correctly rounded square root."""
        return self.intrinsic("sqrt", x)

    def minimum(self, x: V, bound: V | float) -> V:
        """The smaller; NaN in ``x`` stays."""
        return self.select(x > bound, bound, x)

    def maximum(self, x: V, bound: V | float) -> V:
        """The larger; NaN in ``x`` stays."""
        return self.select(x < bound, bound, x)

    def clamp(self, x: V, low: float, high: float) -> V:
        """``x`` within ``[low, high]``; NaN stays."""
        return self.minimum(self.maximum(x, low), high)

    # ---- powers of two

    def pow2(self, n: V) -> V:
        """``2**n`` for integers ``n`` in the range of normal numbers."""
        return ((n + self.bias) << self.mantissa).as_float()

    def exponent_to_float(self, bits: V) -> V:
        """The exponent field of a bit pattern as a signed number of floats (a sign bit belongs to it)."""
        if self.elem == FLOAT:
            return bits.sar(23).to_float()
        # Vectors of int64 are seldom converted or shifted with their sign by one instruction.
        field = (bits + (1 << 62)).shr(52)
        return (field | 0x4330000000000000).as_float() - (2.0**52 + 1024.0)

    def scale(self, x: V, n: V, n_float: V) -> V:
        """``x * 2**n`` rounded once, for ``|x|`` near 1 and any ``n`` that leads from 0 to infinity; NaN stays.

        ``n`` and ``n_float`` are the same integer in both formats. AVX-512 has an instruction for it; elsewhere two
        factors, each a normal number, of which only the second product can round.
        """
        if self.avx512:
            full = self.full_width(x, "scalef", n_float)
            if full is not None:
                return full
            small = n.to(I32)
            return V(self, self.b.intrinsic("llvm.ldexp", x.type, [x.value, small.value], [x.type, small.type]))
        half = n.sar(1)
        return x * self.pow2(half) * self.pow2(n - half)

    def has_full_width(self, scalar: Type) -> bool:
        """Whether :meth:`full_width` has instructions for this element type."""
        bits = scalar.bits * self.lanes
        return self.avx512 and (bits == 512 or ("avx512vl" in self.features and bits in (128, 256)))

    def full_width(self, x: V, op: str, *more: V, immediate: int | None = None) -> V | None:
        """An AVX-512 instruction without a portable intrinsic, or None where the lanes do not fill a register.

        ``op`` is ``scalef``, ``getexp`` or ``getmant`` (see Intel's manual).
        """
        scalar = x.type.scalar
        bits = scalar.bits * self.lanes
        if not self.has_full_width(scalar):
            return None
        mask = const(I16 if self.lanes == 16 else I8, -1)
        args = [x.value, *[m.value for m in more]]
        if immediate is not None:
            args.append(const(I32, immediate))
        args += [zero(x.type), mask]
        if bits == 512:
            args.append(const(I32, 4))  # round as the current mode says
        name = f"llvm.x86.avx512.mask.{op}.p{'s' if scalar == FLOAT else 'd'}.{bits}"
        return V(self, self.b.intrinsic(name, x.type, args))

    def reciprocal(self, x: V) -> V:
        """``1 / x`` to at least 13 bits, for ``|x|`` in [2**-100, 2**100]; NaN stays."""
        y = self._rough_reciprocal(x)
        return 1.0 / x if y is None else y

    def divide(self, a: V, b: V) -> V:
        """``a / b`` within 0.6 ulp, for ``|b|`` in [2**-100, 2**100] and a normal finite quotient; NaN stays."""
        y = self._rough_reciprocal(b)
        if y is None:
            return a / b
        q = a * y
        return self.fma(self.fma(-q, b, a), y, q)

    def _rough_reciprocal(self, x: V) -> V | None:
        """``1 / x`` to 17 bits, where divisions of whole registers are slow: those of 512 bits, in float32.

        Of one lane as of sixteen: AVX-512's own ``rcp14`` would give loops that LLVM vectorizes, or that leave some
        iterations over, other bits than vectors have. A line through the bits of a number is within 5 percent of its
        reciprocal; each step of Newton's squares the error.
        """
        if not self.avx512 or x.type.scalar != FLOAT:
            return None
        y = (-(x.bits()) + 0x7EF311C3).as_float()
        for _ in range(2):
            y = self.fma(self.fma(-x, y, 1.0), y, y)
        return y

    # ---- exact steps and tables

    def fused(self, a: V, b: V | float, c: V | float) -> V:
        """``a*b + c`` with an exact product on every target.

        Where there is no FMA, float32 goes through float64, and float64 to the C library's ``fma``.
        """
        b, c = a._peer(b), a._peer(c)
        if self.fma_ok or a.type.scalar == DOUBLE:
            return self.intrinsic("fma", a, b, c)
        return (a.to(DOUBLE) * b.to(DOUBLE) + c.to(DOUBLE)).to(FLOAT)

    def product(self, a: V, b: V) -> tuple[V, V]:
        """``a*b`` and what it lacks by its rounding: exact on every target, for factors below 2**990 in float64.

        Where float64 has no FMA: T. J. Dekker, "A floating-point technique for extending the available precision", 1971.
        """
        p = a * b
        if self.fma_ok or a.type.scalar == FLOAT:
            return p, self.fused(a, b, -p)

        def halves(x: V) -> tuple[V, V]:
            c = x * (2.0**27 + 1.0)
            high = c - (c - x)
            return high, x - high

        (a_high, a_low), (b_high, b_low) = halves(a), halves(b)
        return p, ((a_high * b_high - p) + a_high * b_low + a_low * b_high) + a_low * b_low

    def lookup(self, name: str, table: Sequence[float], index: V) -> V:
        """``table[index % 32]`` of 32 numbers of the kernel's type: permutations of registers on AVX-512, else loads."""
        if self.avx512 and self.lanes * self.elem.bits == 512:
            return V(self, self._permute(table, index.value))
        symbol = f"tirlower.vmath.{name}.{self.elem.mangled}"
        memory = self.module.symbol(symbol)
        if memory is None:
            entries = const_array([const(self.elem, x) for x in table])
            memory = self.module.global_constant(symbol, entries, align=64)
        pointers = self.b.gep(self.elem, memory, (index & (len(table) - 1)).value)
        size = self.elem.bits // 8
        if self.lanes == 1:
            return V(self, self.b.load(self.elem, pointers, align=size))
        t = self.shape(self.elem)
        args = [pointers, const(t.mask, 1), zero(t)]
        marks = {0: f"align {size}"}
        return V(self, self.b.intrinsic("llvm.masked.gather", t, args, [t, pointers.type], arg_attrs=marks))

    def _permute(self, table: Sequence[float], index: Value) -> Value:
        """The lookup for one register of indices."""
        row = self.lanes
        t = self.shape(self.elem)
        rows = [const_vector([const(self.elem, x) for x in table[i : i + row]]) for i in range(0, 32, row)]
        name = f"llvm.x86.avx512.vpermi2var.p{'s' if self.elem == FLOAT else 'd'}.512"
        low = self.b.intrinsic(name, t, [rows[0], index, rows[1]])
        if len(rows) == 2:
            return low
        high = self.b.intrinsic(name, t, [rows[2], index, rows[3]])
        upper = self.b.and_(index, const(index.type, 16))
        return self.b.select(self.b.icmp("ne", upper, zero(index.type)), high, low)

    # ---- control

    def any(self, mask: V) -> Value:
        """Whether a lane of the mask is set: one ``i1``."""
        if self.lanes == 1:
            return mask.value
        return self.b.intrinsic("llvm.vector.reduce.or", I1, [mask.value], [mask.type])

    def outlined(self, name: str, formula: Body, *args: V) -> V:
        """A call of a formula as a cold function of its own, made once a module."""
        result = args[0].type
        symbol = f"tirlower.vmath.{name}.{result.mangled}{self.variant(self.features)}"
        callee = self.module.symbol(symbol)
        if not isinstance(callee, FunctionRef):
            params = [(a.type, "x") for a in args]
            attrs = ["noinline", "cold", "nounwind", "willreturn", "memory(none)", *self.attrs]
            f = self.module.function(symbol, result, params, linkage="internal", attrs=attrs)
            inner = Formula(
                self.module,
                Builder(f, f.block("entry")),
                self.elem,
                self.lanes,
                self.features,
                self.attrs,
                self.fast,
            )
            inner.b.ret(formula(inner, *[V(inner, a) for a in f.args]).value)
            callee = f.ref
        return V(self, self.b.call(callee, [a.value for a in args]))

    def rarely(self, mask: V, values: Sequence[V], repair: Callable[[], Sequence[V]]) -> list[V]:
        """``values``, but ``repair()``'s in the lanes of ``mask``; a branch skips the repair when no lane needs it."""
        b = self.b
        before, cold, join = b.block, b.function.block("cold"), b.function.block("join")
        b.cond_br(self.any(mask), cold, join, likely=False)
        b.position_at_end(cold)
        repaired = [self.select(mask, new, old) for new, old in zip(repair(), values, strict=True)]
        end = b.block
        b.br(join)
        b.position_at_end(join)
        return [
            V(self, b.phi(old.type, incoming=[(old.value, before), (new.value, end)]))
            for old, new in zip(values, repaired, strict=True)
        ]


Body = Callable[[Formula, V], V] | Callable[[Formula, V, V], V]
"""What a function of one or of two values computes."""
