"""Tracing: a Python function is run once on symbolic tensors, and what it does to them becomes a graph.

>>> import numpy as np
>>> def scaled(x, w):
...     return np.maximum(x * w, 0)
>>> g = trace(scaled, spec((4, 8), "float32"), np.ones(8, "float32"))
>>> g
<Graph scaled: 1 inputs, 2 operations, 1 results>
"""

from __future__ import annotations

import ast
import inspect
import keyword
from collections.abc import Callable, Iterable, Mapping
from typing import ParamSpec, cast

import numpy as np

from tirlower.diagnostics import TirError, user_frames
from tirlower.graph.core.dims import Dim, DimEnv, Extent, extent_expr
from tirlower.graph.core.extents import parsed_extent
from tirlower.graph.core.nodes import Graph, Value
from tirlower.graph.core.parser import constant_data, dim_facts
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend.arguments import Function, dtype_name
from tirlower.graph.frontend.recording import Recording, current, place, place_of
from tirlower.graph.frontend.tensor import Tensor
from tirlower.graph.frontend.tensor_facts import TensorSpec, recording_of
from tirlower.graph.ops.builder import GraphBuilder
from tirlower.ir import Expr, Var
from tirlower.ir.dtype import DataType
from tirlower.ir.node import NODES
from tirlower.ir.query import each

__all__ = ["assume", "attributes", "constant", "dims", "extent", "graph", "spec", "trace"]

P = ParamSpec("P")


def spec(shape: object, dtype: object) -> TensorSpec:
    """The shape and the dtype of an input: extents are numbers, dims (:func:`dim`) and expressions of dims.

    >>> from tirlower.graph import dim
    >>> spec((dim("B", 1, 256), 784), "float32")
    spec((B, 784), 'float32')
    """
    return TensorSpec(shape, dtype)


def trace(function: Callable[P, object], *args: object, **kwargs: object) -> Graph:
    """The graph of what a function computes.

    Of its arguments, specs become inputs and arrays constants, both named as the parameters (also those in lists, tuples
    and dicts: ``weights_0``); other values stay what they are. The results are a tensor, a tuple, a list or a dict.
    Raises :class:`GraphError`, naming the line, for what cannot become a graph.
    """
    with user_frames():
        if not callable(function):
            raise GraphError(f"tg.trace takes a function and its arguments, got {function!r}")
        name = getattr(function, "__name__", type(function).__name__)
        try:
            bound = inspect.signature(function).bind(*args, **kwargs)
        except TypeError as error:
            raise GraphError(
                f"the arguments given to trace {name!r} are not those that it takes: {error}",
                help=f"it is {name}{inspect.signature(function)}; give a tg.spec, an array or a value for each",
            ) from None
        except ValueError:  # a builtin that does not tell its signature
            raise GraphError(f"{name!r} has no signature", help="wrap it: lambda x: f(x)") from None
        maker = _Maker(name)
        for key, parameter in bound.signature.parameters.items():
            if key not in bound.arguments and _holds_tensors([parameter.default]):
                bound.arguments[key] = parameter.default
        for key, value in bound.arguments.items():
            kind = bound.signature.parameters[key].kind
            if kind is inspect.Parameter.VAR_KEYWORD:
                bound.arguments[key] = {k: maker.tensors(v, k) for k, v in value.items()}
            else:
                bound.arguments[key] = maker.tensors(value, key)
        return maker.run(lambda: cast(Function, function)(*bound.args, **bound.kwargs))


def graph(function: Callable[P, object]) -> Graph:
    """The graph of a function whose parameters say their types: ``x: tg.Tensor((B, 784), "float32")``.

    Extents may be texts (``"B * 4"``), whose dims :func:`dims` describes. Parameters with a default value and without
    such an annotation keep that value.
    """
    with user_frames():
        name = getattr(function, "__name__", "main")
        parameters = inspect.signature(function).parameters
        try:
            annotations = inspect.get_annotations(function, eval_str=True)
        except NameError as error:
            raise GraphError(
                f"the annotations of {name!r} cannot be read: {error}",
                help='name dims by text in annotations (tg.Tensor(("B", 4), "float32")), or use tg.trace',
            ) from None
        maker = _Maker(name, _around(annotations.values()))
        given: dict[str, object] = {}
        for key, parameter in parameters.items():
            wanted = annotations.get(key)
            if isinstance(wanted, TensorSpec):
                given[key] = maker.tensors(wanted, key)
            elif parameter.default is inspect.Parameter.empty:
                raise GraphError(
                    f"the parameter {key!r} of {name!r} does not say its type",
                    help=f'write {key}: tg.Tensor((4, 8), "float32")',
                )
            else:
                given[key] = maker.tensors(parameter.default, key)
        return maker.run(lambda: cast(Function, function)(**given))


