"""Rewrites held against what they were made of: both are run, what differs is shrunk and written as a file."""
