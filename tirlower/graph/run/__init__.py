"""What a compiled graph is: a callable with its arenas, and what it tells about itself."""
