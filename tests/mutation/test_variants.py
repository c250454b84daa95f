from __future__ import annotations

from collections import Counter
from dataclasses import replace

import pytest

from tests.mutation.runner import ROOT, Broken, wrong_source
from tests.mutation.variants import TESTS, VARIANTS, Variant, Wrong
from tirlower.transforms import catalog


@pytest.mark.parametrize("variant", VARIANTS, ids=str)
def test_a_variant_fits_the_source_and_is_python(variant: Variant) -> None:
    compile(wrong_source(variant), variant.file, "exec")
    assert variant.text != variant.instead


def test_ten_passes_have_one_variant_of_each_kind() -> None:
    assert len(TESTS) == 10
    assert Counter((v.of, v.wrong) for v in VARIANTS) == {(name, kind): 1 for name in TESTS for kind in Wrong}
    assert {f"tir.{name}" for name in TESTS} <= {one.name for one in catalog()}


def test_the_tests_of_the_passes_are_there() -> None:
    for names in TESTS.values():
        for name in names:
            assert (ROOT / "tests" / name).is_file()


def test_a_text_that_is_gone_is_an_error_that_names_the_variant() -> None:
    gone = replace(VARIANTS[0], text="no such text")
    with pytest.raises(Broken, match=rf"{gone.of}, {gone.wrong.value}.*0 times in {gone.file}"):
        wrong_source(gone)


def test_a_text_that_stands_twice_is_an_error() -> None:
    with pytest.raises(Broken, match="not once"):
        wrong_source(replace(VARIANTS[0], text="return"))
