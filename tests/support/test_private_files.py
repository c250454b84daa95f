"""The disk cache reads and runs only what nobody else can have written."""

from __future__ import annotations

import logging
import os
import socket
import stat
import subprocess
import sys
import warnings
from collections.abc import Callable
from pathlib import Path

import pytest

from tirlower.llvm import cache as cache_module
from tirlower.llvm.cache import CacheKey, ObjectCache, default_cache, default_directory
from tirlower.support import private_files

pytestmark = pytest.mark.skipif(not hasattr(os, "geteuid"), reason="files have no owners here")
ROOT = Path(__file__).resolve().parents[2]
NOBODY = 65534


def stored(tmp_path: Path) -> tuple[ObjectCache, CacheKey, Path]:
    cache = ObjectCache(tmp_path / "cache")
    key = cache.key({"ir": "f"})
    cache.store(key, b"machine code")
    (path,) = cache.directory.glob("??/*.tlo")
    return cache, key, path


def _fifo(path: Path) -> None:
    path.unlink()
    os.mkfifo(path)


def _linked(path: Path) -> None:
    other = path.with_name("elsewhere")
    path.rename(other)
    path.symlink_to(other)


def _folder(path: Path) -> None:
    path.unlink()
    path.mkdir()


def _socket(path: Path) -> None:
    path.unlink()
    here = os.getcwd()
    os.chdir(path.parent)  # the names of sockets are short
    try:
        with socket.socket(socket.AF_UNIX) as one:
            one.bind(path.name)
    finally:
        os.chdir(here)


def _large(path: Path) -> None:
    os.truncate(path, cache_module.LARGEST + 1)


def _relink_folder(path: Path) -> None:
    other = path.parent.parent / "other"
    path.parent.rename(other)
    path.parent.symlink_to(other)


ATTACKS: dict[str, tuple[Callable[[Path], object], str]] = {
    "another may write": (lambda p: p.chmod(0o666), "others may write"),
    "the group may write": (lambda p: p.chmod(0o620), "others may write"),
    "a fifo": (_fifo, "no regular file"),
    "a link": (_linked, "is a link"),
    "a folder": (_folder, "no regular file"),
    "a socket": (_socket, ""),
    "a huge file": (_large, "more than any entry"),
    "a folder that all may write to": (lambda p: p.parent.chmod(0o777), "others may write"),
    "a sticky folder that all may write to": (lambda p: p.parent.chmod(0o1777), "others may write"),
    "a folder that the group may write to": (lambda p: p.parent.chmod(0o770), "others may write"),
    "a cache that all may write to": (lambda p: p.parents[1].chmod(0o777), "others may write"),
    "a parent that all may write to": (lambda p: p.parents[3].chmod(0o777), "others may write"),
    "a linked folder": (_relink_folder, "no folder"),
}


@pytest.mark.parametrize("name", ATTACKS)
def test_what_another_may_have_written_is_not_used(name: str, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    cache, key, path = stored(tmp_path)
    assert cache.load(key) is not None
    attack, why = ATTACKS[name]
    attack(path)
    with caplog.at_level(logging.WARNING, logger="tirlower.cache"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)
        assert cache.load(key) is None
    if why:
        assert why in caplog.text and why in str(cache.explain_miss(key))
    assert cache.size() >= 0 and cache.misses == 1


@pytest.mark.parametrize("mode", [0o1777, 0o770, 0o755, 0o500])
def test_a_parent_that_is_safe_enough(mode: int, tmp_path: Path) -> None:
    cache, key, _ = stored(tmp_path)
    tmp_path.chmod(mode)
    try:
        assert cache.load(key) is not None
    finally:
        tmp_path.chmod(0o700)


def test_the_files_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, key, _ = stored(tmp_path)
    me = os.geteuid()
    if me:
        monkeypatch.setattr(private_files.os, "geteuid", lambda: me + 1)
        assert cache.load(key) is None
        with pytest.warns(RuntimeWarning, match=f"belongs to the user {me}"):
            cache.store(key, b"other")
        return
    for chowned in (_of_file, _of_folder, _of_cache, _of_parent):
        place = chowned(cache)
        os.chown(place, NOBODY, NOBODY)
        assert cache.load(key) is None, chowned
        os.chown(place, 0, 0)
        assert cache.load(key) is not None


def _of_file(cache: ObjectCache) -> Path:
    return next(cache.directory.glob("??/*.tlo"))


def _of_folder(cache: ObjectCache) -> Path:
    return _of_file(cache).parent


def _of_cache(cache: ObjectCache) -> Path:
    return cache.directory


def _of_parent(cache: ObjectCache) -> Path:
    return cache.directory.parents[1]


def test_roots_files_serve_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    if os.geteuid():
        pytest.skip("only root has files of root")
    cache, key, _ = stored(tmp_path)
    monkeypatch.setattr(private_files.os, "geteuid", lambda: 4711)
    assert cache.load(key) is not None


def test_nothing_is_stored_where_others_may_write(tmp_path: Path) -> None:
    open_to_all = tmp_path / "all"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    cache = ObjectCache(open_to_all / "cache")
    with pytest.warns(RuntimeWarning, match="others may write to it"):
        cache.store(cache.key({"ir": "f"}), b"o")
    assert cache.stores == 0 and not list(open_to_all.rglob("*.tlo*"))


@pytest.mark.parametrize("umask", [0, 0o002, 0o022, 0o077])
def test_every_folder_and_file_is_the_users_alone(umask: int, tmp_path: Path) -> None:
    tmp_path.chmod(0o755)
    before = os.umask(umask)
    try:
        cache = ObjectCache(tmp_path / "a" / "b" / "c")
        cache.store(cache.key({"ir": "f"}), b"o")
    finally:
        os.umask(before)
    made = [*tmp_path.rglob("*")]
    assert len(made) == 6
    for path in made:
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600), path


