"""hearth.ray.preprocess, by a Ray that runs tasks at once and a hearth-piece of a few lines."""

from __future__ import annotations

import importlib
import json
import sys
from pathlib import Path
from types import ModuleType, SimpleNamespace

import pytest

grpc = pytest.importorskip("grpc", reason="grpcio is not installed")

import hearth  # noqa: E402
from hearth import pieces  # noqa: E402
from hearth.v1 import report_pb2  # noqa: E402

# A piece is a line of a text; lines "x" are wrong, and "damaged" is not what was written. A file
# fail-I beside a text lets piece I fail as many times as it has bytes.
PROGRAM = """#!/usr/bin/env python3
import json, os, sys
arguments = sys.argv[1:]
def after(flag):
    return arguments[arguments.index(flag) + 1]
def name(index):
    return f"piece-{index:06d}.edges"
if arguments[0] == "plan":
    folder, text, *flags = arguments[1:]
    texts = [text]
    open(os.path.dirname(text) + "/flags", "w").write(" ".join(flags))
    os.makedirs(folder, exist_ok=True)
    lines = [[text, line] for text in texts for line in open(text).read().split()]
    json.dump(lines, open(folder + "/pieces.json", "w"))
    print(len(lines), "pieces in", folder)
elif arguments[0] == "check":
    plan = after("--of")
    for index, (text, line) in enumerate(json.load(open(plan))):
        path = os.path.join(os.path.dirname(plan), name(index))
        if not os.path.exists(path):
            print(f"{index}: is missing")
        elif "--contents" in arguments and open(path).read() == "damaged":
            print(f"{index}: is damaged")
else:
    index = int(after("--index"))
    text, line = json.load(open(after("--of")))[index]
    with open(os.path.dirname(text) + "/made", "a") as made:
        made.write(f"{index} ")
    fail = f"{os.path.dirname(text)}/fail-{index}"
    if line == "x":
        print("hearth-piece: x is no edge", file=sys.stderr)
        sys.exit(2)
    if os.path.exists(fail) and (left := os.path.getsize(fail)):
        os.truncate(fail, left - 1)
        sys.exit("hearth-piece: the disk is on fire")
    open(os.path.join(after("--to"), name(index)), "w").write(line)
"""


class RayError(Exception):
    pass


class Task:
    def __init__(self, *parts):
        self.parts = parts


class FakeRay(ModuleType):
    """Runs a task when it is waited for, the last one first, and repeats it as Ray does."""

    def __init__(self) -> None:
        super().__init__("ray")
        self.exceptions = SimpleNamespace(RayError=RayError)
        self.asked = []
        self.cancelled = []

    def remote(self, function):
        def options(**options):
            self.asked.append(options)
            return SimpleNamespace(remote=lambda *arguments: Task(function, arguments, options))
        return SimpleNamespace(options=options)

    def put(self, value):
        return SimpleNamespace(value=value)

    def wait(self, tasks, num_returns):
        assert num_returns == 1
        return tasks[-1:], tasks[:-1]

    def get(self, task):
        function, arguments, options = task.parts
        arguments = [one.value if isinstance(one, SimpleNamespace) else one for one in arguments]
        for left in range(options["max_retries"], -1, -1):
            try:
                return function(*arguments)
            except Exception as error:
                if not options["retry_exceptions"] or left == 0:
                    raise RayError(f"{error}") from error

    def cancel(self, task):
        self.cancelled.append(task)


class StubClient:
    """Keeps what is imported; fails as often as told."""

    def __init__(self, fail=0, before=lambda folder: None):
        self.imports = []
        self.fail = fail
        self.before = before

    def datasets(self):
        return [SimpleNamespace(name="taken")]

    def import_dataset(self, name, source, *, priority, **options):
        self.before(Path(source))
        self.imports.append((name, sorted(path.name for path in Path(source).iterdir()), options))
        if self.fail:
            self.fail -= 1
            raise hearth.JobFailed("import-1", grpc.StatusCode.DATA_LOSS, "piece 1 is damaged")
        return SimpleNamespace(name=name)


