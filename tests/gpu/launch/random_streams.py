"""Random programs of launches, copies, frees, streams, threads and devices, on a driver whose work runs late.

Each is run in the order in which it is written, and its arrays have to hold what that order gives. ``python -m
tests.gpu.launch.random_streams --count 10000`` runs many; ``--fault NAME`` puts one of :data:`FAULTS` into the library and
says how soon it is found.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import gc
import itertools
import random
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from typing import Any
from unittest import mock

import numpy as np

from tests.gpu.launch import programs
from tests.gpu.launch.fake_cuda import FakeCuda, device_module, driver_of, split
from tests.gpu.launch.foreign import Dlpack, Exchanged, Interface, torch
from tests.gpu.launch.native_calls import switched_off
from tirlower.driver.gpu_host import host_code, native_calls
from tirlower.emit.llvm_text import I1, PTR
from tirlower.gpu.codegen import native_call, native_order
from tirlower.gpu.launch import (
    Device,
    GpuKernel,
    Stream,
    array,
    device_of,
    driver,
    empty,
    native_layout,
    order,
    plan,
    stream,
    to_device,
)

N = 4


class AddingCuda(FakeCuda):
    """A driver whose kernels all add two arrays of :data:`N` numbers: the interpreter would take most of the time."""

    def interpret(self, image: Any, module: Any, values: list[Any], record: int) -> None:
        a, b, c = (
            np.frombuffer(v.memory.raw, np.float32)
            for p, v in sorted(zip(image.params, values, strict=True), key=lambda pair: pair[0].name)
            if p.pointer
        )
        c[:] = a + b


@functools.cache
def parts() -> tuple[Any, ...]:
    lowered = split(programs.vector_add)
    module = device_module(lowered)
    return programs.vector_add, lowered, host_code(lowered, "main", module), module


def adding(cuda: FakeCuda, **options: Any) -> GpuKernel:
    func, lowered, code, module = parts()
    cuda.kernels.update({name: (image, lowered) for name, image in module.kernels.items()})
    return GpuKernel(func, lowered, code, module, driver=driver_of(cuda), **options)


class Shown:
    """Another library's array over one of ours: it asks for the interface when it is used."""

    def __init__(self, ours: Any) -> None:
        self.ours = ours

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        told: dict[str, Any] = self.ours.__cuda_array_interface__
        return told


def total(x: float, y: float) -> float:
    """The sum as a kernel has it."""
    return float(np.float32(x) + np.float32(y))


class Failed(Exception):
    """A program that computed something else, or that reached memory that was another's."""


