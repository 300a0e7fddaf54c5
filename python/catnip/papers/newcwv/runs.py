"""Runs of the newCWV paper's dumbbell, each executed once, as bursts or, for single connections, events."""

from collections.abc import Mapping

from catnip.analysis import bursts, measures
from catnip.analysis.bursts import Pairs
from catnip.base import paths
from catnip.papers.rows import Rows
from catnip.papers.runs import Runs
from catnip.store.tables import Table

SEEDS, BEYOND_SEEDS = 30, 5
"""Numbers of seeds. The paper has five iterations (cwvp10); thirty make a verdict stable."""
NEW_RENO, NEW_CWV, PACED, CWV, LINUX = "NewReno", "newCWV", "newCWV, paced", "CWV", "Linux"
FREE, CONGESTED, SHARED = "newcwv", "newcwv-congested", "newcwv-ftp"
"""Scenarios of figure 7, of figures 8 and 9, and of Tables 2 and 3."""
BEYOND = "newcwv-beyond"
"""Scenario of the servers and queues that the paper does not have."""
SEGMENT = 1448


class BurstRuns(Runs):
    """Runs of the newCWV paper's dumbbell, made on demand."""

    quick_seeds = 2
    quick_says = "shorter traces for the kernel"

    def usual_seeds(self, name: str) -> int:
        """Returns the number of seeds of a scenario at full length: thirty for the paper's scenarios."""
        return BEYOND_SEEDS if name == BEYOND else SEEDS

    def tables(self, name: str) -> Mapping[str, Table]:
        """Returns the tables `bursts`, `ports` and `runs` of all variants of a scenario."""
        return self.cached(("tables", name), lambda: self._tables(name))

    def variants(self, name: str) -> list[str]:
        """Returns the names of the variants of a scenario."""
        return list(paths.scenario(name).variants)

    def bursts(self, name: str, variant: str) -> Rows:
        """Returns the bursts of the Web server in one variant of a scenario."""
        return self.cached(
            ("bursts", name, variant),
            lambda: measures.select(self.tables(name)["bursts"], self.variants(name).index(variant), "web"),
        )

    def pairs(self, name: str, variant: str, reference: str = NEW_RENO) -> Pairs:
        """Returns the bursts that occur in both variants of a scenario, `reference` and `variant`, paired."""
        known = self.variants(name)
        return self.cached(
            ("pairs", name, variant, reference),
            lambda: bursts.pair(
                self.tables(name)["bursts"], known.index(reference), known.index(variant), "web"
            ),
        )

    def events(self, name: str, variant: str, seed: int | None = None) -> Rows:
        """Returns all events of one run of a scenario."""
        return self.cached(
            ("events", name, variant, seed),
            lambda: measures.select(
                paths.scenario(name).run([variant], [seed or self.first_seed], ["events"])["events"], 0
            ),
        )

    def _tables(self, name: str) -> Mapping[str, Table]:
        report = self.progress.task(paths.scenario(name).id)
        return self.run(name, self.variants(name), ["bursts", "ports"], report)
