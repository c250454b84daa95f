"""Vector clocks against the graph of a trace: an event is over for another exactly if a path leads there."""

from __future__ import annotations

import random

import pytest

from tirlower.interp.clocks import Agent, BlockClocks, Clock, Meeting, Stream, meet

THREADS = 5


class _Trace:
    """A random run of threads, as clocks see it and as a graph: nodes are events, edges point to what comes later."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.blocks = [BlockClocks((b,)) for b in range(2)]
        self.clocks = [
            Clock(block, (t,), {"blockIdx.x": block.key[0], "threadIdx.x": t}) for block in self.blocks for t in range(THREADS)
        ]  # fmt: skip
        self.last = [self.event([]) for _ in self.clocks]
        self.meetings = [Meeting() for _ in range(3)]
        self.released: list[list[int]] = [[] for _ in self.meetings]
        self.streams: dict[int, Stream] = {}
        self.running: dict[int, list[tuple[Agent, int]]] = {}
        self.accesses: list[tuple[Clock | Agent, int, int]] = []

    edges: dict[int, list[int]]

    def event(self, after: list[int]) -> int:
        self.edges = getattr(self, "edges", {})
        node = len(self.edges)
        self.edges[node] = after
        return node

    def earlier(self, node: int) -> set[int]:
        found: set[int] = set()
        stack = [node]
        while stack:
            for other in self.edges[stack.pop()]:
                if other not in found:
                    found.add(other)
                    stack.append(other)
        return found

    def step(self) -> None:
        t = self.random.randrange(len(self.clocks))
        clock, kind = self.clocks[t], self.random.randrange(8)
        if kind < 3:
            self.last[t] = self.event([self.last[t]])
            self.access(clock, self.last[t])
        elif kind == 3:
            self.meet(t)
        elif kind == 4:
            which = self.random.randrange(len(self.meetings))
            self.meetings[which].release(clock)
            self.released[which].append(self.last[t])
            self.last[t] = self.event([self.last[t]])
        elif kind == 5:
            which = self.random.randrange(len(self.meetings))
            self.meetings[which].acquire(clock)
            self.last[t] = self.event([self.last[t], *self.released[which]])
        elif kind == 6:
            stream = self.streams.setdefault(t, Stream(clock.block.new_slot()))
            agent = Agent(clock, stream, "a copy")
            before = self.running.setdefault(t, [])
            node = self.event([self.last[t]])
            before.append((agent, node))
            self.access(agent, node)
        elif self.running.get(t):
            over = self.random.randrange(len(self.running[t])) + 1
            agent = self.running[t][over - 1][0]
            # Those before it in the stream are over with it.
            nodes = [node for _, node in self.running[t][:over]]
            clock.extra[agent.slot] = max(clock.extra.get(agent.slot, 0), agent.time)
            self.last[t] = self.event([self.last[t], *nodes])

    def meet(self, t: int) -> None:
        own = range(t // THREADS * THREADS, t // THREADS * THREADS + THREADS)
        members = sorted({t, *self.random.sample(own, self.random.randint(1, THREADS))})
        meet([self.clocks[m] for m in members])
        joint = self.event([self.last[m] for m in members])
        for m in members:
            self.last[m] = self.event([joint])

    def access(self, actor: Clock | Agent, node: int) -> None:
        """What the actor thinks of all accesses before, against the graph."""
        earlier = self.earlier(node)
        for other, time, at in self.accesses:
            over = other is actor.issuer or actor.reached(other.block, other.slot) >= time
            assert over == (at in earlier), (other.who, actor.who)
        self.accesses.append((actor, actor.time, node))


@pytest.mark.parametrize("seed", range(40))
def test_clocks_know_what_the_graph_knows(seed: int) -> None:
    trace = _Trace(seed)
    for _ in range(120):
        trace.step()
    assert len(trace.accesses) > 20


def test_the_end_of_a_copy_released_into_a_meeting() -> None:
    block = BlockClocks(())
    one, two = (Clock(block, (t,), {"threadIdx.x": t}) for t in range(2))
    stream = Stream(block.new_slot())
    first, second, third = (Agent(one, stream, "a copy") for _ in range(3))
    meeting = Meeting()
    meeting.release_end(second)
    meeting.acquire(two)
    assert [two.reached(block, agent.slot) >= agent.time for agent in (first, second, third)] == [True, True, False]
    assert two.reached(block, one.slot) < one.time  # its thread's own doings are not in it
