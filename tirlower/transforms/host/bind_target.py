"""BindTarget and AnnotateEntryFunc: what each function is compiled for, and which one is the entry."""

from __future__ import annotations

from collections.abc import Mapping

from tirlower.analysis.host_abi import private_copy
from tirlower.analysis.thread_axes import is_thread_axis
from tirlower.ir.callees import CalleeRenamer
from tirlower.ir.expr import Call, Expr
from tirlower.ir.func import IRModule, PrimFunc
from tirlower.ir.functor import Visitor
from tirlower.ir.node import Node
from tirlower.ir.op import GlobalVar
from tirlower.ir.stmt import AttrStmt, For
from tirlower.machine.target import Target
from tirlower.rewrite.base import ModulePass
from tirlower.rewrite.context import PassContext

__all__ = ["AnnotateEntryFunc", "BindTarget"]

_HOST_FUNC = "tir.is_host_func"
_ENTRY_FUNC = "tir.is_entry_func"
_DEVICE_KEYS = ("target", "device_scope", "thread_extent")


class _Calls(Visitor):
    """The functions of the module that a body calls, from its host part and from its device regions."""

    def __init__(self, in_device: bool) -> None:
        self.in_device = in_device
        self.host: dict[str, None] = {}
        self.device: dict[str, None] = {}

    def visit_Call(self, op: Call) -> None:
        if isinstance(op.op, GlobalVar):
            (self.device if self.in_device else self.host).setdefault(op.op.name)

    def visit_For(self, op: For) -> None:
        threads = is_thread_axis(op)
        self._region(op, threads)

    def visit_AttrStmt(self, op: AttrStmt) -> None:
        self._region(op, op.key in _DEVICE_KEYS)

    def _region(self, op: Node, device: bool) -> None:
        outer, self.in_device = self.in_device, self.in_device or device
        self.generic(op)
        self.in_device = outer


class _HostCalls(CalleeRenamer):
    """Calls outside device regions go to the host's copies of their callees."""

    def __init__(self, names: Mapping[str, str]) -> None:
        super().__init__(names)
        self.in_device = False

    def visit_Call(self, op: Call) -> Expr:
        return op if self.in_device else super().visit_Call(op)

    def visit_For(self, op: For) -> Node:
        return self._region(op, is_thread_axis(op))

    def visit_AttrStmt(self, op: AttrStmt) -> Node:
        return self._region(op, op.key in _DEVICE_KEYS)

    def _region(self, op: Node, device: bool) -> Node:
        outer, self.in_device = self.in_device, self.in_device or device
        made = self.generic(op)
        self.in_device = outer
        return made


def _contexts(mod: IRModule, target: Target) -> tuple[set[str], set[str]]:
    """The functions without a target of their own that are called from the host, and from a device.

    What a function calls outside of its device regions it calls from where it is called itself.
    """
    pending: list[tuple[str, bool]] = []
    for name, func in mod.items():
        own = func.attrs.get("target")
        exposed = "global_symbol" in func.attrs
        if own is not None:
            bound = Target(own)
            pending.append((name, bound.is_gpu and bound.host is None and not exposed))
        elif exposed or func.attrs.get(_HOST_FUNC):
            pending.append((name, False))
    called: tuple[set[str], set[str]] = (set(), set())
    seen: set[tuple[str, bool]] = set()
    calls: dict[str, _Calls] = {}
    while pending:
        name, device = pending.pop()
        if (name, device) in seen:
            continue
        seen.add((name, device))
        found = calls.get(name)
        if found is None:
            found = calls[name] = _Calls(in_device=False)
            found.visit(mod[name].body)
        # A device region of the host's function runs on the device of its target, if that has one.
        own = mod[name].attrs.get("target")
        gpu = Target(own).is_gpu if own is not None else target.is_gpu
        for callees, on_device in ((found.host, device), (found.device, device or gpu)):
            for callee in callees:
                if callee in mod:
                    called[on_device].add(callee)
                    pending.append((callee, on_device))
    return called


