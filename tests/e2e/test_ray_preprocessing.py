"""hearth.ray.preprocess with Ray as it is published, and the real daemon (`--full python`)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from daemon import HEARTH_PIECE
from stored import digests
from test_pieces import write_edges

pytestmark = pytest.mark.full("python")

# Runs hearth-piece and notes it. Where the folder `kill` has a file named after the piece, the
# worker that makes it dies first, and the piece is left half-made.
PROGRAM = """#!/bin/bash
folder={folder}
if [[ $1 == --of ]]; then
  echo "$4" >>"$folder/made"
  if rm "$folder/kill/$4" 2>/dev/null; then
    if [[ $2 == *pieces.json ]]; then
      head -c 100 /dev/urandom >"$6/piece-00000$4.edges.0123456789abcdef.tmp"
    else
      mkdir "$6/samples-00000$4.0123456789abcdef.tmp"
    fi
    kill -9 $PPID
    exit 1
  fi
fi
exec {program} "$@"
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("program")
    (folder / "kill").mkdir()
    path = folder / "hearth-piece"
    path.write_text(PROGRAM.format(folder=folder, program=HEARTH_PIECE))
    path.chmod(0o700)
    return path


@pytest.fixture(scope="module")
def ray(program, tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("HOME", str(tmp_path_factory.mktemp("home")))
        patch.setenv("RAY_AUTH_MODE", "disabled")
        patch.setenv("HEARTH_PIECE", str(program))
        import ray
        ray.init(num_cpus=3, include_dashboard=False, log_to_driver=False)
        yield ray
        ray.shutdown()


@pytest.fixture
def made(program):
    """Pieces that were begun, in order."""
    path = program.parent / "made"
    path.unlink(missing_ok=True)

    def read() -> list[int]:
        return [int(line) for line in path.read_text().split()] if path.exists() else []
    return read


@pytest.fixture
def client(daemon):
    import hearth
    with hearth.Client(daemon.address) as made:
        yield made


@pytest.fixture
def preprocess(ray, client):
    import hearth.ray

    def call(*arguments, **options):
        return hearth.ray.preprocess(*arguments, client=client, piece_size="10KiB", **options)
    return call


@pytest.fixture
def text(tmp_path):
    return write_edges(tmp_path / "edges.txt", 8_000)


def taken(daemon, client, name: str):
    """Digests of the dataset's files and the manifest without its time; deletes the dataset."""
    folder = daemon.data_dir / "datasets" / name
    manifest = json.loads((folder / "manifest.json").read_text())
    for field in ("created_unix_seconds", "crc32c"):
        del manifest[field]
    found = digests(folder, "manifest.json")
    client.delete_dataset(name)
    return found, manifest


@pytest.fixture
def wanted(daemon, client, text):
    client.import_dataset("ray", text, undirected=True)
    return taken(daemon, client, "ray")


@pytest.mark.parametrize("num_cpus", [1, 3], ids=["three-workers", "one-worker"])
def test_the_dataset_is_that_of_the_text(preprocess, daemon, client, text, wanted, made, tmp_path,
                                         num_cpus):
    dataset = preprocess("ray", text, tmp_path / "pieces", undirected=True, num_cpus=num_cpus)
    assert dataset.name == "ray"
    assert taken(daemon, client, "ray") == wanted
    count = len(made())
    assert count > 4 and sorted(made()) == list(range(count))
    # The next call finds all pieces, but for one.
    (tmp_path / "pieces/piece-000002.edges").unlink()
    preprocess("ray", text, tmp_path / "pieces", undirected=True)
    assert taken(daemon, client, "ray") == wanted
    assert made()[count:] == [2]


def test_workers_that_die_change_nothing(preprocess, daemon, client, text, wanted, made, program,
                                         tmp_path):
    for index in (0, 2, 3):
        (program.parent / "kill" / str(index)).touch()
    preprocess("ray", text, tmp_path / "pieces", undirected=True)
    assert taken(daemon, client, "ray") == wanted
    for index in (0, 2, 3):
        assert made().count(index) == 2
    assert not list((tmp_path / "pieces").glob("*.tmp"))


def test_a_piece_that_was_damaged_is_made_again(preprocess, daemon, client, text, wanted, made,
                                                tmp_path):
    preprocess("ray", text, tmp_path / "pieces", undirected=True)
    client.delete_dataset("ray")
    path = tmp_path / "pieces/piece-000001.edges"
    path.write_bytes(b"\1" + path.read_bytes()[1:])
    count = len(made())
    preprocess("ray", text, tmp_path / "pieces", undirected=True)
    assert taken(daemon, client, "ray") == wanted
    assert made()[count:] == [1]


def test_pieces_in_a_storage(preprocess, daemon, client, text, wanted, tmp_path):
    bucket = tmp_path / "bucket"
    preprocess("ray", text, f"file://{bucket}", undirected=True)
    assert taken(daemon, client, "ray") == wanted
    pieces = sorted(path.name for path in Path(bucket).iterdir())
    assert pieces[0] == "piece-000000.edges" and pieces[-1] == "pieces.json"


def test_a_wrong_line_is_told_at_once(preprocess, text, made, tmp_path):
    import hearth
    text.write_text(text.read_text() + "1 x\n")
    with pytest.raises(hearth.InvalidRequest, match="after byte .* field 2"):
        preprocess("ray", text, tmp_path / "pieces")
    last = max(made())
    assert made().count(last) == 1
