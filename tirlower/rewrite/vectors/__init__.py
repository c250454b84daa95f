"""Loops as vectors: expressions, masks, memory by lane, and pieces of long vectors."""
