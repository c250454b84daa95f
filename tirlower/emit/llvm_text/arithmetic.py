"""Instructions that compute: integer and float arithmetic, comparisons, conversions."""

from __future__ import annotations

from typing import Final

from tirlower.emit.llvm_text.constants import Value, const
from tirlower.emit.llvm_text.cursor import Cursor, FastMath, mismatch
from tirlower.emit.llvm_text.types import I64, PTR, Type

__all__ = ["Arithmetic"]

#: opcodes with their no-wrap flags, by (opcode, nsw, nuw)
_WRAP: Final = {
    (op, nsw, nuw): f"{op}{' nuw' if nuw else ''}{' nsw' if nsw else ''}"
    for op in ("add", "sub", "mul", "shl", "trunc")
    for nsw in (False, True)
    for nuw in (False, True)
}


class Arithmetic(Cursor):
    """The part of a builder that computes on scalars and vectors."""

    # -- arithmetic --------------------------------------------------------------------------------------------------

    def binary(self, op: str, a: Value, b: Value, name: str = "") -> Value:
        """``op a, b`` with an opcode that may carry its flags (``"add nsw"``, ``"fadd contract"``)."""
        t = a.type
        if b.type is not t and b.type != t:
            raise mismatch(op, a, b)
        text = self._name(name)
        self._emit(f"  {text} = {op} {t.text} {a.text}, {b.text}")
        return Value(t, text)

    def _float(self, op: str, a: Value, b: Value, name: str, fast_math: FastMath | None) -> Value:
        t = a.type
        if b.type is not t and b.type != t:
            raise mismatch(op, a, b)
        text = self._name(name)
        fm = self._fm if fast_math is None else fast_math.words
        self._emit(f"  {text} = {op} {fm}{t.text} {a.text}, {b.text}")
        return Value(t, text)

    def add(self, a: Value, b: Value, name: str = "", *, nsw: bool = False, nuw: bool = False) -> Value:
        """Integer sum; ``nsw``/``nuw`` promise that it does not wrap as signed/unsigned."""
        return self.binary(_WRAP["add", nsw, nuw], a, b, name)

    def sub(self, a: Value, b: Value, name: str = "", *, nsw: bool = False, nuw: bool = False) -> Value:
        """Integer difference."""
        return self.binary(_WRAP["sub", nsw, nuw], a, b, name)

    def mul(self, a: Value, b: Value, name: str = "", *, nsw: bool = False, nuw: bool = False) -> Value:
        """Integer product."""
        return self.binary(_WRAP["mul", nsw, nuw], a, b, name)

    def shl(self, a: Value, b: Value, name: str = "", *, nsw: bool = False, nuw: bool = False) -> Value:
        """Left shift; by as many bits as the type has, or more, it is poison."""
        return self.binary(_WRAP["shl", nsw, nuw], a, b, name)

    def sdiv(self, a: Value, b: Value, name: str = "", *, exact: bool = False) -> Value:
        """Signed quotient, truncated towards zero; by zero it is undefined behaviour."""
        return self.binary("sdiv exact" if exact else "sdiv", a, b, name)

    def udiv(self, a: Value, b: Value, name: str = "", *, exact: bool = False) -> Value:
        """Unsigned quotient."""
        return self.binary("udiv exact" if exact else "udiv", a, b, name)

    def srem(self, a: Value, b: Value, name: str = "") -> Value:
        """Signed remainder, of the sign of ``a``."""
        return self.binary("srem", a, b, name)

    def urem(self, a: Value, b: Value, name: str = "") -> Value:
        """Unsigned remainder."""
        return self.binary("urem", a, b, name)

    def ashr(self, a: Value, b: Value, name: str = "", *, exact: bool = False) -> Value:
        """Right shift that copies the sign."""
        return self.binary("ashr exact" if exact else "ashr", a, b, name)

    def lshr(self, a: Value, b: Value, name: str = "", *, exact: bool = False) -> Value:
        """Right shift that brings in zeros."""
        return self.binary("lshr exact" if exact else "lshr", a, b, name)

    def and_(self, a: Value, b: Value, name: str = "") -> Value:
        """Bitwise and."""
        return self.binary("and", a, b, name)

    def or_(self, a: Value, b: Value, name: str = "", *, disjoint: bool = False) -> Value:
        """Bitwise or; ``disjoint`` promises that no bit is set in both."""
        return self.binary("or disjoint" if disjoint else "or", a, b, name)

    def xor(self, a: Value, b: Value, name: str = "") -> Value:
        """Bitwise exclusive or."""
        return self.binary("xor", a, b, name)

    def not_(self, a: Value, name: str = "") -> Value:
        """Bitwise complement (logical, for ``i1``)."""
        return self.binary("xor", a, const(a.type, -1 if a.type.scalar.bits > 1 else 1), name)

    def neg(self, a: Value, name: str = "", *, nsw: bool = False) -> Value:
        """Integer negation."""
        return self.sub(const(a.type, 0), a, name, nsw=nsw)

    def fadd(self, a: Value, b: Value, name: str = "", fast_math: FastMath | None = None) -> Value:
        """Floating-point sum."""
        return self._float("fadd", a, b, name, fast_math)

    def fsub(self, a: Value, b: Value, name: str = "", fast_math: FastMath | None = None) -> Value:
        """Floating-point difference."""
        return self._float("fsub", a, b, name, fast_math)

    def fmul(self, a: Value, b: Value, name: str = "", fast_math: FastMath | None = None) -> Value:
        """Floating-point product."""
        return self._float("fmul", a, b, name, fast_math)

    def fdiv(self, a: Value, b: Value, name: str = "", fast_math: FastMath | None = None) -> Value:
        """Floating-point quotient."""
        return self._float("fdiv", a, b, name, fast_math)

    def frem(self, a: Value, b: Value, name: str = "", fast_math: FastMath | None = None) -> Value:
        """Floating-point remainder, of the sign of ``a`` (C's fmod)."""
        return self._float("frem", a, b, name, fast_math)

    def fneg(self, a: Value, name: str = "", fast_math: FastMath | None = None) -> Value:
        """Negation: flips the sign bit, of a NaN too."""
        text = self._name(name)
        self._emit(f"  {text} = fneg {self._fm if fast_math is None else fast_math.words}{a.type.text} {a.text}")
        return Value(a.type, text)

    # -- comparison and choice ---------------------------------------------------------------------------------------

    def icmp(self, predicate: str, a: Value, b: Value, name: str = "") -> Value:
        """Integer or pointer comparison: ``eq ne slt sle sgt sge ult ule ugt uge``."""
        t = a.type
        if b.type is not t and b.type != t:
            raise mismatch("icmp", a, b)
        text = self._name(name)
        self._emit(f"  {text} = icmp {predicate} {t.text} {a.text}, {b.text}")
        return Value(t.mask, text)

    def fcmp(self, predicate: str, a: Value, b: Value, name: str = "", fast_math: FastMath | None = None) -> Value:
        """Floating-point comparison: for a NaN, ``o..`` is false and ``u..`` true; also ``ord``, ``uno``."""
        t = a.type
        if b.type is not t and b.type != t:
            raise mismatch("fcmp", a, b)
        text = self._name(name)
        fm = self._fm if fast_math is None else fast_math.words
        self._emit(f"  {text} = fcmp {fm}{predicate} {t.text} {a.text}, {b.text}")
        return Value(t.mask, text)

    def select(self, cond: Value, a: Value, b: Value, name: str = "", fast_math: FastMath | None = None) -> Value:
        """``a`` where ``cond``, else ``b``; a vector condition chooses lane by lane."""
        t = a.type
        if b.type is not t and b.type != t:
            raise mismatch("select", a, b)
        text = self._name(name)
        fm = ""
        if t.is_float:
            fm = self._fm if fast_math is None else fast_math.words
        self._emit(f"  {text} = select {fm}{cond.type.text} {cond.text}, {t.text} {a.text}, {t.text} {b.text}")
        return Value(t, text)

    def freeze(self, a: Value, name: str = "") -> Value:
        """``a``, or some fixed value if it is undef or poison."""
        text = self._name(name)
        self._emit(f"  {text} = freeze {a.type.text} {a.text}")
        return Value(a.type, text)

    # -- conversions -------------------------------------------------------------------------------------------------

    def cast(self, op: str, a: Value, to: Type, name: str = "") -> Value:
        """``op a to type`` with any of LLVM's conversions, flags included (``"zext nneg"``)."""
        text = self._name(name)
        self._emit(f"  {text} = {op} {a.type.text} {a.text} to {to.text}")
        return Value(to, text)

    def trunc(self, a: Value, to: Type, name: str = "", *, nsw: bool = False, nuw: bool = False) -> Value:
        """Keep the low bits."""
        return self.cast(_WRAP["trunc", nsw, nuw], a, to, name)

    def zext(self, a: Value, to: Type, name: str = "", *, nneg: bool = False) -> Value:
        """Widen an unsigned integer; ``nneg`` promises that it is also right as a signed one."""
        return self.cast("zext nneg" if nneg else "zext", a, to, name)

    def sext(self, a: Value, to: Type, name: str = "") -> Value:
        """Widen a signed integer."""
        return self.cast("sext", a, to, name)

    def fptrunc(self, a: Value, to: Type, name: str = "") -> Value:
        """Round to a narrower float."""
        return self.cast("fptrunc", a, to, name)

    def fpext(self, a: Value, to: Type, name: str = "") -> Value:
        """Widen a float, exactly."""
        return self.cast("fpext", a, to, name)

    def fptosi(self, a: Value, to: Type, name: str = "") -> Value:
        """Truncate to a signed integer; out of range it is poison (see ``llvm.fptosi.sat``)."""
        return self.cast("fptosi", a, to, name)

    def fptoui(self, a: Value, to: Type, name: str = "") -> Value:
        """Truncate to an unsigned integer; out of range it is poison."""
        return self.cast("fptoui", a, to, name)

    def sitofp(self, a: Value, to: Type, name: str = "") -> Value:
        """The nearest float to a signed integer."""
        return self.cast("sitofp", a, to, name)

    def uitofp(self, a: Value, to: Type, name: str = "", *, nneg: bool = False) -> Value:
        """The nearest float to an unsigned integer."""
        return self.cast("uitofp nneg" if nneg else "uitofp", a, to, name)

    def ptrtoint(self, a: Value, to: Type = I64, name: str = "") -> Value:
        """The address."""
        return self.cast("ptrtoint", a, to, name)

    def inttoptr(self, a: Value, to: Type = PTR, name: str = "") -> Value:
        """The pointer of an address."""
        return self.cast("inttoptr", a, to, name)

    def bitcast(self, a: Value, to: Type, name: str = "") -> Value:
        """The same bits as another type of the same size; nothing is emitted for the same type."""
        return a if a.type == to else self.cast("bitcast", a, to, name)

    def addrspacecast(self, a: Value, to: Type, name: str = "") -> Value:
        """The pointer in another address space; nothing is emitted for the same type."""
        return a if a.type == to else self.cast("addrspacecast", a, to, name)
