"""A prim func that is compiled at its first call: what :func:`tirlower.driver.api.jit` gives."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import TypeAlias

from tirlower.call.gil import GilChoice
from tirlower.call.parameters import passed_names
from tirlower.call.views import Result
from tirlower.diagnostics import user_frames
from tirlower.driver.build import build_module, module_of, target_of
from tirlower.driver.kernel import ForeignKernel, Kernel
from tirlower.ir.func import PrimFunc
from tirlower.ir.packed import Packed
from tirlower.machine.target import TargetLike
from tirlower.transforms import PassContext

__all__ = ["JitFunction", "LazyKernel"]


Options: TypeAlias = tuple[TargetLike, Sequence[str] | None, GilChoice, str]
"""How a function is built when it is called: its target, what it returns, whether calls release the lock, its schedule."""


class JitFunction(Kernel):
    """A prim func that is compiled at its first call. Until then calls go through Python; afterwards, none does."""

    @property
    def func(self) -> PrimFunc:
        """The function as it was written."""
        return self._source

    _source: PrimFunc
    _options: Options

    def passed(self) -> list[str]:
        """The names of the parameters that a call passes, without compiling."""
        return passed_names(self._source, self._options[1])

    def __reduce__(self) -> tuple[object, ...]:
        return _jit_again, (Packed(self._source), self._options)

    def __repr__(self) -> str:
        return f"<tirlower.jit {self.call_text} for {self.artifact.target}>"

    def compile(self) -> Kernel:
        """Compile now, if that has not happened."""
        return self

    def script(self, **options: object) -> str:
        """The script of the function."""
        return self._source.script(**options)


class _ForeignJit(ForeignKernel, JitFunction):
    # Compiled, for a processor that this machine is not. A docstring would hide the kernel's own.
    __doc__ = JitFunction.__dict__["__doc__"]


def _asked(name: str) -> Result:
    """What a class knows of a compiled kernel, asked of the one that is compiled."""
    return property(lambda self: getattr(self.compile(), name), doc=getattr(Kernel, name).__doc__)


class LazyKernel(JitFunction):
    """A :class:`JitFunction` before its first call. The first use makes it one, where its target is this machine's code;
    of another target it keeps the kernel, and hands everything on to it.
    """

    source, show, ir_after, explain_miss, report = map(_asked, ("source", "show", "ir_after", "explain_miss", "report"))
    schedule = _asked("schedule")
    signature, target, slow_path = map(_asked, ("signature", "target", "slow_path"))

    def __init__(self, source: PrimFunc, options: Options) -> None:
        # The entry's own state comes with the compilation.
        self._source = source
        self._options = options
        self._lock = threading.Lock()
        self._made: Kernel | None = None
        self.named(source, source.name)

    def compile(self) -> Kernel:
        """Compile: the kernel, or this object as a :class:`JitFunction`. Of several threads one compiles, the others wait."""
        with self._lock:
            # Once a JitFunction, the object may be executing: its code must not be replaced.
            if type(self) is LazyKernel and self._made is None:
                self._make()
            return self if self._made is None else self._made

    def _make(self) -> None:
        target, outputs, gil, schedule = self._options
        mod, _ = module_of(self._source)
        result, kernels = build_module(mod, target_of(target), PassContext.current(), outputs, gil, schedule)
        kernel = kernels[self.name]
        if not isinstance(kernel, Kernel):
            self._made = kernel
            return
        kernel.move_into(self)
        self.artifact = result
        if isinstance(kernel, ForeignKernel):
            self.__dict__["lacking"] = kernel.lacking
        self.__class__ = _ForeignJit if isinstance(kernel, ForeignKernel) else JitFunction  # type: ignore[assignment]

    def __call__(self, /, *args: object, **kwargs: object) -> Result:
        """Compile, then call."""
        with user_frames():
            if self._made is not None:
                return self._made(*args, **kwargs)
            kernel = self.compile()
        return kernel(*args, **kwargs)

    def __repr__(self) -> str:
        return repr(self._made) if self._made is not None else f"<tirlower.jit {self.call_text}, not compiled yet>"

    def __getattr__(self, key: str) -> Result:
        # What a compiled kernel knows (artifact, kernels, …) asks for the compilation.
        if key.startswith("__") or key in ("_source", "_options", "_lock", "_made", "name"):
            raise AttributeError(key)
        return getattr(self.compile(), key)


def _jit_again(func: Packed[PrimFunc], options: Options) -> JitFunction:
    """What unpickling a function of `jit` calls: it is compiled at its first call there."""
    return LazyKernel(func.unpacked(), options)
