"""Passes over threads: binding, synchronization, reduction across threads, device regions."""