def dims(**facts: object) -> tuple[Dim, ...] | Dim:
    """State the facts of dims that shapes name by text, and get them: ``B, S = tg.dims(B=(1, 256), S=(1, None, 8))``.

    The facts of a dim are its range (ends included), and, where there are such, a divisor and a tuple of hints. In a
    traced function only.
    """
    recording = _needed("dims", help='elsewhere: B = tg.dim("B", 1, 256)')
    env = recording.builder.env
    made = [env.state(name, *dim_facts(name, value)) for name, value in facts.items()]
    env.first(made)
    return made[0] if len(made) == 1 else tuple(made)


def constant(dtype: object, shape: tuple[int, ...], what: object) -> Tensor:
    """A constant by a number in every element, or by eight digits of its digest, as the text of a graph has it."""
    recording = _needed("constant")
    with recording.adding() as builder:
        return Tensor.of(recording, builder.const(constant_data(DataType(dtype_name(dtype)), shape, what, {})))


def extent(text: str) -> Extent:
    """An extent by its text: ``tg.extent("min(B, 4)")``."""
    recording = _needed("extent")
    with recording.adding() as builder:
        return parsed_extent(text, builder.env, "the extent")


def assume(a: str, b: str) -> None:
    """Take two extents for equal: every call of the graph checks it."""
    recording = _needed("assume")
    with recording.adding() as builder:
        one, other = (extent_expr(parsed_extent(e, builder.env, "the extent")) for e in (a, b))
        builder.assume(one, other)


def attributes(**attrs: object) -> None:
    """Set attributes of the graph that is traced."""
    _needed("attributes").attrs.update(attrs)


def _needed(name: str, help: str | None = None) -> Recording:
    recording = current()
    if recording is None:
        raise GraphError(f"tg.{name} at {place()} stands in a function that is traced, and nowhere else", help=help)
    return recording


def _around(annotations: Iterable[object]) -> DimEnv | None:
    """The dims of the graph that is traced, for one inside it whose dims are all among them."""
    recording = current()
    if recording is None:
        return None
    env = recording.builder.env
    for wanted in annotations:
        for extent in wanted.extents if isinstance(wanted, TensorSpec) else ():
            if isinstance(extent, Dim):
                extent = extent.var
            named = ast.walk(ast.parse(extent)) if isinstance(extent, str) else ()
            if any(isinstance(n, ast.Name) and n.id not in env.dims and n.id not in ("min", "max") for n in named):
                return None
            if isinstance(extent, Expr) and any(v not in {d.var for d in env} for v in each(Var, extent)):
                return None
    return env


