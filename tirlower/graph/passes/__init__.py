"""Passes over graphs, one a file."""