class Program:
    """A random program on a driver; ``held`` has the arrays, each with the number that its elements are."""

    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)
        self.cuda = AddingCuda(devices=self.chance.choice((1, 1, 2)), seed=seed)
        self.driver = driver_of(self.cuda)
        self.kernel, self.making = adding(self.cuda), adding(self.cuda, outputs=("C",))
        self.devices = [device_of(i, self.driver) for i in range(self.cuda.devices)]
        self.held: list[list[tuple[Any, float]]] = [[] for _ in self.devices]
        self.streams: list[list[Any]] = [[] for _ in self.devices]
        self.theirs_on: list[list[Stream]] = [[] for _ in self.devices]
        self.kept: list[Any] = []
        self.next = 0.0
        self.steps: list[str] = []

    # -- choices -----------------------------------------------------------------------------------------------------

    def value(self) -> float:
        self.next += 1
        return self.next

    def stream(self, d: int) -> Any:
        """A stream of a device, in one of the ways to name one; None for no choice."""
        own = self.streams[d]
        match self.chance.randrange(6):
            case 0:
                return None
            case 1:
                return self.chance.choice((0, 1, 2, 2))
            case 2:
                return Stream(self.devices[d], non_blocking=self.chance.random() < 0.8)  # nobody else holds it
            case _ if not own:
                own.append(Stream(self.devices[d], non_blocking=self.chance.random() < 0.8))
                return own[-1]
            case 3:
                return self.chance.choice(own).handle
            case _:
                return self.chance.choice(own)

    def pick(self, d: int, count: int) -> list[int]:
        return self.chance.sample(range(len(self.held[d])), count)

    # -- steps -------------------------------------------------------------------------------------------------------

    def new(self, d: int) -> None:
        value, chosen = self.value(), self.stream(d)
        data = np.full(N, value, np.float32)
        if self.chance.random() < 0.5:
            made = to_device(data, device=self.devices[d], stream=chosen)
        else:
            made = empty(N, device=self.devices[d], stream=chosen).copy_from(data, stream=self.stream(d))
        self.held[d].append((made, value))

    def launch(self, d: int) -> None:
        """One array becomes the sum of two others, or a new one does."""
        if len(self.held[d]) < 3:
            return self.new(d)
        i, j, k = self.pick(d, 3)
        (a, x), (b, y), (c, _) = (self.held[d][n] for n in (i, j, k))
        if self.chance.random() < 0.3:
            self.held[d].append((self.making(a, b, stream=self.stream(d)), total(x, y)))
            return None
        if self.chance.random() < 0.2:
            # Another library's view, in the order that both know.
            view = Shown(a) if self.chance.random() < 0.5 else Dlpack(a, (2, d))
            self.kernel(view, b, c)
        else:
            self.kernel(a, b, c, stream=self.stream(d))
        self.held[d][k] = c, total(x, y)
        return None

    def copy(self, d: int) -> None:
        if not self.held[d]:
            return
        (i,) = self.pick(d, 1)
        value = self.value()
        made = self.held[d][i][0]
        made.copy_from(np.full(N, value, np.float32), stream=self.stream(d))
        self.held[d][i] = made, value

    def read(self, d: int) -> None:
        if self.held[d]:
            made, value = self.chance.choice(self.held[d])
            self.expect(made, value, self.stream(d))

    def expect(self, made: Any, value: float, chosen: Any = None) -> None:
        found = made.numpy(stream=chosen)
        if not (found == value).all():
            raise Failed(f"an array of {value} was read as {found}")

    def theirs(self, d: int) -> None:
        """Another library asks for an array, and writes it in the default stream."""
        if not self.held[d]:
            return
        (i,) = self.pick(d, 1)
        made = self.held[d][i][0]
        if self.chance.random() < 0.5:
            _ = made.__cuda_array_interface__
        else:
            made.__dlpack__(stream=self.chance.choice((None, 1)))
        byte = self.chance.randrange(60, 70)
        before = self.devices[d].enter()
        self.driver.fill(made.pointer, byte, made.nbytes, 0)
        self.devices[d].leave(before)
        self.held[d][i] = made, float(np.frombuffer(bytes([byte] * 4), np.float32)[0])

    def foreign(self, d: int) -> None:
        """An array of another library, which has just written it in the default stream or in one that it states."""
        if len(self.held[d]) < 2:
            return
        (i, k) = self.pick(d, 2)
        (b, y), (c, _) = self.held[d][i], self.held[d][k]
        theirs = to_device(np.zeros(N, np.float32), device=self.devices[d])
        self.kept.append(theirs)  # that a kernel reads it, only the other library could know
        stated = Stream(self.devices[d]) if self.chance.random() < 0.5 else None
        self.kept.append(stated)
        before = self.devices[d].enter()
        self.driver.fill(theirs.pointer, 66, theirs.nbytes, 0 if stated is None else stated.handle)
        self.devices[d].leave(before)
        view: Any = Interface(theirs, stream=None if stated is None else stated.handle)
        if stated is None and self.chance.random() < 0.5:
            view = Dlpack(theirs, (2, d))
        self.kernel(view, b, c, stream=self.stream(d))
        self.held[d][k] = c, total(float(np.frombuffer(bytes([66] * 4), np.float32)[0]), y)

    def tensor(self, d: int) -> None:
        """A tensor of another library, which has just written it in its current stream."""
        if len(self.held[d]) < 2:
            return
        (i, k) = self.pick(d, 2)
        (b, y), (c, _) = self.held[d][i], self.held[d][k]
        theirs = to_device(np.zeros(N, np.float32), device=self.devices[d])
        self.kept.append(theirs)
        if not self.theirs_on[d] or self.chance.random() < 0.2:
            self.theirs_on[d].append(Stream(self.devices[d]))
        current = self.chance.choice((None, 2, *self.theirs_on[d]))
        handle = current.handle if isinstance(current, Stream) else current or 0
        Exchanged.currents[d] = handle
        before = self.devices[d].enter()
        self.driver.fill(theirs.pointer, 66, theirs.nbytes, handle)
        self.devices[d].leave(before)
        chosen = self.stream(d) if self.chance.random() < 0.3 else None
        self.kernel(Exchanged(theirs), b, c, stream=chosen)
        self.held[d][k] = c, total(float(np.frombuffer(bytes([66] * 4), np.float32)[0]), y)

    def free(self, d: int) -> None:
        if self.held[d]:
            self.held[d].pop(self.chance.randrange(len(self.held[d])))

    def drop(self, d: int) -> None:
        if self.streams[d]:
            self.streams[d].pop(self.chance.randrange(len(self.streams[d])))

    def replaced(self, d: int) -> None:
        """Another library puts its context in the place of ours."""
        self.cuda.context["now"] = 7777

    def kernels(self, d: int) -> None:
        """The kernels are dropped, and made anew."""
        self.kernel = self.making = adding(self.cuda)
        self.making = adding(self.cuda, outputs=("C",))
        gc.collect()

    def elsewhere(self, d: int) -> None:
        """A thread does some steps, while this one waits for it."""
        self.threads([lambda: self.some(self.chance.randrange(1, 4), elsewhere=False)])

    def together(self, d: int) -> None:
        """Two threads read the same arrays, and each writes one of its own, in streams of their own."""
        if len(self.held[d]) < 2:
            return
        (i, j) = self.pick(d, 2)
        (a, x), (b, y) = self.held[d][i], self.held[d][j]
        made: list[Any] = []

        def work() -> None:
            for _ in range(2):
                made.append(self.making(a, b, stream=Stream(self.devices[d])))

        self.threads([work, work])
        self.held[d] += [(c, total(x, y)) for c in made]

    def threads(self, works: list[Callable[[], None]]) -> None:
        errors: list[BaseException] = []

        def guarded(work: Callable[[], None]) -> None:
            try:
                work()
            except BaseException as error:
                errors.append(error)

        running = [threading.Thread(target=guarded, args=(work,)) for work in works]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join(60)
        if errors:
            raise errors[0]

    def some(self, count: int, *, elsewhere: bool = True) -> None:
        often = [self.launch] * 8 + [
            self.new,
            self.copy,
            self.read,
            self.theirs,
            self.foreign,
            self.tensor,
            self.tensor,
            self.drop,
            *[self.free] * 3,
        ]
        seldom = [self.elsewhere, self.together, self.kernels, self.replaced] if elsewhere else [self.replaced]
        for _ in range(count):
            step = self.chance.choice(seldom if self.chance.random() < 0.12 else often)
            self.steps.append(step.__name__)
            step(self.chance.randrange(len(self.devices)))

    def run(self, length: int = 30) -> None:
        """Run the program. Raises :class:`Failed` where an array or an access is wrong."""
        for d in range(len(self.devices)):
            for _ in range(3):
                self.new(d)
        self.some(length)
        pair: Any = None
        for pair in itertools.chain(*self.held):
            self.expect(*pair)
        del pair
        self.held = [[] for _ in self.devices]
        self.streams = [[] for _ in self.devices]
        self.cuda.late.finish_all()
        self.kept = []
        self.theirs_on = []
        if self.cuda.late.faults:
            raise Failed("; ".join(self.cuda.late.faults))
        if self.cuda.memory:
            gc.collect()  # what a thread left in a cycle
        if self.cuda.memory:
            raise Failed("memory was not given back")


