"""Wrong variants of the passes: each is found by the fuzzer, and the guilty pass named."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import pytest

from tirlower.graph.core.constants import ConstantData
from tirlower.graph.core.control import If, While
from tirlower.graph.core.debug import Debug
from tirlower.graph.core.effects import Load, Store
from tirlower.graph.passes import (
    canonical,
    constants,
    control,
    cse,
    dce,
    debug,
    expand,
    globals,
    liveness,
    rules_algebra,
    rules_shapes,
)

__all__ = ["FAULTS", "Fault"]


class Fault(NamedTuple):
    """A wrong variant: its name, the pass that it is of, and how it is planted."""

    name: str
    guilty: str
    plant: Callable[[pytest.MonkeyPatch], None]

    @property
    def seed(self) -> int:
        """The seed that found it when it was written down: the search begins there."""
        return SEEDS.get(self.name, 0)


def _rule(name: str, apply: Callable[[Any, Callable[[Any], Any]], Any]) -> Callable[[pytest.MonkeyPatch], None]:
    """Another function for a rule: it is given the site, and the right one."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = next(rule for rule in canonical.RULES if rule.name == name)
        wrong = dataclasses.replace(right, apply=lambda site: apply(site, right.apply))
        patch.setattr(canonical, "RULES", tuple(wrong if rule is right else rule for rule in canonical.RULES))

    return plant


def _set(module: object, name: str, value: object) -> Callable[[pytest.MonkeyPatch], None]:
    return lambda patch: patch.setattr(module, name, value)


def _inner(site, right, make, *names):
    inner = site.made_by(site.inputs[0], *names)
    return None if inner is None else make(inner)


def _expanded_backwards(patch: pytest.MonkeyPatch) -> None:
    right = expand._opened

    def opened(builder, node, operands):
        made = right(builder, node, operands)
        return None if made is None else tuple(reversed(made))

    patch.setattr(expand, "_opened", opened)


def _two_operands_alone(nodes, results):
    needed, kept = set(results), []
    for node in reversed(nodes):
        if any(value in needed for value in node.results):
            kept.append(node)
            needed.update(node.operands[:2])
    return tuple(reversed(kept))


def _unwatched(nodes, results):
    return tuple(node for node in liveness.live(nodes, results) if not isinstance(node, Debug))


def _said_once(patch: pytest.MonkeyPatch) -> None:
    right = cse._Seen._key

    def key(self, node, places):
        return (node.text, *places) if isinstance(node, Debug) else right(self, node, places)

    patch.setattr(cse._Seen, "_key", key)


def _key_without(part: int) -> Callable[[pytest.MonkeyPatch], None]:
    """CSE that does not look at a part of an operation."""

    def plant(patch: pytest.MonkeyPatch) -> None:
        right = cse._Seen._key

        def key(self, node, places):
            made = right(self, node, places)
            return made if not isinstance(made, tuple) or len(made) != 5 else (*made[:part], *made[part + 1 :])

        patch.setattr(cse._Seen, "_key", key)

    return plant


def _values_alone(array):
    if array.size > 1 and (array == array.reshape(-1)[0]).all():
        return ConstantData.splat(abs(array.reshape(-1)[0].item()), array.shape, array.dtype.name)
    return ConstantData(array)


def _slice_start_alone(op, env):
    made = _RIGHT_SLICE(rules_shapes._Slice, op, env)
    if made is not None:
        made.step = [1] * len(made.step)
    return made


_RIGHT_SLICE = rules_shapes._Slice.of.__func__  # type: ignore[attr-defined]


def _joined_anywhere(a, b, axis, env):
    length = [x + b.length[n] if n == axis else x for n, x in enumerate(a.length)]
    return rules_shapes._Slice(a.begin, a.step, length)


def _through_writes(graph):
    """What a state holds is taken to be known behind nodes that write it."""
    held = {}

    def visit(builder, node, operands):
        if isinstance(node, Load):
            known = held.setdefault(node.source, node.results[0])
            return None if known is node.results[0] else (known,)
        if isinstance(node, Store):
            held[node.target] = operands[0]
        return None

    return globals.rewritten(graph, visit)


def _loads_forgotten(graph):
    """A store is taken for overwritten although it is read before."""
    covered, kept = set(), []
    for node in reversed(graph.nodes):
        if isinstance(node, Store):
            if node.target in covered:
                continue
            covered.add(node.target)
        kept.append(node)
    return graph if len(kept) == len(graph.nodes) else graph.with_(nodes=tuple(reversed(kept)))


