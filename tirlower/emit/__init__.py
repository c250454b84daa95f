"""From lowered functions to LLVM IR, whatever the machine: values, memory, loops, mathematics.

The host's code generator (:mod:`tirlower.llvm`) and the one for GPUs (:mod:`tirlower.gpu`) add what differs, as a
:class:`~tirlower.emit.platform.Platform`.
"""
