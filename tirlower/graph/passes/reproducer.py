"""A file that shows a wrong pass over graphs alone: the graph, the inputs, the pass, and what comes out before and after it."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from tirlower.graph.core.nodes import Const, Graph
from tirlower.graph.passes.shrink import GraphCase
from tirlower.support.literals import literals
from tirlower.validate.reproducer import Context, Named, literal, write_file

__all__ = ["write_graph_reproducer"]

_TEMPLATE = '''"""{headline}

Run it: python {file}
"""

import ml_dtypes  # noqa: F401
import numpy as np

import tirlower as tl
import tirlower.graph as tg

inf, nan = float("inf"), float("nan")

CONSTANTS = {{
{constants}}}
BEFORE = tg.parse(r"""
{before}
""", CONSTANTS)

INPUTS = [
{inputs}]


def run(graph):
    """The results on the inputs."""
    made = tg.interpret(graph, *INPUTS)
    return list(made.values()) if isinstance(made, dict) else list(made) if isinstance(made, tuple) else [made]


def same(x, y):
    """Bits, NaN equal to NaN."""
    if x.dtype != y.dtype or x.shape != y.shape:
        return False
    if x.dtype.kind in "biu":
        return bool(np.all(x == y))
    return bool(np.all((x == y) & (np.signbit(x) == np.signbit(y)) | (x != x) & (y != y)))


{after}

print(BEFORE)
print("\\nbecomes\\n")
print(AFTER)
was = run(BEFORE)
now = run(AFTER)
differ = [n for n, (x, y) in enumerate(zip(was, now)) if not same(x, y)]
for n in differ:
    print(f"\\nresult {{n}} was\\n{{was[n]}}\\nand is now\\n{{now[n]}}")
print("\\nmismatch" if differ else "\\nno difference any more")
raise SystemExit(1 if differ else 0)
'''


class Constructed(Protocol):
    """What is asked of the pass."""

    @property
    def info(self) -> Named:
        """Its description."""

    def construction(self) -> str | None:
        """The Python expression that makes it; None where a file of its own cannot name it."""


def write_graph_reproducer(case: GraphCase, pass_: Constructed, after: Graph, headline: str, ctx: Context) -> Path:
    """Write the file for a case of which a pass made ``after``. Raises OSError where the directory takes no file.

    The file runs the pass itself where it is one of this package; what another pass made is recorded in it instead.
    """
    call = pass_.construction()
    graphs = [case.graph]
    if call is not None:
        config = literals(ctx.config)
        made = (
            f"with tl.PassContext(opt_level={ctx.opt_level}, config={config!r}):\n    AFTER = tg.passes.{call}(BEFORE)"
        )
    else:
        graphs.append(after)
        made = f'# The pass {pass_.info.name} cannot be named from here: this is what it made.\nAFTER = tg.parse(r"""\n{after}\n""", CONSTANTS)'
    held = {node.data.digest[:8]: node.data for g in graphs for node in g.nodes if isinstance(node, Const)}
    parts = {
        "constants": "".join(f"    {k!r}: {literal(v.numpy())},\n" for k, v in held.items() if not v.is_abstract),
        "before": str(case.graph),
        "inputs": "".join(f"    {literal(a)},\n" for a in case.inputs),
        "after": made,
    }
    return write_file(pass_.info.name, _TEMPLATE, parts, headline, ctx)