def _seen_at_first(state, accesses, entry):
    """A state is a constant where all that is stored is, whatever it holds at first."""
    made = [store.inputs[0].node for store in accesses.stores]
    if all(isinstance(node, globals.Const) for node in made) and all(n.data == made[0].data for n in made):
        return made[0].data if made else state.initial
    return None


def _control_node(kind, wrong):
    """Another function for choices, or for loops: it is given what the right one is."""
    name = "_choice" if kind is If else "_loop"
    right = getattr(control, name)
    return _set(control, name, lambda builder, node, *more: wrong(right, builder, node, *more))


def _swapped(right, builder, node, operands, needed):
    other = node.with_(results=tuple(_fresh(node)), then_graph=node.else_graph, else_graph=node.then_graph)
    return right(builder, other if isinstance(control._constant(operands[0]), bool) else node, operands, needed)


def _fresh(node):
    return [control.Value.of(v.type, v.name) for v in node.results]


def _begun_equal(given, body, cse):
    first = {}
    return [first.setdefault(value, n) for n, value in enumerate(given)]


SEEDS = {
    "x + 0.0 is x for -0.0 too": 41,
    "x - -0.0 is x": 41,
    "a neutral number of another operation": 1,
    "0 times a float is 0": 5,
    "a float less itself is 0": 21,
    "a permutation composed the wrong way round": 9,
    "any transpose moves nothing": 5,
    "a reshape looks through a transpose": 5,
    "two flips are both axes flipped": 7,
    "a slice's steps are forgotten": 0,
    "slices are joined whether they are neighbours or not": 8,
    "a part of a part is taken for one along any axis": 10,
    "every conversion may go another way": 10,
    "constants of floats are added up first": 13,
    "the arms of a choice stay where they were": 1,
    "x - (-y) is x - y": 7,
    "floors of what was rounded in another way": 41,
    "attributes are not compared": 5,
    "every operation commutes": 8,
    "of constants the first elements are compared": 1,
    "-0.0 and 0.0 are one number": 1,
    "results of a macro in another order": 20,
    "a write inside a node is not seen": 3,
    "a load before the next store is not seen": 24,
    "what a state holds at first is forgotten": 12,
    "states that are stored to alike are equal in between": 12,
    "of a choice the other way is taken": 3,
    "ways of as many nodes are equal": 82,
    "what begins equal stays equal": 86,
    "a loop gives what it began with": 3,
    "what a third operand needs is dropped": 5,
    "what is watched twice is watched once": 8,
    "with what watches go the states": 3,
}

