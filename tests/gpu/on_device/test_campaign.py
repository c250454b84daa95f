"""Some random programs of :mod:`tests.gpu.on_device.campaign`: on a GPU where there is one, and a few in the simulator."""

from __future__ import annotations

from unittest import mock

import pytest

from tests.gpu.on_device import campaign
from tests.gpu.on_device.campaign import KINDS
from tests.gpu.on_device.device import needs_a_device

EACH = 10


@needs_a_device
@pytest.mark.parametrize("first", range(0, 200, EACH))
@pytest.mark.parametrize("kind", KINDS)
def test_the_device_agrees(kind: str, first: int) -> None:
    ended = [KINDS[kind][0](seed, False) for seed in range(first, first + EACH)]
    assert all(how.startswith(("right", "refused", "left out", "no meaning")) for how in ended), ended


@needs_a_device
@pytest.mark.parametrize("kind", KINDS)
def test_enough_runs_on_the_device(kind: str) -> None:
    ended = [KINDS[kind][0](seed, False) for seed in range(200, 220)]
    assert ended.count("right") >= 3, ended


@pytest.mark.parametrize("kind", KINDS)
def test_the_simulator_agrees(kind: str) -> None:
    ended = [KINDS[kind][0](seed, True) for seed in range(27, 45)]
    assert ended.count("right") >= 4, ended


def test_a_wrong_program_is_seen(capsys: pytest.CaptureFixture[str]) -> None:
    def wrong(seed: int, simulated: bool) -> str:
        raise ValueError("planted")

    with mock.patch.dict(KINDS, {"programs": (wrong, KINDS["programs"][1])}):
        how, what = campaign._one(3, "programs", True)
    assert how == "WRONG" and "programs 3: ValueError: planted" in what and "def main" in what


def test_the_command_line(capsys: pytest.CaptureFixture[str]) -> None:
    assert campaign.main(["--count", "2", "--simulated"]) == 0
    assert "2 programs in" in capsys.readouterr().out
