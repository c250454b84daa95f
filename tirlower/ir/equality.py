"""The walk of structural equality: two trees in step.

Each side numbers its bound variables and buffers; a binder gives both sides one number,
leaving its scope restores the numbers before it, and two uses agree when their numbers do. A free variable agrees
with itself only, or, with ``map_free_vars``, with the one it first met. A buffer used without a declaration is
numbered at its first use, as if it were declared where its variables are; its contents are compared then.

The fields, their roles and their order come from :mod:`tirlower.ir.field_order`. As long as nothing is renamed, a
subtree compared with itself is skipped, so a tree equals itself at once. Should two different undeclared buffers meet
after a skip (which has not recorded the buffers inside), the walk starts again without skipping.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeAlias, TypeVar

from tirlower.diagnostics import deep_recursion
from tirlower.ir.buffer import Buffer
from tirlower.ir.digest import variables_of_buffer
from tirlower.ir.expr import Expr, IntImm, Let, Var
from tirlower.ir.field_order import DEFINES, RENAMING, plan_of, same_data
from tirlower.ir.field_walk import Scopes
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Dispatch
from tirlower.ir.node import Node, Role
from tirlower.ir.path import Key, Path, Step
from tirlower.ir.stmt import AllocBuffer, AttrStmt, Block, Seq, Stmt, normalize_attr

__all__ = ["Equality", "compare", "path_of"]


class _Restart(Exception):
    """Raised inside the walk when a skipped subtree would have to be known after all."""


class Keys(NamedTuple):
    """A step into a mapping; the two sides may have different keys (parameters)."""

    lhs: object
    rhs: object


Trail: TypeAlias = "tuple[Trail | None, str | int | Keys]"
"""The way to the two values at hand: the trail before, and a step, a field's name, an index or keys."""


def path_of(trail: Trail | None, side: int) -> Path:
    """A trail as the path in one of the trees."""
    steps: list[Step] = []
    while trail is not None:
        trail, step = trail
        steps.append(Key(step[side]) if isinstance(step, Keys) else step)
    return Path(tuple(reversed(steps)))


Defined = TypeVar("Defined", Var, Buffer, tuple[Var, ...])
_Pairs: TypeAlias = "list[tuple[Expr, Expr, Trail | None]]"
_ENTER, _LEAVE = Var("enter"), Var("leave")  # marks on the expression stack around the body of a Let


