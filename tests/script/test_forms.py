"""Every form of the corpus is well-formed, and does in the interpreter what it says it does in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

from tests.script.forms import FORMS, Form
from tirlower.interp import interpret
from tirlower.ir.verify import verify_well_formed


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_forms_are_well_formed(form: Form):
    assert verify_well_formed(form.func)


@pytest.mark.parametrize(
    "form", [f for f in FORMS.values() if f.expected], ids=[n for n, f in FORMS.items() if f.expected]
)
def test_forms_mean_what_numpy_says(form: Form):
    for seed in range(2):
        got = form.arguments(seed)
        wanted = [a.copy() if isinstance(a, np.ndarray) else a for a in got]
        interpret(form.func, *got)
        assert form.expected is not None
        form.expected(*wanted)
        for have, want in zip(got, wanted, strict=True):
            if isinstance(have, np.ndarray):
                exact = have.dtype.kind in "iub"
                np.testing.assert_allclose(
                    have.astype("float64"), want.astype("float64"), rtol=0 if exact else 2e-6, atol=0
                )
