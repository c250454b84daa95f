"""Passes over memory: flattening, sharing, buffering, special memories, whose memory is accessed."""
