"""Test that the agent's limit by user costs the pages of today none of their marks."""

import numpy as np
import pytest

from catnip import api
from catnip.base import paths

USERS = {"server": "there", "other-server": "there", "reader": "back", "other-reader": "back"}
"""Links whose hosts are users, and the way by which their packets leave."""


@pytest.mark.parametrize("marker", ["spm", "last-only", "tcp-state"])
def test_pages_of_today_keep_all_marks_under_the_agents_limit(marker: str) -> None:
    def limited(depth: str, share: str) -> list[float]:
        # A rate that brings nothing, as on the slowest of devices.
        profile = f"1bit/{depth}"
        return page_times(marker, f"policer:high={profile},med={profile},share={share}")

    unlimited = page_times(marker, "none")
    assert len(unlimited) > 50
    assert limited("128KB", "50%") == unlimited
    assert limited("4KB", "5%") != unlimited, "less would cost them some"


def page_times(marker: str, limit: str) -> list[float]:
    """Returns the times of finished pages whose clients and servers each have this limit, s."""
    limits = [(f"link.{users}.{way}.conditioner", limit) for users, way in USERS.items()]
    changes = [("define.marker", marker), ("duration", "120s"), *limits]
    pages = api.run(paths.scenario("TDY-MIX", changes), seeds=1, variants=["CATNIP-Good"]).tables["pages"]
    return [float(time_s) for time_s in pages["time_s"] if np.isfinite(time_s)]
