"""How far long work is, for a person who waits."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Self, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.progress import Progress as Bars

from catnip.voice import Loudness, loudness, note

Made = TypeVar("Made")


class Progress:
    """Progress bars on stderr; silent when asked to be, and when stderr is not a terminal."""

    def __init__(self, quiet: bool = False) -> None:
        console = Console(stderr=True)
        self._bars = Bars(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=console,
            transient=True,
            disable=quiet or loudness() is Loudness.QUIET or not console.is_terminal,
        )

    def task(self, label: str) -> Callable[[int, int], None]:
        """A new bar; what it returns is told (done, total) and fits `Scenario.run(progress=...)`."""
        note(label)
        task = self._bars.add_task(label, total=None)
        return lambda done, total: self._bars.update(task, completed=done, total=total)

    def __enter__(self) -> Self:
        self._bars.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bars.stop()


def side_by_side(
    jobs: Sequence[Callable[[], Made]], at_once: int, told: Callable[[int, int], None]
) -> list[Made]:
    """What each job makes, in their order; so many of them wait for something else at once."""
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
