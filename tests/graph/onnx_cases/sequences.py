"""Recurrences, attention, and control: graphs inside a node, which read what stands around it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx

from tests.graph.onnx_cases.case import Case, Const, case, floats, ints, of, uniform

__all__ = ["CASES"]

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}


def _weights(op: str, inputs: int, hidden: int, directions: int = 1, bias: bool = True) -> list[Const | None]:
    """Input weights, recurrent weights, bias."""
    rows = GATES[op] * hidden
    given: list[Const | None] = [
        Const(uniform(-0.7, 0.7, directions, rows, inputs)),
        Const(uniform(-0.7, 0.7, directions, rows, hidden)),
    ]
    return [*given, Const(floats(directions, 2 * rows))] if bias else given


def _recurrent() -> list[Case]:
    cases = []
    for op in GATES:
        count = 3 if op == "LSTM" else 2
        x = floats(5, 2, 3)
        forward, both = _weights(op, 3, 4), _weights(op, 3, 4, directions=2)
        states = [floats(1, 2, 4)] * (count - 1)

        def add(note: str, opset: int, *operands: Any, op: str = op, size: int = 4, **rest: Any) -> None:
            cases.append(case(op, opset, *operands, hidden_size=size, note=note, **rest))

        add("no bias", 7, x, *_weights(op, 3, 4, bias=False), outputs=count)
        add("bias", 14, x, *forward, outputs=count)
        add("initial states", 14, x, *forward, None, *states, outputs=count)
        add("reverse", 14, x, *forward, direction="reverse", outputs=count)
        add("both directions", 14, x, *both, direction="bidirectional", outputs=count)
        add(
            "both with states",
            7,
            x,
            *both,
            None,
            *([floats(2, 2, 4)] * (count - 1)),
            direction="bidirectional",
            outputs=count,
        )
        add("lengths", 14, x, *forward, of([5, 2], "int32"), outputs=count)
        add("lengths in reverse", 14, x, *forward, of([3, 5], "int32"), direction="reverse", outputs=count)
        add("last state alone", 22, x, *forward, outputs=count, skipped=(0, 2)[: count - 1])
        add("all states alone", 14, x, *forward, outputs=1)
        add("one step", 14, floats(1, 1, 3), *forward, outputs=count)
        add("one unit", 14, floats(3, 2, 1), *_weights(op, 1, 1), size=1, outputs=count)
        add("clipped", 14, x, *forward, clip=0.3, outputs=count)
        long = floats(20, 2, 3)
        add("many steps", 14, long, *forward, None, *states, direction="reverse", outputs=count)
        add("many steps with lengths", 14, long, *both, of([20, 13], "int32"), direction="bidirectional", outputs=count)
        add("dynamic length in reverse", 14, x, *forward, direction="reverse", dynamic=((0, 0, "S"),), outputs=count)
        add("batch first", 14, floats(2, 5, 3), *forward, layout=1, outputs=count)
    return [
        *cases,
        case(
            "LSTM",
            14,
            floats(5, 2, 3),
            *_weights("LSTM", 3, 4),
            None,
            None,
            None,
            Const(floats(1, 12)),
            hidden_size=4,
            outputs=3,
            note="peepholes",
        ),
        case(
            "LSTM",
            14,
            floats(5, 2, 3),
            *_weights("LSTM", 3, 4),
            hidden_size=4,
            input_forget=1,
            outputs=3,
            note="joint input and forget",
        ),
        case(
            "LSTM",
            14,
            floats(5, 2, 3),
            *_weights("LSTM", 3, 4),
            hidden_size=4,
            activations=["HardSigmoid", "Relu", "Tanh"],
            outputs=3,
            note="other activations",
        ),
        case(
            "LSTM",
            14,
            floats(5, 2, 3),
            *_weights("LSTM", 3, 4),
            hidden_size=4,
            dynamic=((0, 1, "N"),),
            outputs=3,
            note="dynamic batch",
        ),
        case(
            "LSTM",
            14,
            floats(5, 2, 3),
            *_weights("LSTM", 3, 4),
            hidden_size=4,
            dynamic=((0, 0, "S"),),
            outputs=3,
            note="dynamic length",
        ),
        case(
            "GRU",
            14,
            floats(5, 2, 3),
            *_weights("GRU", 3, 4),
            hidden_size=4,
            linear_before_reset=1,
            outputs=2,
            note="reset after the product",
        ),
        case(
            "GRU",
            14,
            floats(5, 2, 3),
            *_weights("GRU", 3, 4),
            hidden_size=4,
            activations=["Sigmoid", "Relu"],
            outputs=2,
            note="other activations",
        ),
        case(
            "RNN",
            14,
            floats(5, 2, 3),
            *_weights("RNN", 3, 4),
            hidden_size=4,
            activations=["Relu"],
            outputs=2,
            note="relu",
        ),
        case(
            "RNN",
            14,
            floats(5, 2, 3),
            *_weights("RNN", 3, 4, 2),
            hidden_size=4,
            direction="bidirectional",
            activations=["Sigmoid", "Tanh"],
            outputs=2,
            note="an activation for each direction",
        ),
    ]


Q, K, V = floats(2, 3, 4, 8), floats(2, 3, 6, 8), floats(2, 3, 6, 5)
FLAT_Q, FLAT_K, FLAT_V = floats(2, 4, 24), floats(2, 6, 24), floats(2, 6, 15)
HIDING = of([[1, 1, 0, 1, 0, 0], [0] * 6, [1] * 6, [0, 0, 0, 0, 1, 1]], "bool")
"""Nothing for the second query; in order, nothing for the last one either."""
PAST_K, PAST_V = floats(2, 3, 5, 8), floats(2, 3, 5, 5)
ATTENTIONS = [
    case("Attention", 23, Q, K, V, note="plain"),
    case("Attention", 23, Q, K, V, scale=0.1, note="scale"),
    case("Attention", 23, Q, K, V, is_causal=1, note="causal"),
    case("Attention", 23, Q, K, V, floats(4, 6), note="mask of floats"),
    case("Attention", 23, Q, K, V, of([[1, 1, 0, 1, 0, 0]] * 4, "bool"), note="mask of bools"),
    case("Attention", 23, Q, K, V, HIDING, note="a query for which no key counts"),
    case("Attention", 23, Q, K, V, HIDING, softcap=2.0, is_causal=1, note="hidden by a mask and the order"),
    case("Attention", 23, Q, K, V, of(np.where(HIDING, 0, -np.inf)), note="hidden by infinity"),
    case("Attention", 23, Q, K, V, floats(2, 3, 4, 6), note="mask of each head"),
    case(
        "Attention",
        23,
        Q,
        K,
        V,
        floats(2, 1, 1, 6),
        note="mask of each row of the batch",
        trust_reference="onnxruntime 1.32 refuses a mask that broadcasts over the queries",
    ),
    case("Attention", 23, FLAT_Q, FLAT_K, FLAT_V, q_num_heads=3, kv_num_heads=3, note="heads in the last axis"),
    case("Attention", 23, floats(2, 6, 4, 8), floats(2, 2, 6, 8), floats(2, 2, 6, 8), note="groups of queries"),
    case(
        "Attention",
        23,
        floats(2, 4, 48),
        floats(2, 6, 16),
        floats(2, 6, 16),
        q_num_heads=6,
        kv_num_heads=2,
        note="groups in the last axis",
    ),
    case("Attention", 23, Q, K, V, softcap=2.0, note="soft cap"),
    case("Attention", 23, Q, K, V, None, PAST_K, PAST_V, outputs=3, note="past keys and values"),
    case("Attention", 23, Q, K, V, None, PAST_K, PAST_V, is_causal=1, outputs=3, note="past and causal"),
    case("Attention", 23, Q, K, V, outputs=4, skipped=(1, 2), qk_matmul_output_mode=3, note="weights too"),
    case("Attention", 23, Q, K, V, floats(4, 6), outputs=4, skipped=(1, 2), qk_matmul_output_mode=0, note="scores too"),
    case(
        "Attention",
        23,
        floats(1, 2, 3, 8, dtype="float16"),
        floats(1, 2, 4, 8, dtype="float16"),
        floats(1, 2, 4, 8, dtype="float16"),
        note="float16",
    ),
    case("Attention", 24, Q, K, V, None, None, None, of([6, 4], "int64"), note="lengths of keys"),
]

COSINES, SINES = Const(uniform(-1, 1, 10, 4)), Const(uniform(-1, 1, 10, 4))
POSITIONS = ints(2, 5, low=0, high=10)
ROTATED = [
    case("RotaryEmbedding", 23, floats(2, 3, 5, 8), COSINES, SINES, POSITIONS, note="halves"),
    case("RotaryEmbedding", 23, floats(2, 3, 5, 8), COSINES, SINES, POSITIONS, interleaved=1, note="interleaved"),
    case(
        "RotaryEmbedding", 23, floats(2, 5, 24), COSINES, SINES, POSITIONS, num_heads=3, note="heads in the last axis"
    ),
    case("RotaryEmbedding", 23, floats(2, 3, 5, 8), floats(2, 5, 4), floats(2, 5, 4), note="no positions"),
    case(
        "RotaryEmbedding",
        23,
        floats(2, 3, 5, 8),
        Const(uniform(-1, 1, 10, 2)),
        Const(uniform(-1, 1, 10, 2)),
        POSITIONS,
        rotary_embedding_dim=4,
        note="a part of each head",
    ),
    case("RotaryEmbedding", 23, floats(2, 3, 1, 8), floats(2, 1, 4), floats(2, 1, 4), interleaved=1, note="one token"),
]


def graph(text: str) -> onnx.GraphProto:
    """A graph in onnx's own notation."""
    return onnx.parser.parse_graph(text)