class Equality(Dispatch[Node, bool, Node, "Trail | None"]):
    """One comparison. Methods return whether the two agree; the first disagreement is kept in ``mismatch``."""

    def __init__(self, map_free_vars: bool, exact: bool) -> None:
        self.map_free_vars = map_free_vars
        self.exact = exact or map_free_vars
        self.left: Scopes[object, int] = Scopes()
        self.right: Scopes[object, int] = Scopes()
        self.numbers_a, self.numbers_b = self.left.table, self.right.table
        self.depths: list[int] = []  # of each number, the depth of its scope
        self.renamed = 0
        self.skipped = False
        self.defining = False
        self.naming: list[tuple[object, object, Callable[[], bool]]] | None = None  # with what compares them as used
        self.named_a: dict[object, object] = {}
        self.named_b: dict[object, object] = {}
        self.mismatch: tuple[Trail | None, object, object, str] | None = None
        self.agreed: set[tuple[int, int]] = set()
        """Pairs of closed nodes, by identity, that are equal wherever they stand."""

    # Numbers and scopes

    def fail(self, path: Trail | None, a: object, b: object, why: str = "") -> bool:
        if self.mismatch is None:
            self.mismatch = (path, a, b, why)
        return False

    def bind(self, a: object, b: object, path: Trail | None, depth: int | None = None) -> bool:
        if self.named_a:
            if self.named_a.get(a, b) is not b or self.named_b.get(b, a) is not a:
                return self.fail(path, a, b, "an attribute around them names another one")
            # Its first binder is what the attribute names; one that hides it may be another.
            self.named_a.pop(a, None)
            self.named_b.pop(b, None)
        if depth is None:
            depth = self.left.depth
        self.left.bind(a, len(self.depths), depth)
        self.right.bind(b, len(self.depths), depth)
        self.depths.append(depth)
        if a is not b:
            self.renamed += 1
        return True

    def push(self) -> None:
        self.left.push()
        self.right.push()

    def pop(self) -> None:
        left, right = self.left.pop(), self.right.pop()
        if self.renamed:
            self.renamed -= sum(a is not b for (a, _), (b, _) in zip(left, right, strict=True))

    def same(self, a: object, b: object) -> bool:
        """Whether the two are one object that needs no look: nothing inside it can have been renamed."""
        if a is b and not self.renamed and not self.exact and not self.defining:
            self.skipped = True
            return True
        return False

    # Variables and buffers

    def same_type(self, a: Var, b: Var, path: Trail | None) -> bool:
        if not same_data(a.type, b.type):
            return self.fail(path, a, b, f"of type {_type_text(a)} and {_type_text(b)}")
        if a.nonneg is not b.nonneg:
            return self.fail(path, a, b, "only one of them is known to be at least 0")
        return True

    def use_var(self, a: Var, b: Var, path: Trail | None) -> bool:
        x, y = self.numbers_a.get(a), self.numbers_b.get(b)
        if x is not None or y is not None:
            return x == y or self.fail(path, a, b, "variables bound in different places")
        if self.naming is not None:
            self.naming.append((a, b, partial(self.use_var, a, b, path)))
            return self.same_type(a, b, path)
        if self.defining:
            return self.same_type(a, b, path) and self.bind(a, b, path)
        if self.map_free_vars:
            return self.same_type(a, b, path) and self.bind(a, b, path, 0)
        return a is b or self.fail(path, a, b, "different free variables")

    def use_buffer(self, a: Buffer, b: Buffer, path: Trail | None) -> bool:
        x, y = self.numbers_a.get(a), self.numbers_b.get(b)
        if x is not None or y is not None:
            return x == y or self.fail(path, a, b, "different buffers")
        if self.naming is not None:
            self.naming.append((a, b, partial(self.use_buffer, a, b, path)))
            return True
        if not self.same(a, b) and not self.contents(a, b, path, frozenset()):
            return False
        if a is not b and self.skipped:
            raise _Restart
        depth = max((self.depth(v) for v in variables_of_buffer(a)), default=0)
        return self.bind(a, b, path, depth)

    def use_symbol(self, a: Node, b: Node, path: Trail | None) -> bool:
        x, y = self.numbers_a.get(a), self.numbers_b.get(b)
        if x is not None or y is not None:
            return x == y or self.fail(path, a, b, "made in different places")
        if self.map_free_vars:
            return self.fields(a, b, path) and self.bind(a, b, path, 0)
        return a is b or self.fail(path, a, b, "made nowhere in what is compared")

    def depth(self, var: Var) -> int:
        number = self.numbers_a.get(var)
        return 0 if number is None else self.depths[number]

    def contents(self, a: Buffer, b: Buffer, path: Trail | None, defines: frozenset[str]) -> bool:
        for name, role in plan_of(Buffer):
            x, y = getattr(a, name), getattr(b, name)
            if role is Role.CHILD:
                before, self.defining = self.defining, name in defines
                agree = self.child(x, y, (path, name))
                self.defining = before
                if not agree:
                    return False
            elif not same_data(x, y):
                return self.fail((path, name), x, y)
        return True

    def define(self, kind: str, a: Defined, b: Defined, path: Trail | None) -> bool:
        if isinstance(a, Var):
            if kind in RENAMING and (self.naming is not None or a in self.numbers_a or b in self.numbers_b):
                return self.use_var(a, b, path)
            return self.same_type(a, b, path) and self.bind(a, b, path)
        if isinstance(a, Buffer):
            if kind in ("AllocBuffer", "AllocConst"):
                at = (path, "data")
                if not self.same_type(a.data, b.data, at) or not self.bind(a.data, b.data, at):
                    return False
            return self.contents(a, b, path, DEFINES[kind]) and self.bind(a, b, path)
        if len(a) != len(b):
            return self.fail(path, a, b, f"{len(a)} and {len(b)} of them")
        return all(self.define(kind, x, y, (path, i)) for i, (x, y) in enumerate(zip(a, b, strict=True)))

    def define_symbols(self, a: tuple[Node, ...], b: tuple[Node, ...], path: Trail | None) -> bool:
        if len(a) != len(b):
            return self.fail(path, a, b, f"{len(a)} and {len(b)} of them")
        return all(
            self.fields(x, y, (path, i)) and self.bind(x, y, (path, i))
            for i, (x, y) in enumerate(zip(a, b, strict=True))
        )

    # Expressions: an explicit stack, so that a chain of any length fits

    def expr(self, root_a: Expr, root_b: Expr, root_path: Trail | None) -> bool:
        stack: _Pairs = [(root_a, root_b, root_path)]
        lets: list[tuple[Let, Let, Trail]] = []  # whose bodies are to be entered, the next one last
        seen: set[tuple[int, int]] = set()
        outer: list[set[tuple[int, int]]] = []
        while stack:
            a, b, path = stack.pop()
            if a is b:
                if a is _ENTER:
                    let_a, let_b, at = lets.pop()
                    self.push()
                    outer.append(seen)
                    seen = set()
                    if not self.define("Let", let_a.var, let_b.var, at):
                        return False
                    continue
                if a is _LEAVE:
                    self.pop()
                    seen = outer.pop()
                    continue
                if self.same(a, b):
                    continue
            cls = a.__class__
            if cls is not b.__class__:
                return self.fail(path, a, b)
            if cls is Var:
                if TYPE_CHECKING:
                    assert isinstance(a, Var) and isinstance(b, Var)
                if not self.use_var(a, b, path):
                    return False
                continue
            if cls is IntImm:
                if TYPE_CHECKING:
                    assert isinstance(a, IntImm) and isinstance(b, IntImm)
                if a.value != b.value or a.dtype is not b.dtype:
                    return self.fail(path, a, b)
                continue
            if (id(a), id(b)) in seen:
                continue
            seen.add((id(a), id(b)))
            if a.digest is not None and a.digest == b.digest and not (self.renamed or self.exact or self.defining):
                self.skipped = True
                continue
            if cls is Let and isinstance(a, Let) and isinstance(b, Let):
                stack.append((_LEAVE, _LEAVE, None))
                stack.append((a.body, b.body, (path, "body")))
                stack.append((_ENTER, _ENTER, None))
                lets.append((a, b, (path, "var")))
                stack.append((a.value, b.value, (path, "value")))
                continue
            if not self.operands(a, b, path, stack):
                return False
        return True

    def operands(self, a: Expr, b: Expr, path: Trail | None, stack: _Pairs) -> bool:
        """Compare the data of two expressions of one class, and put their operands on the stack."""
        found: _Pairs = []
        for name, role in plan_of(a.__class__):
            x, y = getattr(a, name), getattr(b, name)
            if role is Role.CHILD:
                if x.__class__ is tuple:
                    if len(x) != len(y):
                        return self.fail((path, name), a, b, f"{len(x)} and {len(y)} of them")
                    at = (path, name)
                    found += [(p, q, (at, i)) for i, (p, q) in enumerate(zip(x, y, strict=True))]
                elif x is not None and y is not None:
                    found.append((x, y, (path, name)))
                elif x is not y:
                    return self.fail((path, name), x, y)
            elif role is Role.DATA:
                if isinstance(x, Expr) and isinstance(y, Expr):
                    found.append((x, y, (path, name)))
                elif x is not y and not same_data(x, y):
                    return self.fail((path, name), x, y)
            elif role is Role.BUFFER:
                if not self.use_buffer(x, y, (path, name)):
                    return False
            elif (x or y) and not self.attr(x, y, (path, name)):
                return False
        found.reverse()
        stack += found
        return True

    # Other nodes

    def attr(self, a: object, b: object, path: Trail | None) -> bool:
        a, b = normalize_attr(a), normalize_attr(b)
        if isinstance(a, Expr) and isinstance(b, Expr):
            return self.expr(a, b, path)
        if isinstance(a, Node) and isinstance(b, Node):
            return self.node(a, b, path)
        if isinstance(a, dict) and isinstance(b, dict):
            for key in [*a, *[k for k in b if k not in a]]:
                if key not in a or key not in b:
                    return self.fail(path, a, b, f"only the {'left' if key in a else 'right'} one has {key!r}")
                if not self.attr(a[key], b[key], (path, Keys(key, key))):
                    return False
            return True
        if isinstance(a, tuple) and isinstance(b, tuple):
            if len(a) != len(b):
                return self.fail(path, a, b, f"{len(a)} and {len(b)} of them")
            return all(self.attr(x, y, (path, i)) for i, (x, y) in enumerate(zip(a, b, strict=True)))
        return same_data(a, b) or self.fail(path, a, b)

    def child(self, a: object, b: object, path: Trail | None) -> bool:
        if isinstance(a, tuple) and isinstance(b, tuple):
            for i, (x, y) in enumerate(zip(a, b, strict=False)):
                if not (self.expr(x, y, (path, i)) if isinstance(x, Expr) else self.node(x, y, (path, i))):
                    return False
            return len(a) == len(b) or self.fail(path, a, b, f"{len(a)} and {len(b)} of them")
        if not isinstance(a, Node) or not isinstance(b, Node):
            return a is b or self.fail(path, a, b)  # one is None
        if isinstance(a, Expr) and isinstance(b, Expr):
            return self.expr(a, b, path)
        if isinstance(a, Stmt):
            self.push()
            agree = self.node(a, b, path)
            self.pop()
            return agree
        return self.node(a, b, path)

    def node(self, a: Node, b: Node, path: Trail | None) -> bool:
        cls = a.__class__
        if cls is not b.__class__:
            return self.fail(path, a, b)
        if isinstance(a, Expr) and isinstance(b, Expr):
            return self.expr(a, b, path)
        if a.__class__ is Buffer and b.__class__ is Buffer:
            return self.use_buffer(a, b, path)
        if cls.is_symbol:
            return self.use_symbol(a, b, path)
        if cls.declares:
            return self.fields(a, b, path)
        if self.same(a, b) or (id(a), id(b)) in self.agreed:
            return True
        self.push()
        special = self._on.get(cls)
        agree: bool = self.fields(a, b, path) if special is None else special(self, a, b, path)
        self.pop()
        if agree and cls.is_closed:
            self.agreed.add((id(a), id(b)))
        return agree

    def fields(self, a: Node, b: Node, path: Trail | None, without: tuple[str, ...] = ()) -> bool:
        cls = a.__class__
        for name, role in plan_of(cls):
            if name in without:
                continue
            x, y = getattr(a, name), getattr(b, name)
            at = (path, name)
            if role is Role.CHILD:
                agree = self.child(x, y, at)
            elif role is Role.DATA:
                agree = same_data(x, y) or self.fail(at, x, y)
            elif role is Role.BINDS:
                agree = self.define_symbols(x, y, at) if cls.binds_symbols else self.define(cls.__name__, x, y, at)
            elif role is Role.BUFFER:
                agree = self.use_buffer(x, y, at)
            else:
                agree = self.attr(x, y, at)
            if not agree:
                return False
        return True

    def on_AttrStmt(self, a: AttrStmt, b: AttrStmt, path: Trail | None) -> bool:
        """The node may name what is bound inside: it must be the same binder there, or agree as a free one."""
        before, self.naming = self.naming, []
        agree = self.attr(a.node, b.node, (path, "node"))
        named, self.naming = self.naming, before
        if not agree:
            return False
        outer = self.named_a, self.named_b
        if named:
            self.named_a = {**self.named_a, **{x: y for x, y, _ in named}}
            self.named_b = {**self.named_b, **{y: x for x, y, _ in named}}
        if not self.fields(a, b, path, without=("node",)):
            return False
        self.named_a, self.named_b = outer
        if named:
            bound = self.bound_in(a, b)
            for x, y, agree_as_used in named:
                if (x, y) not in bound and not agree_as_used():
                    return False
        return True

    def bound_in(self, a: AttrStmt, b: AttrStmt) -> set[tuple[object, object]]:
        """The pairs that the bodies of two equal statements bind; an attribute that looks ahead is rare."""
        pairs: set[tuple[object, object]] = set()
        stack: list[tuple[Node, Node]] = [(a.body, b.body)]
        while stack:
            x, y = stack.pop()
            for field in x.fields:
                p, q = getattr(x, field.name), getattr(y, field.name)
                if field.role is Role.BINDS:
                    if isinstance(p, (Var, Buffer)):
                        pairs.add((p, q))
                    if isinstance(p, Buffer):
                        pairs.add((p.data, q.data))
                elif field.role is Role.CHILD:
                    items = zip(p, q, strict=True) if p.__class__ is tuple else [(p, q)]
                    stack += [(m, n) for m, n in items if isinstance(m, Node) and not isinstance(m, Expr)]
        return pairs

    def on_Block(self, a: Block, b: Block, path: Trail | None) -> bool:
        """The allocations that head the body are in scope in the init, and in matched regions of them."""
        own = a.matches_own and b.matches_own
        if not self.fields(a, b, path, without=("init", "body", "match_buffers") if own else ("init", "body")):
            return False
        if not own and (a.init is None or b.init is None or a.body.__class__ is not b.body.__class__):
            return self.child(a.init, b.init, (path, "init")) and self.child(a.body, b.body, (path, "body"))
        body = (path, "body")
        is_seq = isinstance(a.body, Seq)
        stmts_a = a.body.stmts if isinstance(a.body, Seq) else (a.body,)
        stmts_b = b.body.stmts if isinstance(b.body, Seq) else (b.body,)
        self.push()
        heads = 0
        while heads < min(len(stmts_a), len(stmts_b)) and isinstance(stmts_a[heads], AllocBuffer):
            if not self.node(stmts_a[heads], stmts_b[heads], ((body, "stmts"), heads) if is_seq else body):
                return False
            heads += 1
        if own and not self.child(a.match_buffers, b.match_buffers, (path, "match_buffers")):
            return False
        if not self.child(a.init, b.init, (path, "init")):
            return False
        for i, (x, y) in enumerate(zip(stmts_a[heads:], stmts_b[heads:], strict=False), heads):
            if not self.node(x, y, ((body, "stmts"), i) if is_seq else body):
                return False
        if len(stmts_a) != len(stmts_b):
            return self.fail((body, "stmts"), stmts_a, stmts_b, f"{len(stmts_a)} and {len(stmts_b)} of them")
        self.pop()
        return True

    def on_PrimFunc(self, a: PrimFunc, b: PrimFunc, path: Trail | None) -> bool:
        if not self.define("PrimFunc", a.params, b.params, (path, "params")):
            return False
        for p, q in zip(a.params, b.params, strict=True):
            x, y = a.buffer_map.get(p), b.buffer_map.get(q)
            at = ((path, "buffer_map"), Keys(p, q))
            if x is None or y is None:
                if x is not y:
                    return self.fail(at, x, y, "only one of the parameters is a buffer")
            elif not self.define("PrimFunc", x, y, at):
                return False
        if not same_data(a.ret_type, b.ret_type):
            return self.fail((path, "ret_type"), a.ret_type, b.ret_type)
        return self.attr(a.attrs, b.attrs, (path, "attrs")) and self.child(a.body, b.body, (path, "body"))

    def root(self, a: object, b: object) -> bool:
        if isinstance(a, IRModule) and isinstance(b, IRModule):
            for name in [*a.functions, *[n for n in b.functions if n not in a.functions]]:
                at = ((None, "functions"), Keys(name, name))
                if name not in a.functions or name not in b.functions:
                    side = "left" if name in a.functions else "right"
                    return self.fail(
                        at, a.functions.get(name), b.functions.get(name), f"only the {side} module has this function"
                    )
                if not self.node(a.functions[name], b.functions[name], at):
                    return False
            return self.attr(a.attrs, b.attrs, (None, "attrs"))
        if isinstance(a, Node) and isinstance(b, Node):
            return self.node(a, b, None)
        return self.attr(a, b, None)


def _type_text(var: Var) -> str:
    return repr(var.type) if not isinstance(var.type, str) else str(var.type)


def compare(a: object, b: object, map_free_vars: bool) -> Equality | None:
    """None when the two are equal, else the comparison that failed."""
    if a is b:
        return None
    with deep_recursion():
        worker = Equality(map_free_vars, exact=False)
        try:
            return None if worker.root(a, b) else worker
        except _Restart:
            worker = Equality(map_free_vars, exact=True)
            return None if worker.root(a, b) else worker
