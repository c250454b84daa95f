"""What a compiled graph says of itself: its kernels, memory, and what each call checks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tirlower.graph.core.analysis import inner_graphs
from tirlower.graph.core.debug import Debug
from tirlower.graph.core.draw import Table
from tirlower.graph.lower.driver import Lowered
from tirlower.graph.run.costs import Cost, cost_of
from tirlower.graph.run.plan import Plan, plan_of
from tirlower.graph.run.sites import sites_of

__all__ = ["KernelRow", "Report", "report_of"]


@dataclass(frozen=True)
class KernelRow:
    """A kernel: how often a call of the graph calls it, what one such call costs, and the lines that it is from."""

    name: str
    calls: int
    cost: Cost
    origins: tuple[str, ...]


@dataclass(frozen=True)
class Report:
    """The kernels in the order of their first calls, the plan of the memory, the bytes of constants, what is checked.

    ``watched`` are the assertions and prints that a call does.

    Operations and bytes are those at ``dims``. ``str()`` is a table.
    """

    name: str
    dims: Mapping[str, int]
    kernels: tuple[KernelRow, ...]
    plan: Plan
    constants: int
    checked: tuple[str, ...]
    watched: tuple[str, ...] = ()

    @property
    def flops(self) -> float:
        """The arithmetic operations of a call of the graph."""
        return sum(row.calls * row.cost.flops for row in self.kernels)

    def tables(self) -> list[Table]:
        """Kernels and values of the arena as tables of a page."""
        kernels = [
            (
                row.name,
                row.calls,
                row.cost.flops,
                row.cost.read,
                row.cost.written,
                row.cost.scratch,
                "; ".join(row.origins),
            )
            for row in self.kernels
        ]
        values = [(p.name, p.offset, p.size, f"{p.first} to {p.last}") for p in self.plan.placements]
        return [
            ("kernels", ["kernel", "calls", "operations", "bytes read", "bytes written", "scratch", "from"], kernels),
            (f"arena of {self.plan.arena} bytes", ["value", "offset", "bytes", "steps"], values),
        ]

    def __str__(self) -> str:
        """The table."""
        at = f" at {', '.join(f'{name} = {value}' for name, value in self.dims.items())}" if self.dims else ""
        plan = self.plan
        lines = [
            f"{self.name}: {sum(row.calls for row in self.kernels)} kernels ({len(self.kernels)} distinct), "
            f"{self.flops / 1e6:.3g} MFLOP{at}, arena {_kb(plan.arena)} KB (without reuse {_kb(plan.without_reuse)}, "
            f"most live at once {_kb(plan.most_live)}), constants {_kb(self.constants)} KB"
        ]
        width = max([6, *(len(row.name) for row in self.kernels)])
        lines.append(f"  {'kernel':<{width}}  calls     MFLOP    read KB  written KB  scratch  from")
        for row in self.kernels:
            cost = row.cost
            places = list(dict.fromkeys(origin for origin in row.origins if origin))
            shown = ", ".join(places[:2]) + (f" and {len(places) - 2} more" if len(places) > 2 else "")
            scratch = str(cost.scratch) if cost.scratch else "-"
            lines.append(
                f"  {row.name:<{width}}  {row.calls:5d}  {cost.flops / 1e6:8.3g}  {_kb(cost.read):>9}  {_kb(cost.written):>10}"
                f"  {scratch:>7}  {shown}".rstrip()
            )
        if self.checked:
            lines.append(f"checked at the entry: {'; '.join(self.checked)}")
        if self.watched:
            lines.append(f"said while it runs: {'; '.join(self.watched)}")
        return "\n".join(lines)


def report_of(lowered: Lowered, dims: Mapping[str, int] | None = None) -> Report:
    """The report of a graph, at some values of its dims; at typical ones without.

    >>> import numpy as np, tirlower.graph as tg
    >>> exe = tg.compile(tg.trace(lambda x, w: x @ w, tg.spec((tg.dim("B", 1, 8), 4), "float32"), np.eye(4, dtype="float32")))
    >>> report = exe.report(B=2)
    >>> report.flops, report.constants, report.checked, [row.cost.written for row in report.kernels]
    (64.0, 64, ('1 <= B <= 8',), [32])
    """
    graph = lowered.graph
    values = {one.name: one.typical for one in graph.dims} | dict(dims or {})
    counts: dict[str, int] = {}
    for site in sites_of(lowered.module):
        counts[site.kernel] = counts.get(site.kernel, 0) + 1
    rows = [
        KernelRow(name, count, cost_of(lowered.module[name], values), tuple(op.origin for op in lowered.calls[name]))
        for name, count in counts.items()
    ]
    checked = (*(one.facts for one in graph.dims), *(f"{a} == {b}" for a, b in graph.assumed))
    plan = plan_of(lowered, {one.var: values[one.name] for one in graph.dims})
    constants = sum(c.nbytes for c in lowered.constants)
    nodes = [node for one in (graph, *inner_graphs(graph)) for node in one.nodes]
    watched = tuple(_shown(node) for node in nodes if isinstance(node, Debug))
    return Report(graph.name, values, tuple(rows), plan, constants, checked, watched)


def _shown(node: Debug) -> str:
    where = f" ({node.origin})" if node.origin else ""
    return f"{type(node).__name__.lower()} {node.text or node.inputs[0].name!r}{where}"


def _kb(size: int) -> str:
    return f"{size / 1024:.1f}"
