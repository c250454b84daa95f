"""NumPy's functions on symbolic tensors: which of ours stands for each, and with what arguments."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Hashable, Mapping, Sequence
from typing import cast

import numpy as np

from tirlower.diagnostics import nearest_name
from tirlower.graph.core.dims import DimEnv
from tirlower.graph.errors import GraphError
from tirlower.graph.frontend import compositions, creation, functions, ordering, products
from tirlower.graph.frontend.arguments import Function, dtype_name
from tirlower.graph.frontend.recording import place
from tirlower.graph.frontend.symbolic import plain, symbolic
from tirlower.graph.frontend.tensor import Tensor, apply, values_in
from tirlower.graph.frontend.tensor_facts import recording_of
from tirlower.graph.ops.registry import Definition, definition, names
from tirlower.ir import Expr

__all__ = ["OTHER_NAMES", "WRITTEN_OUT", "call", "call_function", "call_ufunc", "function_named"]

OTHER_NAMES = {
    "absolute": "abs",
    "amax": "max",
    "amin": "min",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "bitwise_not": "bitwise_invert",
    "conjugate": "positive",
    **dict.fromkeys(("conv1d", "conv2d", "conv3d"), "conv"),
    "cumulative_prod": "cumprod",
    "cumulative_sum": "cumsum",
    "fabs": "abs",
    "fix": "trunc",
    "invert": "bitwise_invert",
    "left_shift": "bitwise_left_shift",
    "mod": "remainder",
    "permute_dims": "transpose",
    "pow": "power",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "true_divide": "divide",
}
"""NumPy's and the array API's names of operations that are registered under another one."""

_ROOM = {name: module for module in (functions, products, creation, ordering, compositions) for name in module.__all__}
WRITTEN_OUT = frozenset(_ROOM)
"""The functions that are not derived from an operation."""

_OTHER_KEYWORDS = {"ddof": "correction", "reps": "repeats"}

_REDUCED = {
    "add": "sum",
    "multiply": "prod",
    "maximum": "max",
    "minimum": "min",
    "logical_and": "all",
    "logical_or": "any",
}
_ACCUMULATED = {"add": "cumsum", "multiply": "cumprod"}


@functools.cache
def function_named(name: str) -> Function | None:
    """Ours for a name of NumPy, the array API or the registry: written out, or derived from the operation."""
    if name in WRITTEN_OUT:
        return _of_user(cast(Function, getattr(_ROOM[name], name)))
    registered = OTHER_NAMES.get(name, name)
    if registered in WRITTEN_OUT:
        return function_named(registered)
    return derived(definition(registered)) if registered in names() else None


def _of_user(function: Function) -> Function:
    """The function on extents as the user sees them, giving such."""

    @functools.wraps(function)
    def run(*args: object, **kwargs: object) -> object:
        made = function(*map(plain, args), **{key: plain(value) for key, value in kwargs.items()})
        if isinstance(made, Expr) or (isinstance(made, tuple) and any(isinstance(e, Expr) for e in made)):
            tensors = values_in([*args, *kwargs.values()])
            env = recording_of(tensors, "an extent").builder.env
            return tuple(_seen(e, env) for e in made) if isinstance(made, tuple) else _seen(made, env)
        return made

    return run


def _seen(given: object, env: DimEnv) -> object:
    return symbolic(given, env) if isinstance(given, Expr) else given


@functools.cache
def derived(found: Definition) -> Function:
    """The function of an operation: operands, then attributes by position or by name."""

    def function(*args: object, **kwargs: object) -> object:
        dtype = kwargs.pop("dtype", None) if "dtype" not in found.attributes else None
        for name in list(kwargs):
            other = _OTHER_KEYWORDS.get(name, name)
            if other in found.attributes or any(p.name == other for p in found.parameters):
                kwargs[other] = kwargs.pop(name)
        if dtype is not None and args:
            args = (functions.astype(args[0], dtype), *args[1:])
        return apply(found.name, *args, **kwargs)

    function.__name__ = function.__qualname__ = found.name
    function.__doc__ = f"{found.signature}\n\n{found.doc}"
    function.__module__ = "tirlower.graph"
    return function


def call(name: str, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """The result of ours for a name."""
    function = function_named(name)
    if function is None:
        raise _unknown(f"np.{name}", name)
    return function(*args, **kwargs)


def _unknown(shown: str, name: str) -> GraphError:
    near = nearest_name(name, [*names(), *WRITTEN_OUT])
    return GraphError(
        f"{shown} at {place()} is not known for tensors of a graph",
        help=f"did you mean {near!r}?" if near else "the operations there are: dir(tg.xp) and dir(tg.nn)",
    )


# Universal functions


def call_ufunc(ufunc: np.ufunc, method: str, inputs: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """What a universal function of NumPy, or a method of it (``np.add.reduce``), gives on tensors."""
    name = ufunc.__name__
    shown = f"np.{name}" if method == "__call__" else f"np.{name}.{method}"
    given = _refused(shown, kwargs)
    if method == "__call__":
        if name == "divmod":
            return call("floor_divide", inputs, given), call("remainder", inputs, given)
        if name == "modf":
            whole = call("trunc", inputs, given)
            return call("subtract", (*inputs, whole), {}), whole
        dtype = given.pop("dtype", None)
        if dtype is not None:
            inputs = [functions.astype(x, dtype) if isinstance(x, (Tensor, np.ndarray)) else x for x in inputs]
        if given:
            raise GraphError(f"{shown} at {place()} takes no {next(iter(given))}= with tensors of a graph")
        return call(name, inputs, {})
    table = _REDUCED if method == "reduce" else _ACCUMULATED if method == "accumulate" else {}
    if name in table:
        return call(table[name], inputs, {"axis": 0, **given} if len(inputs) == 1 else given)
    if method == "outer":
        a, b = inputs
        wide = functions.reshape(a, (*functions.shape(a), *[1] * functions.ndim(b)))
        return call(name, (wide, b), {})
    raise GraphError(f"{shown} at {place()} is not known for tensors of a graph", help="np.sum, np.max, … reduce")


_NONE = (None, getattr(np, "_NoValue", None))
_DEFAULTS: dict[str, tuple[object, ...]] = {
    **dict.fromkeys(("dtype", "initial", "keepdims", "like", "mean", "out", "where"), _NONE),
    "casting": ("same_kind",),
    "order": (None, "K"),
    "subok": (True,),
    "where": (True, *_NONE),
}
"""Keywords that say nothing with these values."""


def _refused(shown: str, kwargs: Mapping[str, object]) -> dict[str, object]:
    """The keywords without those that say nothing. Raises :class:`GraphError` for those that cannot be had."""
    kept: dict[str, object] = {}
    for name, value in kwargs.items():
        if any(value is default for default in _DEFAULTS.get(name, ())):
            continue
        if name == "out":
            raise GraphError(
                f"{shown} at {place()} writes into out=, and tensors of a graph do not change",
                help="take the result: y = np.add(x, 1); a compiled graph writes in place with exe(x, out=y)",
            )
        if name == "where":
            raise GraphError(
                f"{shown} at {place()} takes no where= with tensors of a graph",
                help="choose before: np.sum(np.where(mask, x, 0)), or after: np.where(mask, np.add(x, y), x)",
            )
        kept[name] = value
    return kept


# Other functions


@functools.cache
def _signature(function: Hashable) -> inspect.Signature | None:
    try:
        return inspect.signature(cast(Function, function))
    except (TypeError, ValueError):
        return None


def call_function(function: object, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
    """What a function of NumPy gives on tensors."""
    name = getattr(function, "__name__", "?")
    shown = f"{(getattr(function, '__module__', None) or 'numpy').replace('numpy', 'np', 1)}.{name}"
    ours = function_named(name)
    if ours is None or not callable(function):
        raise _unknown(shown, name)
    given = _refused(shown, kwargs)
    if name in WRITTEN_OUT:
        signature = _signature(cast(Hashable, ours))
        assert signature is not None
        try:
            signature.bind(*args, **given)
        except TypeError as error:
            raise GraphError(
                f"{shown} at {place()} is not known with these arguments for tensors of a graph: {error}",
                help=f"it is {name}{signature}",
            ) from None
        return ours(*args, **given)
    theirs = _signature(cast(Hashable, function))
    if theirs is None:
        return ours(*args, **given)
    # By NumPy's own names: what stands third there may stand second here.
    arguments = _refused(shown, theirs.bind(*args, **kwargs).arguments)
    found = definition(OTHER_NAMES.get(name, name))
    count = len(found.parameters)
    if any(p.variadic for p in found.parameters):
        count = 1
    operands = [arguments.pop(p) for p in list(theirs.parameters)[:count] if p in arguments]
    for rest, kind in theirs.parameters.items():
        if kind.kind is inspect.Parameter.VAR_KEYWORD and rest in arguments:
            arguments |= cast(dict[str, object], arguments.pop(rest))
    for rest in arguments:
        if rest != "dtype" and _OTHER_KEYWORDS.get(rest, rest) not in found.attributes and rest not in found.attributes:
            raise GraphError(
                f"{shown} at {place()} takes no {rest}= with tensors of a graph", help=f"it is {found.signature}"
            )
    if "dtype" in arguments:
        arguments["dtype"] = dtype_name(arguments["dtype"])
    return ours(*operands, **arguments)