DOUBLED = graph("twice () => (float[3] y) { y = Add(x1, x1) }")
NEGATED = graph("minus () => (float[3] y) { y = Neg(x1) }")
TWO = graph("two () => (float[3] y, float[3] z) { y = Add(x1, x1) z = Mul(x1, x1) }")
ALSO_TWO = graph("also () => (float[3] y, float[3] z) { y = Abs(x1) z = Identity(x1) }")
OUTSIDE = graph("outside () => (float[3] y) { y = Identity(x1) }")
NESTED = graph(
    """nested () => (float[3] y) {
        low = Constant<value_float = 0.0>()
        sum = ReduceSum<keepdims = 0>(x1)
        positive = Greater(sum, low)
        y = If(positive) <
            then_branch = inner_then () => (float[3] a) { a = Sqrt(x1) },
            else_branch = inner_else () => (float[3] b) { b = Abs(x1) }
        >
    }"""
)
YES, NO = of(True, "bool"), of(False, "bool")


def both_ways(note: str, opset: int, then: onnx.GraphProto, other: onnx.GraphProto, count: int = 1) -> list[Case]:
    """With a condition that holds, and one that does not."""
    rest: dict[str, Any] = {"then_branch": then, "else_branch": other, "outputs": count, "captured": 1}
    return [
        case("If", opset, YES, floats(3), note=f"{note} then", **rest),
        case("If", opset, NO, floats(3), note=f"{note} else", **rest),
    ]


