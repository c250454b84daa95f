"""How a graph is compiled, as a value."""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from tirlower.graph.core.numerics import Numerics
from tirlower.graph.errors import GraphError

__all__ = ["Options"]

_NOT_YET = {
    "schedule": "kernels are not scheduled yet",
    "fusion": "operations are not fused yet",
    "memory": "each value has a place of its own in the arena yet",
    "specialize": "there is one version of a kernel for all extents yet",
}
"""What changes nothing yet, and why."""


@dataclass(frozen=True)
class Options:
    """How a graph is compiled; part of what identifies a compiled graph.

    - ``numerics``: ``"exact"`` (no bit changes; nothing is contracted), ``"default"``, or ``"fast"`` (no value is taken to be
      infinite or NaN).
    - ``optimize``: False compiles the graph as it is, one kernel an operation.
    - ``num_threads``: how many threads parallel loops use; None: as many as there are cores.
    - ``constant_growth``: by which part of the size of its constants a model may grow by folding.
    - ``backends``: names of backends that may compute parts of the graph, the first one first; under ``"exact"`` none does that may change a bit.
    - ``trace``: each call writes to ``sys.stderr`` what each kernel reads, before it runs, and what it wrote, behind it.
    - ``validate``: every pass's result is verified and run beside its input (``PassContext(validate=True)``).

    - ``tuned``: the database of plans that kernels take theirs from; None: that of the disk cache's folder, if there is one.

    These change nothing yet, and take their default alone: ``schedule``, ``fusion``, ``memory``, ``specialize``. Raises :class:`GraphError` for other values of them, and for values that an option does not have.

    >>> Options(numerics="exact").optimize
    True
    """

    numerics: str = "default"
    optimize: bool = True
    num_threads: int | None = None
    schedule: str = "none"
    fusion: str = "relations"
    backends: tuple[str, ...] = ()
    memory: str = "greedy"
    specialize: tuple[object, ...] = ()
    constant_growth: float = 0.05
    tuned: str | os.PathLike[str] | None = None
    trace: bool = False
    validate: bool = False

    def __post_init__(self) -> None:
        """Each value is one that its option has."""
        words = [one.word for one in Numerics]
        if self.numerics not in words:
            raise GraphError(
                f"numerics is one of {', '.join(map(repr, words))}, got {self.numerics!r}",
                help="exact changes no bit, default may add up in another order",
            )
        for word in ("optimize", "trace", "validate"):
            if not isinstance(getattr(self, word), bool):
                raise GraphError(f"{word} is True or False, got {getattr(self, word)!r}")
        threads = self.num_threads
        if threads is not None and (not isinstance(threads, int) or isinstance(threads, bool) or threads < 1):
            raise GraphError(f"num_threads is an integer of at least 1 or None, got {threads!r}")
        growth = self.constant_growth
        if not isinstance(growth, (int, float)) or isinstance(growth, bool) or not growth >= 0:
            raise GraphError(f"constant_growth is a number of at least 0, got {growth!r}")
        if self.tuned is not None and not isinstance(self.tuned, (str, os.PathLike)):
            raise GraphError(f"tuned is the path of a database of plans or None, got {self.tuned!r}")
        object.__setattr__(self, "backends", tuple(self.backends))
        object.__setattr__(self, "specialize", tuple(self.specialize))
        for field in fields(self):
            value = getattr(self, field.name)
            if field.name in _NOT_YET and value != field.default:
                raise GraphError(
                    f"the option {field.name}={value!r} has no effect: {_NOT_YET[field.name]}",
                    help=f"leave it out: it is {field.default!r}",
                )
