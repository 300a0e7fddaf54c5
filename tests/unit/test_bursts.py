"""Tests of pairs of bursts, their classes, gains and losses, on small tables."""

import json
import math
from pathlib import Path

import numpy as np
import pytest
from pytest import approx

from catnip.analysis import bursts, resampling
from catnip.base import paths
from catnip.cli.options import BAD_INPUT
from catnip.store import results
from catnip.store.tables import USUAL, Column, Table
from conftest import Run

COUNTS = ("variant", "seed", "connection", "first_byte", "bytes")
PACKETS = ("sent", "retransmitted", "dropped")
COLUMNS = (*COUNTS, "idle_s", "time_s", *PACKETS, "group")
REFERENCE, OTHER = 0, 1


def table(*rows: tuple[float | str, ...]) -> Table:
    columns = dict(zip(COLUMNS, zip(*rows, strict=True), strict=True))
    filled: dict[str, Column] = {key: np.array(columns[key], dtype=np.uint64) for key in (*COUNTS, *PACKETS)}
    filled |= {key: np.array(columns[key], dtype=np.float64) for key in ("idle_s", "time_s")}
    return {**filled, "group": [str(group) for group in columns["group"]]}


BURSTS = table(
    # The second variant has another order of rows, because its connections end in another order.
    (0, 1, 0, 0, 6_000, 0.2, 1.0, 5, 0, 0, "web"),
    (0, 1, 0, 6_000, 50_000, 4.0, 2.0, 40, 4, 3, "web"),
    (0, 1, 1, 0, 12_000, 20.0, 1.0, 10, 0, 0, "web"),
    (0, 2, 0, 0, 90_000, 2.0, 4.0, 60, 6, 6, "web"),
    (0, 2, 0, 90_000, 7_000, 2.0, 1.0, 5, 0, 0, "web"),
    (0, 2, 9, 0, 7_000, 2.0, 1.0, 5, 0, 0, "other"),
    (1, 2, 0, 0, 90_000, 1.9, 5.0, 70, 14, 9, "web"),
    (1, 1, 1, 0, 12_000, 19.0, 0.25, 10, 1, 1, "web"),
    (1, 1, 0, 6_000, 50_000, 4.1, 1.5, 36, 0, 0, "web"),
    (1, 1, 0, 0, 6_000, 0.2, 1.0, 5, 0, 0, "web"),
    # Two bursts are merged into one here, and one burst has no counterpart.
    (1, 2, 0, 90_000, 9_000, 2.0, 1.0, 7, 0, 0, "web"),
    (1, 2, 3, 0, 9_000, 2.0, 1.0, 7, 0, 0, "web"),
)


def test_the_same_burst_is_paired_wherever_it_stands() -> None:
    pairs = bursts.pair(BURSTS, REFERENCE, OTHER, "web")
    found = [*zip(*(pairs.reference[key] for key in ("seed", "connection", "first_byte")), strict=True)]
    assert sorted(found) == [(1, 0, 0), (1, 0, 6_000), (1, 1, 0), (2, 0, 0)]
    assert list(pairs.reference["first_byte"]) == list(pairs.other["first_byte"])
    assert pairs.unpaired == 1 + 2
    by_hand = {(1, 0): 0.0, (1, 6_000): 25.0, (2, 0): -25.0}
    gains = dict(zip(((seed, first) for seed, connection, first in found), pairs.gain_pct, strict=True))
    assert gains[1, 6_000] == approx(by_hand[1, 6_000])
    assert gains[2, 0] == approx(by_hand[2, 0])


def test_classes_are_lower_bounds_and_nest() -> None:
    pairs = bursts.pair(BURSTS, REFERENCE, OTHER, "web")
    classes = {(it.size_bytes, it.idle_s): it for it in bursts.classes(pairs, [1, 2])}
    counts = {key: it.bursts for key, it in classes.items()}
    # After more than 1 s: 50 KB after 4 s, 12 KB after 20 s, 90 KB after 2 s.
    assert [counts[size, 1] for size in bursts.SIZES_BYTES] == [3, 3, 2, 2, 1]
    assert [counts.get((10_000, idle)) for idle in bursts.IDLE_S] == [3, 2, 1, 1, 1, 1]
    assert (80_000, 3) not in classes
    assert classes[40_000, 1].gain_pct.mean == approx((25 - 25) / 2)
    assert classes[5_000, 1].gain_pct.mean == approx((25 + 75 - 25) / 3)


def test_the_interval_of_a_gain_is_that_of_a_ratio_over_seeds() -> None:
    pairs = bursts.pair(BURSTS, REFERENCE, OTHER, "web").within(5_000, 1)
    gain = bursts.gain(pairs, [1, 2])
    # Sums of 100 and -25 over 2 and 1 bursts deviate by (100 - 25 * 2) / 1.5 in both directions; Student's t
    # has one degree of freedom.
    deviation = 50 / 1.5 * math.sqrt(2)
    half = 12.706 * deviation / math.sqrt(2)
    assert gain.n == 2
    assert [gain.mean, gain.low, gain.high] == approx([25, 25 - half, 25 + half], rel=1e-3)


def test_traces_that_were_paired_by_themselves_have_the_gain_of_all_their_bursts() -> None:
    pairs = bursts.pair(BURSTS, REFERENCE, OTHER, "web")
    alone = []
    for seed in (1, 2):
        chosen = pairs.reference["seed"] == seed
        reference, other = (
            {key: rows[key][chosen] for key in rows} for rows in (pairs.reference, pairs.other)
        )
        alone.append(bursts.Pairs(reference, other, unpaired=1))
    joined = bursts.joined(alone)
    assert bursts.gain(joined, [1, 2]) == bursts.gain(pairs, [1, 2])
    assert joined.unpaired == 2


