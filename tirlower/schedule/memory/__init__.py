"""Steps on memory: copies of buffers, where they are kept, how they are laid out."""