def test_a_linked_cache_is_followed_once(tmp_path: Path) -> None:
    real, other, link = tmp_path / "real", tmp_path / "other", tmp_path / "link"
    for one in (real, other):
        one.mkdir()
    link.symlink_to(real)
    cache = ObjectCache(link)
    key = cache.key({"ir": "f"})
    cache.store(key, b"o")
    link.unlink()
    link.symlink_to(other)
    assert cache.load(key) is not None and list(real.rglob("*.tlo")) and not list(other.rglob("*.tlo"))


def test_a_planted_temporary_file_is_not_written_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache, key, path = stored(tmp_path)
    victim = tmp_path / "victim"
    victim.write_text("mine")
    monkeypatch.setattr(cache_module, "_serial", iter([77, 78]))
    path.with_name(f"{path.name}.{os.getpid()}.77.tmp").symlink_to(victim)
    with pytest.warns(RuntimeWarning, match="cannot write"):
        cache.store(key, b"new")
    assert victim.read_text() == "mine"


BAD_HEADERS = [
    b"[]",
    b"3",
    b"{}",
    b'{"digest": 3}',
    b'{"digest": "x", "components": [], "metadata": {}}',
    b"[" * 100_000,
    b"\xff",
]


@pytest.mark.parametrize("header", BAD_HEADERS, ids=lambda h: str(h[:12]))
def test_a_header_with_a_right_checksum_that_is_none(header: bytes, tmp_path: Path) -> None:
    import struct

    cache, key, path = stored(tmp_path)
    length = struct.pack("<I", len(header))
    check = cache_module._digest(length + header + b"code")
    path.write_bytes(cache_module._HEAD.pack(cache_module._MAGIC, check, len(header)) + header + b"code")
    assert cache.load(key) is None and not path.exists()


def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = ObjectCache(tmp_path)
    key = cache.key({"ir": "f"})

    def full(path: Path, data: bytes) -> None:
        path.write_bytes(data[:10])
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(cache_module, "write_file", full)
    with pytest.warns(RuntimeWarning, match="No space left"):
        cache.store(key, b"o")
    assert not [p for p in tmp_path.rglob("*") if p.is_file()] and cache.load(key) is None


def test_an_entry_that_is_too_large_is_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cache_module, "LARGEST", 1000)
    cache = ObjectCache(tmp_path)
    cache.store(cache.key({"ir": "f"}), bytes(2000))
    assert cache.stores == 0 and not list(tmp_path.rglob("*.tlo*"))


def _places(**variables: str | None) -> str:
    """Where a process with these variables would keep its cache."""
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TIRLOWER", "XDG_CACHE", "HOME"))}
    env |= {k: v for k, v in variables.items() if v is not None} | {"PYTHONPATH": str(ROOT)}
    code = "from tirlower.llvm.cache import default_directory as d, default_cache as c; print(d(), c().enabled)"
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, cwd="/", check=True)
    return done.stdout.strip()


def test_homes_and_variables(tmp_path: Path) -> None:
    import pwd

    listed = pwd.getpwuid(os.getuid()).pw_dir
    own = f"{listed}/.cache/tirlower True" if listed.strip("/") and Path(listed).is_dir() else "None False"
    t = str(tmp_path)
    for variables, place in (
        ({"HOME": t}, f"{t}/.cache/tirlower True"),
        ({"HOME": ""}, own),
        ({"HOME": None}, own),
        ({"HOME": "relative"}, own),
        ({"HOME": "/"}, "None False"),
        ({"HOME": "//"}, "None False"),
        ({"HOME": "/nowhere/at/all"}, "None False"),
        ({"HOME": t, "XDG_CACHE_HOME": f"{t}/x"}, f"{t}/x/tirlower True"),
        ({"HOME": t, "XDG_CACHE_HOME": "x"}, f"{t}/.cache/tirlower True"),
        ({"HOME": t, "XDG_CACHE_HOME": ""}, f"{t}/.cache/tirlower True"),
        ({"HOME": t, "TIRLOWER_CACHE_DIR": "~/c"}, f"{t}/c True"),
        ({"HOME": "/nowhere", "TIRLOWER_CACHE_DIR": "~/c"}, "None False"),
        ({"HOME": t, "TIRLOWER_CACHE_DIR": "~nosuchuser/c"}, "None False"),
        ({"HOME": t, "TIRLOWER_CACHE_DIR": "  "}, f"{t}/.cache/tirlower True"),
        ({"HOME": t, "TIRLOWER_CACHE_DIR": "rel"}, "/rel True"),
        ({"HOME": t, "TIRLOWER_CACHE": " Off "}, f"{t}/.cache/tirlower False"),
    ):
        if sys.platform.startswith("linux"):
            assert _places(**variables) == place, variables


@pytest.mark.parametrize(
    "place", ["/dev/null", "/dev/full/x", "/proc/nowhere", "/sys/nowhere", "x" * 300, "/" + "y/" * 3000]
)
def test_places_that_take_no_files(place: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", place)
    monkeypatch.delenv("TIRLOWER_CACHE", raising=False)
    cache = default_cache()
    key = cache.key({"ir": "f"})
    with pytest.warns(RuntimeWarning, match="kernels are compiled anew"):
        assert cache.load(key) is None
        cache.store(key, b"o")
    assert cache.load(key) is None and cache.stores == 0 and cache.size() == 0
    assert default_directory() is not None
