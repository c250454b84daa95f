"""``tg.tune``: each kernel of a compiled graph searched for its fastest plan, which later compilations take."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tirlower.analysis.call_graph import calls_of
from tirlower.autoschedule.explain import time_text
from tirlower.call.bind import aligned_empty
from tirlower.call.dtypes import numpy_dtype
from tirlower.call.parameters import passed_names
from tirlower.diagnostics import TirError
from tirlower.graph.errors import GraphError
from tirlower.graph.ops.evaluate import extent_value
from tirlower.graph.run.executable import Executable
from tirlower.ir.func import PrimFunc
from tirlower.tuning.search import Measure, Tuned, tune

__all__ = ["GraphTuned", "tuned_kernels"]

LEAST = 5.0
"""Seconds that the search for a kernel has at least, however little it does."""


@dataclass(frozen=True)
class GraphTuned:
    """What was found for each kernel, those that do the most first; how often a call of the graph calls it; and why some were
    not searched (``failed``)."""

    graph: str
    kernels: Mapping[str, Tuned]
    calls: Mapping[str, int]
    failed: Mapping[str, str]

    @property
    def seconds(self) -> float:
        """Seconds of the searched kernels in a call of the graph, with the plans that are kept."""
        return sum(self.calls[name] * one.seconds for name, one in self.kernels.items())

    @property
    def untuned(self) -> float:
        """The same without them."""
        return sum(self.calls[name] * one.untuned for name, one in self.kernels.items())

    def __str__(self) -> str:
        head = (
            f"{self.graph}: {time_text(self.seconds)} in {len(self.kernels)} kernels, {time_text(self.untuned)} untuned"
        )
        lines = [
            f"  {name}: {one.speedup:.2f} times as fast{f' ({one.change})' if one.change else ''}, {self.calls[name]} calls"
            for name, one in self.kernels.items()
        ]
        return "\n".join([head, *lines, *(f"  {name}: {why}" for name, why in self.failed.items())])


def tuned_kernels(
    exe: Executable,
    dims: Mapping[str, int],
    executor: object,
    budget: float,
    trials: int | None,
    cache: str,
    database: Path | str | None,
    measure: Measure,
) -> GraphTuned:
    """Search the kernels of a graph one after another, at some values of its dims. Each has the part of the time that is left
    which its operations and bytes are of those that are left. Raises :class:`GraphError` under ``cache="only"`` for kernels of
    which nothing is kept."""
    report = exe.report(**dims)
    rows = {row.name: row for row in report.kernels if not calls_of(exe.module[row.name])}
    work = {name: row.calls * (row.cost.flops + row.cost.read + row.cost.written) for name, row in rows.items()}
    order = sorted(work, key=lambda name: -work[name])
    end = time.monotonic() + budget
    found: dict[str, Tuned] = {}
    failed: dict[str, str] = {}
    for at, name in enumerate(order):
        left = sum(work[other] for other in order[at:])
        share = max(LEAST, (end - time.monotonic()) * work[name] / left if left else 0.0)
        func = exe.module[name]
        try:
            found[name] = tune(
                func,
                _arguments(func, report.dims),
                exe.target,
                executor=executor,
                budget=share,
                trials=trials,
                cache=cache,
                database=database,
                measure=measure,
            )
        except TirError as error:
            failed[name] = error.message
    if cache == "only" and failed:
        raise GraphError(
            f"nothing is kept of {len(failed)} kernels of {exe.graph.name}: {', '.join(failed)}",
            help='cache="readwrite" searches them',
        )
    return GraphTuned(exe.graph.name, found, {name: rows[name].calls for name in order}, failed)


def _arguments(func: PrimFunc, dims: Mapping[str, int]) -> list[object]:
    """Arrays, in which nothing is, and the values of dims, as a call of a kernel takes them. They begin at a line, as what a graph
    gives its kernels does."""
    values = {param: dims[param.name] for param in func.params if param not in func.buffer_map}
    named = {buffer.name: buffer for buffer in func.buffer_map.values()}
    made: list[object] = []
    for name in passed_names(func, None):
        buffer = named.get(name)
        if buffer is None:
            made.append(dims[name])
            continue
        shape = tuple(extent_value(extent, values) for extent in buffer.shape)
        array = aligned_empty(shape, numpy_dtype(str(buffer.dtype)))
        array[...] = np.zeros((), array.dtype)
        made.append(array)
    return made