# -- faults ------------------------------------------------------------------------------------------------------------


def _no_reader(users: Any, on: Any) -> Any:
    return users, order.after_read(users, on)[1]


def _only_writer(users: Any, on: Any) -> Any:
    return on, order.after_write(order.writer_of(users), on)[1]


def _read_at_will(users: Any, on: Any) -> Any:
    return order.after_read(users, on)[0], ()


def _handle_alone(users: Any, on: Any) -> Any:
    users, waits = order.after_write(users, on)
    return stream.Stream.adopt(on.device, on.handle), waits


def _not_waiting(self: Any, handle: int) -> None: ...


def _users_as_before(self: Any, users: Any, i: Any) -> None:
    self.put(self.hold(users), self.made, i)


_collect = native_order._Order._collect


def _writer_alone(self: Any, users: Any, written: Any, following: Any) -> None:
    _collect(self, users, self.b.const(I1, 0), following)


def _in_default_stream(self: Any, place: Any) -> None:
    self.b.store(self.word(self.line, native_layout.Line.DEFAULT, PTR), place, 8)


FAULTS: dict[str, list[tuple[object, str, object]]] = {
    "a copy waits for the stream of the allocation alone": [(array, "writer_of", lambda users: None)],
    "memory is given back in the stream of the allocation": [(array, "freed_on", lambda users, home: home)],
    "memory is given back after the last write": [
        (array, "freed_on", lambda users, home: order.freed_on(order.writer_of(users), home))
    ],
    "a launch waits for nothing": [(plan, "use_on", lambda on, arrays: None)],
    "a launch does not wait for what others write": [(array, "after_read", _read_at_will)],
    "a launch does not wait for those who read": [(array, "after_write", _only_writer)],
    "reads are forgotten": [(array, "after_read", _no_reader)],
    "an array keeps the handle alone": [(array, "after_write", _handle_alone)],
    "arrays of others are not waited for": [
        (array, "shown", lambda users: users),
        (plan.Plan, "wait", lambda *_: None),
    ],
    "what was shown is forgotten": [(array.DeviceArray, "shown", False)],
    "a stream waits for an event of before": [(stream.Stream, "order_before", _not_waiting)],
    "a module goes before its launches": [(driver.Driver, "synchronize", lambda self: None)],
    "another's context stays": [(Device, "enter", lambda self: None)],
    "each thread's stream is taken for one": [(stream, "STREAM_PER_THREAD", -1)],
    "machine code waits for nothing": [(native_order._Order, "_wait", lambda self: None)],
    "machine code forgets who reads": [(native_order._Order, "_readers", _users_as_before)],
    "machine code waits for the writer alone": [(native_order._Order, "_collect", _writer_alone)],
    "machine code takes each array for one in order": [(native_call._Call, "_order", lambda self, on, handle: None)],
    "machine code takes a tensor's library to work in the default stream": [
        (native_call._Call, "_unnamed", _in_default_stream)
    ],
    "machine code takes arrays that were shown": [(native_call._Call, "_unshown", lambda self, obj: None)],
}
"""What each puts in the place of the library's own."""


