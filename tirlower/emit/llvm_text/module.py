"""An LLVM module under construction: functions, blocks, globals, attributes; printed by :meth:`Module.text`."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from tirlower.emit.llvm_text.constants import Value, const_bytes, quote
from tirlower.emit.llvm_text.metadata import Metadata, MetadataTable
from tirlower.emit.llvm_text.parts import cut
from tirlower.emit.llvm_text.types import PTR, VOID, Type, ptr

__all__ = ["Attribute", "AttributeGroup", "Block", "Function", "FunctionRef", "Module", "Param", "Phi"]

#: a function attribute: LLVM's word (``"nounwind"``, ``"memory(read)"``) or a string attribute as a pair
Attribute = str | tuple[str, str]
#: a parameter: its type, its name (a hint), and LLVM's parameter attributes
Param = tuple[Type, str] | tuple[Type, str, Sequence[str]]


class AttributeGroup:
    """A set of function attributes, ``#3``, shared by functions and calls of a module."""

    __slots__ = ("text",)

    text: Final[str]

    def __init__(self, text: str) -> None:
        self.text = text

    def __str__(self) -> str:
        return self.text


class FunctionRef(Value):
    """A function as a value (a pointer), with the signature that a call needs."""

    __slots__ = ("callconv", "params", "ret", "vararg")

    ret: Final[Type]
    params: Final[tuple[Type, ...]]
    vararg: Final[bool]
    callconv: Final[str]

    def __init__(
        self,
        text: str,
        ret: Type,
        params: Iterable[Type],
        *,
        vararg: bool = False,
        callconv: str = "",
        addrspace: int = 0,
    ) -> None:
        super().__init__(PTR if addrspace == 0 else ptr(addrspace), text)
        self.ret = ret
        self.params = tuple(params)
        self.vararg = vararg
        self.callconv = callconv

    @property
    def signature(self) -> str:
        """The function type as LLVM prints it, ``i32 (ptr, ...)``."""
        return f"{self.ret} ({', '.join([*map(str, self.params), *(['...'] if self.vararg else [])])})"


class Phi(Value):
    """A phi node; give it its incoming values with :meth:`add`, now or later."""

    __slots__ = ("incoming",)

    incoming: Final[list[tuple[Value, Block]]]

    def __init__(self, type: Type, text: str) -> None:
        super().__init__(type, text)
        self.incoming = []

    def add(self, value: Value, block: Block) -> None:
        """The value when control comes from ``block``.

        Raises:
            TypeError: the value is of another type.
        """
        if value.type != self.type:
            raise TypeError(f"phi {self} cannot take `{value}`")
        self.incoming.append((value, block))

    def line(self) -> str:
        """The instruction."""
        pairs = ", ".join([f"[ {value.text}, {block.ref} ]" for value, block in self.incoming])
        return f"  {self.text} = phi {self.type.text} {pairs}"


class Block:
    """A basic block. Instructions come from a :class:`~tirlower.emit.llvm_text.builder.Builder`."""

    __slots__ = ("function", "lines", "phis", "ref", "terminated")

    def __init__(self, function: Function, ref: str) -> None:
        self.function: Final = function
        #: how branches and phis name it, ``%loop.4``
        self.ref = ref
        self.phis: Final[list[Phi]] = []
        self.lines: Final[list[str]] = []
        self.terminated = False

    def __repr__(self) -> str:
        return f"Block({self.ref})"

    @property
    def label(self) -> str:
        """As an operand, ``label %loop.4``."""
        return f"label {self.ref}"


_UNNAMED: Final = " unnamed_addr"
_LONGEST: Final = 200
"""Characters of the names of values: LLVM cuts longer ones (at 1024) without telling them apart."""


