from __future__ import annotations

import os
import random
import subprocess
import sys
import time
import warnings
from pathlib import Path

import pytest

from tirlower.llvm import cache as cache_module
from tirlower.llvm.cache import CacheEntry, ObjectCache, default_cache, default_directory


def _only_file(cache: ObjectCache) -> Path:
    (path,) = cache.directory.glob("??/*.tlo")
    return path


def test_what_was_stored_comes_back(tmp_path):
    cache = ObjectCache(tmp_path)
    key = cache.key({"ir": "body", "option cpu": "znver4"})
    assert cache.load(key) is None
    cache.store(key, b"\x00code\xff", {"name": "f", "undefined": ["expf"]})
    # Another object, as another process would have.
    assert ObjectCache(tmp_path).load(key) == CacheEntry(b"\x00code\xff", {"name": "f", "undefined": ["expf"]})
    assert (cache.hits, cache.misses, cache.stores) == (0, 1, 1)


def test_every_component_and_its_name_count(tmp_path):
    cache = ObjectCache(tmp_path)
    keys = [
        cache.key({"a": "x", "b": "y"}),
        cache.key({"a": "x", "b": "z"}),
        cache.key({"a": "xy", "b": ""}),
        cache.key({"a": "x", "c": "y"}),
        cache.key({"a": "x"}),
        cache.key({"a": "l" * 1000}),
        cache.key({"a": "l" * 999 + "m"}),
    ]
    assert len({key.digest for key in keys}) == len(keys)
    assert cache.key({"a": "x", "b": "y"}).digest == keys[0].digest


def test_versions_are_part_of_the_key(tmp_path, monkeypatch):
    cache = ObjectCache(tmp_path)
    before = cache.key({"ir": "f"})
    assert {"tirlower", "llvmlite", "llvm"} <= set(before.components)
    old = dict(cache_module.versions())
    monkeypatch.setattr(cache_module, "versions", lambda: old | {"llvm": "0.0.1"})
    assert cache.key({"ir": "f"}).digest != before.digest


def test_get_or_build_builds_once(tmp_path):
    cache = ObjectCache(tmp_path)
    built = []

    def build() -> CacheEntry:
        built.append(1)
        return CacheEntry(b"object", {"n": 1})

    key = cache.key({"ir": "f"})
    assert cache.get_or_build(key, build) == cache.get_or_build(key, build) == CacheEntry(b"object", {"n": 1})
    assert built == [1]


def test_two_hundred_flipped_bytes_are_all_found_and_the_entry_is_rebuilt(tmp_path):
    rng = random.Random(7)
    cache = ObjectCache(tmp_path)
    key = cache.key({"ir": "define void @f()", "option cpu": "znver4"})
    content = CacheEntry(rng.randbytes(3000), {"name": "f"})
    for _ in range(200):
        cache.store(key, content.object, content.metadata)
        path = _only_file(cache)
        data = bytearray(path.read_bytes())
        data[rng.randrange(len(data))] ^= rng.randrange(1, 256)
        path.write_bytes(data)
        assert cache.load(key) is None
        assert not path.exists()
        assert "damaged" in str(cache.explain_miss(key))
        assert cache.get_or_build(key, lambda: content) == content
        assert cache.load(key) == content
    assert cache.damaged == 200


@pytest.mark.parametrize("keep", [0, 5, 27, 40, 200, -1])
def test_truncated_entries_are_misses(tmp_path, keep):
    cache = ObjectCache(tmp_path)
    key = cache.key({"ir": "f"})
    cache.store(key, bytes(500))
    path = _only_file(cache)
    path.write_bytes(path.read_bytes()[:keep])
    assert cache.load(key) is None
    assert not path.exists()


def test_an_entry_under_a_wrong_name_is_refused(tmp_path):
    cache = ObjectCache(tmp_path)
    a, b = cache.key({"ir": "a"}), cache.key({"ir": "b"})
    cache.store(a, b"a")
    place = cache.directory / b.digest[:2] / f"{b.digest}.tlo"
    place.parent.mkdir(exist_ok=True)
    os.replace(_only_file(cache), place)
    assert cache.load(b) is None


_WORKER = """
import hashlib, random, sys
from tirlower.llvm.cache import ObjectCache
cache = ObjectCache(sys.argv[1])
rng = random.Random(int(sys.argv[2]))
good = 0
for round in range(150):
    n = rng.randrange(5)
    key = cache.key({"ir": f"kernel {n}"})
    entry = cache.load(key)
    body = hashlib.sha256(str(n).encode()).digest() * 2000
    if entry is not None:
        assert entry.object == body and entry.metadata == {"n": n}, "torn entry"
        good += 1
    if entry is None or rng.random() < 0.5:
        cache.store(key, body, {"n": n})
assert cache.damaged == 0
print(good)
"""


