"""The disk cache of machine code.

An entry is one file, named by a digest of everything that determines its contents: named *components* given by the
caller (the program, the options, the target) and the versions of this package, llvmlite and LLVM. It holds a checksum,
a JSON header (the components, and metadata of the caller) and the object. Files are written beside their place and
moved into it, so that a reader never sees half an entry however many processes write; an entry whose checksum is wrong
is removed, and is a miss. The least recently used entries go when the cache outgrows its size.

What is read is run: only files are read that nobody else can have written (:mod:`tirlower.support.private_files`); any
other is left alone, told to the log ``tirlower.cache``, and a miss.

Environment: ``TIRLOWER_CACHE_DIR`` moves the cache, ``TIRLOWER_CACHE=0`` turns it off.
"""

from __future__ import annotations

import functools
import hashlib
import itertools
import json
import logging
import os
import stat
import struct
import sys
import time
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, TypeAlias, TypedDict, TypeVar

import llvmlite
import llvmlite.binding as llvm

from tirlower.support.private_files import UnsafeFileError, home, make_folder, read_file, refuse_unsafe, write_file

__all__ = ["CacheEntry", "CacheKey", "Miss", "ObjectCache", "default_cache", "default_directory", "versions"]

DIRECTORY_VARIABLE: Final = "TIRLOWER_CACHE_DIR"
SWITCH_VARIABLE: Final = "TIRLOWER_CACHE"
#: bytes that the cache may take before old entries go
DEFAULT_LIMIT: Final = 512 << 20
#: bytes of the largest entry that is stored or read
LARGEST: Final = 128 << 20

_MAGIC: Final = b"TIRLOWO1"
_HEAD: Final = struct.Struct("<8s16sI")  # magic, checksum of the rest, length of the JSON
_SUFFIX: Final = ".tlo"
#: a component this long is told by its digest and its beginning instead of its whole text
_SHORT: Final = 160
_HOUR: Final = 3600.0
_FOLDERS: Final = 256  # one for each two first digits of a digest

_serial: Final = itertools.count()
_log: Final = logging.getLogger("tirlower.cache")


def _digest(data: bytes, size: int = 16) -> bytes:
    return hashlib.blake2b(data, digest_size=size).digest()


@dataclass(frozen=True, slots=True)
class CacheKey:
    """What an entry is found by: ``digest`` names its file, ``components`` are what it was made from, shortened."""

    digest: str
    components: Mapping[str, str]


Metadata: TypeAlias = "Mapping[str, object]"
"""What JSON can hold, by names."""
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class CacheEntry:
    """What was stored: the object file, and the caller's metadata."""

    object: bytes
    metadata: Metadata

    def part(self, name: str, kind: type[T]) -> T:
        """A part of the metadata, which is of a kind."""
        found = self.metadata[name]
        assert isinstance(found, kind), f"{name!r} is a {type(found).__name__}"
        return found


@dataclass(frozen=True, slots=True)
class Miss:
    """Why there was no entry.

    ``reason`` in words; ``differing`` lists the components (name, wanted, had) in which the nearest entry differs, and
    ``nearest`` is that entry's metadata.
    """

    reason: str
    differing: tuple[tuple[str, str, str], ...] = ()
    nearest: Metadata = field(default_factory=dict)

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


def default_directory() -> Path | None:
    """``TIRLOWER_CACHE_DIR``, or a folder where the system keeps a user's caches; None where there is no such place.

    A variable that names no absolute path counts as unset where its meaning asks for one (``HOME``,
    ``XDG_CACHE_HOME``); a relative ``TIRLOWER_CACHE_DIR`` is below the working directory.
    """
    chosen = os.environ.get(DIRECTORY_VARIABLE, "").strip()
    if chosen:
        return _expanded(chosen)
    if sys.platform == "win32":
        base: Path | None = Path(os.environ.get("LOCALAPPDATA") or Path.home() / "AppData" / "Local")
    elif sys.platform == "darwin":
        base = _below_home("Library", "Caches")
    else:
        named = os.environ.get("XDG_CACHE_HOME", "")
        base = Path(named) if os.path.isabs(named) else _below_home(".cache")
    return None if base is None else base / "tirlower"


def _below_home(*parts: str) -> Path | None:
    base = home()
    return None if base is None else base.joinpath(*parts)


def _expanded(chosen: str) -> Path | None:
    """A path whose ``~`` stands for a home; None where there is none."""
    first, _, rest = chosen.partition("/")
    if first == "~":
        return _below_home(rest) if rest else home()
    path = os.path.expanduser(chosen)
    return None if path.startswith("~") else Path(os.path.abspath(path))


def default_cache() -> ObjectCache:
    """The cache that the environment asks for (one object for each directory, so that its counts are kept)."""
    enabled = os.environ.get(SWITCH_VARIABLE, "").strip().lower() not in ("0", "off", "no", "false")
    place = default_directory() if enabled else None
    return _cache_at("" if place is None else str(place), place is not None)


@functools.cache
def _cache_at(directory: str, enabled: bool) -> ObjectCache:
    return ObjectCache(Path(directory), enabled=enabled)


