"""Operator graphs: traced from NumPy functions or read from ONNX, compiled to prim funcs that a driver calls.

>>> import numpy as np, tirlower.graph as tg
>>> def layer(x, w, b):
...     return np.maximum(x @ w + b, 0)
>>> B = tg.dim("B", 1, 256)
>>> g = tg.trace(layer, tg.spec((B, 8), "float32"), np.ones((8, 4), "float32"), np.zeros(4, "float32"))
>>> [n.name for n in g.ops]
['matmul', 'add', 'maximum']

The functions of all operations (``tg.matmul``, ``tg.where``) stand here too.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import tirlower.graph.patterns as dpl
    from tirlower.graph import passes
    from tirlower.graph.api import compile, load, tune
    from tirlower.graph.backends.registry import register_backend
    from tirlower.graph.core.constants import ConstantData
    from tirlower.graph.core.dims import Dim, dim
    from tirlower.graph.core.module import Module
    from tirlower.graph.core.module_text import parse_module
    from tirlower.graph.core.nodes import Const, Graph, Op, Value
    from tirlower.graph.core.options import Options
    from tirlower.graph.core.parser import parse
    from tirlower.graph.core.structural import assert_structural_equal, structural_equal, structural_hash
    from tirlower.graph.core.verify import verify
    from tirlower.graph.errors import GraphError
    from tirlower.graph.frontend.control import State, call, cond, extern, prim_func, state, while_loop
    from tirlower.graph.frontend.debug import assert_, print_
    from tirlower.graph.frontend.modules import kernels, module
    from tirlower.graph.frontend.namespace import nn, xp
    from tirlower.graph.frontend.onnx import from_onnx
    from tirlower.graph.frontend.tensor import Tensor
    from tirlower.graph.frontend.trace import assume, attributes, constant, dims, extent, graph, spec, trace
    from tirlower.graph.ops.builder import GraphBuilder
    from tirlower.graph.ops.interpret import interpret
    from tirlower.graph.passes.partition import partition
    from tirlower.graph.passes.rewrite import PatternMatchingRewriter, rewrite, rewrite_bindings, rewrite_call
    from tirlower.graph.passes.rule import DFPatternCallback, Rule
    from tirlower.graph.run.executable import Executable

# What stands where. Each is imported at its first use: `import tirlower.graph` alone costs next to nothing.
_WHERE = {
    "Const": "core.nodes",
    "ConstantData": "core.constants",
    "DFPatternCallback": "passes.rule",
    "Dim": "core.dims",
    "Executable": "run.executable",
    "Graph": "core.nodes",
    "GraphBuilder": "ops.builder",
    "GraphError": "errors",
    "Op": "core.nodes",
    "Module": "core.module",
    "Options": "core.options",
    "PatternMatchingRewriter": "passes.rewrite",
    "Rule": "passes.rule",
    "State": "frontend.control",
    "Tensor": "frontend.tensor",
    "Value": "core.nodes",
    "assert_": "frontend.debug",
    "assert_structural_equal": "core.structural",
    "assume": "frontend.trace",
    "attributes": "frontend.trace",
    "call": "frontend.control",
    "compile": "api",
    "tune": "api",
    "cond": "frontend.control",
    "constant": "frontend.trace",
    "dim": "core.dims",
    "dims": "frontend.trace",
    "dpl": "patterns",
    "extent": "frontend.trace",
    "extern": "frontend.control",
    "from_onnx": "frontend.onnx",
    "graph": "frontend.trace",
    "interpret": "ops.interpret",
    "kernels": "frontend.modules",
    "load": "api",
    "module": "frontend.modules",
    "nn": "frontend.namespace",
    "parse": "core.parser",
    "parse_module": "core.module_text",
    "print_": "frontend.debug",
    "prim_func": "frontend.control",
    "partition": "passes.partition",
    "passes": "passes",
    "register_backend": "backends.registry",
    "rewrite": "passes.rewrite",
    "rewrite_bindings": "passes.rewrite",
    "rewrite_call": "passes.rewrite",
    "spec": "frontend.trace",
    "state": "frontend.control",
    "structural_equal": "core.structural",
    "structural_hash": "core.structural",
    "trace": "frontend.trace",
    "verify": "core.verify",
    "while_loop": "frontend.control",
    "xp": "frontend.namespace",
}

# Names that stand for a whole module.
_ROOMS = ("dpl", "passes")

__all__ = list(_WHERE)


def __getattr__(name: str) -> object:
    if name.startswith("__"):
        raise AttributeError(name)
    where = _WHERE.get(name)
    if where is not None:
        from tirlower.support import import_for_good

        module = import_for_good(f"tirlower.graph.{where}")
        value: object = module if name in _ROOMS else getattr(module, name)
    else:
        from tirlower.graph.frontend.namespace import operation

        value = operation(name)
        if value is None:
            from tirlower.diagnostics import nearest_name

            near = nearest_name(name, __dir__())
            help = f": did you mean {near!r}?" if near else ""
            raise AttributeError(f"module 'tirlower.graph' has no attribute {name!r}{help}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    from tirlower.graph.frontend import creation, functions, products
    from tirlower.graph.ops.registry import names

    return sorted({*__all__, *names(), *functions.__all__, *creation.__all__, *products.__all__})
