"""Short programs that show how kernels are written, compiled and checked."""