class ObjectCache:
    """Machine code on disk, by content.

    ``hits``, ``misses``, ``stores`` and ``damaged`` count what happened through this object. A disabled cache misses
    always and stores nothing. A directory that cannot be read or written, or that others may write to, is a warning,
    once, never an error; an entry that others may have written is a miss.
    """

    def __init__(self, directory: Path | str, *, limit: int = DEFAULT_LIMIT, enabled: bool = True) -> None:
        self.root: Final = Path(directory)
        # The real path: what is checked is what is opened.
        self.directory: Final = Path(os.path.realpath(self.root)) / "objects-2"
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

    def store(self, key: CacheKey, object: bytes, metadata: Metadata | None = None) -> None:
        """Write an entry; ``metadata`` is anything that JSON can hold."""
        if not self.enabled:
            return
        header = json.dumps(
            {"digest": key.digest, "components": dict(key.components), "metadata": dict(metadata or {})}
        ).encode()
        body = header + object
        length = struct.pack("<I", len(header))
        data = _HEAD.pack(_MAGIC, _digest(length + body), len(header)) + body
        if len(data) > LARGEST:
            _log.info("an entry of %d bytes is not kept", len(data))
            return
        place = self._path(key.digest)
        temporary = place.with_name(f"{place.name}.{os.getpid()}.{next(_serial)}.tmp")
        try:
            make_folder(place.parent)
            refuse_unsafe(place.parent)
            try:
                write_file(temporary, data)
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
        self._bound(len(data), place.parent)

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
            return Miss(f"the cache is turned off (environment variable {SWITCH_VARIABLE}), or has no place")
        if key.digest in self._damaged:
            return Miss(f"the entry was damaged or not safe, and was not used: {self._damaged[key.digest]}")
        best: tuple[int, float] | None = None
        nearest = Miss(f"there are no other entries in {self.directory}")
        for path in self._entries():
            if path.stem == key.digest:
                continue
            try:
                data, changed = read_file(str(path), LARGEST)
                header, _ = _decode(data)
            except (OSError, ValueError):
                continue  # removed by another process, damaged, or another's: not a neighbour to tell of
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
        folder = self.directory / key.digest[:2]
        path = f"{folder}{os.sep}{key.digest}{_SUFFIX}"
        try:
            data, used = read_file(path, LARGEST)
            refuse_unsafe(folder)
        except (FileNotFoundError, NotADirectoryError):
            return None
        except UnsafeFileError as error:
            self._damaged[key.digest] = str(error)
            _log.warning("an entry of the cache is not used: %s", error)
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
            _log.warning("an entry of the cache is damaged, and removed: %s: %s", path, error)
            try:
                os.unlink(path)
            except FileNotFoundError:
                pass  # another process met it too
            except OSError as problem:
                self._warn(f"cannot remove a damaged entry: {problem}")
            return None
        # The time of change is the time of use, to the hour; a write for every hit would cost more than the read.
        if time.time() - used > _HOUR:
            try:
                os.utime(path)
            except OSError:
                pass  # a cache that we may only read: its owner counts uses
        return CacheEntry(object, header["metadata"])

    def _entries(self) -> Iterator[Path]:
        for _, _, path in self._listing():
            if path.endswith(_SUFFIX):
                yield Path(path)

    def _listing(self, folders: Iterable[Path | str] | None = None) -> list[tuple[float, int, str]]:
        """(time of use, bytes, path) of all files, those that a killed process left half-written included."""
        found: list[tuple[float, int, str]] = []
        for folder in self._folders() if folders is None else folders:
            for file in _scan(folder):
                try:
                    status = file.stat(follow_symlinks=False)
                except OSError:
                    continue  # another process removed it meanwhile
                if stat.S_ISREG(status.st_mode):
                    found.append((status.st_mtime, status.st_size, file.path))
        return found

    def _folders(self) -> list[str]:
        return [f.path for f in _scan(self.directory) if len(f.name) == 2 and f.is_dir(follow_symlinks=False)]

    def _bound(self, stored: int, folder: Path) -> None:
        """Keep the size below the limit; looks at the disk at the first store and then after a sixteenth of it.

        Digests spread entries evenly over 256 folders, so that the one written to tells about how much all hold: the
        others, tens of thousands of files, are listed once that says that the limit may be near: above what cleaning leaves.
        """
        if self._unchecked is not None:
            self._unchecked += stored
            if self._unchecked < self.limit // 16:
                return
        self._unchecked = 0
        files = self._listing([folder])
        if _FOLDERS * sum([size for _, size, _ in files]) > self.limit * 7 // 8:
            files = self._listing()
        total = sum([size for _, size, _ in files])
        stale = time.time() - _HOUR
        over = total > self.limit
        for used, size, path in sorted(files):
            abandoned = path.endswith(".tmp") and used < stale
            if abandoned or (over and total > self.limit * 3 // 4 and path.endswith(_SUFFIX)):
                try:
                    os.unlink(path)
                except OSError:
                    continue  # another process was first, or it is not ours to remove
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


def _scan(folder: Path | str) -> list[os.DirEntry[str]]:
    """The entries of a folder; none where it cannot be read, or is gone."""
    try:
        with os.scandir(folder) as entries:
            return list(entries)
    except OSError:
        return []


class _Header(TypedDict):
    digest: str
    components: dict[str, str]
    metadata: dict[str, object]


def _decode(data: bytes) -> tuple[_Header, bytes]:
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
    try:
        header: _Header = json.loads(data[_HEAD.size : _HEAD.size + length])
    except RecursionError:
        raise ValueError("its header nests too deeply") from None
    kinds = {"digest": str, "components": dict, "metadata": dict}
    if not isinstance(header, dict) or any(not isinstance(header.get(k), kind) for k, kind in kinds.items()):
        raise ValueError("its header is none")
    return header, data[_HEAD.size + length :]
