"""NVIDIA GPUs: NVPTX code generation and launch."""
