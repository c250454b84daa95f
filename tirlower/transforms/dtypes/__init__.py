"""Passes that change data types: legalization, narrowing, custom types."""
