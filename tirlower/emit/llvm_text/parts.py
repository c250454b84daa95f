"""A module cut into several, so that no call into LLVM takes long: each has some of the functions, and what they use.

A function with a name outside of the module, or one marked :attr:`~tirlower.emit.llvm_text.module.Function.separable`,
is defined in one part and declared in the others that call it. Everything else (helpers, constants, metadata) is
copied into each part that refers to it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence

__all__ = ["cut"]

_SYMBOL = re.compile(r'@(?:"[^"]*"|[\w.$-]+)')
_NODE = re.compile(r"!\d+")


def _closure(start: Iterable[str], follow: Callable[[str], Iterable[str]]) -> dict[str, None]:
    """All that can be reached, in the order in which it is met."""
    found: dict[str, None] = {}
    stack = list(dict.fromkeys(start))[::-1]
    while stack:
        name = stack.pop()
        if name not in found:
            found[name] = None
            stack += [x for x in follow(name) if x not in found][::-1]
    return found


def cut(
    head: str,
    tail: str,
    functions: Mapping[str, str],
    roots: Mapping[str, str],
    others: Mapping[str, str],
    nodes: Sequence[str],
    named: str,
    lines: int,
) -> list[str]:
    """The texts of the parts, each of about so many lines.

    ``functions`` are the definitions by symbol (``@f``); ``roots`` the declarations of those that are defined once;
    ``others`` globals and declarations by symbol; ``nodes`` the numbered metadata; ``named`` text with references to
    it that every part gets, as it gets ``head`` and ``tail``.
    """
    groups: list[list[str]] = []
    room = 0
    for symbol in roots:
        size = functions[symbol].count("\n")
        if not groups or (size > room and groups[-1]):
            groups.append([])
            room = lines
        groups[-1].append(symbol)
        room -= size
    uses = {symbol: dict.fromkeys(_SYMBOL.findall(text)) for symbol, text in (*functions.items(), *others.items())}
    out = []
    for group in groups:
        mine = set(group)

        def follow(symbol: str, mine: set[str] = mine) -> Iterable[str]:
            # What another part defines ends the walk here.
            return () if symbol in roots and symbol not in mine else uses.get(symbol, ())

        reached = _closure(group, follow)
        text = [head]
        text += [others[symbol] for symbol in reached if symbol in others]
        text += [roots[symbol] for symbol in reached if symbol in roots and symbol not in mine]
        text += [
            functions[symbol].replace("define internal ", "define hidden ", 1) if symbol in mine else functions[symbol]
            for symbol in reached
            if symbol in functions and (symbol in mine or symbol not in roots)
        ]
        text.append(tail)
        referred = _closure(
            _NODE.findall("".join([*text, named])),
            lambda node: [x for x in _NODE.findall(nodes[int(node[1:])]) if x != node],
        )
        text += [f"{node} = {nodes[int(node[1:])]}\n" for node in sorted(referred, key=lambda node: int(node[1:]))]
        text.append(named)
        out.append("".join(text))
    return out
