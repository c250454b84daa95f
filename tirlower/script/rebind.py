"""Names that are bound anew: which bindings stay lets, and which are one variable.

A function some of whose names may be variables (:mod:`~tirlower.script.rebind_names`) is parsed several times. The
first parse is a trial: it writes down what happens to those names (:mod:`~tirlower.script.rebind_trace`). Where a read
sees several assignments, or one that stands in no scope around it, the assignments that reach common reads become one
variable: a buffer of one element in the innermost scope that holds them and their reads. The parses after it build the
program, until the types of the variables are those of the values assigned to them.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from tirlower.diagnostics import Label, ScriptError, Span, TirError
from tirlower.ir import build
from tirlower.ir.buffer import Buffer, decl_buffer
from tirlower.ir.dtype import DataType
from tirlower.ir.expr import BufferLoad, Expr, IntImm, Var, as_expr
from tirlower.script.forms import Sliced, is_number
from tirlower.script.rebind_trace import (
    Assignment,
    Branch,
    Chain,
    Missing,
    Part,
    Read,
    Scope,
    Sequence,
    solve,
)
from tirlower.script.scope import MISSING
from tirlower.script.weak import Weak, default_float, default_int

__all__ = ["MacroRebinds", "Rebinding", "Variable", "unknown"]

ROUNDS = 3
"""How often a function is parsed for the types of its variables."""


class MacroRebinds(BaseException):
    """A macro of a function that was parsed without a trial has names that may be variables.

    It is a signal to begin again, no error: what turns errors into messages lets it pass.
    """


class Evidence:
    """What the assignments of a variable say of its type."""

    __slots__ = ("literals", "typed")

    def __init__(self) -> None:
        self.typed: list[DataType] = []
        self.literals: list[bool | int | float] = []

    def add(self, value: object) -> None:
        """Take an assigned value into account."""
        if isinstance(value, Weak):
            if value.bare:
                self.literals.append({"bool": True, "int": 1, "float": 1.0}[value.kind])
            else:
                self.typed.append(value.dtype)
        elif is_number(value) and not hasattr(value, "dtype"):
            self.literals.append(value)
        else:
            self.typed.append(as_expr(value).dtype)

    def type(self) -> DataType | None:
        """The common type; of literals alone, theirs. None where nothing is known. Raises :class:`TirError`."""
        if self.typed:
            found = self.typed[0]
            for kind in self.typed[1:]:
                found = build.common_type(found, kind)
            return found
        if any(isinstance(v, float) for v in self.literals):
            return default_float(max((abs(v) for v in self.literals if isinstance(v, float)), default=0.0))
        if not self.literals:
            return None
        kinds = [as_expr(v).dtype for v in self.literals]
        if any(kind.is_int for kind in kinds):
            kinds.append(default_int())
        return max(kinds, key=lambda kind: kind.bits)


class Variable:
    """A name that is memory: its assignments are stores, its reads loads."""

    def __init__(self, name: str, assignments: list[Assignment], site: tuple[Scope, int]) -> None:
        self.name = name
        self.assignments = assignments
        self.site = site
        self.stated: DataType | None = None
        self.dtype = DataType("int32")
        self.evidence = Evidence()
        self.buffer: Buffer | None = None
        self.threads: tuple[str, ...] = ()
        """The thread axes around its allocation."""
        self.on_host = True
        self.of_kernel: tuple[object, Var] | None = None
        """The kernel that reads it last, and its value there."""
        self.touched: set[object] = set()
        """The builder's levels in which it has been assigned, in this round."""

    def load(self, span: Span | None) -> Expr:
        """The value where this stands."""
        assert self.buffer is not None
        return BufferLoad(self.buffer, (IntImm(DataType("int32"), 0),), span=span)


class _Scope:
    __slots__ = ("children", "emits", "key", "ordinal")

    def __init__(self, key: Scope) -> None:
        self.key = key
        self.ordinal = 0
        self.children = 0
        self.emits = True


