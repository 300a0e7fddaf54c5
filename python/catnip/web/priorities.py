"""Priorities of responses, and the order in which their bodies share a connection (RFC 9218)."""

import re
from collections.abc import Callable
from dataclasses import dataclass

MEMBER = re.compile(r"\s*([a-z*][a-z0-9_.*-]*)(?:=([^,;]*))?(?:;[^,]*)?\s*")
"""Pattern of a member of the field `priority`: key, value and parameters."""


@dataclass(frozen=True)
class Priority:
    """Priority of a response: its urgency, 0 to 7, and if it is of use before it is complete."""

    urgency: int = 3
    is_incremental: bool = False

    @classmethod
    def parse(cls, text: str) -> "Priority":
        """Parses the value of a field `priority`. Members that are unknown or invalid do not count."""
        urgency, is_incremental = cls.urgency, cls.is_incremental
        for member in text.split(","):
            found = MEMBER.fullmatch(member)
            key, value = found.groups() if found else (None, None)
            if key == "u" and value is not None and re.fullmatch("[0-7]", value):
                urgency = int(value)
            elif key == "i" and value in {None, "?0", "?1"}:
                is_incremental = value != "?0"
        return cls(urgency, is_incremental)


@dataclass(eq=False)
class Body:
    """Body of a response on the stream with this number, as far as it is not yet sent."""

    stream: int
    priority: Priority
    rest: memoryview
    turn: int = 0
    """Number of the last turn of an incremental response; 0 before the first."""


class Turns:
    """Bodies that share a connection.

    The most urgent ones go first. Of equal urgency, those that are of use only as a whole follow each other
    in the order of their requests, and then the incremental ones take turns.
    """

    def __init__(self) -> None:
        self._bodies: dict[int, Body] = {}
        self._turns = 0

    def add(self, body: Body) -> None:
        """Adds a body."""
        self._bodies[body.stream] = body

    def drop(self, stream: int) -> None:
        """Removes the body of a stream, if there is one."""
        self._bodies.pop(stream, None)

    def prioritize(self, stream: int, priority: Priority) -> None:
        """Changes the priority of the body of a stream, if there is one."""
        if body := self._bodies.get(stream):
            body.priority = priority

    def first(self, may: Callable[[int], bool]) -> Body | None:
        """Returns the next body to send a part of; None without one for whose stream `may` is true."""
        return min((one for one in self._bodies.values() if may(one.stream)), key=_rank, default=None)

    def take(self, body: Body, size: int) -> bytes:
        """Removes the next bytes of a body, and the body itself when none is left."""
        part = bytes(body.rest[:size])
        body.rest = body.rest[size:]
        self._turns += 1
        body.turn = self._turns
        if not body.rest:
            self.drop(body.stream)
        return part


def _rank(body: Body) -> tuple[int, bool, int, int]:
    is_incremental = body.priority.is_incremental
    return body.priority.urgency, is_incremental, body.turn if is_incremental else 0, body.stream
