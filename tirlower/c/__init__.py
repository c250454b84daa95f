"""The target ``c``: portable C text, compiled by the system's compiler and called through ctypes.

``codegen`` makes C11 of lowered functions, ``compile`` a shared object of it, ``library`` callables of that. It shares
nothing with the code generator for LLVM but the description of calls, so that each is a judge of the other.
"""
