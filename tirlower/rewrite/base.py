"""Passes as values: what a pass is, how it is run, and how passes are combined.

A pass takes an IRModule or a PrimFunc and returns the same kind; its input is never changed. Its options are given at
construction or by ``PassContext(config={"tir.<Pass>": {...}})``; the constructor wins.
"""

from __future__ import annotations

import enum
import inspect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import ClassVar, Generic, TypeAlias, TypeVar, overload

from tirlower.diagnostics import TransformError, nearest_name
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.facts import Fact
from tirlower.rewrite.order import Placed, check_order
from tirlower.rewrite.registry import declare, home, load_all
from tirlower.rewrite.rewrite import Rewrite
from tirlower.rewrite.running import PassInfo, run_pass
from tirlower.support.literals import literals

__all__ = [
    "Apply",
    "Fact",
    "Filter",
    "FuncPass",
    "ModulePass",
    "Pass",
    "PassInfo",
    "PrimFuncPass",
    "Sequential",
    "Stage",
    "module_pass",
    "prim_func_pass",
]

M = TypeVar("M", IRModule, PrimFunc)
FunctionBody: TypeAlias = Callable[[PrimFunc, IRModule, PassContext], PrimFunc]
ModuleBody: TypeAlias = Callable[[IRModule, PassContext], IRModule]
Body = TypeVar("Body")
Made = TypeVar("Made", bound="Pass")


class Stage(enum.Enum):
    """Where in the lowering a pass belongs, by what its input may hold."""

    ANY = "any"
    BLOCK = "block"
    """Blocks with iterators."""
    OPAQUE = "opaque"
    """Blocks without iterators."""
    FLAT = "flat"
    """No blocks."""
    FLAT_1D = "1-D"
    """No blocks, buffers flattened."""
    HOST = "host"
    """After the host ABI was made."""


_OF_STAGE: dict[Stage, tuple[str | Fact, ...]] = {
    Stage.BLOCK: (Fact.BLOCKS,),
    Stage.OPAQUE: (Fact.BLOCKS,),
    Stage.FLAT: ("tir.LowerOpaqueBlock",),
    Stage.FLAT_1D: ("tir.LowerOpaqueBlock", "tir.FlattenBuffer"),
}
"""What a pass needs whose input is of a stage."""


