"""What build and lower prove of a program before it is lowered: every loop kind, and the bounds of every access.

:func:`tirlower.legality.check.check_legality` gives the module to lower, with guards where bounds are not proved, and what was found, for the
report. ``loops`` asks about loops, ``bounds`` about accesses, ``views`` about memory seen through another buffer,
``guards`` inserts the guards, ``strides`` asks calls for strides that do not overlap, and ``assumptions`` lists what is
taken on the program's word. ``versions`` makes the module that is checked: that for arrays which share no memory, or that
for any. ``notes`` is what was found, as plain data: it imports nothing of the rest, so that a build from the disk cache can
read it.
"""
