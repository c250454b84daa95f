"""What a target means to the code generator: processor, features, floating-point rules, threads."""

from __future__ import annotations

import functools

from tirlower.diagnostics import CodegenError
from tirlower.emit.compile import CompileOptions
from tirlower.emit.machine import Machine, fast_math_of
from tirlower.machine import cpu as host
from tirlower.machine.target import Target, rounds_dots

__all__ = ["compile_options", "machine_of"]


@functools.lru_cache(maxsize=64)
def machine_of(target: Target) -> Machine:
    """The machine that a target describes. ``mcpu`` "native" (the default) is this one.

    Floating-point contraction into fused multiply-add is on unless ``fast-math-contract=0``; ``fast-math`` turns on
    everything, the other ``fast-math-*`` options one flag each (``fast-math-dots``: instructions that add up products of bfloat16). ``vector-width`` is the widest vector, in bits, that LLVM
    should make of scalar loops (explicit vectors keep theirs).

    Raises:
        CodegenError: the target is not a CPU, or names an unknown processor, feature or architecture.
    """
    if target.kind != "llvm":
        raise CodegenError(
            f"the host's code generator does not make code for target {str(target)!r}",
            origin="target",
            help="use a target of kind 'llvm'",
        )
    triple = str(target.get("mtriple") or host.triple())
    if triple.split("-")[0] != host.triple().split("-")[0]:
        raise CodegenError(
            f"the target's triple {triple!r} is of another architecture than this host ({host.triple()!r})",
            origin="target",
            help="leave out mtriple",
        )
    cpu = str(target.get("mcpu") or "native")
    asked: tuple[str, ...] = target.get("mattr", ())
    extra = [item if item[:1] in "+-" else f"+{item}" for item in asked]
    if cpu == "native":
        found = host.host_cpu()
        cpu, text, features = found.name, found.features, set(found.enabled)
    else:
        host.check_cpu(cpu)
        text = ""
        features = set(host.features_of(cpu)) if triple.startswith("x86_64") else set()
    host.check_features(",".join(extra))
    for item in extra:
        (features.add if item[0] == "+" else features.discard)(item[1:])
    text = ",".join(filter(None, [text, *extra]))
    widest = 512 if "avx512f" in features else 256 if "avx" in features else 128
    return Machine(
        triple,
        cpu,
        text,
        frozenset(features),
        fast_math_of(target),
        rounds_dots(target),
        bool(target.get("fast-vector-math", False)),
        target.get("vector-width", 0) or widest,
        target.get("num_threads", 0),
        target.get("opt-level", 3),
    )


def compile_options(target: Target) -> CompileOptions:
    """How LLVM is to compile a module generated for a target."""
    machine = machine_of(target)
    return CompileOptions(machine.cpu, machine.feature_text, machine.triple, machine.opt_level)
