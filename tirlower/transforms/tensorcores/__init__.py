"""Passes for tensor cores, and for the copies that feed them."""
