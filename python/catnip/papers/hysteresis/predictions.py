"""Transfer times predicted by the models for the sizes and loss rates of the paper, over its path."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from catnip import models
from catnip.analysis.measures import Floats

Predicts = Callable[[Sequence[int], float], Floats]


@dataclass(frozen=True)
class Model:
    """Model to compare with simulations; `published` is true if the paper's tables have a row for it."""

    name: str
    predicts: Predicts
    published: bool = True


HYSTERESIS = Model("Hysteresis", lambda packets, loss: np.asarray(models.hysteresis(packets, loss)))
CARDWELL00 = Model("Cardwell-00", lambda packets, loss: np.asarray(models.cardwell00(packets, loss)))
CARDWELL00_SEND = Model(
    "Cardwell-00, send rate",
    lambda packets, loss: np.asarray(models.cardwell00(packets, loss, rate="send")),
    published=False,
)
SIKDAR = Model("Sikdar", lambda packets, loss: np.asarray(models.sikdar_threecase(packets, loss)))
SIKDAR_FITTED = Model(
    "Sikdar, fitted",
    lambda packets, loss: np.asarray(models.sikdar_empirical(packets, loss)),
    published=False,
)

PADHYE = Model(
    "Padhye", lambda packets, loss: np.asarray(models.padhye_latency(packets, loss)), published=False
)
CARDWELL98 = Model(
    "Cardwell-98", lambda packets, loss: np.asarray(models.cardwell98(packets, loss)), published=False
)

COMPARED = (HYSTERESIS, CARDWELL00, CARDWELL00_SEND, SIKDAR, SIKDAR_FITTED)
"""Models of Tables 2 and 3, and two variants: Cardwell-00 with the send rate, Sikdar's fitted formula."""
EARLIER = (PADHYE, CARDWELL98)
"""The other two of the four earlier models that section 2 of the paper puts in order."""


def partial_catnip(packets: Sequence[int], loss: float, high_loss: float = 0.0) -> Floats:
    """Returns the mean transfer times of Partial CATNIP by the model of the paper's section 5, s."""
    return np.asarray(models.partial_catnip(packets, loss, high_loss))
