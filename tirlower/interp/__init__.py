"""The reference interpreter: what a program means, with every access checked."""

from tirlower.interp.interpreter import Interpreter, interpret
from tirlower.interp.intrinsics_extern import register_extern
from tirlower.interp.memory import Memory, Pointer, View
from tirlower.interp.simulate import simulate

__all__ = ["Interpreter", "Memory", "Pointer", "View", "interpret", "register_extern", "simulate"]
