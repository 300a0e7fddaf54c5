"""Cells of this comparison: a site over a link with a name, with or without random loss."""

from dataclasses import dataclass

from catnip.papers.pages.sites import Site


@dataclass(frozen=True)
class Cell:
    """Site over a link with a name of `docs/paths.md`; its client is where that link has it."""

    objects: int
    http: str
    link: str
    loss_pct: float = 0.0
    """Random loss in each direction, percent."""

    @property
    def site(self) -> Site:
        """Site that is loaded."""
        return Site(self.objects, self.http)

    @property
    def name(self) -> str:
        """Name of the cell in tables and figures."""
        objects = f"{self.objects} object{'s' * (self.objects > 1)}"
        lost = f", {self.loss_pct:g} % loss" if self.loss_pct else ""
        return f"{objects}, HTTP/{self.http}, {self.link}{lost}"

    @property
    def loss(self) -> str:
        """Loss stage of the link, in the notation of scenarios and of `catnip link`."""
        return f"bernoulli:{self.loss_pct:g}%" if self.loss_pct else "none"


CELLS = (
    Cell(1, "1.1", "dsl"),
    Cell(1, "2", "lte"),
    Cell(10, "1.1", "slow-4g"),
    Cell(10, "2", "slow-4g"),
    Cell(10, "2", "cable"),
    Cell(10, "2", "satellite"),
    Cell(10, "2", "lte", 1.0),
    Cell(60, "1.1", "lte"),
    Cell(60, "2", "lte"),
    Cell(60, "2", "fast-3g"),
    Cell(60, "1.1", "fast-3g"),
    Cell(60, "2", "fast-4g", 1.0),
)
QUICK = Cell(60, "2", "lte")
"""Cell of a quick run."""
