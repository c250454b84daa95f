"""NVIDIA GPUs: arrays in device memory, streams and events; kernels come from :func:`tirlower.build`.

Nothing of CUDA is loaded before it is used.
"""

from __future__ import annotations

from tirlower.gpu.launch import DeviceArray, Event, Stream, empty, to_device

__all__ = ["DeviceArray", "Event", "Stream", "empty", "to_device"]