class _Maker:
    """Makes the arguments of a traced function, runs it, and makes the graph of its results."""

    def __init__(self, name: str, env: DimEnv | None = None) -> None:
        good = name.isidentifier() and not keyword.iskeyword(name)
        self.name = name
        self.inside = env is not None
        self.builder = GraphBuilder(name if good else "main", env=env)
        self.recording = Recording(self.builder)
        self.unseen: dict[Var, str] = {}
        """Dims of expressions that no shape has had by themselves so far, with the shape that has the expression."""

    def tensors(self, value: object, name: str) -> object:
        """An argument with its specs and arrays as tensors."""
        if isinstance(value, Tensor) and value.is_recorded:
            return value  # of an outer trace: an error where it is used
        if isinstance(value, TensorSpec):
            return self._input(value, name)
        if isinstance(value, np.ndarray):
            with self.recording.adding() as builder:
                return Tensor.of(self.recording, builder.const(value, name))
        if isinstance(value, (list, tuple)) and _holds_tensors(value):
            made = [self.tensors(v, f"{name}_{n}") for n, v in enumerate(value)]
            if isinstance(value, list):
                return made
            return tuple.__new__(type(value), made)
        if isinstance(value, dict) and _holds_tensors(value.values()):
            return {k: self.tensors(v, f"{name}_{k}") for k, v in value.items()}
        return value

    def _input(self, wanted: TensorSpec, name: str) -> Tensor:
        env = self.builder.env
        shape: list[Extent] = []
        for extent in wanted.extents:
            if isinstance(extent, str):
                extent = parsed_extent(extent, env, f"the shape of {name!r}")
            elif isinstance(extent, Dim):
                env.add(extent)
                extent = extent.var
            shape.append(extent)
        for extent in shape:
            if isinstance(extent, Expr):
                for var in each(Var, extent):
                    if extent is not var and var not in {d.var for d in env}:
                        self.unseen.setdefault(var, f"{name!r}: {wanted!r}")
        return Tensor.of(self.recording, self.builder.param(name, tuple(shape), wanted.kind))

    def run(self, call: Callable[[], object]) -> Graph:
        """Run the function, and give the graph of what it returns."""
        known = {d.var for d in self.builder.env}
        for var, where in self.unseen.items():
            if var not in known:
                raise GraphError(
                    f"the dim {var.name!r} stands only inside an expression, in {where}: a call could not tell its value",
                    help="an input has to have the dim itself (the object of tg.dim) as an extent",
                )
        with self.recording.running():
            try:
                made = call()
            except (TypeError, TirError) as error:
                clearer = _about_extents(error, self.name)
                if clearer is None:
                    where = place_of(error)
                    if isinstance(error, GraphError) and where.split(":")[0] not in str(error):
                        error.notes.append(f"at {where}")
                    raise
                raise clearer from None
            results, structure = self._results(made)
        made = self.builder.finish(results, structure)
        return made.with_attr(self.recording.attrs) if self.recording.attrs else made

    def _results(self, made: object) -> tuple[list[Value], str | tuple[str, ...]]:
        if isinstance(made, Mapping):
            keys = list(made)
            for key in keys:
                if not isinstance(key, str):
                    raise GraphError(f"the keys of the results of {self.name!r} are strings, got {key!r}")
            return [self._result(g) for g in self._some(made, list(made.values()))], tuple(keys)
        if isinstance(made, (tuple, list)):
            return [self._result(g) for g in self._some(made, list(made))], "tuple"
        return [self._result(g) for g in self._some(made, [made])], "one"

    def _some(self, made: object, given: list[object]) -> list[object]:
        if isinstance(made, tuple) and not made and self.inside:  # states are stored, and nothing is given back
            return given
        if not any(isinstance(g, Tensor) for g in given):
            raise GraphError(
                f"{self.name!r} returned no tensor, but {made!r}",
                help="return a tensor, a tuple of tensors, or a dict of them",
            )
        return given

    def _result(self, given: object) -> Value:
        if isinstance(given, Tensor):
            other = recording_of([given], f"the result of {self.name!r}")
            if other is not self.recording:
                raise GraphError(
                    f"a result of {self.name!r} (traced at {self.recording.place}) is {given!r} of another trace: of "
                    f"{other.builder.name!r} at {other.place}",
                    help="pass the tensor to the inner function as an argument",
                )
            return given.value
        if isinstance(given, (np.ndarray, np.generic, bool, int, float)):
            return self.builder.const(np.asarray(given))
        raise GraphError(
            f"a result of {self.name!r} is a {type(given).__name__}: {given!r}",
            help="the results are tensors in one tuple, list or dict: nested ones are given flat",
        )


def _about_extents(error: Exception, name: str) -> GraphError | None:
    """What to do where an expression of dims met code that wants a number."""
    text = str(error)
    if (
        isinstance(error, TypeError)
        and "cannot be interpreted as an integer" in text
        and text.split("'")[1]
        in (
            *NODES,
            "SymbolicExtent",
        )
    ):
        what = "an extent that is known only when the graph runs is wanted as a number"
        help = "np.zeros(shape, like=x) and tg.zeros(shape) take extents; a loop over them is tg.while_loop"
    elif type(error) is TirError and text.startswith("error: the truth of an expression"):
        what = "an extent that is known only when the graph runs is wanted as a truth value"
        help = "state its range (tg.dim(name, low, high)) and write the general case"
    elif type(error) is TirError and "got Tensor" in text:
        what = "an extent that is known only when the graph runs stands in front of a tensor"
        help = "write the tensor first: x * x.shape[0]; 0 - (x - x.shape[0]) for x.shape[0] - x"
    else:
        return None
    where = place_of(error)
    return GraphError(f"{what} in {name!r} at {where}: {getattr(error, 'message', text)}", help=help)


def _holds_tensors(values: Iterable[object]) -> bool:
    return any(
        isinstance(v, (TensorSpec, np.ndarray))
        or (isinstance(v, (list, tuple)) and _holds_tensors(v))
        or (isinstance(v, dict) and _holds_tensors(v.values()))
        for v in values
    )
