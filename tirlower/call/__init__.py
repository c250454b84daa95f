"""The words and rules of a call's arguments, for every target: what a call takes, and whether an argument is that.

Modules are imported by name; ``signature`` describes the parameters, ``parameters`` makes that of a prim func.
"""
