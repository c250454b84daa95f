"""Code for the host: from a lowered module to the LLVM modules that are compiled, and what the loader needs of them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from tirlower.call.gil import GilPolicy
from tirlower.call.parameters import call_signature
from tirlower.driver.result import BuildSpec
from tirlower.ir.annotations import ELSEWHERE, LINKED
from tirlower.ir.func import IRModule
from tirlower.llvm.codegen.module import GeneratedModule, generate, linked_symbol
from tirlower.llvm.entry import add_entry

__all__ = ["HostCode", "generate_code"]


PART_LINES = 6000
"""The lines of LLVM IR that one call into LLVM compiles, about: 6,000 take half a second, in which Ctrl-C waits."""


@dataclass(frozen=True)
class HostCode:
    """What is compiled: ``parts`` are the LLVM modules, ``functions`` the code of the functions without the Python entry.

    ``kernels`` says what the loader needs of each exported kernel; ``calls`` are the symbols of functions that other objects
    have, ``callable`` those that other objects may call.
    """

    generated: GeneratedModule
    functions: str
    parts: list[str]
    kernels: dict[str, dict[str, object]]
    calls: list[str]
    callable: list[str]


def generate_code(lowered: IRModule, spec: BuildSpec, in_place: Mapping[str, Sequence[Sequence[int]]]) -> HostCode:
    """The code of a lowered module: what a build compiles, and what :meth:`~tirlower.driver.kernel.Kernel.source` shows.

    ``in_place`` has, for each exported function, the parameters that may be one array, which the entry asks about.
    """
    keys = {str(f.attrs.get("global_symbol", key)): key for key, f in lowered.items()}
    generated = generate(
        lowered,
        spec.target,
        outputs={keys[name]: chosen for name, chosen in spec.outputs.items() if name in keys},
        check_assumptions=bool(spec.context().option("tir.enable_debug")),
    )
    functions = generated.text
    kernels: dict[str, dict[str, object]] = {}
    for name, info in generated.kernels.items():
        written = [p.name for p in info.signature.buffers if p.written]
        pairs = in_place.get(name, ())
        signature = call_signature(spec.function(name), written, spec.outputs.get(name, ()), pairs)
        gil = GilPolicy(release=spec.gil, work=info.work)
        # A call for overlapping arrays comes from Python, where the overlap was found.
        native = spec.overlap is None
        exports = add_entry(generated.module, signature, info.ref, name=info.symbol, gil=gil, native=native)
        kernels[name] = {
            "symbol": info.symbol,
            "exports": list(exports),
            "written": written,
            "in_place": [list(pair) for pair in pairs],
        }
    linked = {
        linked_symbol(func, key): ELSEWHERE in func.attrs
        for key, func in lowered.items()
        if "global_symbol" in func.attrs or LINKED in func.attrs
    }
    calls, callable = ([symbol for symbol, is_far in linked.items() if is_far is far] for far in (True, False))
    return HostCode(generated, functions, generated.module.parts(PART_LINES), kernels, calls, callable)
