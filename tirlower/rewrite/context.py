"""PassContext: the options, levels and instruments under which passes run."""

from __future__ import annotations

import contextvars
import os
import threading
import warnings
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, TypedDict

from tirlower.diagnostics import TransformError, nearest_name
from tirlower.ir.func import IRModule
from tirlower.rewrite.options import Option, check_options, flag, integer, one_of, path
from tirlower.rewrite.registry import known_passes, options_of, short_name

if TYPE_CHECKING:
    from tirlower.rewrite.running import PassInfo

__all__ = ["CONFIG_KEYS", "LOWER_PHASES", "Choices", "PassContext"]

LOWER_PHASES = 4
"""Phases of ``tir.add_lower_pass``: 0 before all passes, 1 once buffers are flat, 2 once loops are, 3 after cleaning."""


def _is_added(entry: object) -> bool:
    match entry:
        case (int() as phase, pass_) if 0 <= phase < LOWER_PHASES and not isinstance(phase, bool):
            return callable(getattr(pass_, "transform_module", None)) and not isinstance(pass_, type)
    return False


CONFIG_KEYS: dict[str, Option] = {
    "tir.legality": one_of("check", "off", about="whether build and lower check every loop kind and access"),
    "tir.unproved_bounds": one_of(
        "guard", "trust", "refuse", about="what happens to an access not proved inside its buffer"
    ),
    "tir.scalar_overflow": one_of(
        "auto",
        "wrap",
        "none",
        about="whether arithmetic on scalar parameters wraps, as that on elements does; by default in build, lower and jit, "
        "and not in a pass called by hand",
    ),
    "tir.noalias": flag(useless="a function says so itself: T.func_attr({'tir.noalias': True})"),
    "tir.disable_vectorize": flag(about="make vectorized loops serial"),
    "tir.enable_buffer_level_predication": flag(
        None, "whether VectorizeLoop masks accesses instead of scalarizing conditions; the pipeline decides where unset"
    ),
    "tir.disable_cse_tir": flag(about="leave repeated subexpressions"),
    "tir.enable_equiv_terms_in_cse_tir": flag(about="let CommonSubexprElimTIR identify equivalent terms"),
    "tir.disable_assert": flag(about="drop the asserts that the program states"),
    "tir.disable_storage_rewrite": flag(about="leave allocations where they are"),
    "tir.instrument_bound_checkers": flag(about="guard every access"),
    "tir.enable_profiling": flag(about="mark loops and functions for profiling"),
    "tir.instrument_lwp": flag(about="as tir.enable_profiling"),
    "tir.instr_siblings": flag(None, "profile sibling loops too"),
    "tir.lwp_disable_func_prof": flag(None, "no profiling of functions"),
    "tir.lwp_max_depth": integer(None, "the deepest loop to profile"),
    "tir.lwp_min_height": integer(None, "the least height of a loop to profile"),
    "tir.reset_start_id": flag(None, "restart the profiling ids"),
    "tir.enable_debug": flag(about="check T.assume at run time"),
    "tir.merge_static_smem": flag(about="merge static shared memory too"),
    "tir.add_lower_pass": Option(
        None,
        f"a list of (phase, pass), phases 0 to {LOWER_PHASES - 1}",
        lambda value: isinstance(value, (list, tuple)) and all(map(_is_added, value)),
        "passes to run within the pipeline, each at the end of its phase",
    ),
    "tir.experimental_dma_bypass_cache": flag(about="DMA copies bypass the cache"),
    "tir.dma_bypass_cache": flag(about="DMA copies bypass the cache"),
    "tir.validate.reproducer_dir": path("where validate=True writes the file that shows a wrong pass"),
    "tir.auto.classes": Option(
        None,
        "a list of classes, as reports name them",
        lambda value: isinstance(value, (list, tuple)) and all(isinstance(one, str) for one in value),
        'the classes of nests that schedule="auto" schedules; all without it',
    ),
    "tir.auto.least": integer(
        512, 'how often the statements of a function run at least, together, for schedule="auto" to look at it'
    ),
    "tir.auto.parallel": flag(True, 'schedule="auto" may run loops in parallel'),
    "tir.auto.nontemporal": flag(True, 'schedule="auto" may write large outputs past the caches'),
    "tir.auto.tuned": Option(
        True,
        "True, False or a path",
        lambda value: isinstance(value, (bool, str, os.PathLike)),
        'whether schedule="auto" takes the plans that tl.tune found, or the database that they are in',
    ),
    "graph.numerics": one_of(
        "default",
        "exact",
        "fast",
        about="what passes over graphs may do to numbers: 'exact' keeps every bit, 'fast' assumes that all are finite",
    ),
    "tir.detect_global_barrier": flag(useless="no kernel has a barrier of its whole grid"),
    "tir.use_async_copy": flag(
        useless="copies that are marked asynchronous always are, where the architecture has an instruction"
    ),
    "tir.debug_keep_trivial_loop": flag(useless="loops of extent one are kept or not by each pass"),
    "tir.ptx_ldg32": flag(useless="LLVM selects the read-only path of guarded loads itself"),
    "tir.is_entry_func": flag(useless="AnnotateEntryFunc marks a function"),
    "tir.vtcm_capacity": Option(
        0,
        "an integer of at least 0",
        integer(0).fits,
        useless="the capacity is the target's option vtcm-capacity, or VerifyVTCMLimit's argument",
    ),
}
"""The global configuration keys, each declared once; a pass's own options stand under ``tir.<Pass>``."""

