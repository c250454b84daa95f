"""Configurations with names, types and values that nobody declares: each is refused where it is given."""

# expect: TransformError
import tirlower as tl
from tirlower.transforms import UnrollLoop, VectorizeLoop

refused = 0
for config in (
    {"tir.UnrollLoop": {"auto_max_stp": 16}},
    {"tir.UnrollLoop": {"auto_max_step": "16"}},
    {"tir.UnrollLoop": True},
    {"tir.disable_vectorise": True},
    {"tir.disable_vectorize": "no"},
    {"tir.unproved_bounds": "thrust"},
    {"tir.legality": None},
    {"tir.add_lower_pass": [(9, UnrollLoop())]},
    {None: 3},
):
    try:
        tl.PassContext(config=config)
    except tl.TransformError:
        refused += 1
for make in (lambda: UnrollLoop(auto_max_step="many"), lambda: VectorizeLoop("yes")):
    try:
        make()
    except tl.TransformError:
        refused += 1
assert refused == 11, refused
tl.PassContext(config={"tir.UnrolLoop": {}})
