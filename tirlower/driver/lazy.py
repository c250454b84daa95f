"""A prim func that is compiled at its first call, for targets whose kernels are no objects of machine code."""

from __future__ import annotations

import threading
from typing import Any

from tirlower.call.parameters import passed_names
from tirlower.diagnostics import user_frames
from tirlower.ir.citizens import FunctionLike
from tirlower.ir.func import PrimFunc

__all__ = ["LazyKernel"]


class LazyKernel(FunctionLike):
    """A prim func that is compiled for its target at its first call; everything else of it asks for the compilation too."""

    def __init__(self, func: PrimFunc, compile: Any, again: tuple[Any, ...]) -> None:
        self.func = func
        self.named(func, func.name)
        self._again = again
        self._compile = compile
        self._lock = threading.Lock()
        self._made: Any = None

    def compile(self) -> Any:
        """Compile now, if that has not happened. Of several threads one compiles, the others wait."""
        with self._lock:
            if self._made is None:
                self._made = self._compile()
            return self._made

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Compile, then call."""
        with user_frames():
            return (self._made or self.compile())(*args, **kwargs)

    def passed(self) -> list[str]:
        """The names of the parameters that a call passes, without compiling."""
        return passed_names(self.func, self._again[1][1]["outputs"])

    def __reduce__(self) -> Any:
        # As for the host: by the function and the options of `jit`.
        return self._again

    def script(self, **options: Any) -> str:
        """The script of the function."""
        return self.func.script(**options)

    def __getattr__(self, key: str) -> Any:
        if key.startswith("__"):
            raise AttributeError(key)
        return getattr(self.compile(), key)

    def __repr__(self) -> str:
        return repr(self._made) if self._made is not None else f"<tirlower.jit {self.call_text}, not compiled yet>"
