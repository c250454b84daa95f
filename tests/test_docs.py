"""The pages: their links lead somewhere, their commands and the README's program run, and nothing is left out.

The examples themselves are doctests of the pages.
"""

from __future__ import annotations

import functools
import os
import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from tirlower.__main__ import main

ROOT = Path(__file__).parent.parent
GENERATED = ("pass_catalog.md", "graph_passes.md", "schedule_verbs.md")
PAGES = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
EXPECTED = (
    "tutorial",
    "dialect",
    "ir",
    "passes",
    "pass_catalog",
    "graph_passes",
    "calls",
    "numerics",
    "tir_differences",
    "architecture",
    "benchmarks",
    "legality",
    "index_expressions",
    "gpu",
    "gpu_intrinsics",
    "c_target",
    "graph",
    "graph_ops",
    "schedule",
    "schedule_verbs",
)


def python(*args: str, cwd: Path = ROOT, **env: str) -> str:
    """What a fresh Python prints; its errors are the test's."""
    paths = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    done = subprocess.run(
        [sys.executable, *args],
        cwd=cwd,
        env={**os.environ, "PYTHONPATH": paths, **env},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@functools.cache
def read(page: Path) -> str:
    return page.read_text(encoding="utf-8")


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", read(page), re.M | re.S)


def anchors(page: Path) -> set[str]:
    """The anchors of a page's headings, as GitHub makes them."""
    titles = re.findall(r"^#+ (.+)$", re.sub(r"^```.*?^```$", "", read(page), flags=re.M | re.S), re.M)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def test_the_pages_are_there():
    assert {page.stem for page in PAGES} >= {*EXPECTED, "README", "CONTRIBUTING"}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_links_lead_somewhere(page):
    links = re.findall(r"\]\(([^)\s]+)\)", re.sub(r"^```.*?^```$|`[^`\n]*`", "", read(page), flags=re.M | re.S))
    for link in links:
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor:
            assert anchor in anchors(target), link


@pytest.mark.parametrize(
    "page", [p for p in PAGES if p.name not in (*GENERATED, "README.md")], ids=lambda page: page.stem
)
def test_python_on_the_pages_is_executed(page):
    assert [block for block in blocks(page, "python") if ">>> " not in block] == []


def test_the_program_of_the_readme_runs(tmp_path):
    (program,) = blocks(ROOT / "README.md", "python")
    check = "\nnp.testing.assert_allclose(c, a @ b, rtol=1e-4)\nprint('equal')\n"
    (tmp_path / "program.py").write_text(program + check, encoding="utf-8")
    printed = python("program.py", cwd=tmp_path, TIRLOWER_CACHE_DIR=str(tmp_path))
    assert printed.endswith("equal\n")
    assert "sch.register_tile" in printed and "NumPy" in printed


COMMANDS = [
    line.partition(" #")[0].strip()
    for page in PAGES
    for text in [*blocks(page, "sh"), *(f"{code}\n" for code in re.findall(r"`([^`\n]+)`", read(page)))]
    for line in text.splitlines()
    if line.startswith("python -m tirlower ") and "FILE" not in line
]


@pytest.mark.parametrize("command", sorted(set(COMMANDS)))
def test_commands_run(command, monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path))
    monkeypatch.chdir(ROOT)
    assert main(shlex.split(command)[3:]) == 0
    assert capsys.readouterr().out


def test_the_pages_of_the_dialect_name_everything_in_T():
    # A fresh process: in this one scripts have made types and operations of their own.
    names = python("-c", "from tirlower.script import tir; print(*tir.__dir__())").split()
    text = read(ROOT / "docs" / "dialect.md") + read(ROOT / "docs" / "gpu_intrinsics.md")
    named = set(re.findall(r"T\.([A-Za-z_]\w*)", text))
    types = {f"{code}{bits}" for code in ("int", "uint") for bits in (8, 16, 32, 64)}  # written as ranges
    assert len(names) > 200
    assert sorted(set(names) - named - types) == []


@pytest.mark.parametrize("tool", ["make_pass_page", "make_graph_ops_page"])
def test_the_pages_that_tools_write_are_up_to_date(tool):
    python(str(ROOT / "tools" / f"{tool}.py"), "--check")