FAULTS = (
    Fault("x + 0.0 is x for -0.0 too", "graph.Canonicalize",
          _rule("neutral_element", lambda site, right: site.inputs[0] if site.number(site.inputs[1]) == 0 and site.op.name == "add" else right(site))),
    Fault("x - -0.0 is x", "graph.Canonicalize",
          _rule("neutral_element", lambda site, right: site.inputs[0] if site.number(site.inputs[1]) == 0 and site.op.name == "subtract" else right(site))),
    Fault("a neutral number of another operation", "graph.Canonicalize",
          _rule("neutral_element", lambda site, right: site.inputs[0] if site.number(site.inputs[1]) == 1 else right(site))),
    Fault("0 times a float is 0", "graph.Canonicalize",
          _rule("times_zero", lambda site, right: site.builder.const(ConstantData.splat(0, site.result.shape, site.result.dtype))
                if site.op.name == "multiply" and site.number(site.inputs[1]) == 0 and all(isinstance(e, int) for e in site.result.shape) else right(site))),
    Fault("a float less itself is 0", "graph.Canonicalize",
          _rule("less_itself", lambda site, right: site.builder.const(ConstantData.splat(0.0, site.result.shape, site.result.dtype))
                if site.inputs[0] is site.inputs[1] and site.result.dtype.is_float and all(isinstance(e, int) for e in site.result.shape) else right(site))),
    Fault("a permutation composed the wrong way round", "graph.Canonicalize",
          _rule("transpose_of_transpose", lambda site, right: _inner(site, right, lambda inner: site.builder.op(
              "transpose", inner.inputs[0], axes=tuple(rules_shapes._order(site.op)[n] for n in rules_shapes._order(inner))), "transpose"))),
    Fault("any transpose moves nothing", "graph.Canonicalize",
          _rule("moves_nothing", lambda site, right: site.inputs[0] if site.env.equal_types(site.inputs[0], site.result) else None)),
    Fault("a reshape looks through a transpose", "graph.Canonicalize",
          _rule("reshape_of_reshape", lambda site, right: _inner(site, right, lambda inner: site.builder.op(
              "reshape", inner.inputs[0], shape=site.result.shape), "reshape", "transpose", "squeeze", "expand_dims"))),
    Fault("two flips are both axes flipped", "graph.Canonicalize",
          _rule("flip_of_flip", lambda site, right: _inner(site, right, lambda inner: site.builder.op(
              "flip", inner.inputs[0], axis=tuple(sorted(rules_shapes._flipped(inner) | rules_shapes._flipped(site.op)))), "flip"))),
    Fault("a slice's steps are forgotten", "graph.Canonicalize", _set(rules_shapes._Slice, "of", staticmethod(_slice_start_alone))),
    Fault("slices are joined whether they are neighbours or not", "graph.Canonicalize", _set(rules_shapes, "_joined", _joined_anywhere)),
    Fault("a part of a part is taken for one along any axis", "graph.Canonicalize", _set(rules_shapes, "_axis", lambda op, rank: 0)),
    Fault("every conversion may go another way", "graph.Canonicalize", _set(rules_algebra, "_holds", lambda wide, narrow: True)),
    Fault("constants of floats are added up first", "graph.Canonicalize",
          _rule("two_constants", lambda site, right: right(_Integral(site)))),
    Fault("the arms of a choice stay where they were", "graph.Canonicalize",
          _rule("choice_turned", lambda site, right: _inner(site, right, lambda inner: site.builder.op(
              "where", inner.inputs[0], site.inputs[1], site.inputs[2]), "logical_not"))),
    Fault("x - (-y) is x - y", "graph.Canonicalize",
          _rule("plus_negative", lambda site, right: None if site.made_by(site.inputs[1], "negative") is None or site.op.name != "subtract"
                else site.builder.op("subtract", site.inputs[0], site.inputs[1].node.inputs[0]))),
    Fault("floors of what was rounded in another way", "graph.Canonicalize",
          _rule("done_already", lambda site, right: site.inputs[0] if site.made_by(site.inputs[0], "floor", "ceil", "round", "abs", "relu") else None)),
    Fault("attributes are not compared", "graph.CSE", _key_without(3)),
    Fault("every operation commutes", "graph.CSE", _set(cse, "commutes", lambda op: len(op.inputs) == 2)),
    Fault("of constants the first elements are compared", "graph.CSE", _set(ConstantData, "__eq__", lambda self, other: True)),
    Fault("-0.0 and 0.0 are one number", "graph.FoldConstants", _set(constants, "_compact", _values_alone)),
    Fault("results of a macro in another order", "graph.Expand", _expanded_backwards),
    Fault("a write inside a node is not seen", "graph.SimplifyGlobals", _set(globals, "_forwarded", _through_writes)),
    Fault("a load before the next store is not seen", "graph.SimplifyGlobals", _set(globals, "_without_overwritten", _loads_forgotten)),
    Fault("what a state holds at first is forgotten", "graph.FoldGlobals", _set(globals, "_only", _seen_at_first)),
    Fault("states that are stored to alike are equal in between", "graph.FoldGlobals", _set(globals, "_together", lambda a, b, graphs: True)),
    Fault("of a choice the other way is taken", "graph.CanonicalizeControl", _control_node(If, _swapped)),
    Fault("ways of as many nodes are equal", "graph.CanonicalizeControl",
          _set(control, "structural_equal", lambda a, b: [v.type for v in a.results] == [v.type for v in b.results])),
    Fault("what begins equal stays equal", "graph.CanonicalizeControl", _set(control, "_equal", _begun_equal)),
    Fault("a loop gives what it began with", "graph.CanonicalizeControl",
          _control_node(While, lambda right, builder, node, given, *more: given)),
    Fault("what a third operand needs is dropped", "graph.DCE", _set(dce, "live", _two_operands_alone)),
    Fault("what only watches is dead", "graph.DCE", _set(dce, "live", _unwatched)),
    Fault("what is watched twice is watched once", "graph.CSE", _said_once),
    Fault("with what watches go the states", "graph.StripDebug", _set(debug, "Print", (debug.Print, Store))),
)  # fmt: skip


class _Integral:
    """A site whose result passes for an integer."""

    def __init__(self, site: Any) -> None:
        self._site = site
        self.op = site.op
        self.inputs = site.inputs
        self.builder = site.builder
        self.result = _Like(site.result)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._site, name)


class _Like:
    def __init__(self, value: Any) -> None:
        self.dtype = _Dtype(value.dtype)


class _Dtype:
    """A dtype that says that it is integral."""

    is_integral = True

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype

    def __eq__(self, other: object) -> bool:
        return bool(self.dtype == other)

    __hash__ = None  # type: ignore[assignment]
