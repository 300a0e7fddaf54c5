"""Tests that each measured number in README.md, docs/trust.md and docs/scale.md is a committed result."""

import csv
import json
import re
import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import report

from catnip import cli
from catnip.analysis.claims import Claim, summary
from catnip.base import paths
from catnip.modelling import accuracy
from catnip.papers import runner
from catnip.papers.runner import PAPERS
from catnip.report import values
from pages import dead_links
from published import published

ROOT = Path(__file__).resolve().parents[2]
REFERENCE = ROOT / "python" / "catnip" / "reference"
RESULTS = json.loads(report.RESULTS.read_text(encoding="utf-8"))
SWEEP = json.loads((ROOT / "benches" / "scale.json").read_text(encoding="utf-8"))
SCENARIO = tomllib.loads(paths.scenario("catnip-e4").text)
PAPER_COLUMN, ORACLE_COLUMN, OURS, RUNS, BAND = 2, 3, 4, 6, 7

NAMES = re.compile(
    r"ns-[23]( 2\.35)?|Python 3\.11|Debian 11|Ubuntu 20\.04|Linux 6\b|DualPI2|BBRv3|Apache-2\.0|95 % interval"
)
"""Pattern of names with digits, and of the confidence level of all intervals, which are not results."""


def page(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def flat(text: str) -> str:
    """Returns a text with single spaces in place of line breaks and indentation."""
    return re.sub(r"[ \n]+", " ", text)


def table(text: str) -> list[str]:
    """Returns the lines of the first Markdown table of a text."""
    found = re.search(r"^(\|.*\n)+", text + "\n", re.MULTILINE)
    assert found
    return found[0].splitlines()


def section(name: str, heading: str) -> str:
    """Returns the section of a page below a heading of level two."""
    return page(name).split(f"\n## {heading}\n")[1].split("\n## ")[0]


def claims(paper: str, id: str, *parts: str) -> list[list[str]]:
    """Returns the claims of a paper with experiment `id` and these words in their ids or texts, as rows."""
    rows = [line.split(" | ") for line in page(f"validation/{paper}.md").splitlines()]
    found = [
        row
        for row in rows
        if row[0].startswith(f"| {id}.") and all(part in f"{row[0]} | {row[1]}" for part in parts)
    ]
    assert found, (paper, id, parts)
    return found


def claim(paper: str, id: str, *parts: str, column: int = OURS) -> str:
    """Returns a cell of the only claim of a paper with experiment `id` and these words in its text."""
    [row] = claims(paper, id, *parts)
    return row[column]


def number(cell: str) -> float:
    """Returns the value in a table cell, without its interval."""
    mantissa, _, power = cell.partition(" [")[0].partition("×10")
    exponent = int(power.translate(str.maketrans("⁻⁰¹²³⁴⁵⁶⁷⁸⁹", "-0123456789")) or 0)
    return float(f"{mantissa}e{exponent}")


def interval(cell: str) -> str:
    """Returns a cell's value and its interval as text, rounded to whole numbers."""
    return re.sub(r"[\d.]+", lambda found: f"{float(found[0]):.0f}", cell)


def rows(file: str) -> list[dict[str, str]]:
    with (REFERENCE / file).open(encoding="utf-8") as lines:
        return list(csv.DictReader(lines))


def measured(case: str, simulator: str = "CATNIP") -> dict[str, Any]:
    """Returns the committed benchmark results of a case in a simulator."""
    [found] = (one["simulators"][simulator] for one in RESULTS["cases"] if one["name"] == case)
    return dict(found)


def megabytes(kilobytes: float) -> str:
    return f"{kilobytes / 1024:.1f}"


def of_readme() -> list[str]:
    """Returns the phrases of README.md that have a measured number, built from committed results."""
    [build] = (line for line in page("benches/README.md").splitlines() if line.startswith("| `make demo` |"))
    gain, steadier = (
        [number(claim("catnip", "CAT-E4", part, column=column)) for column in (OURS, PAPER_COLUMN)]
        for part in ("gain_pct.average |", "average reduction of the standard deviation")
    )
    printed = [one for one in PAPERS if (ROOT / f"python/catnip/papers/{one}/printed.py").exists()]
    command = re.search(r"catnip trace --packets (\d+) --drop (\d+)", page("README.md"))
    assert command and command[1] == command[2]
    every = [one for paper in PAPERS for one in published(paper)]
    return [
        summary(every),
        *(f"(validation/{paper}.md), {held_of(paper)}" for paper in printed),
        f"takes {measured('dumbbell-100')['median']:.0f} ns per packet-hop with 100 flows",
        f"the experiments of {['four', 'five', 'six'][len(printed) - 4]} papers",
        f"*Ten Web pages, {SCENARIO['node']['client']['count']} clients, "
        f"one {SCENARIO['link']['bottleneck']['rate'].removesuffix('Mbit')} Mbit/s link",
        f"make pages {gain[0]:.0f} % faster on average and their times {steadier[0]:.0f} % steadier",
        f"(Wu and Williamson, 2002) has {gain[1]:.0f} % and {steadier[1]:.0f} %.",
        f"reproduces the CATNIP paper: {build.split('|')[3].strip()} s on two cores",
        f"the loss of the last of {command[1]} packets",
    ]


def held_of(paper: str) -> str:
    """Returns how many sentences of a paper hold as said, and how many in part."""
    file = ROOT / f"validation/{paper}.json"
    sentences = runner.judge(paper, values.read(file, paper)).sentences
    kinds = Counter(one.kind for one in sentences)
    return f"{kinds['holds']} of {len(sentences)} as said, {kinds['holds in part']} in part"


def of_trust() -> list[str]:
    """Returns the phrases of docs/trust.md that have a measured number, built from committed results."""
    traces = len(list((REFERENCE / "ns2" / "traces").glob("*_q*.csv"))) + len(rows("ns2/transfers.csv"))
    pages = {number(claim("catnip", "CAT-E3", f"pooled {mean} is within")) for mean in ("mean", "median")}
    loss = ("CAT-E3", "Reno: loss, %", "range of ns-2's runs")
    deviations = flat(page("docs/deviations.md"))
    tree = {row["case"] for row in rows("ns2/diffserv_tree.csv")} - {"telnet_alone", "web_alone"}
    assert "but for three of the fifteen |" in deviations and len(tree) * 5 == 15
    queues = re.search(r"With equal senders, (\d+) of (\d+) comparisons agree", deviations)
    kernel = re.search(
        r"Of (\d+) scripted cases .*? in (\d+), .* times ([\d.]+) with CUBIC and ([\d.]+) with Reno",
        page("validation/linux-tcp.md"),
    )
    drawn = re.search(r"\| all \| (104) \| (\d+) \|", page("validation/linux-tcp.md"))
    assert queues and kernel and drawn
    bands = {claim[BAND] for id in "123456" for claim in claims("hysteresis", f"HYS-S{id}", "independently")}
    [checked] = {band.removeprefix("≤ ") for band in bands}
    [points] = claims("hysteresis", "HYS-S13", "65 points", "another simulator")
    long = claims("hysteresis", "HYS-S2", "goodput apart from PFTK's receive rate")
    upto = [one for one in long if float(re.findall(r"([\d.]+) %", one[1])[0]) <= 3]
    assert number(claim("hysteresis", "HYS-S4", "closed-form slow start, ns")) < 1
    laws = page("crates/agent/tests/integration/laws.rs")
    assert "EVENTS: u32 = 1_000_000;" in laws and laws.count("in 0..EVENTS {") > 1
    right = [row for id in ("CAT-S20", "CAT-S21") for row in claims("linux", id, "documents")]
    single = {number(row[OURS]) for row in right if "segments single" in row[1]}
    usual = [number(row[OURS]) for row in right if "segments paced" in row[1]]
    assert len(usual) == 8
    lateness = claims("testbed", "CAT-S25", "lateness")[0]
    for part in ("lost", "certificate is red"):
        assert claim("testbed", "CAT-S25", part) == "0"
    gain, steadier = (
        claims("catnip", "CAT-E4", part)[0] for part in ("gain_pct.average |", "average reduction")
    )
    seeds = re.search(r"with seeds (\d+) to (\d+)\.", page("validation/catnip.md"))
    assert seeds
    return [
        f"{traces} transfers agree in every packet",
        f"{len(rows('ns2/loss_lists.csv'))} transfers with lists of losses",
        f"the scenario of {SCENARIO['node']['client']['count']} clients",
        f"the mean and the median of all {max(pages):.0f} pages",
        f"loss {number(claim('catnip', *loss))} %, in ns-2 {claim('catnip', *loss, column=BAND)} %",
        "12 of 15 shares",
        f"with equal senders {queues[1]} of {queues[2]} comparisons",
        f"the same retransmissions in {kernel[2]} of {kernel[1]} scripted cases",
        f"in {drawn[2]} of {drawn[1]} drawn ones",
        f"{kernel[3]} times the kernel's with CUBIC, {kernel[4]} with Reno",
        f"{len(rows('model_check_values.csv'))} values, each within {checked}",
        f"means of 65 points, {f'{int(points[RUNS]):,}'.replace(',', ' ')} transfers each",
        f"at most {points[OURS]} % beyond three standard errors",
        f"within {max(number(one[OURS]) for one in upto)} % up to 3 % loss",
        f"at least {min(single)} % of the documents, while 2 % of the packets are lost as well",
        f"{min(usual):.0f} to {max(usual):.0f} %, as two may leave under one mark",
        f"in {lateness[RUNS]} runs of 100 simulated clients",
        f"the 99th percentile of lateness is at most [{lateness[OURS]} ms",
        f"over {int(seeds[2]) - int(seeds[1]) + 1} seeds",
        f"{interval(gain[OURS]).replace(' [', ' % [')} faster on average than DropTail",
        f"of their times by {interval(steadier[OURS]).replace(' [', ' % [')}",
        f"the paper has {number(gain[PAPER_COLUMN]):.0f} and {number(steadier[PAPER_COLUMN]):.0f} %",
        f"ns-2 has {number(gain[ORACLE_COLUMN]):.0f} % for the mean",
        f"marks errors above {100 * accuracy.LIMIT:.0f} % by `!`",
        f"stayed within {100 * accuracy.LIMIT:.0f} %",
        f"medians of {RESULTS['rounds']} rounds",
        f"A run of the 100 Web clients takes {megabytes(measured('web')['peak_kb'])} MB",
    ]


def of_scale() -> list[str]:
    """Returns the phrases of docs/scale.md that have a measured number, built from committed results."""
    flows = {one["flows"]: one for one in SWEEP["flows"]}
    each_kb = (flows[100_000]["peak_kb"] - flows[10]["peak_kb"]) / (100_000 - 10)
    work = re.search(r"^\| diffserv \| (\d+) \| (\d+) \|$", page("validation/diffserv.md"), re.MULTILINE)
    assert work
    return [
        f"own two access links takes {each_kb:.1f} KB",
        f"At {each_kb:.1f} KB and over 300 ns",
        f"two cores do {SWEEP['ensemble']['speed_up']:.2f} times the work of one",
        f"takes {int(work[2]) / int(work[1]):.0f} million packet-hops on average",
        f"takes {measured('tree')['median']:.0f} ns there",
    ]


PHRASES = {"README.md": of_readme, "docs/trust.md": of_trust, "docs/scale.md": of_scale}


@pytest.mark.parametrize("name", PHRASES)
def test_a_number_is_that_of_a_committed_result(name: str) -> None:
    text = flat(page(name))
    assert [phrase for phrase in PHRASES[name]() if phrase not in text] == []


@pytest.mark.parametrize("name", ["README.md", "docs/trust.md"])
def test_there_is_no_other_number(name: str) -> None:
    text = flat(re.sub(r"(?sm)^```console\n.*?^```", "", page(name)))
    if name == "docs/trust.md":
        for heading in ("Verdicts", "Page times of the CATNIP paper", "Speed"):
            text = text.replace(flat("\n".join(table(section(name, heading)))), "")
    for phrase in sorted(PHRASES[name](), key=len, reverse=True):
        text = text.replace(phrase, "")
    text = re.sub(r"\]\([^)]*\)|`[^`]*`", "", text)
    assert re.findall(r".{0,30}\d.{0,30}", NAMES.sub("", text)) == []


def counted(claims: list[Claim]) -> Counter[str]:
    """Returns the number of claims by verdict, of those that are explained, and of all."""
    explained = sum(bool(claim.explained_by) for claim in claims)
    return Counter(claim.verdict for claim in claims) + Counter(explained=explained, claims=len(claims))


def test_the_table_of_verdicts_counts_the_published_claims() -> None:
    head, _, *lines, total = [line.split("|")[1:-1] for line in table(section("docs/trust.md", "Verdicts"))]
    kinds = [cell.strip() for cell in head[3:]]
    in_all = Counter[str]()
    for line in lines:
        paper = re.sub(r".*\[(.*?)\].*", r"\1", line[0])
        count = counted(published(paper))
        assert [int(cell) for cell in line[2:]] == [count["claims"], *(count[kind] for kind in kinds)], paper
        in_all += count
    assert [int(cell) for cell in total[2:]] == [in_all["claims"], *(in_all[kind] for kind in kinds)]
    assert {re.sub(r".*\[(.*?)\].*", r"\1", line[0]) for line in lines} == set(PAPERS)


def test_the_page_times_are_the_published_ones() -> None:
    times = page("validation/catnip.md").split("**Mean page time in s: Reno sources over five routers**")[1]
    assert table(section("docs/trust.md", "Page times of the CATNIP paper")) == table(times)


def test_the_tables_of_the_benchmarks_are_those_of_the_results() -> None:
    speeds = report.speed_table(RESULTS, report.SIMULATORS)
    for part in report.tables(RESULTS):
        assert part in page("benches/README.md")
    assert set(table(section("docs/trust.md", "Speed"))) <= set(speeds.splitlines())


def test_the_page_on_scalability_has_the_costs_of_the_benchmarks_and_the_ratios_of_the_sweep() -> None:
    lines = table(section("docs/scale.md", "Time and memory by number of flows"))
    head, _, costs, ratios, memory = ([cell.strip() for cell in line.split("|")[2:-1]] for line in lines)
    counts = [int(re.sub(r"\D", "", cell)) for cell in head]
    flows = {one["flows"]: one for one in SWEEP["flows"]}
    cases = [measured(f"dumbbell-{count}") for count in counts]
    assert costs == [f"{one['median']:.0f}" for one in cases]
    assert ratios == [f"{flows[count]['ns_per_hop'] / flows[10]['ns_per_hop']:.1f}" for count in counts]
    assert memory == [megabytes(one["peak_kb"]) for one in cases]


def test_the_readme_names_every_command() -> None:
    named = re.findall(r"`catnip ([a-z]+)`", "\n".join(table(section("README.md", "Commands"))))
    assert sorted(named) == sorted(cli.COMMANDS)


def test_the_readme_is_short() -> None:
    lines = page("README.md").splitlines()
    assert len(lines) < 110 and max(map(len, lines)) <= 120


@pytest.mark.parametrize("name", [*PHRASES, "CHANGELOG.md", "docs/index.md"])
def test_every_link_of_the_pages_on_trust_leads_somewhere(name: str) -> None:
    assert dead_links(ROOT / name) == []