@pytest.fixture
def ray(monkeypatch, tmp_path):
    program = tmp_path / "hearth-piece"
    program.write_text(PROGRAM)
    program.chmod(0o700)
    monkeypatch.setenv("HEARTH_PIECE", str(program))
    fake = FakeRay()
    for name in ("hearth.ray", "hearth.ray.preparation", "hearth.ray.preprocessing",
                 "hearth.ray.tasks", "hearth.ray.trainable"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    monkeypatch.setitem(sys.modules, "ray", fake)
    yield fake
    # Others get the real one, or none.
    for name in ("hearth.ray", "hearth.ray.preparation", "hearth.ray.preprocessing",
                 "hearth.ray.tasks"):
        sys.modules.pop(name, None)


@pytest.fixture
def preprocess(ray):
    return importlib.import_module("hearth.ray").preprocess


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "texts/edges.txt"
    path.parent.mkdir()
    path.write_text("a b c d")
    return path


def made(text):
    """Pieces in the order in which they were made."""
    path = text.parent / "made"
    return path.read_text().split() if path.exists() else []


ALL = [*(pieces.piece_name(i) for i in range(4)), "pieces.json"]


def test_all_pieces_are_made_and_the_folder_is_imported(ray, preprocess, text, tmp_path):
    client = StubClient()
    folder = tmp_path / "pieces"
    dataset = preprocess("graph", text, folder, client=client, num_cpus=0.5, retries=7,
                         undirected=True)
    assert dataset.name == "graph"
    assert client.imports == [("graph", ALL, {"undirected": True})]
    assert sorted(made(text)) == ["0", "1", "2", "3"]
    assert ray.asked == [{"num_cpus": 0.5, "max_retries": 7, "retry_exceptions": True}]
    assert [(folder / name).read_text() for name in ALL[:4]] == ["a", "b", "c", "d"]


def test_how_lines_are_read_is_of_the_plan(preprocess, text, tmp_path):
    preprocess("graph", text, tmp_path / "a", client=StubClient())
    assert (text.parent / "flags").read_text() == ""
    client = StubClient()
    preprocess("graph", text, tmp_path / "b", client=client, piece_size="1MiB", relabel=True,
               header=False, columns=["1", "3"])
    assert (text.parent / "flags").read_text() == \
        "--piece-size 1MiB --relabel --header no --columns 1,3"
    assert client.imports[0][2] == {}


def test_a_call_goes_on_where_an_earlier_one_ended(preprocess, text, tmp_path):
    folder = tmp_path / "pieces"
    folder.mkdir()
    (folder / pieces.piece_name(2)).write_text("c")
    left = folder / f"{pieces.piece_name(1)}.0123456789abcdef.tmp"
    other = folder / "notes.tmp"
    left.touch()
    other.touch()
    preprocess("graph", [text], str(folder), client=StubClient())
    assert sorted(made(text)) == ["0", "1", "3"]
    # What killed processes have left goes, and nothing else.
    assert not left.exists() and other.exists()


def test_tasks_are_repeated_but_not_for_ever(preprocess, text, tmp_path):
    (text.parent / "fail-1").write_text("..")
    client = StubClient()
    preprocess("graph", text, tmp_path / "pieces", client=client, retries=2)
    assert made(text).count("1") == 3 and len(client.imports) == 1
    (text.parent / "fail-0").write_text("..")
    (tmp_path / "pieces" / pieces.piece_name(0)).unlink()
    with pytest.raises(hearth.HearthError, match="piece 0 could not be made: the disk is on fire"):
        preprocess("graph", text, tmp_path / "pieces", client=client, retries=1)
    assert len(client.imports) == 1


def test_a_wrong_text_is_not_read_again(ray, preprocess, text, tmp_path):
    text.write_text("a b c x")
    client = StubClient()
    with pytest.raises(hearth.InvalidRequest, match="x is no edge"):
        preprocess("graph", text, tmp_path / "pieces", client=client, retries=5)
    assert made(text) == ["3"] and len(ray.cancelled) == 3 and client.imports == []


def test_damaged_pieces_are_made_again_once(preprocess, text, tmp_path):
    folder = tmp_path / "pieces"

    def damage(_):
        if not client.imports:
            (folder / pieces.piece_name(1)).write_text("damaged")

    client = StubClient(fail=1, before=damage)
    preprocess("graph", text, folder, client=client)
    assert made(text).count("1") == 2 and len(client.imports) == 2
    # A failure of another kind is the job's.
    with pytest.raises(hearth.JobFailed):
        preprocess("graph", text, folder, client=StubClient(fail=1))
    assert made(text).count("1") == 2


def test_a_wrong_option_is_refused_before_anything_is_read(preprocess, text, tmp_path):
    with pytest.raises(hearth.InvalidRequest, match="undirekted"):
        preprocess("graph", text, tmp_path / "pieces", client=StubClient(), undirekted=True)
    assert not (tmp_path / "pieces").exists()


def test_a_name_that_is_taken_is_refused_before_anything_is_read(preprocess, text, tmp_path):
    with pytest.raises(hearth.HearthError) as refused:
        preprocess("taken", text, tmp_path / "pieces", client=StubClient())
    assert refused.value.code is grpc.StatusCode.ALREADY_EXISTS
    assert not (tmp_path / "pieces").exists()


def test_pieces_in_a_storage_are_brought_to_the_daemon(preprocess, text, tmp_path):
    pytest.importorskip("fsspec", reason="fsspec is not installed")
    storage, staging = tmp_path / "bucket", tmp_path / "staging"
    storage.mkdir()
    (storage / pieces.piece_name(0)).write_text("a")
    client = StubClient()
    preprocess("graph", text, f"file://{storage}", client=client, staging=staging)
    assert sorted(made(text)) == ["1", "2", "3"]
    assert client.imports == [("graph", ALL, {})]
    for place in (storage, staging):
        assert [(place / name).read_text() for name in ALL[:4]] == ["a", "b", "c", "d"]
    # Another plan does not mix with these pieces.
    text.write_text("a b")
    with pytest.raises(hearth.HearthError, match="is another plan"):
        preprocess("graph", text, f"file://{storage}", client=client)
    assert json.loads((storage / "pieces.json").read_text())[3][1] == "d"


def test_without_the_program_the_error_tells_how_to_get_it(preprocess, text, tmp_path,
                                                           monkeypatch):
    monkeypatch.setenv("HEARTH_PIECE", str(tmp_path / "none"))
    with pytest.raises(hearth.HearthError, match="HEARTH_PIECE names .*none, which is no program"):
        preprocess("graph", text, tmp_path / "pieces", client=StubClient())


class PreparingClient:
    """Asks for the pieces of two rounds, then has the plan; pieces are as PROGRAM makes them."""

    def __init__(self, text):
        self.text = text
        self.asked = []

    def prepare(self, options, *, priority):
        self.asked.append(options)
        folder = Path(options["pieces"])
        folder.mkdir(exist_ok=True)
        for name, line in (("samples.json", "a b"), ("packs.json", "c d e")):
            plan = folder / name
            if not plan.exists():
                plan.write_text(json.dumps([[str(self.text), one] for one in line.split()]))
            if pieces.missing(plan, contents=True):
                to_make = report_pb2.PiecesToMake(plan=str(plan))
                return SimpleNamespace(preparation=SimpleNamespace(
                    message=report_pb2.PreparationReport(to_make=to_make)))
        return SimpleNamespace(preparation=SimpleNamespace(
            message=report_pb2.PreparationReport(plan="made"), plan="made"))


@pytest.fixture
def prepare(ray):
    ray.cluster_resources = lambda: {"CPU": 6.0}
    return importlib.import_module("hearth.ray").prepare


def test_the_rounds_of_a_plan_follow_each_other(ray, prepare, text, tmp_path):
    client = PreparingClient(text)
    left = tmp_path / "pieces" / "packs-000001.0123456789abcdef.tmp"
    left.mkdir(parents=True)
    report = prepare({"dataset": "graph"}, tmp_path / "pieces", client=client, num_cpus=2)
    assert report.preparation.plan == "made" and not left.exists()
    # Two pieces, then the third: the program has one name for the pieces of both rounds.
    assert made(text) == ["1", "0", "2"]
    assert client.asked == 3 * [{"dataset": "graph", "pieces": str(tmp_path / "pieces"),
                                 "num_pieces": 3}]
    assert {asked["num_cpus"] for asked in ray.asked} == {2}


def test_a_round_that_fails_is_told(prepare, text, tmp_path):
    (text.parent / "fail-1").write_text("....")
    with pytest.raises(hearth.HearthError, match="piece 1 could not be made: the disk is on fire"):
        prepare({}, tmp_path / "pieces", client=PreparingClient(text), retries=1, num_pieces=2)