BRANCHES = [
    *both_ways("one result", 13, DOUBLED, NEGATED),
    *both_ways("two results", 11, TWO, ALSO_TWO, 2),
    *both_ways("a value from outside", 16, OUTSIDE, NEGATED),
    *both_ways("nested", 19, NESTED, DOUBLED),
    case(
        "If", 13, Const(YES), floats(3), then_branch=DOUBLED, else_branch=NEGATED, captured=1, note="a known condition"
    ),
    case(
        "If",
        13,
        of([False], "bool"),
        floats(3),
        then_branch=DOUBLED,
        else_branch=NEGATED,
        captured=1,
        note="a condition of one element",
    ),
]

SUMMED = graph(
    """body (int64 i, bool c, float[3] s) => (bool again, float[3] more, float[3] seen) {
        again = Identity(c)
        more = Add(s, x3)
        seen = Mul(more, more)
    }"""
)
COUNTED = graph(
    """body (int64 i, bool c, float[3] s) => (bool again, float[3] more) {
        again = Identity(c)
        step = Cast<to = 1>(i)
        more = Add(s, step)
    }"""
)
UNTIL = graph(
    """body (int64 i, bool c, float[3] s) => (bool again, float[3] more) {
        more = Add(s, s)
        limit = Constant<value_float = 20.0>()
        top = ReduceMax<keepdims = 0>(more)
        again = Less(top, limit)
    }"""
)
TWICE_CARRIED = graph(
    """body (int64 i, bool c, int64 a, int64 b) => (bool again, int64 next, int64 sum, int64 out) {
        again = Identity(c)
        next = Identity(b)
        sum = Add(a, b)
        out = Identity(a)
    }"""
)
TRIPS = Const(of(4, "int64"))
LOOPS = [
    case(
        "Loop",
        13,
        TRIPS,
        Const(YES),
        floats(3),
        floats(3),
        body=SUMMED,
        outputs=2,
        captured=1,
        note="carried and collected",
    ),
    case("Loop", 11, of(5, "int64"), YES, floats(3), body=COUNTED, note="trips of an input"),
    case("Loop", 16, None, Const(YES), uniform(1, 2, 3), body=UNTIL, note="until a condition"),
    case(
        "Loop", 13, Const(of(2, "int64")), Const(YES), uniform(1, 2, 3), body=UNTIL, note="trips before the condition"
    ),
    case("Loop", 13, TRIPS, None, floats(3), body=COUNTED, note="trips alone"),
    case("Loop", 13, TRIPS, Const(NO), floats(3), body=COUNTED, note="never"),
    case("Loop", 19, Const(of(0, "int64")), None, floats(3), body=COUNTED, note="no trips"),
    case(
        "Loop",
        13,
        Const(of(8, "int64")),
        None,
        of(0, "int64"),
        of(1, "int64"),
        body=TWICE_CARRIED,
        outputs=3,
        note="two carried",
    ),
    case(
        "Loop",
        13,
        TRIPS,
        None,
        floats(3),
        floats(3),
        body=SUMMED,
        outputs=2,
        captured=1,
        note="no condition is collected",
    ),
]

