"""Ratios within a round, medians over rounds, and what cannot be known."""

from __future__ import annotations

import dataclasses

import pytest

from figures import Epoch, Run, epoch_of, prepare_seconds_of, trainer_idle
from fio import DiskRate, DiskRates
from summary import disagreements, median, ratio, summarize

ROW = 512


def epoch(seconds, rows=1000, rows_read=None, idle=0.5):
    read = None if rows_read is None else rows_read * ROW
    return Epoch(seconds, rows, rows * ROW, read, rows_read, rows_read, None, idle)


def run(name, *epochs, number=1, **changed):
    made = Run(name, "sage", 0.1, 100, number, 1 << 20, tuple(epochs), "d", 7000, 9000)
    return dataclasses.replace(made, **changed)


def rates(reads):
    """Of a disk that does half as many reads of pages as of rows."""
    return DiskRates(DiskRate(ROW, reads, reads * ROW),
                     DiskRate(4096, reads / 2, reads / 2 * 4096))


def by_name(runs, disk=None):
    return {summary.strategy: summary for summary in summarize(runs, disk or {})}


def stage(name, busy, starved, blocked):
    return {"name": name, "busy_seconds": busy, "starved_seconds": starved,
            "blocked_seconds": blocked}


def test_ratios_and_medians_of_what_is_not_known():
    assert ratio(6, 3) == 2
    assert ratio(0, 3) == 0
    assert [ratio(None, 3), ratio(3, None), ratio(3, 0)] == [None, None, None]
    assert median([None, 3, 1]) == 2
    assert median([None]) is None


def test_the_trainer_idles_while_it_is_starved():
    assert trainer_idle([stage("sample", 9, 9, 9), stage("train", 2, 6, 0)]) == 0.75
    assert trainer_idle([stage("train", 0, 0, 0)]) is None
    assert trainer_idle([stage("sample", 1, 1, 1)]) is None


def test_an_epoch_of_a_report():
    report = {"seconds": 2.0, "rows_needed": 10, "bytes_needed": 5120, "bytes_read": 2048,
              "read_ops": None, "io_wait_seconds": 0.5, "stages": [stage("train", 1, 1, 0)]}
    assert epoch_of(report) == Epoch(2.0, 10, 5120, 2048, None, None, 0.5, 0.5)
    assert epoch_of({**report, "rows_read": 4}).rows_read == 4


def test_preparing_stands_apart():
    assert prepare_seconds_of({"preparations": []}) is None
    assert prepare_seconds_of({}) is None
    assert prepare_seconds_of({"partition": {"seconds": 4.0}}) == 4
    seconds = prepare_seconds_of({"preparations": [{"seconds": 2.5}, {"seconds": 1.0}]})
    assert seconds == 3.5
    summary = by_name([run("diskgnn", epoch(1), prepare_seconds=seconds)])["diskgnn"]
    assert (summary.prepare_seconds, summary.epoch_seconds) == (3.5, 1)


def test_the_first_epoch_stands_apart():
    summary = by_name([run("mmap", epoch(9), epoch(2), epoch(4))])["mmap"]
    assert (summary.first_epoch_seconds, summary.epoch_seconds) == (9, 3)


def test_one_epoch_is_better_than_none():
    summary = by_name([run("mmap", epoch(9))])["mmap"]
    assert (summary.first_epoch_seconds, summary.epoch_seconds) == (9, 9)


def test_mmap_is_the_faster_of_its_variants():
    found = by_name([run("mmap-normal", epoch(8)), run("mmap-random", epoch(6)),
                     run("ginex", epoch(2))])
    assert found["ginex"].speed_to_mmap == 3
    assert found["mmap-random"].speed_to_mmap == 1
    assert found["mmap-normal"].speed_to_mmap == 0.75


def test_ratios_are_of_one_round_before_the_median():
    runs = [run("mmap", epoch(10), number=1), run("ginex", epoch(5), number=1),
            run("mmap", epoch(100), number=2), run("ginex", epoch(10), number=2),
            run("mmap", epoch(30), number=3), run("ginex", epoch(10), number=3)]
    # 2, 10 and 3; the ratio of the medians would be 3, too, so the mean is not taken either.
    assert by_name(runs)["ginex"].speed_to_mmap == 3
    assert by_name(runs[:4])["ginex"].speed_to_mmap == 6  # of medians: 55 / 7.5


