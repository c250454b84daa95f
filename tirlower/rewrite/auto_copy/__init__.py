"""Copies that the compiler lays out: their form, and how threads and fragments share them."""
