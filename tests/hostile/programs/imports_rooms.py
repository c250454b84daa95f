"""Rooms of the package imported first, each in a process of its own, then a text is printed, built and run."""

# expect: ok
# parts: 8
import os
import pkgutil
import sys
from importlib.util import find_spec

import numpy as np

folder = os.path.dirname(find_spec("tirlower").origin)
rooms = sorted(name for _, name, _ in pkgutil.iter_modules([folder]) if not name.startswith("__"))
assert len(rooms) > 12 and {"ir", "script", "legality", "driver"} <= set(rooms)


def use(room):
    __import__(f"tirlower.{room}")
    import tirlower as tl
    from tirlower.ir import IRModule
    from tirlower.script import parse

    func = parse("def f(A: T.Buffer(('n',), 'int32')):\n    for i in T.parallel(n):\n        A[i] = i * 5 + 2\n")
    assert "T.parallel" in func.script() and "T.parallel" in IRModule({"f": func}).script()
    A = np.zeros(23, "int32")
    tl.build(func)(A)
    assert A.tolist() == [i * 5 + 2 for i in range(23)]


for room in rooms[int(sys.argv[1]) :: 8]:
    child = os.fork()
    if child == 0:
        try:
            use(room)
        except BaseException:
            import traceback

            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    assert os.waitpid(child, 0)[1] == 0, room
assert not any(name.startswith("tirlower.") for name in sys.modules)
