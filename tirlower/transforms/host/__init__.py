"""Passes over functions: the host ABI, calls between functions, inlining, constants."""
