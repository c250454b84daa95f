"""Instructions that touch memory, vectors lanes and aggregates."""

from __future__ import annotations

from collections.abc import Sequence

from tirlower.emit.llvm_text.constants import Value, poison
from tirlower.emit.llvm_text.cursor import Cursor, mismatch
from tirlower.emit.llvm_text.metadata import NO_ATTACHMENTS, Attachments
from tirlower.emit.llvm_text.types import I1, I8, I32, PTR, Type, ptr, struct, vector

__all__ = ["Memory"]


class Memory(Cursor):
    """The part of a builder that loads, stores, addresses, and takes vectors and aggregates apart."""

    # -- memory ------------------------------------------------------------------------------------------------------

    def load(
        self,
        type: Type,
        pointer: Value,
        align: int | None = None,
        name: str = "",
        *,
        volatile: bool = False,
        nontemporal: bool = False,
        invariant: bool = False,
        ordering: str = "",
        syncscope: str = "",
        md: Attachments = NO_ATTACHMENTS,
    ) -> Value:
        """Load; ``align`` in bytes (natural where left out), ``ordering`` makes it atomic."""
        text = self._name(name)
        tail = _access_tail(align, ordering, syncscope) + md.text
        if nontemporal or invariant:
            tail += self._hints(nontemporal, invariant)
        head = "load atomic" if ordering else "load"
        if volatile:
            head += " volatile"
        self._emit(f"  {text} = {head} {type.text}, {pointer.type.text} {pointer.text}{tail}")
        return Value(type, text)

    def store(
        self,
        value: Value,
        pointer: Value,
        align: int | None = None,
        *,
        volatile: bool = False,
        nontemporal: bool = False,
        ordering: str = "",
        syncscope: str = "",
        md: Attachments = NO_ATTACHMENTS,
    ) -> None:
        """Store. ``nontemporal`` bypasses the caches, for vectors aligned to their size."""
        tail = _access_tail(align, ordering, syncscope) + md.text
        if nontemporal:
            tail += self._hints(True, False)
        head = "store atomic" if ordering else "store"
        if volatile:
            head += " volatile"
        self._emit(f"  {head} {value.type.text} {value.text}, {pointer.type.text} {pointer.text}{tail}")

    def _hints(self, nontemporal: bool, invariant: bool) -> str:
        out = f", !nontemporal {self.module.metadata(Value(I32, '1'))}" if nontemporal else ""
        return out + (f", !invariant.load {self.module.metadata()}" if invariant else "")

    def atomicrmw(
        self,
        op: str,
        pointer: Value,
        value: Value,
        ordering: str = "monotonic",
        name: str = "",
        *,
        align: int | None = None,
        syncscope: str = "",
        volatile: bool = False,
        md: Attachments = NO_ATTACHMENTS,
    ) -> Value:
        """Atomically replace the memory by ``op`` of it and the value (``add``, ``fadd``, ``umax``, ``xchg``, ...).

        Gives the old value.
        """
        text = self._name(name)
        head = "atomicrmw volatile" if volatile else "atomicrmw"
        tail = _access_tail(align, ordering, syncscope) + md.text
        self._emit(f"  {text} = {head} {op} {pointer.type.text} {pointer.text}, {value.type.text} {value.text}{tail}")
        return Value(value.type, text)

    def cmpxchg(
        self,
        pointer: Value,
        expected: Value,
        new: Value,
        success: str = "seq_cst",
        failure: str = "seq_cst",
        name: str = "",
        *,
        weak: bool = False,
        align: int | None = None,
        syncscope: str = "",
    ) -> Value:
        """Compare and exchange; gives the struct ``{old value, i1 done}``."""
        if new.type != expected.type:
            raise mismatch("cmpxchg", expected, new)
        text = self._name(name)
        t = new.type.text
        tail = _access_tail(align, f"{success} {failure}", syncscope)
        self._emit(
            f"  {text} = cmpxchg{' weak' if weak else ''} {pointer.type.text} {pointer.text}, "
            f"{t} {expected.text}, {t} {new.text}{tail}"
        )
        return Value(struct(new.type, I1), text)

    def fence(self, ordering: str = "seq_cst", syncscope: str = "") -> None:
        """A memory fence."""
        self._emit(f"  fence{_scope(syncscope)} {ordering}")

    def gep(
        self,
        elem: Type,
        pointer: Value,
        *indices: Value | int,
        name: str = "",
        inbounds: bool = True,
        nuw: bool = False,
    ) -> Value:
        """The address ``indices`` into an object of type ``elem``; a vector of indices gives a vector of pointers."""
        text = self._name(name)
        t = pointer.type
        inside: list[str] = []
        for index in indices:
            if isinstance(index, int):
                inside.append(f"i32 {index}" if -(1 << 31) <= index < 1 << 31 else f"i64 {index}")
            else:
                inside.append(f"{index.type.text} {index.text}")
                if index.type.kind == "vector" and t.kind != "vector":
                    t = index.type.with_scalar(t)
        flags = ("inbounds " if inbounds else "") + ("nuw " if nuw else "")
        self._emit(
            f"  {text} = getelementptr {flags}{elem.text}, {pointer.type.text} {pointer.text}, {', '.join(inside)}"
        )
        return Value(t, text)

    def offset(self, pointer: Value, nbytes: Value | int, name: str = "") -> Value:
        """The address some bytes further, in the same object."""
        return self.gep(I8, pointer, nbytes, name=name)

    def alloca(
        self,
        type: Type,
        count: Value | int | None = None,
        align: int | None = None,
        name: str = "slot",
        *,
        addrspace: int = 0,
    ) -> Value:
        """Stack memory of the function's frame.

        With a fixed (or no) ``count`` it is placed at the start of the entry block, wherever the builder stands, so
        that a loop does not grow the stack; a ``count`` known only at run time allocates on the spot.
        """
        text = self._name(name)
        tail = f", align {align}" if align else ""
        tail += f", addrspace({addrspace})" if addrspace else ""
        if isinstance(count, Value):
            self._emit(f"  {text} = alloca {type.text}, {count}{tail}")
        else:
            many = f", i64 {count}" if count is not None else ""
            self.function.prologue.append(f"  {text} = alloca {type.text}{many}{tail}")
        return Value(ptr(addrspace) if addrspace else PTR, text)

    # -- vectors and aggregates --------------------------------------------------------------------------------------

    def extract_element(self, vec: Value, lane: Value | int, name: str = "") -> Value:
        """One lane of a vector."""
        text = self._name(name)
        index = f"i32 {lane}" if isinstance(lane, int) else str(lane)
        self._emit(f"  {text} = extractelement {vec.type.text} {vec.text}, {index}")
        return Value(vec.type.scalar, text)

    def insert_element(self, vec: Value, value: Value, lane: Value | int, name: str = "") -> Value:
        """The vector with one lane replaced."""
        if value.type != vec.type.elem:
            raise TypeError(f"cannot insert `{value}` into {vec.type}")
        text = self._name(name)
        index = f"i32 {lane}" if isinstance(lane, int) else str(lane)
        self._emit(f"  {text} = insertelement {vec.type.text} {vec.text}, {value.type.text} {value.text}, {index}")
        return Value(vec.type, text)

    def shuffle(self, a: Value, b: Value | None, mask: Sequence[int], name: str = "") -> Value:
        """The lanes ``mask`` of ``a`` followed by ``b`` (poison where ``None``); -1 leaves a lane unspecified."""
        other = b if b is not None else poison(a.type)
        if other.type != a.type:
            raise mismatch("shufflevector", a, other)
        n = len(mask)
        if mask and min(mask) == 0 == max(mask):
            lanes = "zeroinitializer"
        else:
            lanes = f"<{', '.join([f'i32 {i}' if i >= 0 else 'i32 poison' for i in mask])}>"
        text = self._name(name)
        t = a.type.text
        self._emit(f"  {text} = shufflevector {t} {a.text}, {t} {other.text}, <{n} x i32> {lanes}")
        return Value(vector(a.type.scalar, n), text)

    def splat(self, value: Value, lanes: int, name: str = "", *, scalable: bool = False) -> Value:
        """The scalar in every lane; a constant stays a constant."""
        t = vector(value.type, lanes, scalable)
        if value.is_constant and value.text[0] != "@" and value.type.kind in ("int", "float"):
            return Value(t, f"splat ({value})")
        first = self._name(name)
        self._emit(f"  {first} = insertelement {t.text} poison, {value.type.text} {value.text}, i64 0")
        text = self._name(name)
        mask = f"<{'vscale x ' if scalable else ''}{lanes} x i32> zeroinitializer"
        self._emit(f"  {text} = shufflevector {t.text} {first}, {t.text} poison, {mask}")
        return Value(t, text)

    def extract_value(self, aggregate: Value, *path: int, name: str = "") -> Value:
        """A field of a struct or array value."""
        t = _member(aggregate.type, path)
        text = self._name(name)
        self._emit(f"  {text} = extractvalue {aggregate}, {', '.join(map(str, path))}")
        return Value(t, text)

    def insert_value(self, aggregate: Value, value: Value, *path: int, name: str = "") -> Value:
        """The struct or array value with a field replaced."""
        t = _member(aggregate.type, path)
        if value.type != t:
            raise TypeError(f"cannot insert `{value}` at {path} of {aggregate.type}, which is {t}")
        text = self._name(name)
        self._emit(f"  {text} = insertvalue {aggregate}, {value}, {', '.join(map(str, path))}")
        return Value(aggregate.type, text)


def _scope(syncscope: str) -> str:
    return f' syncscope("{syncscope}")' if syncscope else ""


def _access_tail(align: int | None, ordering: str, syncscope: str) -> str:
    tail = f"{_scope(syncscope)} {ordering}" if ordering else ""
    return f"{tail}, align {align}" if align is not None else tail


def _member(t: Type, path: Sequence[int]) -> Type:
    for index in path:
        if t.kind == "struct" and 0 <= index < len(t.fields):
            t = t.fields[index]
        elif t.kind == "array" and t.elem is not None and 0 <= index < t.lanes:
            t = t.elem
        else:
            raise TypeError(f"{t} has no member {index}")
    return t
