"""Passes that make code smaller or simpler without changing its shape."""
