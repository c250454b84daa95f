"""From lowered IR to native code on the host: LLVM IR, its compilation, the entry, threads, the disk cache."""
