"""What the Quick start's commands do about environments: `env.sh` under Pythons that only note how they are called."""

from __future__ import annotations

import re
import shutil
import subprocess
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
pytestmark = pytest.mark.skipif(shutil.which("bash") is None, reason="the commands are scripts for bash")

# $OLD: it is older than 3.11. $BARE: modules are missing. `-m venv` makes one like it that has modules after pip ran.
PYTHON = """#!/usr/bin/env bash
old={old}
bare={bare}
here="$(cd "$(dirname "$0")" && pwd)"
echo "$(basename "$here")/$(basename "$0") $*" >>{log}
case "$1 $2" in
  "--version ") echo "Python 3.11.7";;
  "-m venv") folder="${{@: -1}}"; rm -rf "$folder"; mkdir -p "$folder/bin"
    sed -e 's/^bare=.*/bare=yes/' -e 's/^old=.*/old=no/' "$0" >"$folder/bin/python"; chmod +x "$folder/bin/python";;
  "-m pip") [ -e {fail} ] && exit 1; touch "$here/modules";;
  "-c ") ;;
  "-c "*) [ $old = yes ] && exit 1
    case "$2" in *"; import "*) [ $bare = no ] || [ -e "$here/modules" ] || exit 1;; esac;;
esac
exit 0
"""


class Machine:
    """A checkout with `env.sh`, and a folder of Pythons that is the whole path."""

    def __init__(self, tmp_path: Path) -> None:
        self.place = tmp_path / "checkout"
        self.bin = tmp_path / "bin"
        self.log = tmp_path / "log"
        self.fail = tmp_path / "fail"
        for folder in (self.place, self.bin):
            folder.mkdir()
        shutil.copy(ROOT / "env.sh", self.place)
        (self.place / "pyproject.toml").write_text("[project]\n")
        for tool in ("bash", "cat", "cksum", "dirname", "basename", "mkdir", "rm", "sed", "touch", "chmod", "env"):
            (self.bin / tool).symlink_to(str(shutil.which(tool)))

    def python(self, name: str, *, old: bool = False, bare: bool = True) -> None:
        file = self.bin / name
        words = {"old": "yes" if old else "no", "bare": "yes" if bare else "no"}
        file.write_text(PYTHON.format(log=self.log, fail=self.fail, **words))
        file.chmod(0o755)

    def run(self, **more: str) -> tuple[int, str, list[str]]:
        """The status, what was printed, and the makings: calls of `-m`, by which Python."""
        self.log.write_text("")
        code = "set -euo pipefail; . ./env.sh; ensure_environment 'tirlower.ir'; command -v python"
        env = {"PATH": str(self.bin), **more}
        command = [str(shutil.which("bash")), "-c", code]
        done = subprocess.run(command, cwd=self.place, env=env, capture_output=True, text=True, check=False)
        made = [line for line in self.log.read_text().splitlines() if " -m " in line]
        return done.returncode, done.stdout + done.stderr, made


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    return Machine(tmp_path)


VENV = "bin/python3.11 -m venv --clear .venv"
FILL = "bin/python -m pip install --quiet --disable-pip-version-check -e .[test]"


def test_the_environment_is_made_once(machine: Machine) -> None:
    machine.python("python3.11")
    status, shown, made = machine.run()
    assert (status, made) == (0, [VENV, FILL]), shown
    assert "checkout/.venv/bin/python\n" in shown
    assert machine.run()[2] == []


def test_an_active_environment_with_everything_is_used(machine: Machine) -> None:
    machine.python("python", bare=False)
    status, shown, made = machine.run()
    assert (status, made) == (0, []) and not (machine.place / ".venv").exists(), shown


def test_an_environment_filled_from_another_pyproject_is_filled_again(machine: Machine) -> None:
    machine.python("python3.11")
    machine.run()
    (machine.place / "pyproject.toml").write_text("[project]\nname = 'more'\n")
    assert machine.run()[2] == [FILL]
    assert machine.run()[2] == []


def test_an_interrupted_filling_is_repeated(machine: Machine) -> None:
    machine.python("python3.11")
    machine.fail.touch()
    status, _, made = machine.run()
    assert status != 0 and made == [VENV, FILL]
    machine.fail.unlink()
    assert machine.run()[::2] == (0, [FILL])


def test_a_broken_environment_is_made_anew(machine: Machine) -> None:
    machine.python("python3.11")
    machine.run()
    python = machine.place / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to("/nowhere/python3.11")
    assert machine.run()[2] == [VENV, FILL]


def test_a_moved_checkout_is_filled_again(machine: Machine) -> None:
    machine.python("python3.11")
    machine.run()
    machine.place = machine.place.rename(machine.place.with_name("moved"))
    assert machine.run()[2] == [FILL]


def test_a_module_that_vanished_is_installed(machine: Machine) -> None:
    machine.python("python3.11")
    machine.run()
    (machine.place / ".venv" / "bin" / "modules").unlink()
    assert machine.run()[2] == [FILL]


def test_the_first_python_that_is_new_enough(machine: Machine) -> None:
    for name, old in (("python", True), ("python3", True), ("python3.13", False)):
        machine.python(name, old=old)
    assert machine.run()[2][0] == "bin/python3.13 -m venv --clear .venv"
    shutil.rmtree(machine.place / ".venv")
    machine.python("own")
    assert machine.run(PYTHON=str(machine.bin / "own"))[2][0] == "bin/own -m venv --clear .venv"


def test_without_a_python_that_is_new_enough(machine: Machine) -> None:
    machine.python("python3", old=True)
    status, shown, made = machine.run()
    assert status != 0 and made == [] and "needs Python 3.11 or newer" in shown


def test_what_the_tests_import_stands_in_the_extra() -> None:
    """`./test.sh` installs the extra `test` alone, and asks for each of its modules."""
    extra = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]["test"]
    installed = {re.split(r"[>=<]", one)[0].replace("-", "_").replace("pytest_xdist", "xdist") for one in extra}
    asked = re.search(r"^need='([^']*)'", (ROOT / "test.sh").read_text(), re.MULTILINE)
    assert asked is not None
    assert installed <= {name.strip() for name in asked[1].split(",")}
    for path in sorted((ROOT / "tests").rglob("*.py")):
        for name in ("mpmath", "hypothesis", "numba", "torch", "jax", "scipy"):
            if re.search(rf"^(import {name}|from {name})\b", path.read_text(), re.MULTILINE):
                assert name in installed, f"{path} imports {name}"
