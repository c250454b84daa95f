"""Analyses of functions: access regions, lowest common ancestors, purity, sizes."""
