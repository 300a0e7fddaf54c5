"""Tests of docs/models: a page for every model with all inputs, existing figures, working links."""

import re
from pathlib import Path

import model_pages
import numpy as np
import pytest
from pytest import approx

from catnip import models
from catnip.modelling import case
from pages import LINK, dead_links

FOLDER = Path(__file__).resolve().parents[2] / "docs" / "models"
PAGES = {file.stem: file.read_text(encoding="utf-8") for file in sorted(FOLDER.glob("*.md"))}
PREDICTING = sorted({one.name for one in (*case.RATES, *case.LATENCIES)})


@pytest.mark.parametrize("name", PREDICTING)
def test_every_model_is_in_the_table_of_a_page_with_all_its_inputs(name: str) -> None:
    row = next(line for line in PAGES["index"].splitlines() if line.startswith("| `") and f"`{name}`" in line)
    page = PAGES[LINK.findall(row)[0].removesuffix(".md")]
    assert f"`{name}" in page
    for parameter in models.MODELS[name].parameters:
        assert re.search(rf"^\|[^|]*`{parameter.name}`", page, re.MULTILINE), parameter.name


def test_every_term_is_named_somewhere() -> None:
    everything = "\n".join(PAGES.values())
    assert [name for name in models.MODELS if f"`{name}" not in everything] == []


@pytest.mark.parametrize("name", PAGES)
def test_every_link_leads_somewhere(name: str) -> None:
    assert dead_links(FOLDER / f"{name}.md") == []


def test_every_figure_is_drawn_and_shown_on_its_page() -> None:
    assert {file.stem for file in (FOLDER / "figures").glob("*.svg")} == set(model_pages.FIGURES)
    for name in model_pages.FIGURES:
        assert f"](figures/{name}.svg)" in PAGES[name]


def test_simulations_are_repeatable_and_where_the_page_says() -> None:
    goodput = model_pages.simulate_steady([0.05], seeds=4)
    assert goodput == model_pages.simulate_steady([0.05], seeds=4)
    assert goodput[0.05].mean == approx(models.pftk_throughput(0.05), rel=0.1)


def test_cubic_meets_the_tables_of_the_rfc() -> None:
    for rtt_s, table in model_pages.RFC9438_WINDOWS.items():
        window = models.cubic(np.array(list(table)), RTT_s=rtt_s) * rtt_s
        assert window == approx(np.array(list(table.values())), rel=0.025)


def test_which_model_to_trust_is_what_the_data_say() -> None:
    assert model_pages.with_trust(PAGES["index"]) == PAGES["index"]
