"""What a rewriter has done, in numbers."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["RewriteSimplifyStats"]


@dataclass(slots=True)
class RewriteSimplifyStats:
    """What the rules of an analyzer have done since it was made, or since the counts were reset.

    ``nodes_visited`` are nodes with operands that were walked (not those whose result was remembered), ``constraints_entered`` the
    conditions taken as facts, ``rewrites_attempted`` the nodes that were offered to rules, ``rewrites_performed`` those that
    a rule changed; ``num_recursive_rewrites`` of these were made while another rule built its result, at most
    ``max_recursive_depth`` inside one another.

    The counts tell the work of two versions of an expression or of the rules apart. They are no promise: a version with
    fewer steps is a better one.
    """

    nodes_visited: int = 0
    constraints_entered: int = 0
    rewrites_attempted: int = 0
    rewrites_performed: int = 0
    max_recursive_depth: int = 0
    num_recursive_rewrites: int = 0

    def note_rewrite(self, depth: int) -> None:
        """A rule has changed a node, inside ``depth`` others."""
        self.rewrites_performed += 1
        if depth:
            self.num_recursive_rewrites += 1
            self.max_recursive_depth = max(self.max_recursive_depth, depth)