class Function:
    """A function definition. ``args`` are its parameters, ``ref`` the function as a value to call or store."""

    def __init__(self, module: Module, ref: FunctionRef, params: Sequence[Param], head: str, tail: str) -> None:
        self.module: Final = module
        self.ref = ref
        self._head, self._tail = head, tail
        #: how many names it gave, to values and blocks: a measure of its code so far
        self.names = 0
        self.blocks: Final[list[Block]] = []
        #: lines at the start of the entry block: the fixed-size stack slots
        self.prologue: Final[list[str]] = []
        #: whether the function may be compiled apart from its callers (see :meth:`Module.parts`)
        self.separable = not head.startswith(("define internal", "define private"))
        self._attachments: dict[str, Metadata] = {}
        self.args: Final[list[Value]] = []
        self._params: list[str] = []
        taken: set[str] = set()
        for param in params:
            # No dot in a parameter's name: names with a dot are those of results.
            hint = param[1].replace(".", "_")[:_LONGEST] or "arg"
            name = hint
            while name in taken:
                name = f"{hint}_{len(taken)}"
            taken.add(name)
            value = Value(param[0], "%" + quote(name))
            attrs = "".join([" " + a for a in param[2]]) if len(param) == 3 else ""
            self.args.append(value)
            self._params.append(f"{param[0].text}{attrs} {value.text}")

    def __repr__(self) -> str:
        return f"Function({self.ref.text})"

    def is_marked(self, attribute: str) -> bool:
        """Whether :meth:`mark` gave the function a string attribute."""
        return f' "{attribute}"' in self._tail

    def calls(self, callee: FunctionRef) -> bool:
        """Whether the function has a call of another one."""
        call = f"{callee.text}("
        return any(call in line for block in self.blocks for line in block.lines)

    def mark(self, attribute: str) -> None:
        """Give the function a string attribute; again changes nothing."""
        if not self.is_marked(attribute):
            # An attribute stands behind what says that the address is of no interest.
            first = _UNNAMED if self._tail.startswith(_UNNAMED) else ""
            self._tail = f'{first} "{attribute}"{self._tail.removeprefix(first)}'

    def name_value(self, hint: str = "") -> str:
        """A fresh SSA name, ``%hint.12``."""
        n = self.names
        self.names = n + 1
        return f"%{hint[:_LONGEST]}.{n}"

    def block(self, name: str = "block") -> Block:
        """Append a block. The first one is the entry."""
        block = self.new_block(name)
        self.blocks.append(block)
        return block

    def new_block(self, name: str = "block") -> Block:
        """A block that is not yet placed; :meth:`place` puts it behind those that are."""
        return Block(self, self.name_value(name if quote(name) == name else "block"))

    def place(self, block: Block) -> Block:
        """Put a block of :meth:`new_block` behind all others, and return it."""
        self.blocks.append(block)
        return block

    def drop_last_parameter(self) -> None:
        """Take the last parameter back, which the body turned out not to use. Calls are made after this."""
        self.args.pop()
        self._params.pop()
        before = self.ref
        self.ref = FunctionRef(
            before.text, before.ret, before.params[:-1], vararg=before.vararg, callconv=before.callconv
        )

    def attach(self, kind: str, node: Metadata) -> None:
        """Attach metadata to the function itself."""
        self._attachments[kind] = node

    def declaration(self) -> str:
        """The function as another module declares it."""
        ref = self.ref
        words = ["declare", *(["hidden"] if "define internal" in self._head else []), ref.callconv, ref.ret.text]
        return f"{' '.join(w for w in words if w)} {ref.text}({', '.join(map(str, ref.params))}) nounwind\n"

    def text(self) -> str:
        """The definition.

        Raises:
            ValueError: there is no block, or one without a terminator.
        """
        if not self.blocks:
            raise ValueError(f"function {self.ref.text} has no blocks")
        attached = "".join([f" !{kind} {node}" for kind, node in self._attachments.items()])
        out = [f"{self._head}({', '.join(self._params)}){self._tail}{attached} {{"]
        for i, block in enumerate(self.blocks):
            if not block.terminated:
                raise ValueError(f"block {block.ref} of {self.ref.text} has no terminator")
            out.append(f"{block.ref[1:]}:")
            out.extend([phi.line() for phi in block.phis])
            if i == 0:
                out.extend(self.prologue)
            out.extend(block.lines)
        out.append("}\n")
        return "\n".join(out)


