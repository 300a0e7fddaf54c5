"""Tests that an unmodified nginx's packets have the marks expected from captures."""

import json
from pathlib import Path

import pytest

import catnip
from agents import MIN_AGREEMENT, Host, fetch_all, verified
from catnip.base import programs

REASON = programs.cannot_control() or programs.cannot_mark()
pytestmark = pytest.mark.skipif(REASON is not None, reason=f"no agent: {REASON}")


MARKS = pytest.mark.parametrize("mark", ["last-only", "spm", "spm-partial"])


@MARKS
@pytest.mark.parametrize(("sendfile", "nopush"), [("on", "on"), ("on", "off"), ("off", "off")])
def test_the_packets_of_an_unmodified_nginx_are_marked_as_a_judge_of_captures_expects(
    host: Host, mark: str, sendfile: str, nopush: str
) -> None:
    options = ["--mark", mark, "--segments", "single"]
    with host.nginx(sendfile, nopush), host.marking(*options), host.captured() as capture:
        assert fetch_all(host.link.inside, 1, 5) > 1_000_000
    sums = verified(capture, "--mark", mark)
    assert sums["agreement"] >= MIN_AGREEMENT, sums["faults"][:10]
    assert sums["bad_checksums"] == 0
    assert sums["must_be_high"] > 100
    assert sums["must_be_low"] > 500
    assert sums["gaps"] == 0


@MARKS
def test_segments_that_leave_together_have_the_mark_of_the_most_important_one(host: Host, mark: str) -> None:
    with host.nginx(), host.marking("--mark", mark), host.captured() as capture:
        fetch_all(host.link.inside, 1, 3)
    sums = verified(capture, "--mark", mark)
    assert sums["must_be_high"] > 50
    assert sums["missing_high"] == 0, sums["faults"][:10]
    assert sums["wrong_high"] < 0.05 * sums["must_be_low"], "few leave together"


@pytest.mark.parametrize("loss", ["bernoulli:2%", "gilbert-elliott:to_bad=1%,to_good=30%,loss_bad=50%"])
def test_retransmissions_are_marked_over_lossy_links_and_ipv6(tmp_path: Path, loss: str) -> None:
    with catnip.link(rate="20Mbit", delay="20ms", loss=loss, seed=1) as link:
        host = Host(link, tmp_path)
        shown = link.run(
            ["ip", "-json", "-6", "addr", "show", "dev", host.device], capture_output=True, text=True
        )
        inside = next(
            one["local"] for one in json.loads(shown.stdout)[0]["addr_info"] if one["scope"] == "global"
        )
        with host.nginx(), host.marking("--segments", "single"), host.captured() as capture:
            fetch_all(link.inside, 2, 6)
            fetch_all(inside, 3, 3)
        counts_sums = verified(capture)
    assert counts_sums["retransmissions"] > 20
    assert counts_sums["agreement"] >= MIN_AGREEMENT, counts_sums["faults"][:10]
    assert counts_sums["bad_checksums"] == 0
