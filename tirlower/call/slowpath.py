"""A call made in Python: checked by the binder, run through ctypes. What has machine code for its
calls falls back on it.

It takes every call that machine code cannot (keywords, unknown classes, wrong arguments), every call where the object
layouts are unknown, and turns the error record of a kernel into an exception.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence

from tirlower.call.bind import Binder
from tirlower.call.errors import MAX_ERROR_VALUES, ErrorRecord, ErrorSite
from tirlower.call.gil import GilPolicy
from tirlower.call.scalars import returned_value
from tirlower.call.signature import Signature
from tirlower.call.views import Result
from tirlower.diagnostics import TirError, user_frames

__all__ = ["FallbackEntry", "PackedKernel", "SlowPath"]

_ARGUMENTS = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
_Releasing = ctypes.CFUNCTYPE(ctypes.c_int32, *_ARGUMENTS)
_Holding = ctypes.PYFUNCTYPE(ctypes.c_int32, *_ARGUMENTS)


class PackedKernel:
    """A linked ``@kernel.packed`` at ``address``: with the table of its errors, and what holds its code."""

    __slots__ = ("errors", "holding", "keep", "releasing")

    def __init__(self, address: int, errors: Sequence[ErrorSite], keep: object) -> None:
        self.errors = tuple(errors)
        self.keep = keep
        self.releasing = _Releasing(address)
        self.holding = _Holding(address)

    def failure(self, record: ErrorRecord, name: str) -> Exception:
        """The exception of a call of the function of that name which filled an error record."""
        code = int(record.code)
        if not 0 <= code < len(self.errors):
            return RuntimeError(
                f"`{name}` failed with the unknown error code {code} (its table has {len(self.errors)}); the kernel and "
                "its error table do not belong together"
            )
        count = min(max(record.nvals, 0), MAX_ERROR_VALUES)
        return self.errors[code].exception(list(record.vals[:count]))


class SlowPath:
    """Calls ``@kernel.packed`` with what the binder makes of the arguments.

    ``overlap`` gives the kernel for arrays that share memory, made when it is first asked for; it says itself what
    happens when several threads ask at once. ``meet`` is told the classes of tensors that the binder reads.
    """

    __slots__ = ("_binder", "_gil", "_overlap", "_packed", "_releases", "signature")

    def __init__(
        self,
        signature: Signature,
        packed: PackedKernel,
        gil: GilPolicy,
        overlap: Callable[[], PackedKernel] | None = None,
        meet: Callable[[type], None] | None = None,
    ) -> None:
        self.signature = signature
        self._binder = Binder(signature, refuses=overlap is None, meet=meet)
        self._packed = packed
        self._overlap = overlap
        self._gil = gil
        self._releases = gil.constant(signature)

    def __call__(self, /, *args: object, **kwargs: object) -> Result:
        """Check the arguments, run the kernel, return what it gives.

        Raises:
            ArgumentError: a wrong argument, before anything ran.
            Exception: the error of an :class:`ErrorSite` at which the kernel stopped.
        """
        try:
            bound = self._binder.bind(args, kwargs)
        except TirError:
            with user_frames():
                raise
        packed = self._packed
        if bound.overlap and self._overlap is not None:
            packed = self._overlap()
        record = ErrorRecord()
        result = ctypes.c_uint64(0)
        release = self._gil.decide(bound.env, bound.elements) if self._releases is None else self._releases
        run = packed.releasing if release else packed.holding
        status = run(ctypes.addressof(bound.slots), ctypes.addressof(record), ctypes.addressof(result))
        if status:
            with user_frames():
                raise packed.failure(record, self.signature.name)
        values: list[object] = list(bound.outputs)
        if self.signature.returns is not None:
            values.append(self.box(result.value))
        return None if not values else values[0] if len(values) == 1 else tuple(values)

    def report(self, address: int) -> None:
        """Raise the exception of the error record at an address."""
        with user_frames():
            raise self._packed.failure(ErrorRecord.from_address(address), self.signature.name)

    def box(self, bits: int) -> int | float | bool:
        """The Python value of a return value's bits."""
        return returned_value(self.signature.returns or "int64", bits)


class FallbackEntry:
    """A compiled kernel that calls reach through Python and ctypes, with the same checks."""

    __slots__ = ("__weakref__", "_keep", "_slow")

    def __init__(self, slow: SlowPath, code: int, keep: object) -> None:
        self._slow = slow
        self._keep = keep

    def __call__(self, /, *args: object, **kwargs: object) -> Result:
        """Check the arguments and run the kernel."""
        return self._slow(*args, **kwargs)

    @property
    def slow_path(self) -> SlowPath:
        """The call itself."""
        return self._slow
