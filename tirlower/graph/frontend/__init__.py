"""How a Python function becomes a graph: symbolic tensors that answer NumPy's protocols, and what records them."""
