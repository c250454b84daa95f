"""The disk cache of machine code.

An entry is one file, named by a digest of everything that determines its contents: named *components* given by the
caller (the program, the options, the target) and the versions of this package, llvmlite and LLVM. It holds a checksum,
a JSON header (the components, and metadata of the caller) and the object. Files are written beside their place and
moved into it, so that a reader never sees half an entry however many processes write; an entry whose checksum is wrong
is removed, and is a miss. The least recently used entries go when the cache outgrows its size.

Environment: ``TIRLOWER_CACHE_DIR`` moves the cache, ``TIRLOWER_CACHE=0`` turns it off.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import os
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import llvmlite
import llvmlite.binding as llvm

__all__ = ["CacheEntry", "CacheKey", "Miss", "ObjectCache", "default_cache", "default_directory", "versions"]

DIRECTORY_VARIABLE: Final = "TIRLOWER_CACHE_DIR"
SWITCH_VARIABLE: Final = "TIRLOWER_CACHE"
#: bytes that the cache may take before old entries go
DEFAULT_LIMIT: Final = 512 << 20

_MAGIC: Final = b"TIRLOWO1"
_HEAD: Final = struct.Struct("<8s16sI")  # magic, checksum of the rest, length of the JSON
_SUFFIX: Final = ".tlo"
#: a component this long is told by its digest and its beginning instead of its whole text
_SHORT: Final = 160
_HOUR: Final = 3600.0

_serial: Final = itertools.count()


def _digest(data: bytes, size: int = 16) -> bytes:
    return hashlib.blake2b(data, digest_size=size).digest()


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What an entry is found by: ``digest`` names its file, ``components`` are what it was made from, shortened."""

    digest: str
    components: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """What was stored: the object file, and the caller's metadata."""

    object: bytes
    metadata: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Miss:
    """Why there was no entry.

    ``reason`` in words; ``differing`` lists the components (name, wanted, had) in which the nearest entry differs, and
    ``nearest`` is that entry's metadata.
    """

    reason: str
    differing: tuple[tuple[str, str, str], ...] = ()
    nearest: Mapping[str, Any] = field(default_factory=dict)

    def __str__(self) -> str:
        lines = [self.reason]
        lines += [f"  {name}: wanted {wanted!r}, the nearest entry has {had!r}" for name, wanted, had in self.differing]
        return "\n".join(lines)


@functools.cache
def versions() -> Mapping[str, str]:
    """The versions that every key contains.

    Ours is told by the package's files (names, sizes, times of change), so that an edited source never meets machine
    code of its former self.
    """
    root = Path(__file__).parent.parent
    state = hashlib.blake2b(digest_size=8)
    for directory, folders, files in os.walk(root):
        folders[:] = sorted([f for f in folders if f != "__pycache__"])
        for name in sorted([f for f in files if f.endswith(".py")]):
            status = os.stat(os.path.join(directory, name))
            state.update(f"{directory[len(str(root)) :]}/{name} {status.st_size} {status.st_mtime_ns}\n".encode())
    return {
        "tirlower": state.hexdigest(),
        "llvmlite": str(llvmlite.__version__),
        "llvm": ".".join([str(n) for n in llvm.llvm_version_info]),
    }


def default_directory() -> Path:
    """``TIRLOWER_CACHE_DIR``, or a folder where the system keeps a user's caches."""
    chosen = os.environ.get(DIRECTORY_VARIABLE)
    if chosen:
        return Path(chosen).expanduser()
    if sys.platform == "win32":
        base = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = Path.home() / "Library" / "Caches"
    else:
        base = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    return base / "tirlower"


def default_cache() -> ObjectCache:
    """The cache that the environment asks for (one object for each directory, so that its counts are kept)."""
    enabled = os.environ.get(SWITCH_VARIABLE, "").strip().lower() not in ("0", "off", "no", "false")
    return _cache_at(str(default_directory()) if enabled else "", enabled)


@functools.cache
def _cache_at(directory: str, enabled: bool) -> ObjectCache:
    return ObjectCache(Path(directory), enabled=enabled)