def _compile_anew() -> None:
    parts.cache_clear()
    native_calls.cache_clear()


@contextlib.contextmanager
def fault(name: str) -> Iterator[None]:
    """The library with a fault: in what is Python or in machine code, whichever of them makes the calls then."""
    machine_code = name.startswith("machine code")
    with contextlib.ExitStack() as stack:
        if machine_code:
            _compile_anew()
            stack.callback(_compile_anew)
        else:
            stack.enter_context(switched_off())
        for where, what, instead in FAULTS[name]:
            if what == "shown" and where is array.DeviceArray:
                # A slot: what is written to it is lost.
                instead = property(lambda self: False, lambda self, value: None)
            stack.enter_context(mock.patch.object(where, what, instead))
        yield


def verdict(seed: int) -> str | None:
    """What is wrong with the program of a seed; None if nothing is."""
    program = Program(seed)
    try:
        with torch():
            program.run()
    except Exception as error:
        return f"{type(error).__name__}: {error} (after {', '.join(program.steps[-6:])})"
    return None


EACH = 100
"""Programs that one process runs."""


def _part(first: int, count: int, name: str | None) -> list[tuple[int, str]]:
    """What is wrong with the programs of some seeds; with a fault of that name the first one that shows it."""
    found = []
    with fault(name) if name else contextlib.nullcontext():
        for seed in range(first, first + count):
            said = verdict(seed)
            if said is not None:
                found.append((seed, said))
                if name:
                    break
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--count", type=int, default=10_000)
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--fault", choices=FAULTS)
    options = parser.parse_args()
    wrong = 0
    firsts = range(options.first, options.first + options.count, EACH)
    counts = [min(EACH, options.first + options.count - first) for first in firsts]
    # Each part in a process of its own: what the launches of thousands of modules leave behind makes a process slow.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as pool:
        for part in pool.map(_part, firsts, counts, [options.fault] * len(counts)):
            for seed, said in part:
                wrong += 1
                print(f"seed {seed}: {said}", flush=True)
            if wrong and (options.fault or wrong > 20):
                pool.shutdown(cancel_futures=True)
                break
    print(f"{options.count} programs, {wrong} wrong")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
