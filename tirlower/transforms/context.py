"""PassContext: the options, levels and instruments under which passes run."""

from __future__ import annotations

import contextvars
import warnings
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from tirlower.diagnostics import TransformError, nearest_name
from tirlower.ir.func import IRModule
from tirlower.transforms.table import WHERE

if TYPE_CHECKING:
    from tirlower.transforms.base import PassInfo

__all__ = ["CONFIG_KEYS", "PASS_NAMES", "PassContext"]

CONFIG_KEYS: dict[str, str] = {
    "tir.legality": "check or off: whether build and lower check every loop kind and access",
    "tir.unproved_bounds": "guard, trust or refuse: what happens to an access not proved inside its buffer",
    "tir.noalias": "mark every function as having parameter buffers that do not overlap",
    "tir.disable_vectorize": "make vectorized loops serial",
    "tir.enable_buffer_level_predication": "let VectorizeLoop mask accesses instead of scalarizing conditions",
    "tir.disable_cse_tir": "leave repeated subexpressions",
    "tir.enable_equiv_terms_in_cse_tir": "let CommonSubexprElimTIR identify equivalent terms",
    "tir.disable_assert": "drop the asserts that the program states",
    "tir.disable_storage_rewrite": "leave allocations where they are",
    "tir.instrument_bound_checkers": "guard every access",
    "tir.enable_profiling": "mark loops and functions for profiling",
    "tir.instrument_lwp": "as tir.enable_profiling",
    "tir.instr_siblings": "profile sibling loops too",
    "tir.enable_debug": "check T.assume at run time",
    "tir.detect_global_barrier": "accepted; without effect",
    "tir.use_async_copy": "accepted; without effect",
    "tir.merge_static_smem": "merge static shared memory too",
    "tir.ptx_ldg32": "use guarded 32-bit global loads",
    "tir.is_entry_func": "treat the function as the entry",
    "tir.add_lower_pass": "a list of (phase, pass) to run within the pipeline",
    "tir.debug_keep_trivial_loop": "accepted; without effect",
    "tir.vtcm_capacity": "accepted; without effect",
    "tir.experimental_dma_bypass_cache": "DMA copies bypass the cache",
    "tir.dma_bypass_cache": "DMA copies bypass the cache",
    "tir.lwp_disable_func_prof": "no profiling of functions",
    "tir.lwp_max_depth": "the deepest loop to profile",
    "tir.lwp_min_height": "the least height of a loop to profile",
    "tir.reset_start_id": "restart the profiling ids",
    "tir.validate.reproducer_dir": "where validate=True writes the file that shows a wrong pass",
}
"""The global configuration keys; a pass's own options stand under ``tir.<Pass>``."""

_ALSO = {"tir.enable_profiling": "tir.instrument_lwp"}
"""Keys under the other name that TIR has for them."""

_NO_EFFECT = {
    "tir.detect_global_barrier": "no kernel has a barrier of its whole grid",
    "tir.use_async_copy": "copies that are marked asynchronous always are, where the architecture has an instruction",
    "tir.debug_keep_trivial_loop": "loops of extent one are kept or not by each pass",
    "tir.vtcm_capacity": "the capacity is the target's option vtcm-capacity, or VerifyVTCMLimit's argument",
}
"""Keys of TIR that change nothing here, with the reason."""

PASS_NAMES: set[str] = {f"tir.{name}" for name in WHERE}
"""The names of all passes, which are configuration keys too; `base` adds those of users as their class is made."""

_CURRENT: contextvars.ContextVar[PassContext | None] = contextvars.ContextVar("tirlower_pass_context", default=None)


