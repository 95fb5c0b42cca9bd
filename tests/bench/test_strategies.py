"""Which strategies a binary knows, by its own help."""

from __future__ import annotations

import pytest

from strategies import ALL, UnknownStrategy, choose, is_mmap, options_of

OLD = """Train a model on a dataset
Options:
  -h,--help                   Print this help message and exit
  --dataset TEXT              name of an imported dataset (required)
  --samplers TEXT             threads that sample (default 1)
  --extractors TEXT           threads that assemble features (default 1)
  --strategy TEXT             how features reach the trainer: memory (default), mmap
  -f,--file TEXT              YAML file with any of these options; flags win
"""
NEW = OLD.replace("(default), mmap", "(default),\n                              mmap, gnndrive, "
                  "ginex\n  --reorder TEXT              true: as they become ready\n"
                  "  --mmap-advice TEXT          normal, random")


def names(choice):
    return [strategy.name for strategy in choice.chosen]


def test_flags_with_descriptions_over_several_lines():
    flags = options_of(NEW)
    assert set(flags) == {"--help", "--dataset", "--samplers", "--extractors", "--strategy",
                          "--reorder", "--mmap-advice", "--file"}
    assert flags["--strategy"].endswith("mmap, gnndrive, ginex")


def test_what_an_older_binary_does_not_know_is_left_out_aloud():
    choice = choose(OLD)
    assert names(choice) == ["memory", "mmap", "mmap-wide"]
    assert set(choice.left_out) == {each.name for each in ALL} - set(names(choice))
    assert "no --strategy ginex" in choice.left_out["ginex"]
    assert "no --mmap-advice" in choice.left_out["mmap-random"]


def test_both_kinds_of_mmap_where_they_can_be_told_apart():
    choice = choose(NEW)
    assert names(choice) == ["memory", "mmap-normal", "mmap-random", "mmap-wide",
                             "mmap-normal-wide", "gnndrive", "gnndrive-wide", "gnndrive-reorder",
                             "ginex", "ginex-wide"]
    assert "stand for it" in choice.left_out["mmap"]


def test_a_strategy_without_its_option_is_left_out():
    choice = choose(NEW.replace("--reorder", "--order"))
    assert "gnndrive" in names(choice)
    assert "no --reorder" in choice.left_out["gnndrive-reorder"]


def test_what_needs_a_gpu_runs_on_one():
    text = NEW.replace("--file", "--sample-on TEXT\n  --gpu-cache SIZE\n  --file")
    text = text.replace("mmap, gnndrive", "mmap, gids, diskgnn, gnndrive")
    there = {"memory-gpu", "gids-gpu", "diskgnn-gpu"}
    assert set(names(choose(text, on_gpu=True))) - set(names(choose(text))) == there
    assert choose(text, ["gids-gpu"]).left_out == {"gids-gpu": "its models are not on a GPU"}


def test_only_what_was_asked_for():
    choice = choose(NEW, ["ginex", "mmap"])
    assert names(choice) == ["mmap", "ginex"]
    assert choice.left_out == {}


def test_an_unknown_name_is_refused():
    with pytest.raises(UnknownStrategy, match="ginx.*there are memory"):
        choose(NEW, ["ginx"])


def test_only_one_that_has_another_order_trains_on_other_batches():
    assert {each.name for each in ALL if each.order != "shuffled"} == {"outre"}
    outre = next(each for each in ALL if each.name == "outre")
    assert outre.order == "partition"
    assert outre.arguments({}, 4096) == [
        "--strategy", "outre", "--order", "partition", "--cpu-cache", "4096"]


def test_only_strategies_with_a_cache_get_a_budget():
    by_name = {strategy.name: strategy.arguments({}, 4096) for strategy in ALL}
    assert by_name["mmap"] == ["--strategy", "mmap"]
    assert by_name["gnndrive-reorder"] == ["--strategy", "gnndrive", "--reorder", "true",
                                           "--cpu-cache", "4096"]
    gids = next(each for each in ALL if each.name == "gids")
    assert gids.arguments({"--extractors": "1", "--epochs": "2"}, 4096) == [
        "--epochs", "2", "--strategy", "gids", "--cpu-cache", "3276", "--window-cache", "819"]
    wide = next(each for each in ALL if each.name == "mmap-wide")
    assert wide.arguments({"--extractors": "1", "--epochs": "2"}, 4096) == [
        "--extractors", "8", "--epochs", "2", "--strategy", "mmap", "--samplers", "8"]
    assert not any("--cpu-cache" in by_name[name] for name in by_name
                   if name == "memory" or is_mmap(name))
