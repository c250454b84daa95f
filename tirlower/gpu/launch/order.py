"""Which streams used an array last, and what a new use has to wait for.

The *users* of an array are a value: a stream that alone has work on it; a tuple of the stream that wrote it last (or
None) and the streams that read it since; or None where nothing is pending. A use waits for what was given to those
streams until then, so uses in one stream cost nothing, and no use is forgotten that a thread adds meanwhile.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, TypeAlias

from tirlower.gpu.launch.stream import Stream

__all__ = ["Users", "after_read", "after_write", "freed_on", "shown", "streams_of", "wait_for", "writer_of"]

MOST_READERS: Final = 16

Users: TypeAlias = "Stream | tuple[Stream | None, ...] | None"


def streams_of(users: Users) -> tuple[Stream, ...]:
    """All streams that may have work on an array, the writer first."""
    if users is None:
        return ()
    return (users,) if isinstance(users, Stream) else tuple(dict.fromkeys(s for s in users if s is not None))


def writer_of(users: Users) -> Stream | None:
    """The stream that wrote last, where a read has to wait for it."""
    return users[0] if isinstance(users, tuple) else users


def after_write(users: Users, on: Stream) -> tuple[Users, tuple[Stream, ...]]:
    """The users after a write in a stream, and the streams that it waits for: all others."""
    if users is on:
        return on, ()
    return on, tuple(s for s in streams_of(users) if s is not on)


def after_read(users: Users, on: Stream) -> tuple[Users, tuple[Stream, ...]]:
    """The users after a read in a stream, and the streams that it waits for: the writer, if it has not yet."""
    if users is on:
        return on, ()
    if users is None:
        return (None, on), ()
    if isinstance(users, Stream):
        return (users, on), (users,)
    if on in users:
        return users, ()
    if len(users) > MOST_READERS:
        # One behind all others stands for them: streams of the past are not kept for ever.
        return after_write(users, on)
    writer = users[0]
    return (*users, on), () if writer is None else (writer,)


def shown(users: Users) -> Users:
    """The users of an array that another library was shown: a None stands for its work, which nobody notes.

    No other array has users of this form, so what a launch remembers of arrays in order does not hold for it.
    """
    if isinstance(users, tuple):
        return users if None in users[1:] else (users[0], None, *users[1:])
    return (users, None)


def wait_for(streams: Iterable[Stream], on: Stream) -> None:
    """Let a stream wait for others."""
    for stream in streams:
        if stream is not on:
            stream.order_before(on.handle)


def freed_on(users: Users, home: Stream) -> Stream:
    """A stream behind all users, for giving memory back: the writer or a reader, ``home`` where nothing is pending.

    It waits for the others.
    """
    first, *others = streams_of(users) or (home,)
    on = first.shared
    wait_for([first, *others], on)
    return on
