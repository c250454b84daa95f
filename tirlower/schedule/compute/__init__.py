"""Steps that move, repeat, split and fold computations."""