_ALSO = {"tir.enable_profiling": "tir.instrument_lwp"}
"""Keys under the other name that TIR has for them."""

_ENTERED: contextvars.ContextVar[tuple[PassContext, ...]] = contextvars.ContextVar("tirlower_pass_contexts", default=())
"""The contexts that are entered here, innermost last: each thread, and each task, has its own."""


class Choices(TypedDict):
    """What decides the passes that run and what they do, as arguments of a :class:`PassContext`."""

    opt_level: int
    required_pass: tuple[str, ...]
    disabled_pass: tuple[str, ...]
    config: dict[str, object]


class PassContext:
    """The options under which passes run; used with ``with``.

    ``opt_level``: passes above it are skipped in a Sequential. ``required_pass`` and ``disabled_pass``: names.
    ``config``: global keys (:data:`CONFIG_KEYS`), ``{"tir.<Pass>": {option: value}}`` and, for passes over graphs,
    ``{"graph.<Pass>": {option: value}}``. ``instruments``: objects with any of ``enter_pass_ctx``, ``exit_pass_ctx``,
    ``should_run(mod, info)``, ``run_before_pass(mod, info)``, ``run_after_pass(mod, info)``, of which a graph is the first
    argument where a pass over graphs runs. ``trace``: keep the module after each pass (``ir_after``). ``validate``: check and
    execute each pass's input and output, and name the first pass that changes what the program computes.

    >>> with PassContext(opt_level=1, config={"tir.UnrollLoop": {"auto_max_step": 4}}) as ctx:
    ...     PassContext.current() is ctx
    True

    A context may be entered by several threads, and more than once; each entry ends where it began.

    Raises :class:`TransformError` for a configuration key or option that nobody declares, naming the nearest, for a
    value that it does not take, and for the misspelt name of a pass; warns of one of TIR's keys that changes nothing here.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[object] | None = None,
        config: Mapping[str, object] | None = None,
        *,
        trace: bool = False,
        validate: bool = False,
    ) -> None:
        if not isinstance(opt_level, int) or isinstance(opt_level, bool) or not 0 <= opt_level <= 4:
            raise TransformError(f"opt_level is 0 to 4, got {opt_level!r}", origin="PassContext")
        self.opt_level = opt_level
        self.required_pass = _names("required_pass", required_pass)
        self.disabled_pass = _names("disabled_pass", disabled_pass)
        self.instruments: list[object] = list(instruments or ())
        self.config: Mapping[str, object] = _checked(config) if config else _NOTHING
        self.trace = bool(trace)
        self.validate = bool(validate)

    @property
    def ir_after(self) -> Mapping[str, IRModule]:
        """With ``trace``: the module after each pass that this thread has run, by the pass's name.

        A name that comes again is numbered (``Simplify.2``).
        """
        return {name: made for name, made in self.programs_after.items() if isinstance(made, IRModule)}

    @property
    def programs_after(self) -> Mapping[str, object]:
        """With ``trace``: what each pass of this thread has made, modules and graphs, named as in :attr:`ir_after`."""
        return self._traces().programs

    def traced(self, name: str, program: object) -> None:
        """Keep what a pass has made."""
        self._traces().add(name, program)

    def _traces(self) -> _Traces:
        # Made when it is asked for: most contexts are defaults that live for one pass.
        found = self.__dict__.get("_kept")
        made: _Traces = found if found is not None else self.__dict__.setdefault("_kept", _Traces())
        return made

    def child(self, *instruments: object) -> PassContext:
        """A context with the same options for one piece of work: more instruments, and a trace of its own.

        What runs under it leaves nothing in this one.
        """
        made = PassContext.__new__(PassContext)
        made.__dict__.update(self.__dict__)
        made.instruments = [*self.instruments, *instruments]
        made.__dict__.pop("_kept", None)
        return made

    @property
    def choices(self) -> Choices:
        """What decides the passes that run and what they do, as arguments of a context: its level, passes, configuration.

        >>> ctx = PassContext(1, disabled_pass=["tir.UnrollLoop"], trace=True)
        >>> PassContext(**ctx.choices).choices == ctx.choices
        True
        """
        return {
            "opt_level": self.opt_level,
            "required_pass": self.required_pass,
            "disabled_pass": self.disabled_pass,
            "config": dict(self.config),
        }

    def quiet(self) -> PassContext:
        """A context with the same choices alone: no instruments, no trace, no validation."""
        return PassContext(**self.choices)

    @classmethod
    def current(cls) -> PassContext:
        """The innermost context entered, or a default one."""
        entered = _ENTERED.get()
        return entered[-1] if entered else cls()

    @staticmethod
    def list_configs() -> dict[str, dict[str, object]]:
        """The global configuration keys: for each its default, the values that it takes, and what it means.

        >>> PassContext.list_configs()["tir.disable_vectorize"]["takes"]
        'True or False'
        """
        return {
            key: {"default": option.default, "takes": option.takes, "about": option.about or option.useless}
            for key, option in CONFIG_KEYS.items()
        }

    def override_instruments(self, instruments: Sequence[object] | None) -> None:
        """Watch with these from now on: those before are told that the context ends, these that it begins."""
        self.notify("exit_pass_ctx")
        self.instruments = []
        self._enter(list(instruments or ()))

    def _enter(self, instruments: Sequence[object]) -> None:
        """Tell instruments that the context begins. After an error in one of them there are none."""
        entered: list[object] = []
        try:
            for instrument in instruments:
                _call(instrument, "enter_pass_ctx")
                entered.append(instrument)
        except BaseException:
            self.instruments = []
            for instrument in entered:
                _call(instrument, "exit_pass_ctx")
            raise
        self.instruments = list(instruments)

    def __enter__(self) -> PassContext:
        self._enter(self.instruments)
        _ENTERED.set((*_ENTERED.get(), self))
        return self

    def __exit__(self, *_: object) -> None:
        entered = _ENTERED.get()
        # Its last entry: a generator that was closed late, or in another task, may end out of turn.
        for at in reversed(range(len(entered))):
            if entered[at] is self:
                _ENTERED.set(entered[:at] + entered[at + 1 :])
                break
        self.notify("exit_pass_ctx")

    def option(self, key: str, default: object = None) -> object:
        """A global configuration value; where it is not set ``default``, or else the one that it is declared with."""
        if key not in self.config:
            key = _ALSO.get(key, key)
        if default is None and key in CONFIG_KEYS:
            default = CONFIG_KEYS[key].default
        return self.config.get(key, default)

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a pass runs at this level, disabled and required passes considered."""
        name = short_name(info.name)
        if any(name == short_name(other) for other in self.disabled_pass):
            return False
        return self.is_required(info) or self.opt_level >= info.opt_level

    def is_required(self, info: PassInfo) -> bool:
        """Whether a pass runs at any level, whatever instruments say."""
        name = short_name(info.name)
        return any(name == short_name(other) for other in self.required_pass)

    def notify(self, event: str, *args: object) -> None:
        """Call a hook of each instrument that has it."""
        for instrument in self.instruments:
            _call(instrument, event, *args)


