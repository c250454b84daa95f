"""The instruction builder: one method an instruction, each appending one line to the current block.

Operands are checked for equal types where LLVM demands it, so that a mistake of a code generator is a ``TypeError`` at
the place where it was made. Results get fresh names, with the ``name`` given as a hint.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from tirlower.emit.llvm_text.arithmetic import Arithmetic
from tirlower.emit.llvm_text.constants import Value, const
from tirlower.emit.llvm_text.cursor import FastMath, mismatch
from tirlower.emit.llvm_text.memory import Memory
from tirlower.emit.llvm_text.metadata import NO_ATTACHMENTS, Attachments, Metadata
from tirlower.emit.llvm_text.module import Attribute, Block, Function, FunctionRef, Phi
from tirlower.emit.llvm_text.types import I1, I64, VOID, Type

__all__ = ["Builder"]


class Builder(Arithmetic, Memory):
    """Appends instructions to a block of a function: ``b = Builder(f, f.block("entry"))``.

    ``fast_math`` holds for every floating-point instruction that is not given its own.
    """

    # -- calls -------------------------------------------------------------------------------------------------------

    def call(
        self,
        callee: FunctionRef | Function,
        args: Sequence[Value] = (),
        name: str = "",
        *,
        tail: str = "",
        attrs: Iterable[Attribute] = (),
        arg_attrs: Mapping[int, str] | None = None,
        fast_math: FastMath | None = None,
        md: Attachments = NO_ATTACHMENTS,
    ) -> Value:
        """Call a function of known signature. ``tail`` is ``"tail"``, ``"musttail"`` or ``"notail"``.

        Raises:
            TypeError: the arguments do not fit the signature.
        """
        ref = callee.ref if isinstance(callee, Function) else callee
        given = [a.type for a in args]
        if given[: len(ref.params)] != list(ref.params) or (len(given) != len(ref.params) and not ref.vararg):
            raise TypeError(f"{ref.text} is {ref.signature}, and was given ({', '.join(map(str, given))})")
        callee_text = f"{ref.signature if ref.vararg else ref.ret.text} {ref.text}"
        return self._call(callee_text, ref.ret, args, name, tail, ref.callconv, attrs, arg_attrs, fast_math, "", md)

    def call_pointer(
        self,
        pointer: Value,
        ret: Type,
        args: Sequence[Value] = (),
        name: str = "",
        *,
        tail: str = "",
        callconv: str = "",
        attrs: Iterable[Attribute] = (),
        arg_attrs: Mapping[int, str] | None = None,
        md: Attachments = NO_ATTACHMENTS,
    ) -> Value:
        """Call a function pointer as returning ``ret`` and taking the types of the arguments."""
        callee = f"{ret.text} {pointer.text}"
        return self._call(callee, ret, args, name, tail, callconv, attrs, arg_attrs, FastMath.NONE, "", md)

    def intrinsic(
        self,
        stem: str,
        ret: Type,
        args: Sequence[Value] = (),
        overloads: Sequence[Type] = (),
        name: str = "",
        *,
        attrs: Iterable[Attribute] = (),
        arg_attrs: Mapping[int, str] | None = None,
        fast_math: FastMath | None = None,
        bundles: Sequence[tuple[str, Sequence[Value]]] = (),
        md: Attachments = NO_ATTACHMENTS,
    ) -> Value:
        """Call an intrinsic by its name without the type suffixes, ``intrinsic("llvm.fma", T, [a, b, c], [T])``."""
        callee = f"{ret.text} @{'.'.join([stem, *[t.mangled for t in overloads]])}"
        operands = ""
        if bundles:
            inside = [f'"{tag}"({", ".join(map(str, values))})' for tag, values in bundles]
            operands = f" [ {', '.join(inside)} ]"
        return self._call(callee, ret, args, name, "", "", attrs, arg_attrs, fast_math, operands, md)

    def call_asm(
        self,
        assembly: str,
        constraints: str,
        ret: Type = VOID,
        args: Sequence[Value] = (),
        name: str = "",
        *,
        side_effect: bool = True,
        align_stack: bool = False,
        intel: bool = False,
        attrs: Iterable[Attribute] = (),
    ) -> Value:
        """Inline assembly (LLVM's constraint language)."""
        flags = f"{'sideeffect ' if side_effect else ''}{'alignstack ' if align_stack else ''}"
        flags += "inteldialect " if intel else ""
        callee = f"{ret.text} asm {flags}{_asm_string(assembly)}, {_asm_string(constraints)}"
        return self._call(callee, ret, args, name, "", "", attrs, None, FastMath.NONE, "", NO_ATTACHMENTS)

    def _call(
        self,
        callee: str,
        ret: Type,
        args: Sequence[Value],
        name: str,
        tail: str,
        callconv: str,
        attrs: Iterable[Attribute],
        arg_attrs: Mapping[int, str] | None,
        fast_math: FastMath | None,
        operands: str,
        md: Attachments,
    ) -> Value:
        if arg_attrs:
            inside = [
                f"{a.type.text} {arg_attrs[i]} {a.text}" if i in arg_attrs else f"{a.type.text} {a.text}"
                for i, a in enumerate(args)
            ]
        else:
            inside = [f"{a.type.text} {a.text}" for a in args]
        fm = ""
        if ret.is_float:
            fm = self._fm if fast_math is None else fast_math.words
        group = self.module.attribute_group(*attrs)
        end = (f" {group}" if group else "") + operands + md.text
        head = f"{tail + ' ' if tail else ''}call {fm}{callconv + ' ' if callconv else ''}"
        body = f"{head}{callee}({', '.join(inside)}){end}"
        if ret.kind == "void":
            self._emit(f"  {body}")
            return Value(VOID, "void")
        text = self._name(name)
        self._emit(f"  {text} = {body}")
        return Value(ret, text)

    def assume(self, cond: Value) -> None:
        """Promise that ``cond`` holds."""
        self.intrinsic("llvm.assume", VOID, [cond])

    def assume_aligned(self, pointer: Value, nbytes: int) -> None:
        """Promise that the address is a multiple of ``nbytes``."""
        true = Value(I1, "true")
        self.intrinsic("llvm.assume", VOID, [true], bundles=[("align", [pointer, Value(I64, str(nbytes))])])

    # -- control flow ------------------------------------------------------------------------------------------------

    def _terminate(self, line: str) -> None:
        self._emit(line)
        self._close()

    def br(self, target: Block, md: Attachments = NO_ATTACHMENTS) -> None:
        """Jump."""
        self._terminate(f"  br label {target.ref}{md.text}")

    def cond_br(
        self,
        cond: Value,
        then: Block,
        otherwise: Block,
        *,
        likely: bool | None = None,
        odds: int = 2000,
        unpredictable: bool = False,
        md: Attachments = NO_ATTACHMENTS,
    ) -> None:
        """Jump to ``then`` where ``cond``, else to ``otherwise``.

        ``likely`` says which is usual, so many times (``odds``) for once the other; ``unpredictable`` that neither is.
        """
        if cond.type.text != "i1":
            raise TypeError(f"a branch needs an i1, got `{cond}`")
        tail = md.text
        if likely is not None:
            tail += f", !prof {self.module.branch_weights(*((odds, 1) if likely else (1, odds)))}"
        if unpredictable:
            tail += f", !unpredictable {self.module.metadata()}"
        self._terminate(f"  br i1 {cond.text}, label {then.ref}, label {otherwise.ref}{tail}")

    def switch(self, value: Value, default: Block, cases: Iterable[tuple[int, Block]]) -> None:
        """Jump by the value of an integer."""
        inside = " ".join([f"{const(value.type, n)}, label {block.ref}" for n, block in cases])
        self._terminate(f"  switch {value.type.text} {value.text}, label {default.ref} [ {inside} ]")

    def ret(self, value: Value | None = None) -> None:
        """Return."""
        self._terminate("  ret void" if value is None or value.type.kind == "void" else f"  ret {value}")

    def unreachable(self) -> None:
        """Control cannot come here."""
        self._terminate("  unreachable")

    def phi(self, type: Type, name: str = "", incoming: Iterable[tuple[Value, Block]] = ()) -> Phi:
        """A phi of the current block; more incoming values may be added later."""
        node = Phi(type, self._name(name))
        self.block.phis.append(node)
        for value, block in incoming:
            node.add(value, block)
        return node

    @contextmanager
    def for_range(
        self,
        low: Value,
        high: Value,
        step: Value | int = 1,
        name: str = "i",
        *,
        nonempty: bool = False,
        unsigned: bool = False,
        loop: Metadata | None = None,
    ) -> Iterator[Phi]:
        """``for i in range(low, high, step)``: the body of the ``with`` is the body of the loop.

        The test is at the bottom, behind a first test that is left out where the loop is known to be ``nonempty``.
        ``step`` is positive and ``high + step`` may not overflow. ``loop`` is a node of ``loop_metadata``.
        """
        if high.type != low.type:
            raise mismatch("for_range", low, high)
        by = const(low.type, step) if isinstance(step, int) else step
        less = "ult" if unsigned else "slt"
        body = self.function.new_block(f"{name}.body" if name else "body")
        after = self.function.new_block(f"{name}.end" if name else "end")
        before = self.block
        if nonempty:
            self.br(body)
        else:
            self.cond_br(self.icmp(less, low, high), body, after)
        self.position_at_end(self.function.place(body))
        index = self.phi(low.type, name, [(low, before)])
        yield index
        if not self.terminated:
            following = self.add(index, by, name, nsw=not unsigned, nuw=unsigned)
            index.add(following, self.block)
            md = NO_ATTACHMENTS if loop is None else Attachments({"llvm.loop": loop})
            self.cond_br(self.icmp(less, following, high), body, after, md=md)
        self.position_at_end(self.function.place(after))

    @contextmanager
    def if_then(self, cond: Value, likely: bool | None = None, name: str = "if") -> Iterator[None]:
        """``if cond:`` the body of the ``with``."""
        then = self.function.new_block(f"{name}.then")
        after = self.function.new_block(f"{name}.end")
        self.cond_br(cond, then, after, likely=likely)
        self.position_at_end(self.function.place(then))
        yield
        if not self.terminated:
            self.br(after)
        self.position_at_end(self.function.place(after))

    @contextmanager
    def if_else(self, cond: Value, likely: bool | None = None, name: str = "if") -> Iterator[tuple[_Arm, _Arm]]:
        """``with b.if_else(cond) as (then, otherwise):`` then ``with then: ...`` and ``with otherwise: ...``."""
        first = self.function.new_block(f"{name}.then")
        second = self.function.new_block(f"{name}.else")
        after = self.function.new_block(f"{name}.end")
        self.cond_br(cond, first, second, likely=likely)
        arms = _Arm(self, first, after), _Arm(self, second, after)
        yield arms
        for arm in arms:
            if not arm.entered:
                with arm:
                    pass
        self.position_at_end(self.function.place(after))


class _Arm:
    """One side of an ``if_else``. ``end`` is its last block, for a phi behind the two."""

    def __init__(self, builder: Builder, block: Block, after: Block) -> None:
        self._builder, self._block, self._after = builder, block, after
        self.entered = False
        self.end = block

    def __enter__(self) -> Block:
        self.entered = True
        self._builder.position_at_end(self._builder.function.place(self._block))
        return self._block

    def __exit__(self, *error: object) -> None:
        self.end = self._builder.block
        if not self._builder.terminated:
            self._builder.br(self._after)


def _asm_string(text: str) -> str:
    return '"' + text.replace("\\", "\\5C").replace('"', "\\22").replace("\n", "\\0A").replace("\t", "\\09") + '"'
