"""HOME is empty, relative, the root, or names nothing: kernels are compiled, and nothing is put below the root."""

# expect: ok
import os
import subprocess
import sys
import tempfile

CODE = """
import numpy as np
import tirlower as tl
from tirlower.script import parse
from tirlower.llvm.cache import default_directory
a = np.arange(6, dtype="int32")
tl.build(parse('''
@T.prim_func
def f(A: T.Buffer((6,), "int32")):
    for i in range(6):
        A[i] = A[i] * 4 - i
'''))(a)
assert a.tolist() == [k * 4 - k for k in range(6)]
print(default_directory())
"""
before = os.path.lexists("/.cache"), os.path.lexists("/tirlower")
root = os.getcwd()
with tempfile.TemporaryDirectory() as home:
    for changes in (
        {"HOME": ""},
        {"HOME": "/"},
        {"HOME": "not/absolute"},
        {"HOME": "/nowhere", "XDG_CACHE_HOME": "relative"},
        {"HOME": "", "TIRLOWER_CACHE_DIR": "~/x"},
        {"HOME": home, "TIRLOWER_CACHE_DIR": "/dev/null/x"},
    ):
        env = {k: v for k, v in os.environ.items() if not k.startswith(("XDG", "TIRLOWER"))}
        env |= {"PYTHONPATH": root, "PYTHONWARNINGS": "ignore"} | changes
        done = subprocess.run([sys.executable, "-c", CODE], env=env, cwd=home, capture_output=True, text=True)
        assert done.returncode == 0, (changes, done.stderr)
        place = done.stdout.strip()
        assert not place.startswith(("/.cache", "/tirlower", "/x")), (changes, place)
        assert not os.listdir(home), (changes, os.listdir(home))
assert (os.path.lexists("/.cache"), os.path.lexists("/tirlower")) == before
