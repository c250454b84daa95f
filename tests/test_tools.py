"""The commands under `tools/` that run tests: what they run, and how they end."""

from __future__ import annotations

import importlib.util
import shlex
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

ROOT = Path(__file__).resolve().parents[1]


def tool(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"tool_{name}", ROOT / "tools" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = sys.modules[spec.name] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


nightly, alone = tool("nightly"), tool("run_each_alone")


def test_every_job_can_be_started() -> None:
    names = [job.name for job in nightly.JOBS]
    assert len(set(names)) == len(names)
    for job in nightly.JOBS:
        words = shlex.split(job.command)
        assert words[0] == "python" and job.shows and job.hours > 0
        if words[1] == "-m" and words[2] != "pytest":
            place = ROOT.joinpath(*words[2].split("."))
            assert place.with_suffix(".py").exists() or (place / "__main__.py").exists(), job.command
        for word in words[1:]:
            if "/" in word:
                assert (ROOT / word).exists(), job.command


def test_jobs_are_listed_and_chosen(capsys: pytest.CaptureFixture[str]) -> None:
    assert nightly.main(["--list", "--only", "fuzz"]) == 0
    shown = capsys.readouterr().out
    assert "python -m tests.fuzz --count" in shown and "mutants" not in shown
    with pytest.raises(SystemExit, match="no job is named 'fuz'; the jobs are long-tests"):
        nightly.main(["--only", "fuz"])


def test_a_job_that_fails_is_told(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    right = nightly.Job("right", "it ends well", "python -c 'print(3 * 7)'")
    wrong = nightly.Job("wrong", "it does not", "python -c 'raise SystemExit(9)'")
    late = nightly.Job("late", "it goes on", "python -c 'import time; time.sleep(60)'", 1 / 7200)
    monkeypatch.setattr(nightly, "JOBS", (right, wrong, late))
    assert nightly.main(["--logs", str(tmp_path), "--only", "right"]) == 0
    assert nightly.main(["--logs", str(tmp_path)]) == 1
    rows = [line.split() for line in capsys.readouterr().out.splitlines()[-3:]]
    assert [(row[0], row[-1]) for row in rows] == [("ok", "right"), ("FAILED", "wrong"), ("FAILED", "late")]
    assert (tmp_path / "right.log").read_text() == "21\n"


def test_the_files_that_are_run_alone() -> None:
    found = alone.collected([])
    assert {"tests/test_tools.py", "tests/ir/test_text.py", "docs/passes.md"} <= set(found)
    assert not [path for path in found if "conftest" in path or path.startswith("tirlower/")]
    assert all(Path(path).suffix == ".md" or Path(path).name.startswith("test_") for path in found)
    assert "tirlower/rewrite/options.py" in alone.collected(["docs"], modules=True)
    assert alone.collected(["docs/passes.md", "docs/passes.md"]) == ["docs/passes.md"]
    with pytest.raises(SystemExit, match="there is no tests/nothing"):
        alone.collected(["tests/nothing"])


def test_a_file_that_passes_with_others_alone_fails(tmp_path: Path) -> None:
    (tmp_path / "test_first.py").write_text("import sys\ndef test_it():\n    sys.tirlower_left_behind = 1\n")
    (tmp_path / "test_second.py").write_text("import sys\ndef test_it():\n    assert sys.tirlower_left_behind\n")
    (tmp_path / "test_third.py").write_text("NOTHING = 0\n")
    (tmp_path / "test_fourth.py").write_text("import time\ndef test_it():\n    time.sleep(60)\n")
    files = [tmp_path / f"test_{name}.py" for name in ("first", "second", "third", "fourth")]
    command = [sys.executable, "-m", "pytest", "-n", "0", "-q", "-p", "no:cacheprovider", *map(str, files[:2])]
    assert subprocess.run(command, capture_output=True, cwd=ROOT).returncode == 0
    ends = [(one.status, one.failed) for one in alone.outcomes([str(file) for file in files[:3]], 2, 60.0)]
    ends += [(one.status, one.failed) for one in alone.outcomes([str(files[3])], 1, 5.0)]
    assert ends == [(0, False), (1, True), (5, False), (124, True)]
