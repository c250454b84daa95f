"""Passes over blocks: what a block means becomes loops, conditions and buffers."""
