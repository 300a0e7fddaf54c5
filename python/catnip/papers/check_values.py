"""Models evaluated at the points of python/catnip/reference/model_check_values.csv, to check them."""

from collections.abc import Iterable

from numpy.typing import ArrayLike

from catnip import models
from catnip.papers.reference import rows

_SETTINGS: dict[str, tuple[str, dict[str, float]]] = {
    "pftk_W": ("W", {}),
    "E_dss_no_plus1": ("E_dss", {"plus_one": 0}),
    "hysteresis_last_cycle_lossless": ("hysteresis", {"last_cycle_loss": 0}),
}
_NAMED_VALUES = {"rto_iff_Q_eq_1": 1.0}
_STATED = {"cap", "handshake"}


def farthest(*starts: str) -> float:
    """Returns the largest relative difference between models' results and model_check_values.csv.

    `starts` are prefixes of the names of the models to compare.
    """
    return max(_off(row) for row in rows("model_check_values.csv") if row["model"].startswith(starts))


def _off(row: dict[str, str]) -> float:
    ours, expected = check_value(row["model"], row["params"], row["quantity"]), float(row["value"])
    return abs(ours - expected) / abs(expected) if expected else abs(ours)


def check_value(name: str, parameters: str, quantity: str) -> float:
    """Returns the quantity that a model computes for a row of `model_check_values.csv`.

    Names in the file have no units. `parameters` is `key=value;...`. Two parameters of the file are ignored,
    because the models have no choice there: E_dss always has its cap, and cardwell00 never has a handshake.
    """
    name, setting = _SETTINGS.get(name, (name, {}))
    model = models.MODELS[name]
    values: dict[str, ArrayLike] = dict(setting)
    for pair in parameters.split(";"):
        key, _, text = pair.partition("=")
        if key not in _STATED:
            known = (parameter.name for parameter in model.parameters)
            values[_with_unit(key, known)] = _NAMED_VALUES[text] if text in _NAMED_VALUES else float(text)
    result = models.evaluate(name, **values)
    return float(result[_with_unit(quantity, result)])


def _with_unit(key: str, known: Iterable[str]) -> str:
    spellings = (key, f"{key}_s", "w1" if key == "w" else key)
    names = set(known)
    return next((spelling for spelling in spellings if spelling in names), key)
