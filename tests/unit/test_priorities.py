"""Tests of the priorities of responses, and of the order in which bodies share a connection (RFC 9218)."""

import pytest

from catnip.web.priorities import Body, Priority, Turns


@pytest.mark.parametrize(
    ("text", "priority"),
    [
        ("", Priority(3, False)),
        ("u=0", Priority(0, False)),
        ("u=5, i", Priority(5, True)),
        ("i, u=5", Priority(5, True)),
        ("i=?1", Priority(3, True)),
        ("i=?1,i=?0", Priority(3, False)),
        ("u=1;a=2, i;b", Priority(1, True)),
        ("x=y, u=2", Priority(2, False)),
        ("u=8, i", Priority(3, True)),
        ("u=-1", Priority(3, False)),
        ("u=1.5", Priority(3, False)),
        ("u, i=1", Priority(3, False)),
        ("U=1, I", Priority(3, False)),
        ("\x00\xff=,,", Priority(3, False)),
    ],
)
def test_members_that_are_unknown_or_invalid_do_not_count(text: str, priority: Priority) -> None:
    assert Priority.parse(text) == priority


def order(turns: Turns, size: int = 10) -> list[int]:
    """Takes parts of this size until none is left; returns their streams."""
    streams = []
    while body := turns.first(lambda stream: True):
        streams.append(body.stream)
        turns.take(body, size)
    return streams


def turns_of(*bodies: tuple[int, str]) -> Turns:
    """Returns bodies of three parts each, given by stream and priority."""
    turns = Turns()
    for stream, text in bodies:
        turns.add(Body(stream, Priority.parse(text), memoryview(bytes(30))))
    return turns


def test_the_most_urgent_comes_first_whatever_the_order_of_requests() -> None:
    assert order(turns_of((1, "u=5"), (3, ""), (5, "u=0, i"))) == [5, 5, 5, 3, 3, 3, 1, 1, 1]


def test_what_is_of_use_only_as_a_whole_follows_in_the_order_of_requests() -> None:
    assert order(turns_of((5, "u=1"), (1, "u=1"), (3, "u=1"))) == [1, 1, 1, 3, 3, 3, 5, 5, 5]


def test_what_is_incremental_takes_turns_after_what_is_not() -> None:
    assert order(turns_of((1, "i"), (3, "i"), (5, ""))) == [5, 5, 5, 1, 3, 1, 3, 1, 3]


def test_a_body_without_a_window_lets_the_next_one_go_first() -> None:
    turns = turns_of((1, "u=0"), (3, "u=1"))
    body = turns.first(lambda stream: stream != 1)
    assert body is not None and body.stream == 3
    assert turns.first(lambda stream: False) is None


def test_a_new_priority_counts_from_the_next_part_on() -> None:
    turns = turns_of((1, "u=1"), (3, "u=2"))
    first = turns.first(lambda stream: True)
    assert first is not None and turns.take(first, 10) == bytes(10)
    turns.prioritize(3, Priority(0))
    turns.prioritize(99, Priority(0))
    assert order(turns) == [3, 3, 3, 1, 1]


def test_a_body_that_is_dropped_is_not_sent() -> None:
    turns = turns_of((1, ""), (3, ""))
    turns.drop(1)
    turns.drop(1)
    assert order(turns) == [3, 3, 3]