def test_the_disk_of_the_same_round_is_the_measure():
    disk = {1: rates(100), 2: rates(200)}
    runs = [run("gnndrive", epoch(20, rows_read=500), number=1),
            run("gnndrive", epoch(10, rows_read=500), number=2)]
    summary = by_name(runs, disk)["gnndrive"]
    assert summary.disk_limit_ratio == 0.5  # 1000 rows take fio 10 s, then 5 s
    assert summary.disk_bytes_ratio == pytest.approx(500 * ROW / 20 / 51200)


def test_page_faults_are_held_against_reads_of_pages():
    faults = dataclasses.replace(epoch(20), bytes_read=500 * 4096)
    summary = by_name([run("mmap", faults)], {1: rates(100)})["mmap"]
    assert summary.disk_limit_ratio == 0.5
    assert summary.disk_bytes_ratio == pytest.approx(500 / 20 / 50)


def test_an_optimal_cache_is_that_of_ginex():
    found = by_name([run("ginex", epoch(1, rows_read=300)),
                     run("gnndrive", epoch(1, rows_read=450))])
    assert found["gnndrive"].optimal_ratio == 1.5
    assert found["ginex"].optimal_ratio == 1
    assert by_name([run("gnndrive", epoch(1, rows_read=450))])["gnndrive"].optimal_ratio is None


def test_a_peer_with_features_in_memory_reads_nothing():
    found = by_name([run("memory", epoch(2)), run("pyg-memory", epoch(3))], {1: rates(1000)})
    assert found["pyg-memory"].tax_to_memory == 1.5
    assert found["pyg-memory"].disk_limit_ratio is None


def test_memory_is_the_measure_of_the_tax_and_reads_nothing():
    disk = {1: rates(100)}
    found = by_name([run("memory", epoch(2, rows_read=0)), run("mmap", epoch(5))], disk)
    assert found["mmap"].tax_to_memory == 2.5
    assert found["memory"].disk_limit_ratio is None
    assert found["memory"].speed_to_mmap == 2.5


def test_what_the_kernel_reads_on_its_own_is_not_known():
    summary = by_name([run("mmap", epoch(2))])["mmap"]
    assert (summary.bytes_read, summary.read_ops, summary.optimal_ratio) == (None, None, None)


def test_a_failed_run_spoils_no_other():
    failed = run("mmap", number=2, failure="killed at the memory limit")
    found = by_name([run("mmap", epoch(4), number=1), run("ginex", epoch(2), number=1),
                     failed, run("ginex", epoch(2), number=2)])
    assert found["mmap"].epoch_seconds == 4
    assert found["mmap"].failures == ("killed at the memory limit",)
    assert found["ginex"].speed_to_mmap == 2


def test_a_strategy_that_always_fails_has_no_figures():
    summary = by_name([run("mmap", failure="no")])["mmap"]
    assert (summary.runs, summary.epoch_seconds, summary.failures) == (1, None, ("no",))


def test_caches_and_models_are_not_mixed():
    runs = [run("mmap", epoch(4)), run("mmap", epoch(8), model="none"),
            run("mmap", epoch(16), cache_share=0.25), run("ginex", epoch(2))]
    found = [(each.cache_share, each.model, each.strategy, each.epoch_seconds)
             for each in summarize(runs, {})]
    assert found == [(0.1, "sage", "mmap", 4), (0.1, "sage", "ginex", 2),
                     (0.1, "none", "mmap", 8), (0.25, "sage", "mmap", 16)]


def test_runs_that_trained_on_other_batches_cannot_be_compared():
    good = [run("mmap", epoch(1)), run("ginex", epoch(2)),
            run("gnndrive-reorder", epoch(2), loss_digest="e"), run("memory", failure="no")]
    def found_in(runs):
        return disagreements(runs, lambda name: name != "gnndrive-reorder",
                             lambda name: "partition" if name == "outre" else "shuffled")

    assert found_in(good) == []
    assert found_in([*good, run("gnndrive", epoch(1), loss_digest="e")]) == [
        "model sage, shuffled order: runs differ in their loss digests"]
    assert found_in([*good, run("gnndrive", epoch(1, rows=999))]) == [
        "model sage, shuffled order: runs differ in their rows needed"]
    # Other batches, the same in each of its rounds.
    other = run("outre", epoch(1, rows=800), loss_digest="e")
    assert found_in([*good, other, other]) == []
    assert found_in([*good, other, run("outre", epoch(1, rows=801), loss_digest="e")]) == [
        "model sage, partition order: runs differ in their rows needed"]
