"""Targets: what a function is compiled for, as a value.

``Target("llvm -mcpu=x86-64-v4")`` and ``Target("llvm", mcpu="x86-64-v4")`` are equal. A target names a kind of code
generator and its options; it says nothing about the machine it is made on ("native" is resolved by the code
generator).
"""

from __future__ import annotations

import contextvars
import importlib
import shlex
from collections.abc import Mapping
from typing import SupportsInt, TypeAlias, TypedDict, TypeVar, overload

from tirlower.diagnostics import TirError, nearest_name
from tirlower.machine.tags import TAGS

__all__ = ["KINDS", "TAGS", "Target", "TargetKind", "TargetLike", "rounds_dots"]

T = TypeVar("T")


class Kind(TypedDict, total=False):
    """What a kind of target says itself: the families it belongs to, its device, default limits."""

    keys: tuple[str, ...]
    device: str
    max_num_threads: int
    thread_warp_size: int
    max_shared_memory_per_block: int
    max_threads_per_block: int


KINDS: dict[str, Kind] = {
    "llvm": {"keys": ("cpu",), "device": "cpu"},
    "c": {"keys": ("cpu",), "device": "cpu"},
    "hexagon": {"keys": ("hexagon", "cpu"), "device": "cpu"},
    "nvptx": {"keys": ("cuda", "gpu"), "device": "cuda", "max_num_threads": 1024, "thread_warp_size": 32,
              "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024},
    "cuda": {"keys": ("cuda", "gpu"), "device": "cuda", "max_num_threads": 1024, "thread_warp_size": 32,
             "max_shared_memory_per_block": 49152, "max_threads_per_block": 1024},
    "rocm": {"keys": ("rocm", "gpu"), "device": "rocm", "max_num_threads": 256, "thread_warp_size": 64,
             "max_shared_memory_per_block": 65536, "max_threads_per_block": 1024},
    "metal": {"keys": ("metal", "gpu"), "device": "metal", "max_num_threads": 256, "thread_warp_size": 16},
    "vulkan": {"keys": ("vulkan", "gpu"), "device": "vulkan", "max_num_threads": 256, "thread_warp_size": 1},
    "opencl": {"keys": ("opencl", "gpu"), "device": "opencl", "max_num_threads": 256, "thread_warp_size": 1},
    "webgpu": {"keys": ("webgpu", "gpu"), "device": "webgpu", "max_num_threads": 256, "thread_warp_size": 1},
    "ext_dev": {"keys": ("ext_dev",), "device": "ext_dev"},
}  # fmt: skip
"""The known kinds with their keys, device and default limits."""

OPTIONS: dict[str, type] = {
    "keys": tuple, "device": str, "model": str, "tag": str, "libs": tuple, "host": str,
    "mcpu": str, "mattr": tuple, "mcache": tuple, "mtriple": str, "mfloat-abi": str, "mabi": str, "opt-level": int, "num-cores": int,
    "num_threads": int, "fast-math": bool, "fast-math-nnan": bool, "fast-math-ninf": bool, "fast-math-nsz": bool,
    "fast-math-arcp": bool, "fast-math-contract": bool, "fast-math-reassoc": bool, "fast-math-dots": bool,
    "vector-width": int,
    "fast-vector-math": bool, "jit": str, "cl-opt": tuple, "runtime": str, "system-lib": bool, "arch": str, "ptx": int,
    "max_num_threads": int, "thread_warp_size": int, "max_shared_memory_per_block": int,
    "max_threads_per_block": int, "max_function_args": int, "registers_per_block": int, "l2_cache_size_bytes": int,
    "vtcm-capacity": int, "texture_spatial_limit": int, "supports_float16": bool, "supports_int64": bool,
    "supports_integer_dot_product": bool, "supports_cooperative_matrix": bool,
}  # fmt: skip
"""The known options and the type of their values."""

_IMPLIED = {"tag": ""}
"""Values of options that say nothing; what the kind says itself says nothing either."""

_CURRENT: contextvars.ContextVar[tuple[Target, ...]] = contextvars.ContextVar("tirlower_target", default=())


_DEVICE_NUMBERS = {
    "cpu": 1, "cuda": 2, "opencl": 4, "vulkan": 7, "metal": 8, "rocm": 10, "ext_dev": 12, "hexagon": 14, "webgpu": 15,
}  # fmt: skip
"""DLPack's numbers of devices."""


class TargetKind(str):
    """The kind of a target: a text that has a ``name``, as TIR's kinds do.

    >>> Target("cuda").kind == "cuda", Target("cuda").kind.name
    (True, 'cuda')
    """

    __slots__ = ()

    @property
    def name(self) -> str:
        """The text itself."""
        return str(self)

    @property
    def default_keys(self) -> tuple[str, ...]:
        """The families to which targets of the kind belong."""
        return KINDS[self]["keys"]

    @property
    def options(self) -> list[str]:
        """The names of the options that targets take."""
        return list(OPTIONS)


class Target:
    """A kind of code generator with options, and the host's target.

    >>> t = Target("llvm -mcpu=x86-64-v4", num_threads=2)
    >>> t.kind, t.mcpu, t.num_threads
    ('llvm', 'x86-64-v4', 2)
    >>> Target("nvptx -arch=sm_90a", host="llvm").host
    Target('llvm')

    Options with the values that the kind has anyway are left out: ``Target({"kind": "cuda", "tag": "", "keys": ["cuda",
    "gpu"], "thread_warp_size": 32})`` is ``Target("cuda")``. A machine's name (:data:`TAGS`) stands for its options:
    ``Target("nvidia/nvidia-a100")``. Used as a context (``with Target("llvm"):``) it is the one that ``Target.current()`` returns.
    Raises :class:`TirError` for an unknown kind or option.
    """

    __slots__ = ("_attrs", "host", "kind")

    kind: TargetKind
    host: Target | None

    def __init__(self, spec: object = "llvm", host: object = None, **options: object) -> None:
        kind: str
        if isinstance(spec, Target):
            kind, given = spec.kind, {**spec._attrs}
            host = host if host is not None else spec.host
        elif isinstance(spec, Mapping):
            given = {str(k): v for k, v in spec.items()}
            kind = str(given.pop("kind", "llvm"))
            host = host if host is not None else given.pop("host", None)
        elif isinstance(spec, str):
            kind, given = _parse(spec)
        else:
            raise TirError(f"a target is a string such as 'llvm', a mapping or a Target, got {spec!r}")
        if kind in TAGS:
            given = {**TAGS[kind], "tag": kind, **given}
            kind = str(given.pop("kind"))
        given.update({_option_name(k): v for k, v in options.items()})
        host = host if host is not None else given.pop("host", None)
        given.pop("host", None)
        if kind not in KINDS:
            near = nearest_name(kind, [*KINDS, *TAGS])
            raise TirError(
                f"unknown target {kind!r}",
                help=f"did you mean {near!r}?" if near else f"the targets are {', '.join(KINDS)}",
            )
        self.kind = TargetKind(kind)
        self._attrs: dict[str, object] = {}
        for name, value in given.items():
            if value is None:
                continue
            wanted = OPTIONS.get(name)
            if wanted is None:
                near = nearest_name(name, OPTIONS)
                raise TirError(
                    f"target {kind!r} has no option {name!r}", help=f"did you mean {near!r}?" if near else None
                )
            made = _convert(kind, name, value, wanted)
            if wanted is int and isinstance(made, int) and not 0 <= made < 1 << 31:
                raise TirError(
                    f"target {kind!r}: {name} is at least 0 and fits an int32, got {made}",
                    help="leave it out for the default",
                )
            if made != _IMPLIED.get(name, KINDS[kind].get(name)):
                self._attrs[name] = made
        self.host = None if host is None else Target(host)

    @classmethod
    def from_device(cls, device: object) -> Target:
        """The target that describes a device of this machine, asked of it.

        ``device`` is ``"cpu"`` (or ``"llvm"``), ``"cuda"``, ``"cuda:1"``, a device of PyTorch, or an array on one. A CPU's has its
        name for LLVM, features that it lacks, triple and number of cores; a GPU's its architecture and limits. Raises
        :class:`ArgumentValueError` for other devices, :class:`DeviceError` where there is no such GPU.

        >>> Target.from_device("cpu").kind
        'llvm'
        """
        found: Target = importlib.import_module("tirlower.driver.devices").target_of_device(device)
        return found

    @classmethod
    def current(cls, allow_none: bool = True) -> Target | None:
        """The innermost target entered by ``with``; None (or an error) when there is none."""
        stack = _CURRENT.get()
        if stack:
            return stack[-1]
        if allow_none:
            return None
        raise TirError("no target is current", help="use `with Target(...):`")

    @classmethod
    def target_or_current(cls, target: TargetLike) -> Target:
        """The target, or for None the current one. Raises :class:`TirError` where there is neither."""
        if target is not None:
            return cls(target)
        current = cls.current(allow_none=False)
        assert current is not None
        return current

    @classmethod
    def canon_target(cls, target: TargetLike) -> Target | None:
        """The target that a text or a mapping describes; None for None."""
        return None if target is None else cls(target)

    @classmethod
    def canon_target_and_host(cls, target: TargetLike, host: TargetLike = None) -> tuple[Target | None, Target | None]:
        """A target with its host, and the host: the one that is given, or the target's own.

        >>> Target.canon_target_and_host("cuda", "llvm")
        (Target('cuda', host='llvm'), Target('llvm'))
        """
        if target is None:
            return None, cls.canon_target(host)
        made = cls(target, host=host)
        return made, made.host

    @staticmethod
    def list_kinds() -> list[str]:
        """The names of the kinds."""
        return list(KINDS)

    def __enter__(self) -> Target:
        _CURRENT.set((*_CURRENT.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.set(_CURRENT.get()[:-1])

    @property
    def attrs(self) -> dict[str, object]:
        """The options given and the kind's default limits."""
        limits = {k: v for k, v in KINDS[self.kind].items() if k not in ("keys", "device")}
        return {**limits, **self._attrs}

    @property
    def keys(self) -> tuple[str, ...]:
        """The families it belongs to, such as ``cpu`` or ``gpu``."""
        own: tuple[str, ...] = self.get("keys", ())
        return tuple(dict.fromkeys((*own, *KINDS[self.kind]["keys"])))

    @property
    def device(self) -> str:
        """The device its buffers live on: ``cpu``, ``cuda`` …"""
        return str(self._attrs.get("device", KINDS[self.kind]["device"]))

    @property
    def device_name(self) -> str:
        """The option ``device``, empty where none is given: a family of devices that has schedules of its own in TVM."""
        return str(self._attrs.get("device", ""))

    @property
    def max_block_size_x(self) -> int | None:
        """The most threads of a block along x."""
        return self.get("max_num_threads", None)

    @property
    def max_block_size_y(self) -> int | None:
        """The most threads of a block along y."""
        return self.get("max_num_threads", None)

    @property
    def vtcm_capacity_bytes(self) -> int | None:
        """The bytes of a Hexagon's tightly coupled memory."""
        return self.get("vtcm-capacity", None)

    def get_target_device_type(self) -> int:
        """DLPack's number of the device: 1 for CPUs, 2 for CUDA. 0 for a family that it does not have."""
        return _DEVICE_NUMBERS.get(self.device, _DEVICE_NUMBERS.get(KINDS[self.kind]["device"], 0))

    @property
    def is_gpu(self) -> bool:
        """Whether it runs kernels on a device of its own."""
        return "gpu" in self.keys

    @overload
    def get(self, name: str) -> object: ...
    @overload
    def get(self, name: str, default: T) -> T: ...
    def get(self, name: str, default: T | None = None) -> object:
        """An option by its name, or the default, which is of the option's type."""
        return self.attrs.get(_option_name(name), default)

    def with_host(self, host: object) -> Target:
        """The same target with a host."""
        return Target(self, host=host)

    def without_host(self) -> Target:
        """The same target without its host."""
        made = Target(self.kind)
        made._attrs = dict(self._attrs)
        return made

    def with_options(self, **options: object) -> Target:
        """The same target with options added or replaced."""
        return Target(self, **options)

    def __getattr__(self, name: str) -> object:
        if name.startswith("_"):
            raise AttributeError(name)
        option = _option_name(name)
        if option in OPTIONS:
            return self.attrs.get(option)
        raise AttributeError(f"target {self.kind!r} has no option {name!r}")

    def export(self) -> dict[str, object]:
        """The target as a mapping that makes it again."""
        out: dict[str, object] = {"kind": self.kind.name, **self._attrs}
        if self.host is not None:
            out["host"] = self.host.export()
        return out

    def _key(self) -> tuple[object, ...]:
        return (self.kind, tuple(sorted((k, str(v)) for k, v in self._attrs.items())), self.host)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Target) and other._key() == self._key()

    def __hash__(self) -> int:
        return hash(self._key())

    def __str__(self) -> str:
        parts = [self.kind.name]
        for name, value in sorted(self._attrs.items()):
            text = ",".join(map(str, value)) if isinstance(value, tuple) else str(value)
            parts.append(f"-{name}={int(value) if isinstance(value, bool) else shlex.quote(text)}")
        return " ".join(parts)

    def __repr__(self) -> str:
        host = f", host={str(self.host)!r}" if self.host is not None else ""
        return f"Target({str(self)!r}{host})"

    def __reduce__(self) -> tuple[type[Target], tuple[dict[str, object]]]:
        return (Target, (self.export(),))


def _option_name(name: str) -> str:
    """Options are written with underscores as keywords and with dashes in text."""
    if name in OPTIONS:
        return name
    for other in (name.replace("_", "-"), name.replace("-", "_")):
        if other in OPTIONS:
            return other
    return name


def _parse(spec: str) -> tuple[str, dict[str, object]]:
    try:
        words = shlex.split(spec)
    except ValueError as error:
        raise TirError(f"cannot read the target {spec!r}: {error}") from None
    if not words:
        raise TirError("an empty target", help="for example 'llvm' or 'nvptx -arch=sm_90a'")
    options: dict[str, object] = {}
    index = 1
    while index < len(words):
        word = words[index]
        if not word.startswith("-"):
            raise TirError(f"expected an option in the target {spec!r}, got {word!r}", help="options start with '-'")
        name, equals, value = word.lstrip("-").partition("=")
        if not equals:
            following = words[index + 1] if index + 1 < len(words) else None
            if following is None or following.startswith("-"):
                value = "1"
            else:
                value = following
                index += 1
        options[_option_name(name)] = value
        index += 1
    return words[0], options


def _convert(kind: str, name: str, value: object, wanted: type) -> object:
    try:
        if wanted is tuple and isinstance(value, str):
            return tuple(value.split(","))
        if wanted is bool and not isinstance(value, bool):
            if not isinstance(value, (str, SupportsInt)):
                raise TypeError
            return bool(int(value))
        if wanted is int and isinstance(value, float):
            raise ValueError  # int() would cut it
        return wanted(value)
    except (TypeError, ValueError):
        raise TirError(f"the option {name!r} of target {kind!r} is {wanted.__name__}, got {value!r}") from None


TargetLike: TypeAlias = Target | str | Mapping[str, object] | None
"""What a build takes for a target; None is the current one, or the host's."""


def rounds_dots(target: Target) -> bool:
    """Whether a target lets instructions add up products of bfloat16 that round otherwise than products and sums of float32.

    >>> rounds_dots(Target("llvm")), rounds_dots(Target("llvm -fast-math-dots=1")), rounds_dots(Target("llvm -fast-math=1"))
    (False, True, True)
    """
    return bool(target.get("fast-math") or target.get("fast-math-dots"))
