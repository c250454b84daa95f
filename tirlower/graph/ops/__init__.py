"""Operations: each is said once, as loops over index maps or as a graph of other operations."""
