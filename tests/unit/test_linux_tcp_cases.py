"""Tests of the drawn cases of linux-tcp."""

from collections import Counter

from catnip.papers.linux_tcp.drawn import GROUPS, drawn


def test_a_seed_draws_the_same_cases_and_another_one_others() -> None:
    names = [case.name for case in drawn(1)]
    assert names == [case.name for case in drawn(1)]
    assert len(set(names) & {case.name for case in drawn(2)}) < len(names) / 4


def test_the_groups_are_those_of_the_table_with_104_cases() -> None:
    cases = drawn(3)
    assert Counter(case.kind for case in cases) == GROUPS
    assert len(cases) == 104


def test_what_a_case_drops_delays_or_marks_is_in_its_transfer() -> None:
    for case in (case for seed in range(20) for case in drawn(seed)):
        late = [number for which in case.delayed.values() for number in which]
        assert not set(late) & set(case.lost), case.name
        for number in [*case.lost, *late, *case.marked]:
            assert 1 <= number <= case.segments, case.name


def test_a_window_and_pacing_are_in_the_names_of_cases() -> None:
    named = {case.kind: case.name for case in drawn(5)}
    assert "window of" in named["fixed window, lost ACKs"] and named["pacing"].endswith(", paced")
    assert len({case.name for case in drawn(5)}) >= 100
