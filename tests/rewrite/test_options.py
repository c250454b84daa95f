"""Every option is declared once, with its type and values; what nobody declares is refused where it is given."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import tirlower as tl
from tirlower import transforms
from tirlower.diagnostics import TransformError
from tirlower.rewrite.base import Pass
from tirlower.script import tir as T
from tirlower.transforms import CONFIG_KEYS, FuncPass, Option, PassContext, UnrollLoop, load_all

WRONG = [
    # config, what the message says
    ({"tir.unroll": {}}, "unknown configuration key 'tir.unroll'"),
    ({"tir.UnrolLoop": {"auto_max_step": 4}}, "did you mean 'tir.UnrollLoop'"),
    ({"UnrollLoop": {"auto_max_step": 4}}, "did you mean 'tir.UnrollLoop'"),
    ({"tir.disable_vectorise": True}, "did you mean 'tir.disable_vectorize'"),
    ({"tir.storage_report": {}}, "unknown configuration key 'tir.storage_report'"),
    ({"tir.validate_pass": {}}, "unknown configuration key"),
    ({3: True}, "unknown configuration key 3"),
    ({"tir.UnrollLoop": {"auto_max_stp": 4}}, "did you mean 'auto_max_step'"),
    ({"tir.UnrollLoop": {"zzz": 4}}, "its options: auto_max_step, auto_max_depth"),
    ({"tir.UnrollLoop": {"auto_max_step": "4"}}, "'auto_max_step' of tir.UnrollLoop is an integer, got '4'"),
    ({"tir.UnrollLoop": {"auto_max_step": 4.0}}, "is an integer, got 4.0"),
    ({"tir.UnrollLoop": {"auto_max_step": True}}, "is an integer, got True"),
    ({"tir.UnrollLoop": {"auto_max_step": None}}, "is an integer, got None"),
    ({"tir.UnrollLoop": {"explicit_unroll": "no"}}, "is True or False, got 'no'"),
    ({"tir.UnrollLoop": {"explicit_unroll": 2}}, "is True or False, got 2"),
    ({"tir.UnrollLoop": 3}, "is a mapping of options, got 3"),
    ({"tir.UnrollLoop": [("auto_max_step", 3)]}, "is a mapping of options"),
    ({"tir.LowerInitBlock": {"fast": True}}, "its options: none"),
    ({"tir.FP8ComputeLegalize": {"promote_dtype": "float64"}}, "'float32' or 'float16', got 'float64'"),
    ({"tir.HoistIfThenElse": {"support_block_scope_hoisting": "yes"}}, "True or False"),
    ({"tir.HoistExpression": {"hoisted_conditionals": "All"}}, "HoistedConditionals or its number, 0 to 15, got 'All'"),
    ({"tir.VerifyVTCMLimit": {"limit": "big"}}, "an integer of at least 0, got 'big'"),
    ({"tir.NarrowDataType": {"target_bits": "32"}}, "is an integer, got '32'"),
    ({"tir.PrivatizeReductions": {"max_chunks": "many"}}, "is an integer"),
    ({"tir.legality": "of"}, "tir.legality is 'check' or 'off', got 'of'"),
    ({"tir.legality": False}, "got False"),
    ({"tir.unproved_bounds": "ignore"}, "'guard', 'trust' or 'refuse', got 'ignore'"),
    ({"tir.disable_vectorize": "yes"}, "tir.disable_vectorize is True or False, got 'yes'"),
    ({"tir.disable_vectorize": None}, "got None"),
    ({"tir.disable_cse_tir": 2}, "got 2"),
    ({"tir.disable_cse_tir": np.ones(3)}, "True or False"),
    ({"tir.lwp_max_depth": -1}, "an integer of at least 0, got -1"),
    ({"tir.lwp_max_depth": "3"}, "an integer of at least 0"),
    ({"tir.validate.reproducer_dir": 3}, "is a path, got 3"),
    ({"tir.add_lower_pass": 3}, "a list of"),
    ({"tir.add_lower_pass": [(0, UnrollLoop)]}, "a list of"),
    ({"tir.add_lower_pass": [(4, UnrollLoop())]}, "phases 0 to 3"),
    ({"tir.use_async_copy": "x"}, "True or False"),
    ({"tir.vtcm_capacity": "x"}, "an integer"),
    ([("tir.legality", "off")], "config is a mapping"),
    ("tir.legality", "config is a mapping"),
]


@pytest.mark.parametrize(("config", "message"), WRONG, ids=lambda value: str(value)[:50])
def test_a_wrong_configuration_is_refused_where_it_is_given(config: object, message: str) -> None:
    with pytest.raises(TransformError, match=r"error\[PassContext\]") as caught:
        PassContext(config=config)
    assert message in str(caught.value)


RIGHT = [
    {},
    None,
    {"tir.legality": "off"},
    {"tir.disable_vectorize": 1},
    {"tir.disable_vectorize": np.bool_(True)},
    {"tir.lwp_max_depth": np.int64(3)},
    {"tir.add_lower_pass": None},
    {"tir.add_lower_pass": ((3, UnrollLoop()),)},
    {"tir.validate.reproducer_dir": Path("x")},
    {"tir.enable_buffer_level_predication": None},
    {"tir.UnrollLoop": {}},
    {"tir.UnrollLoop": {"auto_max_step": np.int32(4), "explicit_unroll": 0}},
    {"tir.HoistExpression": {"hoisted_conditionals": 3}},
    {"tir.HoistIfThenElse": {"variant": "basic"}},
    {"tir.VerifyVTCMLimit": {"limit": None}},
]


@pytest.mark.parametrize("config", RIGHT, ids=str)
def test_a_right_configuration_is_kept(config: dict[str, object] | None) -> None:
    assert dict(PassContext(config=config).config) == (config or {})


def test_a_configuration_does_not_change_afterwards() -> None:
    given = {"tir.UnrollLoop": {"auto_max_step": 4}}
    ctx = PassContext(config=given)
    given["tir.UnrollLoop"]["auto_max_step"] = "x"
    given["tir.nonsense"] = 3
    assert ctx.config == {"tir.UnrollLoop": {"auto_max_step": 4}}
    with pytest.raises(TypeError):
        ctx.config["tir.nonsense"] = 3


@pytest.mark.parametrize(
    ("construct", "message"),
    [
        (lambda: UnrollLoop(auto_max_step="4"), "'auto_max_step' of UnrollLoop is an integer, got '4'"),
        (lambda: UnrollLoop(explicit_unroll="no"), "True or False"),
        (lambda: transforms.FP8ComputeLegalize("float64"), "'float32' or 'float16'"),
        (lambda: transforms.CompactBufferAllocation("strict"), "True or False"),
        (lambda: transforms.VerifyVTCMLimit(-1), "at least 0"),
        (lambda: transforms.ThreadSync(3), "is one of"),
        (lambda: transforms.VectorizeLoop("off"), "True or False"),
        (lambda: transforms.HoistIfThenElse("fast"), "'basic'"),
    ],
)
def test_a_constructor_refuses_what_a_context_refuses(construct: object, message: str) -> None:
    with pytest.raises(TransformError) as caught:
        construct()
    assert message in str(caught.value)


def test_a_users_pass_declares_options_too() -> None:
    class Mine(FuncPass):
        """Nothing happens."""

        name = "mine.Nothing"
        options = {"times": 3, "mode": Option("fast", "'fast' or 'slow'", lambda v: v in ("fast", "slow"))}

        def transform(self, func, ctx):
            return func.with_attr("seen", (self.option("times", ctx), self.option("mode", ctx)))

    @T.prim_func
    def f(A: T.Buffer((2,), "int32")):
        A[0] = 1

    try:
        assert Mine()(f).attrs["seen"] == (3, "fast")
        with PassContext(config={"mine.Nothing": {"times": 5, "mode": "slow"}}):
            assert Mine()(f).attrs["seen"] == (5, "slow")
            assert Mine(times=7)(f).attrs["seen"] == (7, "slow")
        with pytest.raises(TransformError, match="'fast' or 'slow', got 'quick'"):
            PassContext(config={"mine.Nothing": {"mode": "quick"}})
        with pytest.raises(TransformError, match="did you mean 'times'"):
            PassContext(config={"mine.Nothing": {"time": 1}})
        with pytest.raises(TransformError, match="an integer, got 'x'"):
            Mine(times="x")
        assert Mine.options == {"times": 3, "mode": "fast"}
    finally:
        del Pass.registry["mine.Nothing"]


def test_every_default_fits_its_declaration() -> None:
    load_all()
    declared = {f"{name}.{key}": option for name, cls in Pass.registry.items() for key, option in cls.declared.items()}
    for name, option in {**CONFIG_KEYS, **declared}.items():
        assert option.accepts(option.default), name
        assert option.takes and (option.about or option.useless or name not in CONFIG_KEYS), name
    open_ended = [name for name, option in declared.items() if option.takes == "any value"]
    assert not [name for name in open_ended if name.startswith("tir.")], open_ended


def test_every_key_is_read_or_told_to_be_without_effect() -> None:
    """A key that nothing asks for would be accepted and do nothing."""
    sources = [p for p in Path(tl.__file__).parent.rglob("*.py") if p.name != "context.py"]
    text = "\n".join(path.read_text() for path in sources)
    for key, option in CONFIG_KEYS.items():
        short = key.removeprefix("tir.")
        read = f'"{key}"' in text or f'"{short}"' in text or key == "tir.instrument_lwp"
        assert bool(option.useless) or read, key


def test_a_context_checks_in_a_fresh_process() -> None:
    code = """
from tirlower.transforms import PassContext
from tirlower.diagnostics import TransformError
import sys
PassContext(config={"tir.legality": "off"})
assert not any(m.startswith("tirlower.transforms.loops") for m in sys.modules)
for config in ({"tir.UnrollLoop": {"auto_max_stp": 4}}, {"tir.UnrollLoop": {"auto_max_step": "4"}}):
    try:
        PassContext(config=config)
    except TransformError as error:
        print(error.message)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "tir.UnrollLoop has no option 'auto_max_stp'",
        "the option 'auto_max_step' of tir.UnrollLoop is an integer, got '4'",
    ]