class _Traces(threading.local):
    """The programs after passes: each thread's own, so that two lowerings do not mix."""

    def __init__(self) -> None:
        self.programs: dict[str, object] = {}

    def add(self, name: str, program: object) -> None:
        """Keep a program under a name, or under the name and the next free number."""
        free, count = name, 2
        while free in self.programs:
            free, count = f"{name}.{count}", count + 1
        self.programs[free] = program


def _names(word: str, given: object) -> tuple[str, ...]:
    """Names of passes. A name that nobody declares may be that of a user's pass, but not one misspelt."""
    if given is None:
        return ()
    if not isinstance(given, (list, tuple, set, frozenset)) or not all(isinstance(name, str) for name in given):
        raise TransformError(
            f"{word} is a list of the names of passes, got {given!r}",
            origin="PassContext",
            help=f"write {word}=[{given!r}]" if isinstance(given, str) else None,
        )
    known = [short_name(name) for name in known_passes()] if given else []  # a build makes two dozen contexts
    for name in given:
        plain = short_name(name)
        near = None if plain in known else nearest_name(plain, known)
        if near is not None:
            raise TransformError(f"{word} names no pass {name!r}", origin="PassContext", help=f"did you mean {near!r}?")
    return tuple(given)


_NOTHING: Mapping[str, object] = MappingProxyType({})


