"""Passes over memory: flattening, sharing, buffering."""
