from __future__ import annotations

from tirlower import transforms
from tirlower.transforms import Pass, catalog


def test_every_pass_has_a_summary_a_stage_and_known_needs() -> None:
    entries = {entry.name: entry for entry in catalog()}
    assert len(entries) >= 13
    for entry in entries.values():
        assert entry.summary.endswith(".") and 20 < len(entry.summary) < 300, entry
        assert set(entry.needs) <= set(entries), entry
        assert str(entry).startswith(entry.name)
    assert entries["tir.UnrollLoop"].options[0] == ("auto_max_step", 0)


def test_every_pass_is_exported_under_its_name_and_shows_an_example() -> None:
    transforms.load_all()
    for name, cls in Pass.registry.items():
        if name.startswith("tir."):
            assert getattr(transforms, name.removeprefix("tir.")) is cls
            assert ">>>" in (cls.__doc__ or ""), name
