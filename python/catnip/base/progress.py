"""How far long work is, for a person who waits."""

import sys
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Self, TypeVar

from catnip.base.verbosity import Loudness, loudness, note

if TYPE_CHECKING:
    from rich.progress import Progress as Bars

Made = TypeVar("Made")


class Progress:
    """Progress bars on stderr; silent when asked to be, and when stderr is not a terminal."""

    def __init__(self, quiet: bool = False) -> None:
        is_seen = not quiet and loudness() is not Loudness.QUIET and sys.stderr.isatty()
        self._bars = _bars() if is_seen else None

    def task(self, label: str) -> Callable[[int, int], None]:
        """A new bar; what it returns is told (done, total) and fits `Scenario.run(progress=...)`."""
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
    """Bars on stderr. Their library is loaded only where they are seen."""
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
    jobs: Sequence[Callable[[], Made]], at_once: int, told: Callable[[int, int], None]
) -> list[Made]:
    """What each job makes, in their order; so many of them wait for something else at once."""
    from concurrent.futures import ThreadPoolExecutor  # noqa: PLC0415 -- a run has its threads in Rust

    told(0, len(jobs))
    done = 0

    def run(job: Callable[[], Made]) -> Made:
        nonlocal done
        made = job()
        done += 1
        told(done, len(jobs))
        return made

    with ThreadPoolExecutor(at_once) as pool:
        return list(pool.map(run, jobs))
