"""Steps on blocks."""