class BindTarget(ModulePass):
    """Each function gets the attribute ``target``: what it is compiled for.

    An exported function (with ``global_symbol``) gets the target with its host; one marked ``tir.is_host_func`` the
    host's target (and the mark goes away); a private function the target without its host, or, when only host code
    calls it and the target is another device, the host's. A private function that both call is bound to the device,
    and a copy of it, ``<name>_host``, to the host, which the calls in host code then name. A function that has a target
    keeps it; if it is exported and its target has no host, the target's host is added. What runs on the device are
    the bodies of thread loops and of device regions, and all functions called from there.

    ``target`` is a :class:`Target` or its text; without a host, ``llvm`` is the host of a GPU target. Needs nothing;
    raises :class:`TirError` for an unknown target.

    >>> from tirlower.script import parse
    >>> print(BindTarget("llvm -mcpu=x86-64-v3")(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((4,), "float32")):
    ...     A[0] = T.float32(1)
    ... ''')).script())
    @T.prim_func
    def f(A: T.Buffer((4,), "float32")):
        T.func_attr({"target": T.target({"kind": "llvm", "mcpu": "x86-64-v3"})})
        A[0] = T.float32(1)
    """

    name = "tir.BindTarget"
    target: Target

    def __init__(self, target: Target | str | Mapping[str, object]) -> None:
        super().__init__(target=Target(target))

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Bind every function of a module."""
        target = self.target
        device = target.without_host()
        host = target.host if target.host is not None else Target("llvm") if target.is_gpu else device
        host_pair = host.with_host(host)
        by_host, by_device = _contexts(mod, target)
        made: dict[str, PrimFunc] = {}
        renamed: dict[str, str] = {}
        for name, func in mod.items():
            exposed = "global_symbol" in func.attrs
            if "target" in func.attrs:
                own = Target(func.attrs["target"])
                if exposed and own.host is None and target.host is not None:
                    func = func.with_attr("target", own.with_host(target.host))
            elif func.attrs.get(_HOST_FUNC):
                func = func.without_attr(_HOST_FUNC).with_attr("target", host_pair)
            elif exposed:
                func = func.with_attr("target", target)
            elif name in by_host and target.is_gpu:
                if name in by_device:
                    copy = _fresh(f"{name}_host", mod, made)
                    renamed[name] = copy
                    made[copy] = private_copy(func).with_attr("target", host)
                    func = func.with_attr("target", device)
                else:
                    func = func.with_attr("target", host)
            else:
                func = func.with_attr("target", device)
            made[name] = func
        if renamed:
            for name, func in made.items():
                bound = Target(func.attrs["target"])
                # Host code: that of exported functions, and that of functions compiled for the host.
                if not bound.is_gpu or "global_symbol" in func.attrs:
                    made[name] = func.with_body(_HostCalls(renamed).visit(func.body))
        ordered = {name: made[name] for name in (*mod, *renamed.values())}
        return mod.with_functions(ordered)


def _fresh(name: str, mod: IRModule, made: Mapping[str, PrimFunc]) -> str:
    found, count = name, 0
    while found in mod or found in made:
        count += 1
        found = f"{name}_{count}"
    return found


class AnnotateEntryFunc(ModulePass):
    """The entry of a module gets the attribute ``tir.is_entry_func``: its only function, or its only exported one.

    A module with several exported functions has no entry and stays as it is. Needs nothing, raises nothing.

    >>> from tirlower.script import parse
    >>> AnnotateEntryFunc()(parse('''
    ... @T.prim_func
    ... def f(A: T.Buffer((4,), "float32")):
    ...     A[0] = T.float32(1)
    ... ''')).attrs["tir.is_entry_func"]
    True
    """

    name = "tir.AnnotateEntryFunc"

    def transform_module(self, mod: IRModule, ctx: PassContext) -> IRModule:
        """Mark the entry, where there is one."""
        candidates = [name for name, func in mod.items() if "global_symbol" in func.attrs]
        if len(mod) == 1:
            candidates = list(mod)
        if len(candidates) != 1 or mod[candidates[0]].attrs.get(_ENTRY_FUNC):
            return mod
        entry = candidates[0]
        return mod.with_functions(
            {name: func.with_attr(_ENTRY_FUNC, True) if name == entry else func for name, func in mod.items()}
        )
