"""All kernels with seeded mistakes."""

from __future__ import annotations

from tests.gpu.faults import barriers, copies, neighbours, places, warps
from tests.gpu.faults.case import Case

CASES: list[Case] = [*barriers.CASES, *places.CASES, *warps.CASES, *copies.CASES, *neighbours.CASES]
