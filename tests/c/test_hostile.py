"""Random hostile programs through C: fenced memory, aliasing calls, values at the limits of their types."""

from __future__ import annotations

from collections import Counter

import pytest

from tests.c.batch import needs_compiler
from tests.hostile.compare import compare
from tests.hostile.generate import generate

pytestmark = needs_compiler


@pytest.mark.parametrize("seed", range(3000, 3012))
def test_c_is_the_interpreter_and_touches_nothing_else(seed):
    program, counts = generate(seed), Counter()
    assert not compare(program, counts, "c"), program.text
    assert counts["built"] or counts["refused"] or counts["not a program"]
