"""The kernels of the corpus that have a meaning on a GPU, scheduled by default, on a real one: against NumPy.

What is refused stands here with the reason, so that a kernel that comes to be built, or is refused anew, is seen.
"""

from __future__ import annotations

import pytest

from tests.gpu.on_device.device import built, called, needs_a_device
from tests.kernels.base import Ulps, differences
from tests.kernels.corpus import CORPUS
from tirlower.diagnostics import TirError

pytestmark = needs_a_device

REFUSED = {
    "allocation_in_a_branch_of_a_data_size": "barrier inside a condition",
    "allocation_inside_a_parallel_loop": "barrier inside a condition",
    "calls_between_functions": "memory verification failed",
    "calls_that_pass_memory": "no kernel",
    "chain_of_calls_with_loops_and_memory": "memory verification failed",
    "functions_of_the_c_library": "no meaning on a GPU",
    "masked_gather_and_scatter": "memory verification failed",
    "parallel_reads_of_a_shared_scalar": "host code accesses",
    "pointers_to_the_c_library": "no kernel",
    "recursive_calls": "no kernel",
    "return_from_a_nested_loop": "host code accesses",
    "return_of_bool": "no kernel",
    "return_of_float16": "no kernel",
    "return_of_int64": "no kernel",
    "return_of_uint8": "no kernel",
    "returned_float32": "host code allocates",
    "returned_float64": "host code allocates",
    "returned_int32": "host code allocates",
    "returned_int64": "host code allocates",
}

FUSED = {"arithmetic_bfloat16": Ulps(1, scale=32)}
"""Where a GPU fuses products with sums, and a CPU rounds both."""


@pytest.mark.parametrize("name", sorted(set(CORPUS) - set(REFUSED)))
def test_the_device_agrees_with_numpy(name: str) -> None:
    one = CORPUS[name]
    for sizes in one.builds.values():
        kernel = built(one.program(sizes[0]), entry=one.entry)
        for size in sizes:
            arguments = one.make(size)
            result = called(kernel, arguments)
            want, returned = one.expected(size)
            wrong = differences([*arguments, result], [*want, returned], one.tolerance(size) or FUSED.get(name))
            assert not wrong, f"{one.name} at {dict(size)}: {wrong}"


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_what_a_gpu_cannot_run_is_refused(name: str) -> None:
    one = CORPUS[name]
    with pytest.raises(TirError, match=REFUSED[name]):
        built(one.program(one.sizes[0]), entry=one.entry)
