"""The road from a prim func to a callable: what is built, from what, for which target, and what comes of it."""
