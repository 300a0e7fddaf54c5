"""Types of the compiled core, which is implemented in crates/py."""

from builtins import bytes as _bytes
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, Literal, TypeAlias, final, overload

import numpy as np
from numpy.typing import NDArray

_StrPath: TypeAlias = str | PathLike[str]
_Column: TypeAlias = NDArray[Any] | list[str] | list[bool]
_Table: TypeAlias = dict[str, _Column]
_Interval: TypeAlias = tuple[float, float, float, int]

__all__ = [
    "QUANTILES",
    "SUMMARY_TABLES",
    "TRANSFER_TIMES",
    "InputError",
    "Scenario",
    "Times",
    "__version__",
    "bytes",
    "evaluate_model",
    "evaluate_model_at",
    "fingerprints",
    "hysteresis_samples",
    "kinds",
    "models",
    "outline",
    "paired_difference",
    "profiles",
    "read_bursts",
    "read_har",
    "read_vectors",
    "relative_change",
    "schema",
    "seconds",
    "summarize",
    "summarize_runs",
    "summarize_tables",
    "t_quantile",
    "tables",
    "timeline",
    "trace",
    "wzk_chain_samples",
]

__version__: str
SUMMARY_TABLES: dict[str, tuple[str, ...]]
TRANSFER_TIMES: dict[str, str]
QUANTILES: list[str]

class InputError(ValueError):
    """Error in the input of a user, in one line that names the source, the key and the fault of its value."""

@final
class Scenario:
    """Experiment read from a TOML scenario file, with its variants."""

    @staticmethod
    def load(path: _StrPath, set: Sequence[tuple[str, str]] = ...) -> Scenario: ...
    @staticmethod
    def parse(path: _StrPath, text: str, set: Sequence[tuple[str, str]] = ...) -> Scenario: ...
    @staticmethod
    def from_bundle(
        path: _StrPath, text: str, set: Sequence[tuple[str, str]], files: Mapping[str, _bytes]
    ) -> Scenario: ...
    def bundle(self) -> tuple[str, str, list[tuple[str, str]], dict[str, _bytes]]: ...
    @property
    def id(self) -> str: ...
    @property
    def title(self) -> str: ...
    @property
    def path(self) -> str: ...
    @property
    def variants(self) -> list[str]: ...
    @property
    def seeds(self) -> int: ...
    @property
    def axes(self) -> dict[str, list[Any]]: ...
    @property
    def warnings(self) -> list[str]: ...
    @property
    def text(self) -> str: ...
    @property
    def files(self) -> list[str]: ...
    @property
    def is_plan(self) -> bool: ...
    def point_ids(self) -> list[str]: ...
    @property
    def sweep(self) -> tuple[tuple[int, int] | None, str | None, str | None]: ...
    def has_transfers(self, variant: str) -> bool: ...
    def overview(self, variant: str) -> dict[str, Any]: ...
    def single_flow(self, variant: str) -> dict[str, Any] | None: ...
    def tmix(
        self, variant: str, group: str | None, form: str, seed: int
    ) -> tuple[str, dict[str, NDArray[np.uint64]]]: ...
    @overload
    def run(
        self,
        variants: list[str],
        seeds: list[int],
        tables: list[str],
        threads: int = 0,
        progress: Callable[[int, int], None] | None = None,
        every: str | None = None,
        coded: Literal[False] = False,
    ) -> dict[str, _Table]: ...
    @overload
    def run(
        self,
        variants: list[str],
        seeds: list[int],
        tables: list[str],
        threads: int = 0,
        progress: Callable[[int, int], None] | None = None,
        every: str | None = None,
        *,
        coded: Literal[True],
    ) -> dict[str, dict[str, _Column | tuple[list[str], NDArray[Any]]]]: ...
    def check_capture(self, variant: str, packets_at: list[str]) -> None: ...
    def write_logs(
        self,
        variant: str,
        seed: int,
        packets: _StrPath | None,
        packets_at: list[str],
        qlog: _StrPath | None,
    ) -> None: ...

@final
class Times:
    """Durations, some of which are incomplete (censored)."""

    def __new__(
        cls, waited_s: Sequence[float], is_over: Sequence[bool], run: Sequence[int], runs: int
    ) -> Times: ...
    def quantile(self, share: float) -> tuple[_Interval, list[float]] | None: ...
    def restricted_mean(self, horizon_s: float) -> tuple[_Interval, list[float]]: ...
    def curve(self, most: int) -> tuple[list[float], list[float]]: ...

def summarize_runs(
    scenario: Scenario,
    variants: list[str],
    seeds: list[int],
    threads: int = 0,
    progress: Callable[[int, int], None] | None = None,
) -> list[dict[str, Any]]: ...
def summarize_tables(
    tables: Mapping[str, dict[str, _Column]], variants: int, seeds: list[int]
) -> list[dict[str, Any]]: ...
def summarize(
    read: Callable[[str, int], Mapping[str, _Column]], counts: list[int], seeds: list[int]
) -> list[dict[str, Any]]: ...
def paired_difference(ours: Sequence[float], theirs: Sequence[float]) -> _Interval | None: ...
def relative_change(ours: Sequence[float], base: Sequence[float]) -> _Interval | None: ...
def t_quantile(degrees: float, share: float) -> float: ...
def trace(
    *,
    profile: str,
    recovery: str | None,
    control: str | None,
    pacing: str | None,
    marker: str | None,
    packets: int,
    size: str | None,
    rate: str,
    delay: str,
    queue: str,
    window: int | None,
    drop: list[int],
    delayed_ack: bool,
    tick_phase: str | None,
    seed: int,
) -> tuple[_Table, _Table]: ...
def timeline(
    scenario: Scenario,
    variant: str,
    seed: int,
    samples: int,
    range_s: tuple[float, float] | None,
    connections: list[int] | None,
    followed: int | None,
) -> tuple[dict[str, _Table], list[str], tuple[float, float], int]: ...
def fingerprints(scenario: Scenario, variants: Sequence[str], seed: int) -> dict[str, int]: ...
def read_bursts(path: _StrPath) -> tuple[_Table, int, int, bool]: ...
def read_har(path: _StrPath, estimate: bool = False) -> tuple[str, list[dict[str, Any]]]: ...
def read_vectors(path: _StrPath, form: str) -> tuple[str, dict[str, NDArray[np.uint64]], int, int, bool]: ...
def seconds(text: str) -> float: ...
def bytes(text: str) -> int: ...
def models() -> list[
    tuple[
        str,
        str,
        str,
        str,
        list[tuple[str, str, float | None, str]],
        list[tuple[str, str, str]],
    ]
]: ...
def evaluate_model(name: str, inputs: Sequence[NDArray[np.float64]]) -> dict[str, NDArray[np.float64]]: ...
def evaluate_model_at(name: str, values: Sequence[float]) -> dict[str, float]: ...
def hysteresis_samples(
    packets: int,
    p: float,
    p_high: float | None,
    rtt_s: float,
    t0_s: float,
    w_max: float,
    b: float,
    w1: float,
    delack_s: float,
    count: int,
    seed: int,
) -> NDArray[np.float64]: ...
def wzk_chain_samples(
    packets: int, p: float, it0_s: float, r0_s: float, clamp_s: float, count: int, seed: int
) -> NDArray[np.float64]: ...
def profiles() -> list[tuple[str, str]]: ...
def kinds() -> list[tuple[str, list[tuple[str, str]]]]: ...
def outline(path: _StrPath) -> tuple[str, str, int, list[str]]: ...
def schema() -> str: ...
def tables() -> list[tuple[str, str, list[tuple[str, str, str, str]]]]: ...
