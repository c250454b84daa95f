"""The forms of the bench: each computes what NumPy does, of sizes that are numbers and of others."""

from __future__ import annotations

import re

import pytest

from bench import forms
from tests.sampling import by_day


@pytest.mark.parametrize("name", by_day(forms.FORMS))
def test_forms_compute_what_numpy_does(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "SIZE", 19)
    known = len(name) % 2 == 0
    calls = forms.compared(forms.FORMS[name], known)
    assert set(calls) == {"auto", "as written", "numpy"}
    assert (str(forms.FORMS[name].side) in forms.FORMS[name].text(known)) is known


def test_one_that_differs_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "SIZE", 5)
    form = forms.FORMS["transpose"]
    with pytest.raises(AssertionError, match="Not equal"):
        forms.compared(form._replace(numpy=lambda x, y: y.fill(0)), True)


def test_the_table(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(forms, "SIZE", 8)
    monkeypatch.setattr(forms, "ROUNDS", 1)
    head, row = forms.report(["by a matrix"]).splitlines()
    assert head.startswith("sides of 8") and row.startswith("a vector by a matrix")
    assert len(re.findall(r"\d\.\d\dx", row)) == 4
