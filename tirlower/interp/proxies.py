"""What threads have written, and copy engines and tensor cores read: seen only behind a fence between the two ways to memory.

Threads go to shared memory one way (the generic proxy), tile stores and ``wgmma`` another (the async proxy, PTX ISA,
"Proxies"). A barrier orders threads, not the two ways: some thread has to execute ``ptx_fence_proxy_async`` behind the
writes (its own, or those that a barrier let it know of) and before the barrier or the program order by which the reader
comes later. Each thread that fences has a slot of its own in the clocks of its block, which counts its fences and becomes
known to other threads as its time does; what it knew at each fence is kept beside.
"""

from __future__ import annotations

from tirlower.interp.clocks import Agent, Clock

__all__ = ["Fences"]


class Fences:
    """The fences of one block, by the slot that counts those of a thread."""

    __slots__ = ("_known", "_slots")

    def __init__(self) -> None:
        self._slots: dict[Clock, int] = {}
        self._known: dict[int, list[list[int]]] = {}

    def fence(self, clock: Clock) -> None:
        """A thread executes a fence: all that it knows to be over can be read either way by who knows of this."""
        slot = self._slots.get(clock)
        if slot is None:
            slot = self._slots[clock] = clock.block.new_slot()
        fences = self._known.setdefault(slot, [])
        fences.append(clock.full())
        clock.extra[slot] = len(fences)
        clock.time += 1  # what it writes from now on is behind the fence

    def covers(self, writer: Clock | Agent, time: int, reader: Agent) -> bool:
        """Whether some fence stands between a write and an operation that starts."""
        for slot, fences in self._known.items():
            count = reader.reached(reader.block, slot)
            if count:
                known = fences[count - 1]
                if writer.slot < len(known) and known[writer.slot] >= time:
                    return True
        return False
