"""The command line: ``python -m tirlower demo | run | lower | source | schedule | passes | graph``."""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys
from collections.abc import Sequence

import numpy as np

import tirlower as tl
import tirlower.graph as tg
from tirlower import demo
from tirlower.diagnostics import TirError, nearest_name
from tirlower.driver.backend import SOURCE_KINDS
from tirlower.graph.core.nodes import Graph
from tirlower.graph.ops.evaluate import extent_value
from tirlower.graph.passes.default import DEFAULT
from tirlower.ir import IRModule, PrimFunc
from tirlower.ir.dtype import Array
from tirlower.ir.expr import IntImm
from tirlower.schedule.trace import Trace
from tirlower.transforms import catalog

__all__ = ["main"]


def load_function(where: str) -> PrimFunc | IRModule:
    """The prim func or module that ``FILE:FUNC`` names; a Python function of no arguments that makes one is called.

    Raises :class:`TirError` when there is no such file or function.
    """
    path_text, _, name = where.rpartition(":")
    if not path_text:
        raise TirError(f"expected FILE:FUNC, got {where!r}", help="for example examples/prefix_sum.py:prefix_sum")
    path = pathlib.Path(path_text)
    if not path.is_file():
        raise TirError(f"no file {path_text!r}")
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise TirError(f"{path_text!r} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module
    spec.loader.exec_module(module)
    found: object = module.__dict__.get(name)
    if found is None:
        known = [k for k, v in vars(module).items() if isinstance(v, (PrimFunc, IRModule, tl.Kernel))]
        near = nearest_name(name, known)
        raise TirError(
            f"{path_text} has no {name!r}",
            help=f"did you mean {near!r}?" if near else f"it has {', '.join(known) or 'none'}",
        )
    if isinstance(found, tl.Kernel):
        found = found.func
    if callable(found) and not isinstance(found, (PrimFunc, IRModule)):
        try:
            found = found()
        except TypeError as error:
            raise TirError(f"{name!r} is a Python function that needs arguments: {error}") from None
    if not isinstance(found, (PrimFunc, IRModule)):
        raise TirError(f"{where} is {type(found).__name__}, not a prim func or a module")
    return found


def random_arguments(func: PrimFunc, size: int, seed: int = 0) -> list[Array | float]:
    """Random arguments for a function, every symbolic extent being ``size``."""
    rng = np.random.default_rng(seed)
    values: list[Array | float] = []
    for param in func.params:
        buffer = func.buffer_map.get(param)
        if buffer is None:
            values.append(size if param.dtype.is_integral else 1.0)
            continue
        shape = tuple(e.value if isinstance(e, IntImm) else size for e in buffer.shape)
        dtype = buffer.dtype.numpy
        if buffer.dtype.is_float:
            values.append(rng.standard_normal(shape).astype(dtype))
        else:
            values.append(rng.integers(0, 2 if buffer.dtype.is_bool else 100, shape).astype(dtype))
    return values


def _run(args: argparse.Namespace) -> None:
    func = load_function(args.where)
    if isinstance(func, IRModule):
        raise TirError(f"{args.where} is a module of {len(func)} functions", help="name one prim func")
    kernel = tl.build(func, target=args.target)
    values = random_arguments(func, args.size)
    print(f"{kernel!r} on random arguments")
    kernel(*values)
    seconds = demo.time_call(lambda: kernel(*values))
    for param, value in zip(kernel.signature.params, values, strict=True):
        if isinstance(value, np.ndarray):
            print(f"  {param.name}: {value.dtype} {value.shape}, mean {float(np.mean(value.astype('float64'))):.6g}")
        else:
            print(f"  {param.name}: {value}")
    print(f"  {seconds * 1e6:.2f} us a call")


def _lower(args: argparse.Namespace) -> None:
    low = tl.lower(load_function(args.where), args.target, until=args.until)
    if isinstance(low, IRModule) and len(low) == 1:
        print(low[next(iter(low))].script())
    else:
        print(low.script())


def _source(args: argparse.Namespace) -> None:
    print(tl.build(load_function(args.where), target=args.target).source(args.kind))


def _schedule(args: argparse.Namespace) -> None:
    func = load_function(args.where)
    sch = tl.Schedule(func, enable_check=not args.unchecked)
    trace = pathlib.Path(args.trace)
    if not trace.is_file():
        raise TirError(f"no file {args.trace!r}", help="a trace is JSON: sch.trace.as_json(), json.dump()")
    Trace.apply_json_to_schedule(trace.read_text(encoding="utf-8"), sch)
    if args.report:
        print(sch.report())
    if args.validate:
        print(sch.validate(args.validate))
    if args.python:
        print(sch.trace)
    if not (args.report or args.validate or args.python):
        program = sch.program
        print(program.script())


def _passes(args: argparse.Namespace) -> None:
    for entry in catalog():
        print(entry)


def random_inputs(graph: Graph, size: int, seed: int = 0) -> list[Array]:
    """Random arrays for the inputs of a graph; a dim is ``size``, or what it may be that is nearest."""
    rng = np.random.default_rng(seed)
    values = {one.var: nearest_value(one, size) for one in graph.dims}
    arrays = []
    for value in graph.params:
        shape = tuple(extent_value(extent, values) for extent in value.extents)
        if value.dtype.is_float:
            arrays.append(rng.standard_normal(shape).astype(value.dtype.numpy))
        else:
            arrays.append(rng.integers(0, 2, shape).astype(value.dtype.numpy))
    return arrays


def nearest_value(one: tg.Dim, size: int) -> int:
    """The value of a dim that is nearest to a number: what is stated of it holds.

    >>> nearest_value(tg.dim("B", 4, 9, multiple_of=2), 100), nearest_value(tg.dim("N", 4, multiple_of=3), 1)
    (8, 6)
    """
    step = one.multiple_of
    least = -(-one.low // step) * step
    most = size if one.high is None else min(size, one.high)
    return max(least, most // step * step)


def _graph(args: argparse.Namespace) -> None:
    path = pathlib.Path(args.model)
    if not path.is_file():
        raise TirError(f"no file {args.model!r}")
    graph = tg.from_onnx(str(path))
    if args.until:
        print(DEFAULT.run(graph, until=args.until))
        return
    if not (args.report or args.profile or args.draw or args.run):
        print(graph)
        return
    exe = tg.compile(graph, args.target)
    inputs = random_inputs(graph, args.size)
    if args.report:
        print(exe.report(**{one.name: nearest_value(one, args.size) for one in graph.dims}))
    if args.draw:
        exe.draw(args.draw)
    if args.profile:
        print(exe.profile(*inputs))
    if args.run:
        made = exe(*inputs)
        results = list(made.values()) if isinstance(made, dict) else made if isinstance(made, tuple) else [made]
        seconds = demo.time_call(lambda: exe(*inputs))
        for value, array in zip(graph.results, results, strict=True):
            print(f"  {value.name}: {array.dtype} {array.shape}, mean {float(np.mean(array.astype('float64'))):.6g}")
        print(f"  {seconds * 1e6:.2f} us a call")


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tirlower", description="Compile loop-level tensor programs.")
    parser.add_argument("--version", action="version", version=f"tirlower {tl.__version__}")
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("demo", help="compile real kernels, check them against NumPy, show their speed")
    one.add_argument("--quick", action="store_true", help="small sizes")
    one.set_defaults(action=lambda args: demo.main(quick=args.quick))
    one = commands.add_parser("run", help="run a function on random arguments")
    one.add_argument("where", metavar="FILE:FUNC")
    one.add_argument("--size", type=int, default=128, help="the value of every symbolic extent")
    one.add_argument("--target", default="llvm")
    one.set_defaults(action=_run)
    one = commands.add_parser("lower", help="print a function after the passes")
    one.add_argument("where", metavar="FILE:FUNC")
    one.add_argument("--until", metavar="PASS", help="stop after this pass")
    one.add_argument("--target", default="llvm")
    one.set_defaults(action=_lower)
    one = commands.add_parser("source", help="print the generated code")
    one.add_argument("where", metavar="FILE:FUNC")
    one.add_argument("--kind", choices=SOURCE_KINDS, default="asm")
    one.add_argument("--target", default="llvm")
    one.set_defaults(action=_source)
    one = commands.add_parser(
        "schedule", help="take the steps of a trace on a function; without options the result is printed"
    )
    one.add_argument("where", metavar="FILE:FUNC")
    one.add_argument("--trace", metavar="FILE", required=True, help="the trace, as JSON of either dialect")
    one.add_argument("--report", action="store_true", help="print what each step rests on")
    one.add_argument("--validate", type=int, metavar="N", help="run the function before and after on so many inputs")
    one.add_argument("--python", action="store_true", help="print the trace as Python")
    one.add_argument("--unchecked", action="store_true", help="take the steps without asking whether they are legal")
    one.set_defaults(action=_schedule)
    one = commands.add_parser("graph", help="compile a model of ONNX; without options its text is printed")
    one.add_argument("model", metavar="MODEL")
    one.add_argument("--until", metavar="PASS", help="print the graph after this pass, and stop")
    one.add_argument("--report", action="store_true", help="print its kernels and its memory")
    one.add_argument("--profile", action="store_true", help="print the time of each kernel, on random inputs")
    one.add_argument("--draw", metavar="FILE", help="write a picture: .dot or .html")
    one.add_argument("--run", action="store_true", help="run it on random inputs")
    one.add_argument("--size", type=int, default=1, help="the value of every dim, as far as the dim may be that")
    one.add_argument("--target", default="llvm")
    one.set_defaults(action=_graph)
    one = commands.add_parser("passes", help="list the passes")
    one.set_defaults(action=_passes)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; 1 when it failed with an error of ours, which is printed."""
    args = _parser().parse_args(argv)
    try:
        args.action(args)
    except TirError as error:
        print(error, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
