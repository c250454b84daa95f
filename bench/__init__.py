"""Benchmarks: kernels, calls and compile time, against peers measured in the same run.

``python -m bench`` prints tables with ratios; ``pytest bench`` runs the same candidates under pytest-benchmark.
"""
