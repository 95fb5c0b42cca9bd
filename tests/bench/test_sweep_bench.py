"""The figures of a sweep, from reports."""

from __future__ import annotations

import dataclasses

from sweep_bench import (SweepRun, bytes_of, model_of, render_sweeps, total,
                         training_seconds)


def _pass(read, batches=1):
    return {"batches": batches, "bytes_read": read}


def _report(**more):
    epoch = {**_pass(100), "validation": _pass(10),
             "stages": [{"name": "sample", "busy_seconds": 9.0},
                        {"name": "train", "busy_seconds": 2.5}]}
    return {"epochs": [epoch, epoch], "test": _pass(1), **more}


def test_the_bytes_of_all_passes_are_added_up():
    assert bytes_of(_report()) == 221
    assert bytes_of(_report(test=_pass(None, batches=0))) == 220
    assert bytes_of(_report(test=_pass(None))) is None
    assert bytes_of(_report(company={"bytes_charged": 50, "bytes_alone": 221})) == 50
    assert total([1, 2]) == 3
    assert total([1, None]) is None


def test_the_model_of_a_job():
    train = {"sage": None, "gcn": {"hidden": 8}, "gat": None}
    assert model_of({"spec": {"train": {"trains": [train]}}}) == "gcn"


def test_training_is_what_the_trainer_was_busy():
    assert training_seconds(_report()) == 5


def test_the_table_has_medians_and_ratios():
    path = SweepRun(strategy="gnndrive", model="tiny", round=1, count=8, alone_seconds=2.0,
                    shared_seconds=3.0, separate_seconds=15.0, training_seconds=0.0,
                    alone_bytes=100, shared_bytes=105, separate_bytes=800)
    trained = dataclasses.replace(path, model="sage", alone_seconds=4.0, shared_seconds=21.0,
                                  separate_seconds=40.0, training_seconds=2.5)
    slower = dataclasses.replace(trained, round=2, shared_seconds=23.0)
    _, first, second = render_sweeps([path, trained, slower]).splitlines()
    assert first.split() == ["gnndrive", "tiny", "2.0", "3.0", "1.50", "15.0", "5.00", "1.05",
                             "105", "B"]
    # 22 seconds, of 8 times 2.5 and 2.
    assert second.split() == ["gnndrive", "sage", "4.0", "22.0", "5.50", "40.0", "1.82", "1.05",
                              "105", "B", "1.00"]