class PassContext:
    """The options under which passes run; used with ``with``.

    ``opt_level``: passes above it are skipped in a Sequential. ``required_pass`` and ``disabled_pass``: names.
    ``config``: global keys (:data:`CONFIG_KEYS`) and ``{"tir.<Pass>": {option: value}}``. ``instruments``: objects
    with any of ``enter_pass_ctx``, ``exit_pass_ctx``, ``should_run(mod, info)``, ``run_before_pass(mod, info)``,
    ``run_after_pass(mod, info)``. ``trace``: keep the module after each pass (``ir_after``). ``validate``: check and
    execute each pass's input and output, and name the first pass that changes what the program computes.

    >>> with PassContext(opt_level=1, config={"tir.UnrollLoop": {"auto_max_step": 4}}) as ctx:
    ...     PassContext.current() is ctx
    True

    Raises :class:`TransformError` for an unknown configuration key; warns of one of TIR's that changes nothing here.
    """

    def __init__(
        self,
        opt_level: int = 2,
        required_pass: Sequence[str] | None = None,
        disabled_pass: Sequence[str] | None = None,
        instruments: Sequence[Any] | None = None,
        config: Mapping[str, Any] | None = None,
        *,
        trace: bool = False,
        validate: bool = False,
    ) -> None:
        self.opt_level = int(opt_level)
        self.required_pass = tuple(required_pass or ())
        self.disabled_pass = tuple(disabled_pass or ())
        self.instruments = list(instruments or ())
        self.config = dict(config or {})
        self.trace = bool(trace)
        self.validate = bool(validate)
        self.ir_after: dict[str, IRModule] = {}
        self._tokens: list[contextvars.Token[PassContext | None]] = []
        self._check_config()

    def _check_config(self) -> None:
        for key in self.config:
            if key not in CONFIG_KEYS and key not in PASS_NAMES:
                near = nearest_name(key, [*CONFIG_KEYS, *PASS_NAMES])
                raise TransformError(
                    f"unknown configuration key {key!r}",
                    origin="PassContext",
                    help=f"did you mean {near!r}?" if near else "keys are 'tir.<Pass>' or one of CONFIG_KEYS",
                )
            if key in _NO_EFFECT and self.config[key]:
                warnings.warn(f"{key} changes nothing: {_NO_EFFECT[key]}", stacklevel=3)

    @classmethod
    def current(cls) -> PassContext:
        """The innermost context entered, or a default one."""
        found = _CURRENT.get()
        return found if found is not None else cls()

    def override_instruments(self, instruments: Sequence[Any] | None) -> None:
        """Watch with these from now on: those before are told that the context ends, these that it begins."""
        self.notify("exit_pass_ctx")
        self.instruments = []
        self._enter(list(instruments or ()))

    def _enter(self, instruments: Sequence[Any]) -> None:
        """Tell instruments that the context begins. After an error in one of them there are none."""
        entered: list[Any] = []
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
        self._tokens.append(_CURRENT.set(self))
        return self

    def __exit__(self, *_: object) -> None:
        _CURRENT.reset(self._tokens.pop())
        self.notify("exit_pass_ctx")

    def option(self, key: str, default: Any = None) -> Any:
        """A global configuration value."""
        if key not in self.config:
            key = _ALSO.get(key, key)
        return self.config.get(key, default)

    def pass_enabled(self, info: PassInfo) -> bool:
        """Whether a pass runs at this level, disabled and required passes considered."""
        name = info.name.removeprefix("tir.")
        if any(name == other.removeprefix("tir.") for other in self.disabled_pass):
            return False
        return self.is_required(info) or self.opt_level >= info.opt_level

    def is_required(self, info: PassInfo) -> bool:
        """Whether a pass runs at any level, whatever instruments say."""
        name = info.name.removeprefix("tir.")
        return any(name == other.removeprefix("tir.") for other in self.required_pass)

    def notify(self, event: str, *args: Any) -> None:
        """Call a hook of each instrument that has it."""
        for instrument in self.instruments:
            _call(instrument, event, *args)


def _call(instrument: Any, event: str, *args: Any) -> None:
    hook = getattr(instrument, event, None)
    if hook is not None:
        hook(*args)