class ObjectCache:
    """Machine code on disk, by content.

    ``hits``, ``misses``, ``stores`` and ``damaged`` count what happened through this object. A disabled cache misses
    always and stores nothing. A directory that cannot be read or written is a warning, once, never an error.
    """

    def __init__(self, directory: Path | str, *, limit: int = DEFAULT_LIMIT, enabled: bool = True) -> None:
        self.root: Final = Path(directory)
        self.directory: Final = self.root / "objects-1"
        self.limit: Final = limit
        self.enabled: Final = enabled
        self.hits = self.misses = self.stores = self.damaged = 0
        self._damaged: dict[str, str] = {}
        self._unchecked: int | None = None  # bytes stored since the size was last looked at
        self._warned = False

    def key(self, components: Mapping[str, str]) -> CacheKey:
        """The key of a content: every component counts, its name and its whole text, in the order given."""
        everything = {**versions(), **components}
        state = hashlib.blake2b(digest_size=16)
        told: dict[str, str] = {}
        for name, text in everything.items():
            data = text.encode()
            state.update(f"{name}\0{len(data)}\0".encode())
            state.update(data)
            told[name] = text if len(text) <= _SHORT else f"{text[:80]}... #{_digest(data, 8).hex()}"
        return CacheKey(state.hexdigest(), told)

    def load(self, key: CacheKey) -> CacheEntry | None:
        """The entry of a key, or ``None``. A damaged entry is removed."""
        if self.enabled:
            entry = self._read(key)
            if entry is not None:
                self.hits += 1
                return entry
        self.misses += 1
        return None

    def store(self, key: CacheKey, object: bytes, metadata: Mapping[str, Any] | None = None) -> None:
        """Write an entry; ``metadata`` is anything that JSON can hold."""
        if not self.enabled:
            return
        header = json.dumps(
            {"digest": key.digest, "components": dict(key.components), "metadata": dict(metadata or {})}
        ).encode()
        body = header + object
        length = struct.pack("<I", len(header))
        data = _HEAD.pack(_MAGIC, _digest(length + body), len(header)) + body
        place = self._path(key.digest)
        temporary = place.with_name(f"{place.name}.{os.getpid()}.{next(_serial)}.tmp")
        try:
            place.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            try:
                temporary.write_bytes(data)
                os.replace(temporary, place)
            except OSError:
                temporary.unlink(missing_ok=True)
                raise
        except OSError as error:
            # On Windows a reader blocks the move; it then has the same entry, from whoever was first.
            if not (isinstance(error, PermissionError) and place.exists()):
                self._warn(f"cannot write to the cache: {error}")
            return
        self.stores += 1
        self._damaged.pop(key.digest, None)
        self._bound(len(data))

    def get_or_build(self, key: CacheKey, build: Callable[[], CacheEntry]) -> CacheEntry:
        """The entry of a key, built and stored if it was not there."""
        entry = self.load(key)
        if entry is None:
            entry = build()
            self.store(key, entry.object, entry.metadata)
        return entry

    def explain_miss(self, key: CacheKey) -> Miss:
        """Why :meth:`load` does not (or, if it was stored since, did not) find the key.

        Reads all entries: for people, not for the fast path.
        """
        if not self.enabled:
            return Miss(f"the cache is turned off (environment variable {SWITCH_VARIABLE})")
        if key.digest in self._damaged:
            return Miss(f"the entry was damaged and was removed: {self._damaged[key.digest]}")
        best: tuple[int, float] | None = None
        nearest = Miss(f"there are no other entries in {self.directory}")
        for path in self._entries():
            if path.stem == key.digest:
                continue
            try:
                changed = path.stat().st_mtime
                header, _ = _decode(path.read_bytes())
            except (OSError, ValueError):
                continue  # removed by another process, or damaged: not a neighbour to tell of
            had: Mapping[str, str] = header["components"]
            names = [*key.components, *[name for name in had if name not in key.components]]
            differing = [
                (name, key.components.get(name, "(nothing)"), had.get(name, "(nothing)"))
                for name in names
                if key.components.get(name) != had.get(name)
            ]
            score = (len(differing), -changed)
            if best is None or score < best:
                best = score
                words = ", ".join([name for name, _, _ in differing]) or "the order of its components"
                nearest = Miss(f"the nearest entry differs in {words}", tuple(differing), header["metadata"])
        return nearest

    def size(self) -> int:
        """The bytes of all entries."""
        return sum([size for _, size, _ in self._listing()])

    def clear(self) -> int:
        """Remove all entries, and say how many there were."""
        count = 0
        for path in list(self._entries()):
            path.unlink(missing_ok=True)
            count += 1
        return count

    # -- inside ------------------------------------------------------------------------------------------------------

    def _path(self, digest: str) -> Path:
        return self.directory / digest[:2] / (digest + _SUFFIX)

    def _read(self, key: CacheKey) -> CacheEntry | None:
        path = f"{self.directory}{os.sep}{key.digest[:2]}{os.sep}{key.digest}{_SUFFIX}"
        try:
            with open(path, "rb", buffering=0) as file:
                status = os.fstat(file.fileno())
                data = file.read()
        except FileNotFoundError:
            return None
        except OSError as error:
            self._warn(f"cannot read from the cache: {error}")
            return None
        try:
            header, object = _decode(data)
            if header["digest"] != key.digest:
                raise ValueError("it holds another content than its name says")
        except ValueError as error:
            self.damaged += 1
            self._damaged[key.digest] = str(error)
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass  # another process met it too
            except OSError as problem:
                self._warn(f"cannot remove a damaged entry: {problem}")
            return None
        # The time of change is the time of use, to the hour; a write for every hit would cost more than the read.
        if time.time() - status.st_mtime > _HOUR:
            try:
                os.utime(path)
            except OSError:
                pass  # a cache that we may only read: its owner counts uses
        return CacheEntry(object, header["metadata"])

    def _entries(self) -> Iterator[Path]:
        return self.directory.glob(f"??/*{_SUFFIX}")

    def _listing(self) -> list[tuple[float, int, str]]:
        """(time of use, bytes, path) of all files, those that a killed process left half-written included."""
        found: list[tuple[float, int, str]] = []
        try:
            with os.scandir(self.directory) as folders:
                for folder in folders:
                    with os.scandir(folder.path) as files:
                        for file in files:
                            status = file.stat()
                            found.append((status.st_mtime, status.st_size, file.path))
        except OSError:
            return found  # a folder or file that another process removed meanwhile: enough for an estimate
        return found

    def _bound(self, stored: int) -> None:
        """Keep the size below the limit; looks at the disk at the first store and then after a sixteenth of it."""
        if self._unchecked is not None:
            self._unchecked += stored
            if self._unchecked < self.limit // 16:
                return
        self._unchecked = 0
        files = sorted(self._listing())
        total = sum([size for _, size, _ in files])
        stale = time.time() - _HOUR
        over = total > self.limit
        for used, size, path in files:
            abandoned = path.endswith(".tmp") and used < stale
            if abandoned or (over and total > self.limit * 3 // 4 and path.endswith(_SUFFIX)):
                Path(path).unlink(missing_ok=True)
                total -= size

    def _warn(self, message: str) -> None:
        if not self._warned:
            self._warned = True
            warnings.warn(
                f"{message}; kernels are compiled anew (set {DIRECTORY_VARIABLE} to a folder of yours, "
                f"or {SWITCH_VARIABLE}=0)",
                RuntimeWarning,
                stacklevel=4,
            )


def _decode(data: bytes) -> tuple[dict[str, Any], bytes]:
    """Header and object of an entry's file.

    Raises:
        ValueError: the file is damaged.
    """
    if len(data) < _HEAD.size:
        raise ValueError(f"it has {len(data)} bytes only")
    magic, checksum, length = _HEAD.unpack_from(data)
    view = memoryview(data)
    if magic != _MAGIC:
        raise ValueError("it does not begin as an entry does")
    if hashlib.blake2b(view[_HEAD.size - 4 :], digest_size=16).digest() != checksum:
        raise ValueError("its checksum is wrong")
    header: dict[str, Any] = json.loads(data[_HEAD.size : _HEAD.size + length])
    return header, data[_HEAD.size + length :]
