"""Running a pass over whatever kind of program it rewrites."""

from __future__ import annotations

import pytest

from tirlower.diagnostics import TransformError
from tirlower.rewrite.context import PassContext
from tirlower.rewrite.rewrite import Rewrite
from tirlower.rewrite.running import PassInfo, run_pass


class Halve(Rewrite):
    """A pass over numbers."""

    is_list = False
    name = "test.Halve"
    by: int = 2

    @property
    def info(self) -> PassInfo:
        return PassInfo(self.name)

    def rewritten(self, program: int, ctx: PassContext) -> int:
        if program < 0:
            raise TransformError("negative")
        return program // self.by

    def certify(self, before: int, after: int, ctx: PassContext) -> None:
        if after > before:
            raise TransformError("grew")


class Watch:
    def __init__(self, answer: bool = True) -> None:
        self.seen: list[object] = []
        self.answer = answer

    def should_run(self, program: object, info: PassInfo) -> bool:
        return self.answer

    def run_before_pass(self, program: object, info: PassInfo) -> None:
        self.seen.append(("before", program))

    def run_after_pass(self, program: object, info: PassInfo) -> None:
        self.seen.append(("after", program))


def test_instruments_and_the_trace_see_any_program() -> None:
    watch = Watch()
    ctx = PassContext(instruments=[watch], trace=True)
    assert run_pass(Halve(), 8, ctx) == 4
    assert watch.seen == [("before", 8), ("after", 4)]
    assert run_pass(Halve(by=4), 8, ctx) == 2
    assert dict(ctx.programs_after) == {"test.Halve": 4, "test.Halve.2": 2}
    assert not ctx.ir_after  # modules alone


def test_an_instrument_may_say_no_unless_the_pass_is_required() -> None:
    assert run_pass(Halve(), 8, PassContext(instruments=[Watch(False)])) == 8
    assert run_pass(Halve(), 8, PassContext(required_pass=["test.Halve"], instruments=[Watch(False)])) == 4


def test_errors_carry_the_name_and_results_are_certified() -> None:
    with pytest.raises(TransformError) as caught:
        run_pass(Halve(), -1, PassContext())
    assert caught.value.origin == "test.Halve"
    Halve.rewritten = lambda self, program, ctx: program + 1  # type: ignore[method-assign]
    assert run_pass(Halve(), 1, PassContext()) == 2
    with pytest.raises(TransformError, match="grew"):
        run_pass(Halve(), 1, PassContext(validate=True))