def test_eight_processes_at_once_never_see_a_torn_entry(tmp_path):
    root = Path(cache_module.__file__).parents[2]
    env = {**os.environ, "PYTHONPATH": str(root)}
    workers = [
        subprocess.Popen(
            [sys.executable, "-c", _WORKER, str(tmp_path), str(seed)],
            env=env,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for seed in range(8)
    ]
    for worker in workers:
        out, err = worker.communicate(timeout=120)
        assert worker.returncode == 0, err
        assert int(out) > 50
    cache = ObjectCache(tmp_path)
    assert len(list(cache.directory.glob("??/*.tlo"))) == 5
    assert not list(cache.directory.glob("??/*.tmp"))


def test_explain_miss_names_the_component_that_differs(tmp_path):
    cache = ObjectCache(tmp_path)
    base = {"name": "softmax", "ir": "x" * 1000, "option cpu": "znver4", "option opt_level": "3"}
    assert "no other entries" in str(cache.explain_miss(cache.key(base)))
    cache.store(cache.key(base), b"1", {"built": "first"})
    cache.store(cache.key({**base, "ir": "y" * 1000, "option cpu": "znver3"}), b"2", {"built": "second"})

    miss = cache.explain_miss(cache.key({**base, "option cpu": "znver5"}))
    assert miss.differing == (("option cpu", "znver5", "znver4"),)
    assert miss.nearest == {"built": "first"}
    assert "option cpu: wanted 'znver5', the nearest entry has 'znver4'" in str(miss)

    miss = cache.explain_miss(cache.key({**base, "ir": "x" * 999 + "z"}))
    (difference,) = miss.differing
    assert difference[0] == "ir" and difference[1] != difference[2] and len(difference[1]) < 200

    miss = cache.explain_miss(cache.key({k: v for k, v in base.items() if k != "option opt_level"}))
    assert miss.differing == (("option opt_level", "(nothing)", "3"),)


def test_size_is_bounded_and_the_least_recently_used_go(tmp_path):
    cache = ObjectCache(tmp_path, limit=100_000)
    keys = [cache.key({"ir": str(n)}) for n in range(30)]
    now = time.time()
    for n, key in enumerate(keys):
        cache.store(key, bytes(9000))
        for path in cache.directory.glob(f"??/{key.digest}.tlo"):
            os.utime(path, (now - 2000 + n, now - 2000 + n))
        assert cache.size() <= 100_000 + 9000
    assert cache.load(keys[29]) is not None
    assert cache.load(keys[0]) is None


def test_files_of_a_killed_writer_are_swept(tmp_path):
    cache = ObjectCache(tmp_path)
    key = cache.key({"ir": "f"})
    folder = cache.directory / key.digest[:2]  # the one that is looked at: another's turn comes with its next entry
    folder.mkdir(parents=True)
    old, fresh = folder / "x.tlo.1.0.tmp", folder / "y.tlo.2.0.tmp"
    for path in (old, fresh):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200, time.time() - 7200))
    cache.store(key, b"o")
    assert not old.exists() and fresh.exists()


def test_a_hit_refreshes_an_old_entry(tmp_path):
    cache = ObjectCache(tmp_path)
    key = cache.key({"ir": "f"})
    cache.store(key, b"o")
    path = _only_file(cache)
    os.utime(path, (time.time() - 7200, time.time() - 7200))
    assert cache.load(key) is not None
    assert time.time() - path.stat().st_mtime < 600


def test_environment_moves_and_disables_the_cache(tmp_path, monkeypatch):
    monkeypatch.setenv("TIRLOWER_CACHE_DIR", str(tmp_path / "here"))
    monkeypatch.delenv("TIRLOWER_CACHE", raising=False)
    assert default_directory() == tmp_path / "here"
    cache = default_cache()
    key = cache.key({"ir": "f"})
    cache.store(key, b"o")
    assert default_cache().load(key) is not None
    monkeypatch.setenv("TIRLOWER_CACHE", "0")
    off = default_cache()
    off.store(key, b"o")
    assert off.load(key) is None
    assert "turned off" in str(off.explain_miss(key))


def test_a_directory_that_cannot_be_written_is_one_warning(tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a directory")
    cache = ObjectCache(blocked)
    key = cache.key({"ir": "f"})
    with pytest.warns(RuntimeWarning, match="TIRLOWER_CACHE_DIR"):
        assert cache.get_or_build(key, lambda: CacheEntry(b"o", {})).object == b"o"
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        cache.store(key, b"o")
        assert cache.load(key) is None


def test_clear_removes_everything(tmp_path):
    cache = ObjectCache(tmp_path)
    for n in range(3):
        cache.store(cache.key({"ir": str(n)}), b"o")
    assert cache.clear() == 3
    assert cache.size() == 0
