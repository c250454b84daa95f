"""The times of the kernels in calls of a compiled graph."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from tirlower.graph.run.call import Call
from tirlower.graph.run.costs import Cost, cost_of
from tirlower.graph.run.sites import Arguments, Site
from tirlower.graph.run.tracing import Watched

__all__ = ["GraphProfile", "ProfiledKernel", "profile_of"]


@dataclass(frozen=True)
class ProfiledKernel:
    """A kernel in a call of the graph: how often it ran, the seconds of all runs together, and what one run costs."""

    name: str
    calls: int
    seconds: float
    cost: Cost
    origins: tuple[str, ...]

    @property
    def gflops(self) -> float:
        """Billions of arithmetic operations a second."""
        return self.calls * self.cost.flops / self.seconds / 1e9 if self.seconds else 0.0

    @property
    def gigabytes(self) -> float:
        """Billions of bytes a second that it reads and writes."""
        return self.calls * (self.cost.read + self.cost.written) / self.seconds / 1e9 if self.seconds else 0.0


@dataclass(frozen=True)
class GraphProfile:
    """The kernels of a graph, the longest first. ``str()`` is a table."""

    name: str
    kernels: tuple[ProfiledKernel, ...]
    rounds: int

    @property
    def seconds(self) -> float:
        """The time of all kernels."""
        return sum(one.seconds for one in self.kernels)

    def __str__(self) -> str:
        """The table."""
        lines = [
            f"{self.name}: {self.seconds * 1e3:.4g} ms in {sum(k.calls for k in self.kernels)} kernels (medians of {self.rounds} calls)"
        ]
        width = max([6, *(len(one.name) for one in self.kernels)])
        lines.append(f"  {'kernel':<{width}}  calls         ms  share  GFLOP/s    GB/s  from")
        for one in self.kernels:
            share = one.seconds / self.seconds if self.seconds else 0.0
            places = list(dict.fromkeys(origin for origin in one.origins if origin))
            lines.append(
                f"  {one.name:<{width}}  {one.calls:5d}  {one.seconds * 1e3:9.4g}  {share:5.1%}  {one.gflops:7.4g}"
                f"  {one.gigabytes:6.4g}  {', '.join(places[:2])}".rstrip()
            )
        return "\n".join(lines)


def profile_of(
    watched: Watched,
    run: Callable[[Callable[[Sequence[object]], object]], object],
    rounds: int,
    plain: Call | None = None,
) -> GraphProfile:
    """The profile of so many calls; ``run`` makes one through what it is given. One call before them is not counted.

    Constants and states are those of the ``plain`` call.
    """
    samples: dict[int, list[int]] = {}
    sites: dict[int, Site] = {}
    dims: dict[str, int] = {}

    def observe(site: Site, arguments: Arguments, nanoseconds: int) -> None:
        sites[site.number] = site
        samples.setdefault(site.number, []).append(nanoseconds)
        dims.update({var.name: value for var, value in arguments.dims.items()})

    call = watched.call(observe, plain=plain)
    for turn in range(rounds + 1):
        run(lambda inputs: call(inputs, None))
        if turn == 0:
            samples.clear()
    return GraphProfile(watched.lowered.graph.name, _kernels(watched, sites, samples, dims, rounds), rounds)


def _kernels(
    watched: Watched,
    sites: Mapping[int, Site],
    samples: Mapping[int, Sequence[int]],
    dims: Mapping[str, int],
    rounds: int,
) -> tuple[ProfiledKernel, ...]:
    seconds: dict[str, float] = {}
    calls: dict[str, int] = {}
    for number, times in samples.items():
        name = sites[number].kernel
        often = len(times) / rounds  # more than once where main has a loop
        seconds[name] = seconds.get(name, 0.0) + statistics.median(times) * often / 1e9
        calls[name] = calls.get(name, 0) + round(often)
    lowered = watched.lowered
    made = [
        ProfiledKernel(
            name,
            calls[name],
            total,
            cost_of(lowered.module[name], dims),
            tuple(op.origin for op in lowered.calls[name]),
        )
        for name, total in seconds.items()
    ]
    return tuple(sorted(made, key=lambda one: (-one.seconds, one.name)))