WIDE_THEN = graph("wide () => (float[N, 3] y) { y = MatMul(x1, x2) }")
WIDE_ELSE = graph("narrow () => (float[N, 3] y) { y = Add(x1, x1) }")
FROM_BOTH = graph("both () => (float[3] y, float[3] z) { y = Mul(x1, x2) z = Identity(x2) }")
FROM_ONE = graph("one () => (float[3] y, float[3] z) { y = Identity(x2) z = Neg(x2) }")
LOOP_INSIDE = graph(
    """looping () => (float[3] y) {
        yes = Constant<value = bool {1}>()
        y = Loop(x2, yes, x1) <body = inner (int64 i, bool c, float[3] s) => (bool again, float[3] more) {
            again = Identity(c)
            more = Add(s, x1)
        }>
    }"""
)
BRANCHES += [
    *(
        case(
            "If",
            17,
            condition,
            floats(5, 3),
            floats(3, 3),
            then_branch=WIDE_THEN,
            else_branch=WIDE_ELSE,
            captured=2,
            dynamic=((1, 0, "N"),),
            note=f"a dynamic extent {way}",
        )
        for condition, way in ((YES, "then"), (NO, "else"))
    ),
    *(
        case(
            "If",
            13,
            condition,
            floats(3),
            floats(3),
            then_branch=FROM_BOTH,
            else_branch=FROM_ONE,
            captured=2,
            outputs=2,
            note=f"ways that read different values {way}",
        )
        for condition, way in ((YES, "then"), (NO, "else"))
    ),
    *(
        case(
            "If",
            16,
            condition,
            floats(3),
            of(4, "int64"),
            then_branch=LOOP_INSIDE,
            else_branch=DOUBLED,
            captured=2,
            note=f"a loop inside {way}",
        )
        for condition, way in ((YES, "then"), (NO, "else"))
    ),
]

ROWS_ADDED = graph(
    """body (int64 i, bool c, float[N] s) => (bool again, float[N] more, float[1] seen) {
        again = Identity(c)
        row = Gather<axis = 0>(x3, i)
        more = Add(s, row)
        seen = ReduceMax(more)
    }"""
)
CHOOSING = graph(
    """body (int64 i, bool c, float[3] s) => (bool again, float[3] more) {
        zero = Constant<value_float = 0.0>()
        first = ReduceSum<keepdims = 0>(s)
        positive = Greater(first, zero)
        more = If(positive) <
            then_branch = down () => (float[3] a) { a = Sub(s, x3) },
            else_branch = up () => (float[3] b) { b = Add(s, x3) }
        >
        size = Abs(first)
        limit = Constant<value_float = 40.0>()
        again = Less(size, limit)
    }"""
)
SWAPPED = graph(
    """body (int64 i, bool c, int64 a, int64 b) => (bool again, int64 next, int64 sum) {
        next = Identity(b)
        sum = Add(a, b)
        limit = Constant<value_int = 50>()
        again = Less(sum, limit)
    }"""
)
LOOPS += [
    case("Loop", 13, of(0, "int64"), YES, floats(3), body=COUNTED, note="no trips of an input"),
    case("Loop", 13, of(7, "int64"), NO, floats(3), body=COUNTED, note="never by an input"),
    case("Loop", 13, of(4, "int64"), YES, uniform(1, 2, 3), body=UNTIL, note="trips of an input or a condition"),
    case(
        "Loop", 16, of(9, "int64"), YES, floats(3), uniform(1, 2, 3), body=CHOOSING, captured=1, note="a choice inside"
    ),
    case(
        "Loop",
        16,
        None,
        YES,
        of(0, "int64"),
        of(1, "int64"),
        body=SWAPPED,
        outputs=2,
        note="values that change places",
    ),
    case(
        "Loop",
        13,
        Const(of(5, "int64")),
        Const(YES),
        floats(4),
        floats(5, 4),
        body=ROWS_ADDED,
        outputs=2,
        captured=1,
        dynamic=((2, 0, "N"), (3, 1, "N")),
        note="a dynamic extent is carried",
    ),
]

CASES: list[Case] = [*_recurrent(), *ATTENTIONS, *ROTATED, *BRANCHES, *LOOPS]
