"""What is taken from fio's JSON."""

from __future__ import annotations

import json

import pytest

import fio
from fio import Fio, FioError, Point, Profile, parse_point, random_block

SETTING = {"pattern": "randread", "block_bytes": 4096, "depth": 64, "threads": 1,
           "engine": "io_uring"}


def output(iops=1000.5, bandwidth=4098048, error=0):
    read = {"iops": iops, "bw_bytes": bandwidth, "lat_ns": {"mean": 64e6}}
    return json.dumps({"fio version": "fio-3.33", "jobs": [{"error": error, "read": read}]})


def point(block_bytes, depth, rate, pattern="randread"):
    return Point(pattern, block_bytes, depth, 1, "io_uring", rate, rate * block_bytes, 0.001)


def test_a_point():
    got = parse_point(output(), **SETTING)
    assert (got.reads_per_second, got.bytes_per_second) == (1000.5, 4098048)
    assert got.mean_latency_seconds == pytest.approx(0.064)
    assert (got.block_bytes, got.depth) == (4096, 64)


def test_lines_of_text_before_the_json_are_skipped():
    assert parse_point("fio: a warning\n" + output(), **SETTING).reads_per_second == 1000.5


@pytest.mark.parametrize("text, match", [
    ("", "no JSON"), ("fio: io_uring is not there", "no JSON"), ("{}", "not as expected"),
    (output()[:-5], "not as expected"), ('{"jobs": []}', "not as expected"),
    ('{"jobs": [{"error": 0, "read": {}}]}', "not as expected"),
    (output(error=22), "error 22"), (output(iops=0), "read nothing")])
def test_what_is_no_measurement(text, match):
    with pytest.raises(FioError, match=match):
        parse_point(text, **SETTING)


@pytest.mark.parametrize("row, block", [(1, 512), (512, 512), (513, 1024), (400, 512),
                                        (4096, 4096)])
def test_rows_are_read_in_whole_sectors(row, block):
    assert random_block(row) == block


def test_the_best_depth_of_each_size():
    profile = Profile((point(512, 32, 10), point(512, 64, 30), point(512, 128, 20),
                       point(4096, 32, 40), point(1 << 20, 16, 50, "read")))
    assert profile.best_random(512).depth == 64
    assert profile.best_random(4096).reads_per_second == 40
    assert profile.best_random(1024) is None
    assert profile.sequential.reads_per_second == 50
    assert Profile(()).sequential is None


class Recorded(Fio):
    """Answers in place of fio; the deeper, the faster, up to 128."""

    def __init__(self, without=()):
        self.asked = []
        self._engine = ""
        self._without = without

    def _run(self, engine, pattern, block_bytes, depth, threads):
        self.asked.append((engine, pattern, block_bytes, depth, threads))
        if engine in self._without:
            raise FioError(f"no {engine}")
        return Point(pattern, block_bytes, depth, threads, engine, min(depth, 128), 1, 0)


def test_a_profile_tries_every_depth_then_two_threads():
    recorded = Recorded()
    profile = recorded.profile((4096, 512, 512), (32, 128))
    assert [asked[2:] for asked in recorded.asked] == [
        (512, 32, 1), (512, 128, 1), (512, 128, 2),
        (4096, 32, 1), (4096, 128, 1), (4096, 128, 2), (1 << 20, 16, 1)]
    assert profile.best_random(512).depth == 128


def test_a_round_measures_again_at_the_best_depth():
    profile = Profile((point(512, 32, 10), point(512, 64, 30), point(4096, 128, 20)))
    recorded = Recorded()
    rates = recorded.rates(profile, row_bytes=400)
    assert [asked[2:] for asked in recorded.asked] == [(512, 64, 1), (4096, 128, 1)]
    assert (rates.row.reads_per_second, rates.page.reads_per_second) == (64, 128)
    with pytest.raises(FioError, match="no reads of 1024 B"):
        recorded.rates(profile, row_bytes=600)


def test_another_engine_is_tried_once():
    recorded = Recorded(without=("io_uring",))
    assert recorded.random(512, 32).engine == "libaio"
    recorded.random(512, 64)
    assert [asked[0] for asked in recorded.asked] == ["io_uring", "libaio", "libaio"]


def test_no_engine_at_all_is_told():
    with pytest.raises(FioError, match="no libaio"):
        Recorded(without=("io_uring", "libaio")).random(512, 32)


def test_fio_that_is_absent_is_told(monkeypatch, tmp_path):
    monkeypatch.setattr(fio.shutil, "which", lambda name: None)
    with pytest.raises(FioError, match="not installed"):
        Fio(tmp_path, 1)