class Pass(Rewrite):
    """Base of passes: ``pass_(module)`` or ``pass_(func)`` rewrites it under the current :class:`PassContext`.

    A subclass states ``name`` (TIR's), ``stage``, ``needs``, ``breaks`` and ``gives`` (:class:`Rewrite`), and its options
    as fields; its docstring's first line is its summary in the catalog.
    """

    stage: ClassVar[Stage] = Stage.ANY
    opt_level: ClassVar[int] = 0
    is_list: ClassVar[bool] = False
    registry: ClassVar[dict[str, type[Pass]]] = {}

    def __init_subclass__(cls) -> None:
        """Register the pass under its name, with its options."""
        super().__init_subclass__()
        if cls.name:
            Pass.registry[cls.name] = cls
            declare(cls.name, cls.declared)

    @property
    def info(self) -> PassInfo:
        """Name, level and requirements."""
        return PassInfo(self.name, self.opt_level)

    @property
    def prerequisites(self) -> tuple[str | Fact, ...]:
        """What must hold of its input, or must have run: by its stage, by its class, by its description."""
        return (*_OF_STAGE.get(self.stage, ()), *self.needs, *map(full_name, self.info.required))

    def required(self) -> list[Pass]:
        """The passes that run before it in a list, because its description requires them."""
        return [find_pass(name)() for name in self.info.required]

    def steps(self) -> Iterator[Pass]:
        """The passes that run where it runs, in order."""
        yield self

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The rewriting itself, on a module."""
        raise TypeError(f"{type(self).__name__} defines no transformation")

    def rewritten(self, program: IRModule, ctx: PassContext) -> IRModule:
        """What :func:`run_pass` asks for: the module transformed."""
        return self.transform_module(program, ctx)

    def certify(self, before: IRModule, after: IRModule, ctx: PassContext) -> None:
        """Prove a result of it anew, as ``PassContext(validate=True)`` asks: raise :class:`TransformError` where it is wrong.

        That the result is well formed and computes what the input computes is checked of every pass; one that promises
        more checks that too.
        """
        home("validate_pass").validate_pass(self, before, after, ctx)

    def construction(self) -> str | None:
        """The Python expression that makes this pass; None where a file of its own cannot name it."""
        kind = type(self)
        if not kind.__module__.startswith("tirlower.") or Pass.registry.get(kind.name) is not kind:
            return None
        options = literals(self.given)
        if len(options) != len(self.given):
            return None
        return f"find_pass({kind.name!r})({', '.join(f'{k}={v!r}' for k, v in options.items())})"

    def __call__(self, target: M, ctx: PassContext | None = None) -> M:
        """Run the pass on a module or a function."""
        ctx = ctx or PassContext.current()
        if isinstance(target, IRModule):
            return run_pass(self, target, ctx)
        if isinstance(target, PrimFunc):
            name = target.name
            before = IRModule({name: target})
            after = run_pass(self, before, ctx)
            if after is before:
                return target
            if len(after) != 1:
                made = ", ".join(after) or "none"
                raise TransformError(
                    f"{self.info.name} turned one function into {len(after)} ({made})",
                    help="give it an IRModule: IRModule({name: func})",
                )
            return after[next(iter(after))]
        raise TransformError(
            f"{self.info.name} takes an IRModule or a PrimFunc, got {type(target).__name__}",
            help="decorate the function with @T.prim_func",
        )


class ModulePass(Pass):
    """A pass over a whole module: subclasses define ``transform_module``."""


class FuncPass(Pass):
    """A pass over each function: subclasses define ``transform``.

    Functions it has nothing to do with should come back as the same object.
    """

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """The rewriting itself, on one function."""
        raise TypeError(f"{type(self).__name__} defines no transformation")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Each function in turn."""
        return mod.map_functions(lambda func: self.transform(func, ctx))