class Module(MetadataTable):
    """A module: ``Module("kernel", triple, data_layout)``, filled through its methods, printed by :meth:`text`.

    >>> from tirlower.emit.llvm_text import I32, Builder
    >>> m = Module("demo")
    >>> f = m.function("add1", I32, [(I32, "x")], attrs=["nounwind"])
    >>> b = Builder(f, f.block("entry"))
    >>> b.ret(b.add(f.args[0], b.i32(1), nsw=True))
    >>> print(m.text())  # doctest: +NORMALIZE_WHITESPACE
    source_filename = "demo"
    define i32 @add1(i32 %x) #0 {
    entry.0:
      %.1 = add nsw i32 %x, 1
      ret i32 %.1
    }
    attributes #0 = { nounwind }
    """

    def __init__(self, name: str, triple: str = "", data_layout: str = "") -> None:
        super().__init__()
        self.name: Final = name
        self.triple: Final = triple
        self.data_layout: Final = data_layout
        self._functions: list[Function] = []
        self._globals: list[str] = []
        self._symbols: dict[str, Value] = {}
        self._declarations: dict[str, str] = {}
        self._strings: dict[bytes, Value] = {}
        self._attribute_groups: dict[str, AttributeGroup] = {}

    # -- names -------------------------------------------------------------------------------------------------------

    def unique_name(self, hint: str) -> str:
        """``hint``, or ``hint.N`` where a symbol has that name already."""
        name, n = hint, 0
        while name in self._symbols:
            n += 1
            name = f"{hint}.{n}"
        return name

    def symbol(self, name: str) -> Value | None:
        """The function or global of that name."""
        return self._symbols.get(name)

    def _define(self, name: str, value: Value) -> None:
        if name in self._symbols:
            raise ValueError(f"module {self.name!r} has a symbol {name!r} already; ask for a unique_name first")
        self._symbols[name] = value

    # -- functions ---------------------------------------------------------------------------------------------------

    def function(
        self,
        name: str,
        ret: Type = VOID,
        params: Sequence[Param] = (),
        *,
        attrs: Iterable[Attribute] = (),
        ret_attrs: Iterable[str] = (),
        linkage: str = "",
        callconv: str = "",
        visibility: str = "",
        section: str = "",
        align: int | None = None,
        unnamed_addr: bool = False,
    ) -> Function:
        """Define a function; its first block is to be made with :meth:`Function.block`.

        ``linkage`` is LLVM's word (``"internal"``, ``"private"``, ...; empty means external), ``callconv`` too
        (``"fastcc"``, ``"ptx_kernel"``, ...).

        Raises:
            ValueError: the name is taken.
        """
        ref = FunctionRef("@" + quote(name), ret, [p[0] for p in params], callconv=callconv)
        self._define(name, ref)
        words = ["define", linkage, visibility, callconv, *ret_attrs, ret.text, ref.text]
        tail = " unnamed_addr" if unnamed_addr else ""
        group = self.attribute_group(*attrs)
        tail += f" {group}" if group else ""
        tail += f' section "{section}"' if section else ""
        tail += f" align {align}" if align else ""
        function = Function(self, ref, params, " ".join([w for w in words if w]), tail)
        self._functions.append(function)
        return function

    def declare(
        self,
        name: str,
        ret: Type = VOID,
        params: Sequence[Type] = (),
        *,
        param_attrs: Mapping[int, Sequence[str]] | None = None,
        ret_attrs: Iterable[str] = (),
        attrs: Iterable[Attribute] = (),
        callconv: str = "",
        linkage: str = "",
        vararg: bool = False,
    ) -> FunctionRef:
        """Declare an external function (intrinsics need none).

        Raises:
            ValueError: the name is taken.
        """
        ref = FunctionRef("@" + quote(name), ret, params, vararg=vararg, callconv=callconv)
        self._define(name, ref)
        marks = param_attrs or {}
        inside = [" ".join([p.text, *marks.get(i, ())]) for i, p in enumerate(params)] + (["..."] if vararg else [])
        words = ["declare", linkage, callconv, *ret_attrs, ret.text]
        group = self.attribute_group(*attrs)
        tail = f" {group}" if group else ""
        self._declarations[name] = f"{' '.join([w for w in words if w])} {ref.text}({', '.join(inside)}){tail}\n"
        return ref

    def get_or_declare(
        self,
        name: str,
        ret: Type = VOID,
        params: Sequence[Type] = (),
        *,
        attrs: Iterable[Attribute] = (),
        vararg: bool = False,
    ) -> FunctionRef:
        """The function of that name, declared now if it is new.

        Raises:
            ValueError: the name belongs to something of another signature.
        """
        found = self._symbols.get(name)
        if found is None:
            return self.declare(name, ret, params, attrs=attrs, vararg=vararg)
        wanted = FunctionRef("", ret, params, vararg=vararg).signature
        if not isinstance(found, FunctionRef) or found.signature != wanted:
            had = found.signature if isinstance(found, FunctionRef) else "a variable"
            raise ValueError(f"symbol {name!r} is {had} already, and is used as {wanted}")
        return found

    # -- globals -----------------------------------------------------------------------------------------------------

    def global_variable(
        self,
        name: str,
        type: Type,
        initializer: Value | None = None,
        *,
        addrspace: int = 0,
        align: int | None = None,
        linkage: str = "",
        visibility: str = "",
        constant: bool = False,
        unnamed_addr: bool = False,
        externally_initialized: bool = False,
        thread_local: str = "",
        section: str = "",
    ) -> Value:
        """A global of a type, as a pointer into ``addrspace``; without an initializer it is external.

        ``thread_local`` is empty or a model (``"initialexec"``, ...).

        Raises:
            ValueError: the name is taken, or the initializer is of another type.
        """
        if initializer is not None and initializer.type != type:
            raise ValueError(f"global {name!r} of type {type} cannot start as `{initializer}`")
        value = Value(ptr(addrspace) if addrspace else PTR, "@" + quote(name))
        self._define(name, value)
        words = [
            linkage or ("external" if initializer is None else ""),
            visibility,
            f"thread_local({thread_local})" if thread_local else "",
            "unnamed_addr" if unnamed_addr else "",
            f"addrspace({addrspace})" if addrspace else "",
            "externally_initialized" if externally_initialized else "",
            "constant" if constant else "global",
            type.text,
            initializer.text if initializer is not None else "",
        ]
        tail = f', section "{section}"' if section else ""
        tail += f", align {align}" if align else ""
        self._globals.append(f"{value.text} = {' '.join([w for w in words if w])}{tail}\n")
        return value

    def global_constant(
        self,
        name: str,
        initializer: Value,
        *,
        addrspace: int = 0,
        align: int | None = None,
        linkage: str = "private",
    ) -> Value:
        """Read-only data, as a pointer; private and mergeable unless another linkage is given."""
        return self.global_variable(
            name,
            initializer.type,
            initializer,
            addrspace=addrspace,
            align=align,
            linkage=linkage,
            constant=True,
            unnamed_addr=linkage in ("private", "internal"),
        )

    def string_constant(self, text: str | bytes, hint: str = "str") -> Value:
        """A pointer to a zero-terminated string (UTF-8); equal strings share their bytes."""
        data = (text.encode() if isinstance(text, str) else text) + b"\0"
        found = self._strings.get(data)
        if found is None:
            found = self._strings[data] = self.global_constant(self.unique_name(hint), const_bytes(data), align=1)
        return found

    # -- attributes and printing --------------------------------------------------------------------------------------

    def attribute_group(self, *attrs: Attribute) -> AttributeGroup | None:
        """The group of these attributes, made at its first use; ``None`` for no attributes."""
        if not attrs:
            return None
        text = " ".join([a if isinstance(a, str) else f'"{a[0]}"="{a[1]}"' for a in attrs])
        group = self._attribute_groups.get(text)
        if group is None:
            group = self._attribute_groups[text] = AttributeGroup(f"#{len(self._attribute_groups)}")
        return group

    def text(self) -> str:
        """The module as LLVM assembly.

        Raises:
            ValueError: a function is unfinished (see :meth:`Function.text`).
        """
        parts = [self._head()]
        parts += self._globals
        parts += self._declarations.values()
        parts += [f.text() for f in self._functions]
        parts.append(self._attributes())
        parts.append(self.metadata_text())
        return "".join(parts)

    def mark_callers(self, attribute: str) -> None:
        """Mark who calls internal functions that are marked, for LLVM inlines no function into one that may do more."""
        left = [function for function in self._functions if function.is_marked(attribute)]
        while left:
            callee = left.pop()
            if callee.separable:
                continue
            for function in self._functions:
                if not function.is_marked(attribute) and function.calls(callee.ref):
                    function.mark(attribute)
                    left.append(function)

    def parts(self, lines: int) -> list[str]:
        """The module as several, of about so many lines each where its functions are short enough; else the whole.

        Raises:
            ValueError: as :meth:`text`.
        """
        functions = {f.ref.text: f.text() for f in self._functions}
        roots = {f.ref.text: f.declaration() for f in self._functions if f.separable}
        if len(roots) < 2 or sum(text.count("\n") for text in functions.values()) <= lines:
            return [self.text()]
        others = {text.split(" ", 1)[0]: text for text in self._globals}
        others |= {self._symbols[name].text: text for name, text in self._declarations.items()}
        return cut(
            self._head(), self._attributes(), functions, roots, others, self._nodes, self.named_metadata_text(), lines
        )

    def _head(self) -> str:
        out = f"source_filename = {_string(self.name)}\n"
        if self.data_layout:
            out += f"target datalayout = {_string(self.data_layout)}\n"
        if self.triple:
            out += f"target triple = {_string(self.triple)}\n"
        return out

    def _attributes(self) -> str:
        return "".join(f"attributes {group} = {{ {text} }}\n" for text, group in self._attribute_groups.items())


def _string(text: str) -> str:
    return '"' + text.replace("\\", "\\5C").replace('"', "\\22") + '"'
