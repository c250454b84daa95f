"""From a graph to prim funcs: one for each node, and the driver that calls them."""
