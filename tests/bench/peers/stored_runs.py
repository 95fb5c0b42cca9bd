"""Runs and disk rates from a JSON file of hearth_bench."""

from __future__ import annotations

from typing import Any

from figures import Epoch, Run
from fio import DiskRate, DiskRates


def runs_of(document: dict[str, Any], number: int) -> list[Run]:
    """Its runs, as those of the round `number`. REQUIRES: they are of one round."""
    return [Run(**{**stored, "round": number,
                   "epochs": tuple(Epoch(**epoch) for epoch in stored["epochs"])})
            for stored in document["runs"]]


def disk_of(document: dict[str, Any], number: int) -> dict[int, DiskRates]:
    """What fio measured in its only round; empty if it did not."""
    return {number: DiskRates(DiskRate(**stored["row"]), DiskRate(**stored["page"]))
            for stored in document["disk"]["rounds"]}
