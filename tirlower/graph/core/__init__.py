"""What a graph is made of: dims, constants, values and nodes."""
