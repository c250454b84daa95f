"""Steps on loops."""
