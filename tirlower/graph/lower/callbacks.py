"""Python functions that machine code calls back: what one raises ends the call of the graph, and reaches its caller.

A callback cannot raise through machine code. It gives a number, by which machine code asserts that all went well; the
exception waits, in the thread of the call, until that assertion has ended it.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, TypeVarTuple

from tirlower.diagnostics import RuntimeAssertError
from tirlower.ir import Call, Expr, IRBuilder, StringImm, build
from tirlower.ir.dtype import INT32
from tirlower.ir.op import Op as Operation
from tirlower.llvm.codegen.symbols import register_symbol

if TYPE_CHECKING:
    from _ctypes import _CData

__all__ = ["call_back", "raised", "register_callback"]

_FAILED: Final = "Python, which machine code called back, raised an exception"
"""What the assertion behind a callback says."""
_WELL: Final = 1
"""What a callback gives: not what machine code finds where a callback gave nothing."""


Given = TypeVarTuple("Given")


class _Waiting(threading.local):
    error: BaseException | None = None


_WAITING: Final = _Waiting()


def register_callback(symbol: str, kinds: Sequence[type[_CData]], function: Callable[[*Given], None]) -> None:
    """Make a Python function known to machine code, which calls it as :func:`call_back` writes it."""

    def guarded(*given: *Given) -> int:
        try:
            function(*given)
        except BaseException as error:
            _WAITING.error = error
            return 0
        return _WELL

    register_symbol(symbol, ctypes.CFUNCTYPE(ctypes.c_int32, *kinds)(guarded))


def call_back(ib: IRBuilder, symbol: str, arguments: Sequence[Expr]) -> None:
    """Write the call of a callback, and the end of all that follows where it raised.

    >>> ib = IRBuilder()
    >>> with ib.func("f"):
    ...     call_back(ib, "noted", [])
    >>> print(ib.get())
    @T.prim_func
    def f():
        called: T.int32 = T.call_extern("int32", "noted")
        assert called == 1, "Python, which machine code called back, raised an exception"
    """
    made = ib.let("called", Call(Operation.get("tir.call_extern"), (StringImm(symbol), *arguments), INT32))
    ib.assert_(build.eq(made, _WELL), _FAILED)


def raised(failed: RuntimeAssertError) -> BaseException:
    """What ended a call that failed: what a callback raised, or the failure itself."""
    error, _WAITING.error = _WAITING.error, None
    if error is not None:
        return error
    # Raised before the first line of the callback: that is where an interrupt that came in machine code is looked at.
    return KeyboardInterrupt() if failed.message.startswith(_FAILED) else failed