class PrimFuncPass(Pass):
    """A pass made by :func:`prim_func_pass` from a function ``(func, mod, ctx) -> func``."""

    def __init__(self, fn: FunctionBody, info: PassInfo) -> None:
        super().__init__()
        self._fn = fn
        self._info = info
        self.__doc__ = fn.__doc__

    @property
    def info(self) -> PassInfo:
        """Name, level and requirements."""
        return self._info

    def transform_function(self, func: PrimFunc, mod: IRModule, ctx: PassContext) -> PrimFunc:
        """The wrapped function."""
        return self._fn(func, mod, ctx)

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Each function in turn; one for which the function returns None is dropped."""
        made = {}
        for name, func in mod.items():
            new = self._fn(func, mod, ctx)
            if new is not None and not isinstance(new, PrimFunc):
                raise TransformError(
                    f"the pass {self.info.name!r} returned {type(new).__name__} for {name!r}, not a PrimFunc"
                )
            if new is not None:
                made[name] = new
        return mod.with_functions(made)


class _FunctionModulePass(ModulePass):
    def __init__(self, fn: ModuleBody, info: PassInfo) -> None:
        super().__init__()
        self._fn = fn
        self._info = info

    @property
    def info(self) -> PassInfo:
        return self._info

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        new = self._fn(mod, ctx)
        if not isinstance(new, IRModule):
            raise TransformError(f"the pass {self.info.name!r} returned {type(new).__name__}, not an IRModule")
        return new


class _Maker(Generic[Body, Made]):
    """Makes a pass of a function, or of a plain class that defines ``method``."""

    def __init__(self, base: type[Made], method: str, info: PassInfo) -> None:
        self.base, self.method, self.info = base, method, info

    @overload
    def __call__(self, target: Body) -> Made: ...
    @overload
    def __call__(self, target: type) -> type[Pass]: ...
    def __call__(self, target: Body | type) -> Made | type[Pass]:
        if not callable(target):
            raise TransformError(f"a pass is made of a function or a class, got {target!r}")
        info = self.info if self.info.name else replace(self.info, name=str(getattr(target, "__name__", "pass")))
        return _class_pass(target, self.method, self.base, info) if inspect.isclass(target) else self.base(target, info)


def _class_pass(cls: type, method: str, base: type[Pass], info: PassInfo) -> type[Pass]:
    """A pass class around a plain class that defines ``transform_function`` or ``transform_module``."""
    if not callable(getattr(cls, method, None)):
        raise TransformError(f"the class {cls.__name__} of a pass defines {method}")

    class Wrapped(base):  # type: ignore[misc,valid-type]
        def __init__(self, *args: object, **kwargs: object) -> None:
            self.inst = cls(*args, **kwargs)
            base.__init__(self, getattr(self.inst, method), info)

        def __getattr__(self, key: str) -> object:
            if key == "inst":
                raise AttributeError(key)
            return getattr(self.inst, key)

    Wrapped.__name__ = Wrapped.__qualname__ = cls.__name__
    Wrapped.__doc__ = cls.__doc__
    Wrapped.__module__ = cls.__module__
    return Wrapped


@overload
def prim_func_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> _Maker[FunctionBody, PrimFuncPass]: ...
@overload
def prim_func_pass(
    pass_func: type,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> type[Pass]: ...
@overload
def prim_func_pass(
    pass_func: FunctionBody,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> PrimFuncPass: ...
def prim_func_pass(
    pass_func: FunctionBody | type | None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> _Maker[FunctionBody, PrimFuncPass] | type[Pass] | PrimFuncPass:
    """Make a pass of a function ``(func, mod, ctx) -> func``, or of a class with ``transform_function``.

    Without ``pass_func`` it returns the decorator.

    >>> @prim_func_pass(opt_level=1)
    ... def keep(func, mod, ctx):
    ...     return func
    >>> keep.info
    PassInfo(name='keep', opt_level=1, required=(), traceable=False)
    """
    info = PassInfo(name or "", opt_level or 0, tuple(required or ()), traceable)
    maker: _Maker[FunctionBody, PrimFuncPass] = _Maker(PrimFuncPass, "transform_function", info)
    return maker if pass_func is None else maker(pass_func)


@overload
def module_pass(
    pass_func: None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> _Maker[ModuleBody, ModulePass]: ...
@overload
def module_pass(
    pass_func: type,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> type[Pass]: ...
@overload
def module_pass(
    pass_func: ModuleBody,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> ModulePass: ...
def module_pass(
    pass_func: ModuleBody | type | None = None,
    opt_level: int | None = None,
    name: str | None = None,
    required: Sequence[str] | None = None,
    traceable: bool = False,
) -> _Maker[ModuleBody, ModulePass] | type[Pass] | ModulePass:
    """Make a pass of a function ``(mod, ctx) -> mod``, or of a class with ``transform_module``."""
    info = PassInfo(name or "", opt_level or 0, tuple(required or ()), traceable)
    maker: _Maker[ModuleBody, ModulePass] = _Maker(_FunctionModulePass, "transform_module", info)
    return maker if pass_func is None else maker(pass_func)


class Sequential(Pass):
    """Passes in order. Those above the context's ``opt_level``, or disabled there, are skipped.

    A pass's ``required`` passes run before it, those of the list before the list. Raises :class:`TransformError` at
    construction for an order that the passes forbid: one behind another that breaks what it needs, or before the one
    that it needs. What none of them makes is taken to have been made before.
    """

    is_list = True

    def __init__(
        self,
        passes: Sequence[Pass] = (),
        opt_level: int = 0,
        name: str = "sequential",
        required: Sequence[str] | None = None,
        traceable: bool = False,
    ) -> None:
        super().__init__()
        self.passes = list(passes)
        self._info = PassInfo(name, opt_level, tuple(required or ()), traceable)
        for pass_ in self.passes:
            if not isinstance(pass_, Pass):
                raise TransformError(
                    f"Sequential takes passes, got {pass_!r}",
                    help="construct the pass: Simplify() rather than Simplify",
                )
        order = [Placed(pass_, certain=not pass_.info.opt_level) for pass_ in self.steps()]
        # What no pass here makes may have been made before: the input is of any stage.
        made = {fact for placed in order for fact in placed.made}
        asked = {fact for placed in order for fact in placed.pass_.prerequisites}
        check_order("Sequential", order, asked - made)

    @property
    def info(self) -> PassInfo:
        """Name, level and requirements."""
        return self._info

    def required(self) -> list[Pass]:
        """None: it runs them itself."""
        return []

    def steps(self) -> Iterator[Pass]:
        """What it requires, and the steps of each of its passes with what that requires."""
        yield from super().required()
        for pass_ in self.passes:
            yield from (*pass_.required(), *pass_.steps())

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Each pass in turn."""
        for needed in super().required():
            mod = run_pass(needed, mod, ctx)
        for pass_ in self.passes:
            if ctx.pass_enabled(pass_.info):
                for step in (*pass_.required(), pass_):
                    mod = run_pass(step, mod, ctx)
        return mod

    def certify(self, before: IRModule, after: IRModule, ctx: PassContext) -> None:
        """Nothing is left to prove: each of its passes was certified where it ran."""

    def __repr__(self) -> str:
        return f"Sequential([{', '.join(map(repr, self.passes))}])"


