"""hearth.ray.prepare with Ray as it is published, and the real daemon (`--full python`)."""

from __future__ import annotations

import shutil

import pytest

from jobs import QUICK_OPTIONS
from stored import plan_digests
from test_ray_preprocessing import client, made, program, ray  # noqa: F401

pytestmark = pytest.mark.full("python")

OPTIONS = {**QUICK_OPTIONS, "strategy": "diskgnn", "cpu_cache": "16KiB"}


@pytest.fixture
def wanted(daemon, client):  # noqa: F811
    """Digests of the plan that the daemon makes by itself, which is deleted then."""
    name = client.prepare(OPTIONS).preparation.plan
    found = plan_digests(daemon.data_dir, name)
    daemon.hearth("plan", "delete", name)
    return found


@pytest.fixture
def prepared(ray, daemon, client, wanted, tmp_path):  # noqa: F811
    """Prepares, compares the plan with the daemon's own, and deletes it."""
    import hearth.ray

    def call(**options):
        report = hearth.ray.prepare(OPTIONS, tmp_path / "pieces", client=client, **options)
        name = report.preparation.plan
        assert plan_digests(daemon.data_dir, name) == wanted
        assert not list((tmp_path / "pieces").glob("*.tmp"))
        return name
    yield call
    for plan in (daemon.data_dir / "plans").glob("diskgnn-*"):
        daemon.hearth("plan", "delete", plan.name)


@pytest.mark.parametrize("num_cpus", [1, 3], ids=["three-workers", "one-worker"])
def test_the_plan_is_that_of_the_daemon(prepared, daemon, client, made, tmp_path,  # noqa: F811
                                        num_cpus):
    name = prepared(num_cpus=num_cpus, num_pieces=5, threads=2)
    assert sorted(made()) == sorted([*range(5), *range(5)])
    digests = {client.result(client.train(options).id).loss_digest
               for options in ({**QUICK_OPTIONS, "strategy": "memory"}, OPTIONS)}
    assert len(digests) == 1
    # The next call finds all pieces, but for two.
    daemon.hearth("plan", "delete", name)
    shutil.rmtree(tmp_path / "pieces/packs-000001")
    shutil.rmtree(tmp_path / "pieces/packs-000003")
    prepared()
    assert sorted(made()[10:]) == [1, 3]


def test_workers_that_die_change_nothing(prepared, made, program):  # noqa: F811
    for index in (0, 2):
        (program.parent / "kill" / str(index)).touch()
    prepared(num_pieces=4)
    assert sorted(made()) == sorted([*range(4), *range(4), 0, 2])


def test_pieces_that_were_damaged_are_made_again(prepared, daemon, made, tmp_path):  # noqa: F811
    name = prepared(num_pieces=4)
    count = len(made())
    # Of both rounds: a piece of round 2 is made of damaged samples first.
    for piece in ("packs-000001/packs", "samples-000001/samples"):
        path = tmp_path / "pieces" / piece
        middle = path.stat().st_size // 2
        content = bytearray(path.read_bytes())
        content[middle] ^= 1
        path.write_bytes(content)
    daemon.hearth("plan", "delete", name)
    prepared(retries=0)
    assert set(made()[count:]) == {1}
