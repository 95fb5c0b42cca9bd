"""Jobs of every kind: specs made of options with the command line's names, and refusals."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")

from hearth import InvalidRequest  # noqa: E402
from hearth.options.kinds import KINDS, job_spec, option_of  # noqa: E402
from hearth.v1 import spec_pb2  # noqa: E402

IMPORT_COMMANDS = Path(__file__).resolve().parents[2] / "cli/commands/import_commands.cc"
IMPORT = {"name": "papers", "source": "/data/papers"}
GENERATE = {"name": "made", "nodes": 100, "edges": 1000}


def test_every_kind_of_the_protos_has_a_spec():
    # Daemons alone begin ranks.
    assert set(KINDS) == {field.name for field in spec_pb2.JobSpec.DESCRIPTOR.fields} - {"rank"}
    for kind, options in {"train": {"dataset": "papers"}, "prepare": {"dataset": "papers"},
                          "explain": {"dataset": "papers"}, "import": IMPORT,
                          "generate": GENERATE, "verify": {"dataset": "papers"},
                          "export_dataset": {"dataset": "papers", "to": "/x"},
                          "export": {"job": "train-1", "to": "/x"},
                          "evaluate": {"job": "train-1"},
                          "feed": {"dataset": "papers"}}.items():
        assert job_spec(kind, options).WhichOneof("kind") == kind


@pytest.mark.parametrize("kind, part, others", [
    ("generate", 0, {"name", "graph"}),
    ("import", 1, {"name"}),
])
def test_the_names_are_those_of_the_command_line(kind, part, others):
    """Compares with the flags in the source file, which has `generate` before `import`."""
    from hearth.options.kinds import _FIELDS
    parts = IMPORT_COMMANDS.read_text(encoding="utf-8").split("struct ImportArguments {")
    assert len(parts) == 2
    flags = set(re.findall(r'"--([a-z0-9-]+)"', parts[part]))
    assert flags - others == set(_FIELDS[kind]) - others


def test_an_import():
    spec = job_spec("import", {
        **IMPORT, "format": "edge-list", "in_place": True, "memory_limit": "2GiB",
        "labels": "multi-label", "non_finite": "zero", "fill-features": "mean",
        "bfloat16": True, "undirected": True, "dedup": "true", "self_loops": "add",
        "relabel": True, "header": "no", "columns": [2, "to"], "split": "time", "igb_classes": 2983, "split_seed": 0})
    expected = spec_pb2.ImportSpec(
        name="papers", path="/data/papers", format="EDGE_LIST", in_place=True,
        memory_limit_bytes=2 << 30, labels="MULTI_LABEL", non_finite="ZERO_NON_FINITE",
        fill_features="MEAN_OF_NEIGHBORS", bfloat16_features=True,
        edges={"add_reverse": True, "remove_duplicates": True, "self_loops": "ADD_SELF_LOOPS"},
        edge_list={"relabel": True, "header": "WITHOUT_HEADER", "source_column": "2",
                   "destination_column": "to"},
        ogb={"split": "time"},
        igb={"num_classes": 2983, "split_seed": 0})
    assert getattr(spec, "import") == expected
    assert expected.igb.HasField("split_seed")


def test_what_is_not_given_is_the_daemons(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    spec = job_spec("import", {"name": "papers", "source": "data", "format": "auto"})
    assert getattr(spec, "import") == spec_pb2.ImportSpec(name="papers",
                                                          path=str(tmp_path / "data"))


def test_generated_graphs():
    made = job_spec("generate", {**GENERATE, "inside": 0.5, "train": 0.2, "dtype": "float16"})
    assert made.generate.communities.inside == 0.5
    assert (made.generate.num_nodes, made.generate.train_share) == (100, 0.2)
    rmat = job_spec("generate", {**GENERATE, "graph": "rmat", "rmat": [0.5, 0.2, 0.2]})
    assert (rmat.generate.rmat.a, rmat.generate.rmat.c) == (0.5, 0.2)
    assert job_spec("generate", {**GENERATE, "graph": "rmat", "rmat": "0.5,0.2,0.2"}) == rmat
    assert job_spec("generate", GENERATE).generate.HasField("communities")


def test_plans_are_prepared_for_jobs_and_partitions():
    spec = job_spec("prepare", {"dataset": "papers", "strategy": "ginex", "model": "none",
                                "samplers": 2}).prepare
    assert spec.training_only and not spec.partition_only
    assert spec.data.HasField("ginex") and spec.pipeline.samplers == 2 and spec.hidden == 0
    spec = job_spec("prepare", {"dataset": "papers", "model": "gin", "hidden": 24}).prepare
    assert spec.hidden == 24
    spec = job_spec("prepare", {"dataset": "papers", "partition": True}).prepare
    assert spec.partition_only and spec.data.HasField("partition")


def test_a_feed_has_the_options_of_its_batches():
    spec = job_spec("feed", {"dataset": "papers", "strategy": "ginex", "sampler": "subgraph",
                             "fanouts": [5, 3], "credits": 6, "samplers": 2, "seed": 4}).feed
    assert (spec.data.WhichOneof("strategy"), list(spec.data.subgraph.fanouts)) == ("ginex", [5, 3])
    assert (spec.credits, spec.pipeline.samplers, spec.data.data_seed) == (6, 2, 4)


@pytest.mark.parametrize("kind, options, field, words", [
    ("trian", {}, "kind", "is not a kind of jobs; did you mean train?"),
    ("import", {"name": "papers"}, "source", "is required"),
    ("import", {**IMPORT, "undirectd": True}, "undirectd", "did you mean undirected?"),
    ("import", {**IMPORT, "format": "nupmy"}, "format", '"nupmy" is not one of auto, numpy'),
    ("import", {**IMPORT, "header": "maybe"}, "header", "one of auto, yes, no"),
    ("import", {**IMPORT, "columns": "src"}, "columns", "a list of 2 values"),
    ("import", {**IMPORT, "self_loops": "auto"}, "self_loops", "keep, remove, add"),
    ("import", {**IMPORT, "memory_limit": "much"}, "memory_limit", "a size such as 512MiB"),
    ("import", {**IMPORT, "in_place": "maybe"}, "in_place", "one of false, true"),
    ("import", {**IMPORT, "igb_classes": -1}, "igb_classes", "a whole number from 0 to"),
    ("generate", {**GENERATE, "nodes": 1.5}, "nodes", "a whole number from 0 to"),
    ("generate", {**GENERATE, "graph": "ring"}, "graph", "is not one of communities, rmat"),
    ("generate", {**GENERATE, "rmat": [1, 0, 0]}, "rmat", "applies with graph rmat only"),
    ("generate", {**GENERATE, "graph": "rmat", "rmat": [1]}, "rmat", "a list of 3 values"),
    ("generate", {**GENERATE, "graph": "rmat", "inside": 1}, "inside",
     "applies with graph communities only"),
    ("prepare", {"dataset": "papers", "partition": "yes"}, "partition", "False, True"),
    ("explain", {"dataset": "papers", "epoch": 3}, "epoch", "did you mean epochs?"),
    ("feed", {"dataset": "papers", "lr": 0.1}, "lr", "is not an option"),
    ("feed", {"dataset": "papers", "credits": 2}, "credits", "a whole number from 3 to 16"),
    ("verify", {"dataset": {}}, "dataset", "is not a text"),
])
def test_what_cannot_be_is_refused_by_name(kind, options, field, words):
    with pytest.raises(InvalidRequest) as refused:
        job_spec(kind, options)
    assert refused.value.field == field
    assert words in str(refused.value)


@pytest.mark.parametrize("kind, path, name", [
    ("import", "import.path", "source"), ("import", "import.igb.num_classes", "igb_classes"),
    ("import", "import.edge_list.destination_column", "columns"),
    ("generate", "generate.rmat.b", "rmat"), ("generate", "num_nodes", "nodes"),
    ("export", "export.destination", "to"), ("verify", "priority", "priority"),
    ("explain", "explain.train.data.batch_size", "batch_size"),
    ("prepare", "prepare.data.ginex.superbatch", "superbatch"),
    ("feed", "feed.data.batch_size", "batch_size"), ("feed", "feed.credits", "credits"),
])
def test_fields_that_the_daemon_names_are_options(kind, path, name):
    assert option_of(kind, path) == name