class _Body:
    """A function, or an expansion of a macro: the names that are its own, and those of them to follow."""

    __slots__ = ("follows", "number", "outer", "own")

    def __init__(self, number: int, own: set[str] | None, follows: set[str], outer: _Body | None) -> None:
        self.number = number
        self.own = own
        self.follows = follows
        self.outer = outer


class Rebinding:
    """The state of one function's parse (see the module's docstring)."""

    def __init__(self, name: str, follows: set[str]) -> None:
        self.function = name
        self.follows = follows
        self.trial = True
        self.variables: list[Variable] = []
        self._sites: dict[tuple[Scope, int], list[Variable]] = {}
        self._events: dict[tuple[int, str, int], Assignment | Read] = {}
        self._seen: set[tuple[int, str, int]] = set()
        self._reads: list[Read] = []
        self._known: dict[tuple[int, str], list[Assignment]] = {}
        self._of_read: dict[int, Variable] = {}
        self.begin()

    def begin(self) -> None:
        """Start a round."""
        self._counts: dict[tuple[int, str], int] = {}
        self._scopes: list[_Scope] = []
        self._root = _Scope(())
        self._sequences = [Sequence()]
        self._bodies = 1
        self._body = _Body(0, None, self.follows, None)
        self._hidden: list[set[str]] = []
        self.as_value = 0
        """Above 0: a read of a variable gives its value, bound in front."""
        self.in_header = False
        """Where the value is bound in front of the block at hand, not in it."""
        self.repeating = 0
        """Above 0: in the condition of a while, where nothing can be bound in front."""
        self.error: ScriptError | None = None
        for variable in self.variables:
            variable.evidence = Evidence()
            variable.buffer = None
            variable.touched = set()

    # Scopes and control

    @property
    def scope(self) -> _Scope:
        return self._scopes[-1] if self._scopes else self._root

    def open(self) -> None:
        """A scope of the program begins."""
        outer = self.scope
        outer.children += 1
        self._scopes.append(_Scope((*outer.key, outer.ordinal, outer.children)))

    def close(self) -> None:
        """The scope ends."""
        self._scopes.pop()

    def statement(self) -> list[Variable]:
        """The next statement of the scope at hand begins; returns the variables to be allocated in front of it."""
        scope = self.scope
        scope.ordinal += 1
        scope.children = 0
        return self.due()

    def due(self) -> list[Variable]:
        """The variables to be allocated here."""
        scope = self.scope
        found = self._sites.get((scope.key, scope.ordinal), ())
        return [variable for variable in found if variable.buffer is None]

    def depth(self) -> tuple[int, int]:
        """How deep the parser stands, for :meth:`back_to`."""
        return len(self._scopes), len(self._sequences)

    def back_to(self, depth: tuple[int, int]) -> None:
        """Leave what was opened since."""
        del self._scopes[depth[0] :], self._sequences[depth[1] :]

    def push(self, sequence: Sequence) -> None:
        """What follows happens in that sequence."""
        self._sequences.append(sequence)

    def pop(self) -> None:
        """The sequence ends."""
        self._sequences.pop()

    def add(self, part: Part) -> None:
        """Something happens."""
        self._sequences[-1].parts.append(part)

    def end_with(self, runs: str, span: Span | None) -> None:
        """The body of a ``with`` ends; ``runs`` is the form's."""
        body = self._sequences.pop()
        if runs == "always" or runs == "arm":
            self.add(body)
        elif runs == "perhaps":
            self.add(Branch((body, Sequence()), ("where the block runs", "where the block does not run"), span))
        else:
            first = next((i for i, part in enumerate(body.parts) if isinstance(part, Sequence)), len(body.parts))
            arms = [*[part for part in body.parts if isinstance(part, Sequence)], Sequence(), Sequence()]
            head = Sequence()
            head.parts = body.parts[:first]
            self.add(head)
            self.add(Branch((arms[0], arms[1]), ("where T.If holds", "where T.If does not hold"), span))

    def conditional(self, when: tuple[str, str], span: Span | None) -> tuple[Sequence, Sequence]:
        """Two arms of which one runs."""
        arms = (Sequence(), Sequence())
        self.add(Branch(arms, when, span))
        return arms

    # Names

    def enter_body(self, own: set[str] | None, follows: set[str]) -> None:
        """An expansion of a macro begins. ``own``: the names that are its own (None: all)."""
        self._body = _Body(self._bodies, own, follows, self._body)
        self._bodies += 1

    @property
    def body(self) -> _Body:
        """The body at hand, for :meth:`back_to_body`."""
        return self._body

    def back_to_body(self, body: _Body | None) -> None:
        """An expansion ends, in whatever way."""
        assert body is not None
        self._body = body

    @contextmanager
    def hiding(self, names: set[str] | None) -> Iterator[None]:
        """Names of a lambda or comprehension hide those of the function; None hides all."""
        body = self._body
        if names is None:
            self._body = _Body(-1, None, set(), body)
        else:
            self._hidden.append(names)
        try:
            yield
        finally:
            self._body = body
            if names is not None:
                self._hidden.pop()

    def owner(self, name: str) -> int | None:
        """The number of the body whose name this is, or None where it is not followed."""
        for names in self._hidden:
            if name in names:
                return None
        body: _Body | None = self._body
        while body is not None:
            if body.own is None or name in body.own:
                return body.number if name in body.follows else None
            body = body.outer
        return None

    def seen(self, node: ast.AST, name: str, table: dict[str, object]) -> bool:
        """Whether a name has a value at a call, as the trial met it."""
        event = self._event(node, f"{name} at the call")
        if self.trial:
            owner = self.owner(name)
            if name in table if owner is None else bool(self._known.get((owner, name))):
                self._seen.add(event)
        return event in self._seen

    def _event(self, node: ast.AST, name: str) -> tuple[int, str, int]:
        counted = (id(node), name)
        number = self._counts.get(counted, 0)
        self._counts[counted] = number + 1
        return (id(node), name, number)

    def _chain(self) -> Chain:
        return ((self._root.key, self._root.ordinal), *[(s.key, s.ordinal) for s in self._scopes if s.emits])

    def read(
        self, node: ast.AST, name: str, span_of: Callable[[ast.AST], Span | None], table: dict[str, object]
    ) -> object:
        """What a read of a followed name gives: a variable, or ``MISSING`` for what the table of names says."""
        owner = self.owner(name)
        if owner is None:
            return MISSING
        event = self._event(node, name)
        if not self.trial:
            found = self._events.get(event)
            variable = self._of_read.get(id(found)) if found is not None else self._only(owner, name)
            return MISSING if variable is None else variable
        read = Read((owner, name), self._chain(), span_of(node))
        self._events[event] = read
        self._reads.append(read)
        self._sequences[-1].parts.append(read)
        return self._trial_value(read, table)

    def _only(self, owner: int, name: str) -> Variable | None:
        """The variable of a name, for a read that the trial did not meet."""
        found = {id(a.variable): a.variable for a in self._known.get((owner, name), ())}
        return next(iter(found.values())) if len(found) == 1 else None

    def _trial_value(self, read: Read, table: dict[str, object]) -> object:
        known = self._known.get(read.key)
        if not known:
            return MISSING if read.key[1] in table else unknown(read.key[1])
        last = known[-1]
        if last.kind != "scalar":
            return last.value
        around = last.scopes[-1][0] in [key for key, _ in read.scopes]
        evidence = Evidence()
        for one in (last,) if around else known:
            if one.kind == "scalar" and one.value is not None:
                evidence.add(one.value)
        if last.stated is not None:
            return _placeholder(read.key[1])(last.stated)
        if evidence.typed:
            kind = evidence.type()
            assert kind is not None
            return _placeholder(read.key[1])(kind)
        literals = evidence.literals
        kind_of = "float" if any(isinstance(v, float) for v in literals) else "int"
        if literals and all(isinstance(v, bool) for v in literals):
            kind_of = "bool"
        return Weak(_placeholder(read.key[1]), kind_of, bare=True)

    def assign(
        self, node: ast.AST, name: str, kind: str, value: object, span: Span | None, stated: DataType | None = None
    ) -> None:
        """Write down an assignment, in the trial."""
        owner = self.owner(name)
        if owner is None:
            return
        event = self._event(node, name)
        if not self.trial:
            return
        made = Assignment((owner, name), kind, self._chain(), span)
        made.value = value
        made.stated = stated
        self._events[event] = made
        self._known.setdefault(made.key, []).append(made)
        self._sequences[-1].parts.append(made)

    def variable_at(self, node: ast.AST, name: str) -> Variable | None:
        """The variable that an assignment is to, or None where it binds; in the trial all bind."""
        if self.trial:
            return None
        owner = self.owner(name)
        if owner is None:
            return None
        number = self._counts.get((id(node), name), 0)
        found = self._events.get((id(node), name, number))
        if found is None:
            return self._only(owner, name)
        assert isinstance(found, Assignment)
        return found.variable

    def failed(self, stmt: ast.stmt, span_of: Callable[[ast.AST], Span | None]) -> list[str]:
        """A statement of the trial could not be evaluated: its reads and assignments count all the same. The names that it
        assigns."""
        parts = list(ast.walk(stmt))
        for part in parts:
            if isinstance(part, ast.Name) and (id(part), part.id) not in self._counts:
                if isinstance(part.ctx, ast.Load):
                    self.read(part, part.id, span_of, {})
                else:
                    self.assign(part, part.id, "scalar", None, span_of(part))
        return [part.id for part in parts if isinstance(part, ast.Name) and isinstance(part.ctx, ast.Store)]

    # From the trial to variables

    def decide(self) -> None:
        """End the trial: find the variables. Raises :class:`ScriptError` where a read may see no assignment."""
        solve(self._sequences[0])
        group: dict[Assignment, Assignment] = {}

        def top(one: Assignment) -> Assignment:
            while group.get(one, one) is not one:
                one = group[one]
            return one

        split: set[Assignment] = set()
        for read in self._reads:
            if any(isinstance(one, Missing) for one in read.reached):
                raise self._missing(read)
            reached = [one for one in read.reached if isinstance(one, Assignment)]
            for one in reached[1:]:
                group[top(one)] = top(reached[0])
            scopes = [key for key, _ in read.scopes]
            if len(reached) > 1 or any(one.scopes[-1][0] not in scopes for one in reached):
                split.update(reached)
        members: dict[Assignment, list[Assignment]] = {}
        for assignments in self._known.values():
            for one in assignments:
                members.setdefault(top(one), []).append(one)
        tops = {top(one) for one in split}
        chains: dict[Assignment, list[Chain]] = {head: [one.scopes for one in members[head]] for head in tops}
        readers: list[tuple[Read, Assignment]] = []
        for read in self._reads:
            head = next((top(one) for one in read.reached if isinstance(one, Assignment)), None)
            if head in tops:
                chains[head].append(read.scopes)
                readers.append((read, head))
        made = {
            head: self._variable(members[head], chains[head], [read for read, of in readers if of is head])
            for head in members
            if head in tops
        }
        for read, head in readers:
            self._of_read[id(read)] = made[head]
        self.trial = False

    def _variable(self, assignments: list[Assignment], chains: list[Chain], reads: list[Read]) -> Variable:
        name = assignments[0].key[1]
        for one in assignments:
            if one.kind != "scalar":
                raise self._no_variable(name, one, assignments, reads)
        depth = 0
        while all(len(chain) > depth and chain[depth][0] == chains[0][depth][0] for chain in chains):
            depth += 1
        scope = chains[0][depth - 1][0]
        site = (scope, min(chain[depth - 1][1] for chain in chains))
        made = Variable(name, assignments, site)
        stated = {str(one.stated): one for one in assignments if one.stated is not None}
        if len(stated) > 1:
            raise ScriptError(
                f"the variable {name!r} is annotated as {' and as '.join(stated)}",
                labels=[Label(one.span, f"{text} here") for text, one in stated.items()],
                help="give it one type, or two names",
            )
        made.stated = next((one.stated for one in stated.values()), None)
        for one in assignments:
            one.variable = made
            if one.value is not None:
                made.evidence.add(one.value)
        self.variables.append(made)
        self._sites.setdefault(site, []).append(made)
        made.dtype = self._type(made) or made.dtype
        return made

    def _type(self, variable: Variable) -> DataType | None:
        if variable.stated is not None:
            return variable.stated
        try:
            kind = variable.evidence.type()
        except TirError as err:
            raise self._at(variable, f"the variable {variable.name!r} has no type: {err.message}") from None
        if kind is not None and (kind.is_handle or kind == "void"):
            raise self._at(variable, f"{variable.name!r} is a pointer, which is no variable")
        return kind

    def settled(self) -> bool:
        """Whether the types assumed in this round are those of the values; takes the new ones if not."""
        same = True
        for variable in self.variables:
            kind = self._type(variable)
            if kind is not None and kind is not variable.dtype:
                variable.dtype, same = kind, False
        return same

    # Messages

    def _at(self, variable: Variable, message: str) -> ScriptError:
        labels = [Label(one.span, "assigned here") for one in variable.assignments[:3] if one.span is not None]
        return ScriptError(
            message, labels=labels, help=f"annotate it where it begins: `{variable.name}: T.float32 = …`"
        )

    def unsettled(self) -> ScriptError:
        """The error for types that go on changing."""
        names = ", ".join(repr(v.name) for v in self.variables)
        return self._at(self.variables[0], f"the types of the variables {names} are not found after {ROUNDS} rounds")

    def _missing(self, read: Read) -> ScriptError:
        name = read.key[1]
        missing = [one for one in read.reached if isinstance(one, Missing)]
        path = next((one.path for one in missing if one.path is not None), None)
        assigned = self._known.get(read.key, [])
        labels = [Label(read.span, f"{name!r} is read here")]
        if path is not None:
            text, span = path
            labels.append(Label(span, f"{text}, it has no value"))
            return ScriptError(
                f"{name!r} may have no value: {text}, no assignment comes before this read",
                labels=labels,
                help=f"bind it before, e.g. `{name} = 0`",
            )
        labels += [Label(one.span, "assigned here") for one in assigned[:2] if one.span is not None]
        return ScriptError(
            f"{name!r} is read before it is assigned",
            labels=labels,
            notes=["a name that a function assigns is its own everywhere, even one that Python knows outside"],
            help=f"bind {name!r} before it is read (before the loop), or give what is assigned another name",
        )

    def _no_variable(self, name: str, one: Assignment, assignments: list[Assignment], reads: list[Read]) -> ScriptError:
        if len(assignments) == 1:
            outside = next(r for r in reads if one.scopes[-1][0] not in [key for key, _ in r.scopes])
            return ScriptError(
                f"the name {name!r} is not defined here, outside the scope of {one.kind}",
                labels=[Label(outside.span, "read here"), Label(one.span, "defined here, for its scope")],
                help="define it in a scope around both places",
            )
        labels = [Label(a.span, f"here it is {a.kind}" if a.kind != "scalar" else "assigned here") for a in assignments]
        return ScriptError(
            f"{name!r} would have to be a variable, for one read sees several assignments or stands outside their "
            f"scope; {one.kind} cannot be one",
            labels=[label for label in labels if label.span is not None][:4],
            help="use a name for each, or a scalar bound by `name = value`",
        )


def _placeholder(name: str) -> Callable[[DataType], Expr]:
    """A value of a type that stands for one not yet known, in the trial."""
    return lambda dtype: BufferLoad(decl_buffer((1,), str(dtype), name), (IntImm(DataType("int32"), 0),))


def unknown(name: str) -> Weak:
    """A value of which the trial knows nothing yet."""
    return Weak(_placeholder(name), "int", bare=True)


def kind_of_value(value: object) -> str:
    """What an assigned value is: "scalar", or in words what cannot be a variable."""
    if isinstance(value, (Expr, Sliced, Weak)):
        dtype = value.dtype
        return "a pointer" if dtype.is_handle else "scalar"
    return "scalar" if is_number(value) else f"a Python value ({type(value).__name__})"
