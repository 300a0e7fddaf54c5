"""What all measurements on this machine's kernel need, each made once."""

from collections.abc import Iterator
from contextlib import contextmanager

from catnip import api
from catnip._core import InputError
from catnip.cli.emulation import AGENT, cannot_control, cannot_mark, program
from catnip.papers.campaign import Campaign
from catnip.papers.testbed.runs import can_run

RED, TRIES = 3, 3


class Runs(Campaign):
    """Measurements, made on demand."""

    def usual_seeds(self, name: str) -> int:
        """Simulated runs stand beside real ones, which say how many there are."""
        return 1

    def must_have(self, *servers: str) -> None:
        """Says what this machine lacks."""
        if missing := why_not(*servers):
            raise InputError(f"linux: {missing}")


def why_not(*servers: str) -> str | None:
    """Why nothing can be measured on this machine; None if it can."""
    return cannot_control() or cannot_mark() or can_run(*servers)


@contextmanager
def controllers() -> Iterator[None]:
    """The agent's congestion controllers, for every network namespace; nothing is marked."""
    with api.link() as link:
        command = [str(program(AGENT)), "start", "--mark", "none"]
        started = link.run(command, capture_output=True, text=True)
        # One agent is enough for all.
        if started.returncode and "another agent" not in started.stderr:
            raise InputError(f"linux: {started.stderr.strip().removeprefix('error: ')}")
        try:
            yield
        finally:
            link.run([str(program(AGENT)), "stop"], capture_output=True)
