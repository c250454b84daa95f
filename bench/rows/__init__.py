"""Naive programs at the sizes of the kernels by hand: as written, scheduled automatically, by hand, and peers, in one run."""
