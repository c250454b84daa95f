"""Libraries that compute parts of graphs: what they take, and the kernels that call them."""