def _checked(config: Mapping[str, object]) -> Mapping[str, object]:
    """A configuration, not to be changed any more, of declared keys with values that they take."""
    if not isinstance(config, Mapping):
        raise TransformError(f"config is a mapping, got {config!r}", origin="PassContext")
    made: dict[str, object] = {}
    for key, value in config.items():
        declared = CONFIG_KEYS.get(key)
        if declared is not None:
            if not declared.accepts(value):
                raise TransformError(f"{key} is {declared.takes}, got {value!r}", origin="PassContext")
            if declared.useless and value:
                warnings.warn(f"{key} changes nothing: {declared.useless}", stacklevel=4)
            made[key] = value
            continue
        passes = known_passes()
        if key not in passes:
            near = nearest_name(str(key), [*CONFIG_KEYS, *passes])
            raise TransformError(
                f"unknown configuration key {key!r}",
                origin="PassContext",
                help=f"did you mean {near!r}?"
                if near
                else "keys are 'tir.<Pass>', 'graph.<Pass>' or one of CONFIG_KEYS",
            )
        if not isinstance(value, Mapping):
            raise TransformError(
                f"the configuration of {key} is a mapping of options, got {value!r}",
                origin="PassContext",
                help=f"PassContext(config={{{key!r}: {{option: value}}}})",
            )
        check_options(key, value, options_of(key), "PassContext")
        made[key] = dict(value)
    return MappingProxyType(made)


def _call(instrument: object, event: str, *args: object) -> None:
    hook = getattr(instrument, event, None)
    if hook is not None:
        hook(*args)
