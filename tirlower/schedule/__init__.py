"""Transform a program by name, step by step, and be told why not: ``Schedule``, its handles, its trace.

Each module is imported where it is used: :class:`tirlower.schedule.schedule.Schedule` is the way in.
"""
