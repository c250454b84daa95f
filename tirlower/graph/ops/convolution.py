"""convolution."""
