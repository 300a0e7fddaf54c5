"""Progress bars of long commands, and concurrent execution of jobs with progress."""

import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from catnip.base.verbosity import Loudness, loudness, note

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

Result = TypeVar("Result")


class Progress:
    """Progress bars on stderr; hidden if `quiet` is set or stderr is not a terminal."""

    def __init__(self, quiet: bool = False) -> None:
        is_visible = not quiet and loudness() is not Loudness.QUIET and sys.stderr.isatty()
        self._bars = _bars() if is_visible else None

    def task(self, label: str) -> Callable[[int, int], None]:
        """Adds a progress bar; returns its callback for (done, total), such as for `Scenario.run`."""
        note(label)
        if (bars := self._bars) is None:
            return lambda _done, _total: None
        task = bars.add_task(label, total=None)
        return lambda done, total: bars.update(task, completed=done, total=total)

    def __enter__(self) -> Self:
        if self._bars is not None:
            self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bars is not None:
            self._bars.stop()


def _bars() -> "Bars":
    """Returns new progress bars on stderr. Loads rich only here, because few commands show progress."""
    from rich import progress  # noqa: PLC0415
    from rich.console import Console  # noqa: PLC0415

    return progress.Progress(
        progress.TextColumn("{task.description}"),
        progress.BarColumn(),
        progress.MofNCompleteColumn(),
        progress.TimeElapsedColumn(),
        progress.TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )


def side_by_side(
    jobs: Sequence[Callable[[], Result]], at_once: int, report: Callable[[int, int], None]
) -> list[Result]:
    """Runs jobs that mostly wait, at most `at_once` at the same time; returns their results in order.

    `report` is called with the number of finished jobs and the total.
    """
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 -- simulations use threads of Rust

    report(0, len(jobs))
    done = 0

    def run(job: Callable[[], Result]) -> Result:
        nonlocal done
        result = job()
        done += 1
        report(done, len(jobs))
        return result

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run, jobs))