def full_name(name: str) -> str:
    """The name under which a pass is registered, given with or without ``tir.``; raises as :func:`find_pass`."""
    return find_pass(name).name


def _registered(name: str) -> type[Pass] | None:
    name = name.removeprefix("tir.transform.")
    return Pass.registry.get(name) or Pass.registry.get(f"tir.{name}")


def find_pass(name: str) -> type[Pass]:
    """The class of a pass by its name, with or without ``tir.`` or ``tir.transform.``. Raises naming the nearest."""
    found = _registered(name)
    if found is None:
        load_all()
        found = _registered(name)
    if found is None:
        near = nearest_name(name, [*Pass.registry, *(n.removeprefix("tir.") for n in Pass.registry)])
        raise TransformError(f"no pass is named {name!r}", help=f"did you mean {near!r}?" if near else None)
    return found


class Apply(FuncPass):
    """Apply a plain function to every function of a module."""

    def __init__(self, ftransform: Callable[[PrimFunc], PrimFunc]) -> None:
        super().__init__()
        if not callable(ftransform):
            raise TransformError(f"Apply takes a function of a PrimFunc, got {ftransform!r}")
        self._fn = ftransform

    @property
    def info(self) -> PassInfo:
        """Named tir.Apply."""
        return PassInfo("tir.Apply")

    def transform(self, func: PrimFunc, ctx: PassContext) -> PrimFunc:
        """The function's result, which must be a PrimFunc."""
        new = self._fn(func)
        if not isinstance(new, PrimFunc):
            raise TransformError(f"Apply's function returned {type(new).__name__} for {func.name!r}, not a PrimFunc")
        return new


class Filter(ModulePass):
    """Keep the functions for which a condition is true."""

    def __init__(self, fcond: Callable[[PrimFunc], bool]) -> None:
        super().__init__()
        if not callable(fcond):
            raise TransformError(f"Filter takes a function of a PrimFunc, got {fcond!r}")
        self._fn = fcond

    @property
    def info(self) -> PassInfo:
        """Named tir.Filter."""
        return PassInfo("tir.Filter")

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """The module without the others."""
        return mod.with_functions({name: func for name, func in mod.items() if self._fn(func)})
