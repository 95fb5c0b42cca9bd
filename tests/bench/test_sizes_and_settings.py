"""Sizes, shares, the command line, and the graph they tell."""

from __future__ import annotations

import shutil

import pytest

import dataset
from dataset import GraphSize, NoRoom
from settings import parse_settings
from sizes import format_bytes, parse_bytes, parse_shares


@pytest.mark.parametrize("text, count", [("4096", 4096), ("7B", 7), ("1KiB", 1024),
                                         ("1.5 MiB", 3 << 19), ("2GiB", 2 << 30),
                                         ("1TiB", 1 << 40)])
def test_sizes(text, count):
    assert parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "GiB", "1GB", "-1", "1e9", "1 2", "1MiBs"])
def test_what_is_no_size(text):
    with pytest.raises(ValueError, match="no size"):
        parse_bytes(text)


def test_shares_keep_their_order_and_are_not_repeated():
    assert parse_shares("10%, 5%,10%,2.5%") == (0.1, 0.05, 0.025)


@pytest.mark.parametrize("text", ["", "10", "0%", "101%", "5%,", "a%"])
def test_what_is_no_share(text):
    with pytest.raises(ValueError, match="no share"):
        parse_shares(text)


@pytest.mark.parametrize("count, text", [(0, "0 B"), (1023, "1023 B"), (1024, "1.0 KiB"),
                                         (1 << 20, "1.0 MiB"), (150 << 20, "150 MiB"),
                                         (3 << 29, "1.5 GiB")])
def test_sizes_are_written_short(count, text):
    assert format_bytes(count) == text


def test_defaults(tmp_path):
    settings = parse_settings(["--work", str(tmp_path)])
    assert (settings.size.nodes, settings.size.edges, settings.size.dim) == (
        2_000_000, 32_000_000, 128)
    assert settings.caches == (0.1,)
    assert settings.models == ("none", "sage")
    assert (settings.repeats, settings.batch_size) == (3, 128)
    assert settings.json_path == tmp_path / "hearth_bench.json"
    assert settings.limit_memory and settings.memory_limit is None


def test_scale_multiplies_nodes_and_edges_alone():
    size = parse_settings(["--nodes", "1000", "--edges", "8000", "--dim", "64",
                           "--scale", "2.5"]).size
    assert (size.nodes, size.edges, size.dim) == (2500, 20000, 64)


def test_quick_is_small_and_can_be_changed():
    quick = parse_settings(["--quick"])
    assert quick.repeats == 1 and quick.size.feature_bytes < 1 << 24
    assert parse_settings(["--quick", "--repeats", "2", "--dim", "8"]).repeats == 2


def test_large_is_held_to_a_fixed_limit_and_can_be_changed():
    large = parse_settings(["--large"])
    assert large.size.name == "bench-rmat-8388608-123000000-128-0p01"
    assert large.size.feature_bytes == 4 << 30
    assert (large.batch_size, large.fanouts, large.models) == (1024, "10,10,10", ("none",))
    assert (large.caches, large.memory_limit) == ((0.05, 0.1, 0.25), 11 << 28)
    changed = parse_settings(["--large", "--cache", "10%", "--memory-limit", "none",
                              "--graph", "communities"])
    assert (changed.caches, changed.limit_memory) == ((0.1,), False)
    assert changed.size.graph == "communities"
    with pytest.raises(SystemExit):
        parse_settings(["--large", "--quick"])


@pytest.mark.parametrize("given, limited, limit", [("none", False, None), ("auto", True, None),
                                                   ("1GiB", True, 1 << 30)])
def test_memory_limits(given, limited, limit):
    settings = parse_settings(["--memory-limit", given])
    assert (settings.limit_memory, settings.memory_limit) == (limited, limit)


@pytest.mark.parametrize("wrong", [["--memory-limit", "much"], ["--cache", "10"],
                                   ["--models", "none,gin"], ["--models", ""],
                                   ["--repeats", "0"], ["--scale", "0"],
                                   ["--scale", "nan"], ["--train-share", "1.5"], ["--unknown"]])
def test_a_wrong_command_line_ends_with_usage(wrong, capsys):
    with pytest.raises(SystemExit) as ended:
        parse_settings(wrong)
    assert ended.value.code == 2
    assert "error" in capsys.readouterr().err


def test_a_job_gets_what_was_asked_for():
    options = parse_settings(["--fanouts", "5,4", "--epochs", "7"]).job_options()
    assert (options["--fanouts"], options["--epochs"]) == ("5,4", "7")


def test_a_dataset_has_a_name_of_its_own():
    names = {GraphSize().name, GraphSize(nodes=3).name, GraphSize(edges=3).name,
             GraphSize(dim=3).name, GraphSize(train_share=0.5).name, GraphSize(graph="rmat").name}
    assert len(names) == 6
    assert all(set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789-") for name in names)


def test_ids_take_eight_bytes_from_two_billion_nodes_on():
    small, large = GraphSize(nodes=(1 << 31) - 1, dim=1), GraphSize(nodes=1 << 31, dim=1)
    assert large.disk_bytes - small.disk_bytes > 4 * 3 * large.edges - 100


def test_a_disk_without_room_is_told_with_the_numbers(tmp_path):
    dataset.check_room(tmp_path, GraphSize(nodes=10, edges=10))
    free = shutil.disk_usage(tmp_path).free
    with pytest.raises(NoRoom, match="are free"):
        dataset.check_room(tmp_path, GraphSize(nodes=free // 512, edges=10))