def test_one_seed_has_the_interval_of_resampled_bursts() -> None:
    rng = np.random.default_rng(3)
    times = rng.uniform(0.5, 1.5, 40)
    rows = [
        (v, 1, c, 0, 9_000, 2.0, 1.0 if v == 0 else times[c], 6, 0, 0, "web")
        for v in (0, 1)
        for c in range(40)
    ]
    pairs = bursts.pair(table(*rows), REFERENCE, OTHER)
    assert bursts.gain(pairs, [1]) == resampling.mean(100 * (1 - times))


def test_loss_is_a_share_of_what_was_sent() -> None:
    pairs = bursts.pair(BURSTS, REFERENCE, OTHER, "web")
    (only,) = bursts.classes(pairs, [1, 2], [40_000], [1])
    assert [loss.mean for loss in only.loss_pct] == [approx(100 * 10 / 100), approx(100 * 14 / 106)]
    (only,) = bursts.classes(pairs, [1, 2], [40_000], [1], lost="dropped")
    assert [loss.mean for loss in only.loss_pct] == [approx(100 * 9 / 100), approx(100 * 9 / 106)]


def test_an_outline_has_the_bursts_of_all_connections_and_times_of_those_that_ended() -> None:
    rows = [
        (0, 1, 0, 0, size, idle, time, 5, 0, 0, "") for size, idle, time in [(6e3, 0.2, 1), (9e4, 4, np.nan)]
    ]
    found = bursts.outline(table(*rows))
    assert (found["bursts"], found["bytes"], found["median_bytes"]) == (2, 96_000, 48_000)
    assert (found["median_idle_s"], found["median_time_s"], found["idle_above_1_s_pct"]) == approx(
        (2.1, 1, 50)
    )
    # Above 0 bytes: two, one after more than 1 and 3 s. Above 80 KB: that one.
    counts = {row["above_bytes"]: row["bursts"] for row in bursts.counts(table(*rows))}
    assert counts[0] == [2, 1, 1, 0, 0, 0, 0]
    assert counts[80_000] == [1, 1, 1, 0, 0, 0, 0]
    empty = bursts.outline({name: np.array([]) for name in ("bytes", "idle_s", "time_s")})
    assert empty["bursts"] == 0 and empty["median_idle_s"] is None and empty["idle_above_1_s_pct"] is None


def test_no_restart_after_idle_saves_time_after_silence(catnip: Run, tmp_path: Path) -> None:
    ended = catnip("run", "bursts", "--seeds", 2, "--bursts", "--tables", "runs", "--out", tmp_path)
    assert (ended.code, ended.err) == (0, "")
    manifest, tables = results.read(tmp_path)
    assert set(tables) == {"runs", "bursts"}
    assert manifest.variants == ["restart after idle", "no restart"]
    pairs = bursts.pair(tables["bursts"], REFERENCE, OTHER)
    assert pairs.unpaired < 0.05 * len(pairs.reference["seed"])
    (larger,) = bursts.classes(pairs, manifest.seeds, [20_000], [1])
    assert larger.bursts > 100
    assert 0 < larger.gain_pct.mean < 80


def test_bursts_have_to_be_asked_for(catnip: Run, tmp_path: Path) -> None:
    assert catnip("run", "bursts", "--seeds", 1, "--out", tmp_path).code == 0
    assert set(results.read(tmp_path)[1]) == set(USUAL)
    ended = catnip("run", "bursts", "--bursts")
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert "--bursts" in ended.err


def test_vectors_are_written_and_replayed(catnip: Run, tmp_path: Path) -> None:
    trace = tmp_path / "kept.cvec"
    ended = catnip("tmix", "bursts", "--seed", 3, "--out", trace, "--json")
    assert (ended.code, ended.err) == (0, "")
    outline = json.loads(ended.out)["outline"]
    assert outline["connections"] == trace.read_text().count("SEQ ") == 210
    assert 300_000 < outline["response_bit_per_s"] < 1_500_000
    assert catnip("tmix", "bursts", "--seed", 3, "--out", "-").out == trace.read_text()
    other = catnip("tmix", "bursts", "--seed", 3, "--form", "alternate", "--out", "-").out
    assert other.startswith("S ") and other.count("\nS ") == 209

    text = Path(paths.scenario("bursts").path).read_text()
    head, _, rest = text.partition("[traffic.web.generate]")
    file = tmp_path / "kept.toml"
    file.write_text(f'{head}trace = "kept.cvec"\n[[variant]]{rest.partition("[[variant]]")[2]}')
    runs = [catnip("run", name, "--seeds", 1, "--seed", 3, "--json") for name in ("bursts", file)]
    assert [run.code for run in runs] == [0, 0]
    assert runs[0].out == runs[1].out
    assert catnip("tmix", file, "--out", "-").out == trace.read_text()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["bursts", "--variant", "Vegas"], "--variant: Vegas is not one of restart after idle, no restart"),
        (["bursts", "--group", "mail"], 'traffic: "mail": no group of this name replays connections'),
        (["catnip-e2"], "traffic: no group replays connections"),
        (["bursts", "--form", "new"], "--form"),
        (["bursts", "--json", "--out", "-"], "both write to stdout"),
        (["bursts", "--out", "/dev/null/x"], "/dev/null"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_what_is_asked_wrongly_of_vectors_is_one_line(
    catnip: Run, arguments: list[str], message: str
) -> None:
    ended = catnip("tmix", *arguments)
    assert (ended.code, ended.out) == (BAD_INPUT, "")
    assert ended.err.startswith("error: ") and ended.err.count("\n") == 1
    assert message in ended.err
