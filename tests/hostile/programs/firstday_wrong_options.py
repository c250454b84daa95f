"""Wrong options: an error where they are given, which names the option and what it takes; nothing is half built."""

# expect: ok
import numpy as np

import tirlower as tl
from tirlower.diagnostics import TirError
from tirlower.script import parse

F = parse(
    "def f(A: T.Buffer(('n',), 'int32'), B: T.Buffer(('n',), 'int32')):\n    for i in range(n):\n        B[i] = A[i]\n"
)
WRONG = {
    "gil": [lambda v: tl.build(F, gil=v), lambda v: tl.jit(gil=v)],
    "outputs": [lambda v: tl.build(F, outputs=v), lambda v: tl.jit(outputs=v)(F).compile()],
    "num_threads": [lambda v: tl.Target("llvm", num_threads=v)],
    "opt_level": [lambda v: tl.PassContext(opt_level=v)],
    "processor": [lambda v: tl.build(F, target=v)],
    "target": [lambda v: tl.build(F, target=v), lambda v: tl.lower(F, v), lambda v: tl.Target(v)],
    "config": [lambda v: tl.PassContext(config=v)],
    "disabled_pass": [lambda v: tl.PassContext(disabled_pass=v)],
    "required_pass": [lambda v: tl.PassContext(required_pass=v)],
    "until": [lambda v: tl.lower(F, until=v)],
    "extern": [lambda v: tl.register_extern("zz", v)],
    "program": [lambda v: tl.build(v), lambda v: tl.lower(v), lambda v: tl.jit(v)],
    "source": [lambda v: tl.build(F).source(v)],
}
VALUES = {
    "gil": ["maybe", "True", 2, 1.5, (), "auto "],
    "outputs": ["A", "B", ["C"], [1], ["A", "A"], [""], 5, {"A": 1}.values(), [None]],
    "num_threads": [-1, -(2**40), 1.5, "two", [1], 2**70],
    "opt_level": [99, -1, "2", 2.5, None, [], 2**70],
    "processor": ["llvm -mcpu=nonsense", "nvptx -arch=sm_1", "nvptx -arch=x"],
    "target": [5, 5.0, "", "lvm", "llvm -mcpuu=x", b"llvm", [], {"kind": 3}],
    "config": [
        5,
        "tir.noalias",
        {"tir.unrol": 1},
        {"tir.UnrollLoop": 5},
        {"tir.UnrollLoop": {"auto_max": 1}},
        [("a", 1)],
        {5: 1},
    ],
    "disabled_pass": ["FlattenBuffer", ["FlattenBuffr"], ["tir.Simplfy"], 5, [5], {"Simplify": 1}],
    "required_pass": [["UnrolLoop"], "UnrollLoop", 5, [5]],
    "until": ["NoSuchPass", 5, ""],
    "extern": [5, "abs", np.zeros(3)],
    "program": [5, None, "def f(): pass", lambda x: x, [F], np.zeros(3)],
    "source": ["ptx2", 5, "", "ASM", None],
}
# Names that nobody declares may be those of a user's passes; a processor or architecture is refused by the build.
assert tl.PassContext(disabled_pass=["mine"], required_pass=("tir.UnrollLoop",)).disabled_pass == ("mine",)
for option, tries in WRONG.items():
    for value in VALUES[option]:
        for number, make in enumerate(tries):
            if option == "program" and value is None and number == 2:
                continue  # @tl.jit() without a function
            try:
                made = make(value)
            except TirError as error:
                assert str(error).strip(), (option, value)
            except (TypeError, ValueError) as error:
                raise SystemExit(f"{option}={value!r} ({number}): {type(error).__name__}: {error}") from error
            else:
                raise SystemExit(f"{option}={value!r} ({number}) was taken: {made!r}")
a, b = np.arange(3, dtype="int32"), np.zeros(3, "int32")
tl.build(F)(a, b)
assert b.tolist() == [0, 1, 2]
