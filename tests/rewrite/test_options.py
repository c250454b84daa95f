"""Every option is declared once, with its type and values; what nobody declares is refused where it is given."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from pathlib import Path
from typing import Any, Literal

import numpy as np
import pytest

import tirlower as tl
from tirlower import transforms
from tirlower.diagnostics import TransformError
from tirlower.rewrite.base import Pass
from tirlower.script import tir as T
from tirlower.transforms import CONFIG_KEYS, FuncPass, PassContext, UnrollLoop, load_all

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
    ({"tir.NarrowDataType": {"target_bits": "32"}}, "an integer type, 2 to 64, got '32'"),
    ({"tir.NarrowDataType": {"target_bits": 1}}, "2 to 64, got 1"),
    ({"tir.PrivatizeReductions": {"max_chunks": 0}}, "at least 1, got 0"),
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
        (lambda: transforms.ThreadSync(3), "'warp' or 'global', got 3"),
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
        times: int = 3
        mode: Literal["fast", "slow"] = transforms.option(default="fast", about="how")

        def transform(self, func, ctx):
            return func.with_attr("seen", (self.times, self.mode))

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
        assert {field.name: field.default for field in dataclasses.fields(Mine)} == {"times": 3, "mode": "fast"}
    finally:
        del Pass.registry["mine.Nothing"]


def made(**body: Any) -> type[FuncPass]:
    """A pass class with a body."""
    return type("Mine", (FuncPass,), {"__module__": __name__, **body})


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"options": {"times": 3}}, "Mine.options declares nothing.*\n.*times: int = 3"),
        ({"__annotations__": {"name": "str"}, "name": "mine.X"}, "Mine.name is no option"),
        ({"__annotations__": {"stage": "Any"}, "stage": 3}, "Mine.stage is no option"),
        ({"__annotations__": {"times": "int"}, "times": "x"}, "'times' of Mine is an integer, but 'x' by default"),
        (
            {"__annotations__": {"times": "int"}, "times": transforms.option(default=0, least=1)},
            "at least 1, but 0 by default",
        ),
        ({"__annotations__": {"times": "Nowhere"}, "times": 3}, "cannot be told: name 'Nowhere'"),
        ({"needs": "tir.Simplify"}, "Mine.needs is a tuple of facts and names of passes, got 'tir.Simplify'"),
        ({"breaks": (3,)}, "Mine.breaks is a tuple"),
    ],
)
def test_a_pass_that_states_what_cannot_be_is_refused_when_its_class_is_made(
    body: dict[str, Any], message: str
) -> None:
    with pytest.raises(TransformError, match=message):
        made(**body)


def test_an_option_without_a_default_must_be_given() -> None:
    cls = made(__annotations__={"times": "int"}, times=transforms.option(kw_only=False))
    with pytest.raises(TransformError, match="Mine has no value for its option 'times'"):
        cls()
    assert cls(3).times == 3
    with pytest.raises(TransformError, match="'times' is given twice"):
        cls(3, times=4)
    with pytest.raises(TransformError, match=r"'times' of Mine is an integer, got None\n  = help: give an integer$"):
        cls(None)


def test_values_have_their_declared_types() -> None:
    """TVM's 1 and 0, numbers of NumPy and numbers of flags are values too: a pass sees what it declares."""
    unroll = UnrollLoop(auto_max_step=np.int32(4), explicit_unroll=0)
    assert type(unroll.auto_max_step) is int and unroll.explicit_unroll is False and unroll.auto_max_depth == 8
    hoist = transforms.HoistExpression(hoisted_conditionals=3)
    assert hoist.hoisted_conditionals is transforms.HoistedConditionals(3)
    ctx = PassContext(config={"tir.UnrollLoop": {"auto_max_depth": np.int64(3), "explicit_unroll": 1}})
    under = unroll.under(ctx)
    assert under.auto_max_depth == 3 and type(under.auto_max_depth) is int and under.explicit_unroll is False
    assert unroll.auto_max_depth == 8 and unroll.under(PassContext()) is unroll


def test_a_global_key_means_the_option_that_names_it() -> None:
    ctx = PassContext(config={"tir.lwp_max_depth": 2, "tir.InstrumentProfileIntrinsics": {"min_height": 3}})
    assert transforms.InstrumentProfileIntrinsics().under(ctx).max_depth == 2
    assert transforms.InstrumentProfileIntrinsics(max_depth=1).under(ctx).max_depth == 1
    assert transforms.InstrumentProfileIntrinsics().under(ctx).min_height == 3
    load_all()
    named = {option.key for cls in Pass.registry.values() for option in cls.declared.values() if option.key}
    assert named <= set(CONFIG_KEYS) and len(named) == 6


def test_every_default_fits_its_declaration() -> None:
    load_all()
    declared = {f"{name}.{key}": option for name, cls in Pass.registry.items() for key, option in cls.declared.items()}
    for name, option in {**CONFIG_KEYS, **declared}.items():
        assert option.default is dataclasses.MISSING or option.accepts(option.default), name
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
