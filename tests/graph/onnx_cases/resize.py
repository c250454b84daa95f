"""Resize and Upsample: how coordinates are mapped and neighbours weighed, and where each opset has its numbers."""

from __future__ import annotations

from typing import Any

from tests.graph.onnx_cases.case import Case, Const, case, floats, of

__all__ = ["CASES"]

X = floats(1, 2, 4, 5)
NONE = Const(of([]))


def scales(*values: float) -> Const:
    return Const(of(values))


TWICE, SHRUNK = scales(1, 1, 2, 2), scales(1, 1, 0.6, 0.7)


def _modes() -> list[Case]:
    cases = []

    def resized(note: str, *operands: Const | list[int] | None, **attributes: Any) -> None:
        cases.append(case("Resize", 13, X, None, *operands, note=note, **attributes))

    for mode in ("nearest", "linear", "cubic"):
        for where in ("half_pixel", "asymmetric", "pytorch_half_pixel"):
            how = {"mode": mode, "coordinate_transformation_mode": where}
            resized(f"{mode} {where} twice", TWICE, **how)
            resized(f"{mode} {where} shrunk", SHRUNK, **how)
        # Whether the corners are those of the floored extents or of the scaled ones is not said: whole extents here.
        how = {"mode": mode, "coordinate_transformation_mode": "align_corners"}
        resized(f"{mode} align_corners twice", TWICE, **how)
        resized(f"{mode} align_corners shrunk", None, [1, 2, 3, 2], **how)
    for rounding in ("round_prefer_floor", "round_prefer_ceil", "floor", "ceil"):
        how = {"mode": "nearest", "nearest_mode": rounding, "coordinate_transformation_mode": "asymmetric"}
        resized(rounding, scales(1, 1, 1.5, 2), **how)
    return cases


BY_SIZE = [
    case("Resize", 10, X, TWICE, mode="nearest", note="nearest of opset 10"),
    case("Resize", 10, X, SHRUNK, mode="linear", note="linear of opset 10"),
    case("Resize", 11, X, NONE, TWICE, mode="nearest", note="an empty roi"),
    case("Resize", 11, X, NONE, NONE, [1, 2, 7, 3], mode="linear", note="sizes and empty scales"),
    case("Resize", 13, X, None, None, [1, 2, 7, 3], mode="nearest", note="sizes"),
    case(
        "Resize",
        13,
        X,
        None,
        None,
        [1, 2, 1, 1],
        mode="linear",
        coordinate_transformation_mode="pytorch_half_pixel",
        note="to unit dims",
    ),
    case("Resize", 13, X, None, None, [1, 2, 7, 9], mode="cubic", cubic_coeff_a=-0.5, note="cubic coefficient"),
    case("Resize", 13, X, None, TWICE, mode="cubic", exclude_outside=1, note="outside is excluded"),
    case(
        "Resize",
        13,
        X,
        scales(0, 0, 0.25, 0.2, 1, 1, 0.8, 0.9),
        None,
        [1, 2, 3, 3],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        note="a region",
    ),
    case(
        "Resize",
        13,
        X,
        scales(0, 0, 0.5, 0.5, 1, 1, 1.5, 1.5),
        None,
        [1, 2, 3, 4],
        mode="linear",
        coordinate_transformation_mode="tf_crop_and_resize",
        extrapolation_value=9.0,
        note="a region beyond",
    ),
    case("Resize", 18, X, None, scales(2, 0.5), axes=[2, 3], mode="linear", note="axes"),
    case("Resize", 18, X, None, scales(2, 0.5), axes=[-1, -2], mode="linear", note="negative axes in any order"),
    case(
        "Resize",
        18,
        X,
        None,
        None,
        [8, 9],
        axes=[2, 3],
        mode="nearest",
        keep_aspect_ratio_policy="not_larger",
        note="not larger",
    ),
    case(
        "Resize",
        18,
        X,
        None,
        None,
        [8, 9],
        axes=[2, 3],
        mode="linear",
        keep_aspect_ratio_policy="not_smaller",
        note="not smaller",
    ),
    case(
        "Resize",
        18,
        floats(1, 1, 8, 8),
        None,
        scales(1, 1, 0.5, 0.4),
        mode="linear",
        antialias=1,
        note="antialias of linear",
    ),
    case(
        "Resize",
        18,
        floats(1, 1, 8, 8),
        None,
        scales(1, 1, 0.5, 0.4),
        mode="cubic",
        antialias=1,
        note="antialias of cubic",
    ),
    case(
        "Resize",
        19,
        X,
        None,
        scales(1, 1, 0.55, 0.7),
        mode="linear",
        coordinate_transformation_mode="half_pixel_symmetric",
        note="symmetric",
    ),
    case("Resize", 13, floats(1, 2, 6), None, scales(1, 1, 1.5), mode="linear", note="one axis"),
    case("Resize", 13, floats(1, 1, 2, 3, 4), None, scales(1, 1, 2, 2, 2), mode="nearest", note="three axes"),
    case("Resize", 13, X, None, scales(2, 1, 1, 2), mode="nearest", note="other axes"),
    case("Upsample", 7, X, scales=[1.0, 1.0, 2.0, 3.0], mode="nearest", note="scales as an attribute"),
    case("Upsample", 7, X, scales=[1.0, 1.0, 2.0, 1.5], mode="linear", note="linear"),
    case("Upsample", 9, X, TWICE, mode="nearest", note="scales as an operand"),
    case("Upsample", 9, X, scales(1, 1, 1.5, 2), mode="linear", note="linear of opset 9"),
]

CASES: list[Case] = [*_modes(), *BY_SIZE]
