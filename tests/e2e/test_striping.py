"""Features striped over data disks: the results of `memory`, stripes that jobs share, that go with
their dataset, that are found damaged, and that a kill leaves whole or unused."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from daemon import HEARTHD, TIRELESS, run, wait_for
from jobs import QUICK
from memory_disk import mounted

STRIPED = (*QUICK, "--strategy", "gids", "--striped", "true")
# Every row is read from a disk.
NONE = ("--cpu-cache", "0", "--window-cache", "0")
# The large graph: 25 MB of features, of which the job itself reads few.
LARGE = (*STRIPED, *NONE, "--dataset", "large", "--epochs", "1", "--batch-size", "500",
         "--fanouts", "1,1")


def make_disks(tmp_path: Path, count: int) -> list[Path]:
    folders = [tmp_path / f"disk{number}" for number in range(count)]
    for folder in folders:
        folder.mkdir()
    return folders


def flags(folders: list[Path]) -> list[str]:
    return [word for folder in folders for word in ("--data-disk", str(folder))]


def stripes(folder: Path) -> list[Path]:
    """The folders of plans on a data disk."""
    return sorted((folder / "hearth").glob("stripe-*"))


@pytest.fixture(scope="module")
def expected(daemon):
    """The digest of training with everything in memory."""
    return daemon.json(*QUICK, "--strategy", "memory")["report"]["loss_digest"]


@pytest.fixture
def disks(tmp_path):
    return make_disks(tmp_path, 3)


@pytest.fixture
def striping(start_daemon, disks, graph_folder):
    """A daemon with three data disks, and the dataset `planted`."""
    daemon = start_daemon(*flags(disks))
    daemon.import_graph("planted", graph_folder)
    return daemon


def digest(daemon, *options):
    return daemon.json(*STRIPED, *options)["report"]["loss_digest"]


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("options", [
    (), NONE, ("--merge-max", "1", "--cpu-cache", "16KiB", "--io-depth", "4", "--samplers", "3"),
], ids=["defaults", "uncached", "narrow"])
def test_training_is_that_of_memory(start_daemon, tmp_path, graph_folder, expected, count, options):
    daemon = start_daemon(*flags(make_disks(tmp_path, count)))
    daemon.import_graph("planted", graph_folder)
    report = daemon.json(*STRIPED, *options)["report"]
    assert report["loss_digest"] == expected
    assert report["peak_memory_bytes"] <= report["memory_bound_bytes"]


def test_heterographs_are_striped_too(start_daemon, disks, typed_folder):
    daemon = start_daemon(*flags(disks))
    daemon.json("dataset", "import", "planted", "--source", str(typed_folder))
    job = (*QUICK, "--model", "rsage")
    memory = daemon.json(*job, "--strategy", "memory")["report"]
    report = daemon.json(*job, "--strategy", "gids", "--striped", "true", *NONE)["report"]
    assert report["loss_digest"] == memory["loss_digest"]
    for disk in disks:
        plan, = stripes(disk)
        assert {"features-0", "features-1", "features-2"} <= {file.name for file in plan.iterdir()}


def test_stripes_are_made_once_and_shown(striping, disks, expected):
    job = (*STRIPED, *NONE)
    told = striping.json("explain", *job[1:])["report"]
    assert not told["plan_exists"]
    assert any("striped over 3 data disks" in note for note in told["notes"])
    first = striping.json(*job)["report"]
    made, = first["preparations"]
    assert not made["reused"] and made["plan"] == told["plan"]
    assert made["phases"][0]["name"] == "striping"
    assert made["disk_bytes"] == told["disk_bytes"] > 3000 * 32 * 4
    assert first["loss_digest"] == expected
    # Another job, of other batches and options, finds them.
    found, = striping.json(*job, "--batch-size", "50", "--io-depth", "8")["report"]["preparations"]
    assert found["reused"] and found["plan"] == made["plan"]
    assert striping.json("explain", *job[1:])["report"]["plan_exists"]

    plans = striping.json("plan", "list")["plans"]
    assert len(plans) == 3
    for disk in disks:
        folder, = stripes(disk)
        plan, = (one for one in plans if one["name"] == folder.name)
        assert plan["state"] == "WHOLE" and plan["datasets"] == ["planted"]
        assert plan["size_bytes"] >= sum(file.stat().st_size for file in folder.glob("features-*"))
        facts = {fact["name"]: fact["value"] for fact in plan["properties"]}
        assert facts["folder"] == str(disk / "hearth") and facts["disk"].endswith("of 3")
    shown = striping.hearth("plan", "show", plans[0]["name"]).out
    assert "of 3" in shown
    status = striping.json("status")
    assert [disk["folder"] for disk in status["data_disks"]] == [str(disk) for disk in disks]
    assert sum(disk["plan_bytes"] for disk in status["data_disks"]) == \
        sum(plan["size_bytes"] for plan in plans)
    assert "data disk" in striping.hearth("status").out
    assert f'hearth_data_disk_free_bytes{{folder="{disks[0]}"}}' in striping.metrics()


def test_stripes_stay_through_a_restart_and_go_with_their_dataset(striping, disks, expected):
    assert digest(striping) == expected
    striping.stop()
    striping.start()
    report = striping.json(*STRIPED)["report"]
    assert report["loss_digest"] == expected and report["preparations"][0]["reused"]
    gone, = stripes(disks[1])
    striping.hearth("plan", "delete", gone.name)
    assert not stripes(disks[1]) and stripes(disks[0])
    assert digest(striping, *NONE) == expected
    assert stripes(disks[1]) == [gone]
    striping.hearth("dataset", "delete", "planted")
    assert not any(stripes(disk) for disk in disks)
    assert not striping.json("plan", "list").get("plans")


def test_a_damaged_stripe_is_named_and_made_anew(striping, disks, expected):
    assert digest(striping, *NONE) == expected
    folder, = stripes(disks[2])
    file = folder / "features-0"
    data = bytearray(file.read_bytes())
    data[::64] = bytes(byte ^ 1 for byte in data[::64])
    file.write_bytes(data)
    failed = striping.hearth(*STRIPED, *NONE, code=None)
    assert failed.code != 0
    assert "DATA_LOSS" in failed.err and str(file) in failed.err, failed.err
    states = {plan["name"]: plan["state"] for plan in striping.json("plan", "list")["plans"]}
    assert states[folder.name] == "DAMAGED" and list(states.values()).count("WHOLE") == 2
    assert digest(striping, *NONE) == expected


def test_a_kill_at_any_moment_leaves_nothing_unfinished_in_use(start_daemon, tmp_path, other_folder):
    folders = make_disks(tmp_path, 2)
    daemon = start_daemon(*flags(folders), *TIRELESS)
    daemon.import_graph("large", other_folder)
    memory = (*QUICK, "--dataset", "large", "--epochs", "1", "--batch-size", "500",
              "--fanouts", "1,1", "--strategy", "memory")
    alone = daemon.json(*memory)["report"]["loss_digest"]
    for kill in range(4):
        for plan in daemon.json("plan", "list").get("plans", []):
            daemon.hearth("plan", "delete", plan["name"])
        job = daemon.hearth(*LARGE, "--detach").out.strip()
        wait_for(lambda: any(stripes(folder) for folder in folders) or None, "stripes")
        time.sleep(0.015 * kill)
        daemon.kill()
        daemon.start()
        assert daemon.wait_for_state(job, "SUCCEEDED", "FAILED") == "SUCCEEDED"
        assert daemon.json("job", "show", job)["report"]["loss_digest"] == alone


def test_a_disk_without_room_is_named_and_the_job_waits_for_it(start_daemon, tmp_path, other_folder):
    plenty, = make_disks(tmp_path, 1)
    with mounted(tmp_path / "small", 16 << 20, "--lazy") as small:
        filler = small / "filler"
        filler.write_bytes(bytes(8 << 20))
        daemon = start_daemon(*flags([plenty, small]))
        daemon.import_graph("large", other_folder)
        told = daemon.json("explain", *LARGE[1:])["report"]
        assert any("would wait for disk space" in note and str(small) in note
                   for note in told["notes"])
        job = daemon.hearth(*LARGE, "--detach").out.strip()
        daemon.wait_for_state(job, "WAITING")
        shown = daemon.hearth("job", "show", job).out
        assert str(small / "hearth") in shown and "stripes need" in shown
        assert str(plenty / "hearth") not in shown
        assert not list(plenty.glob("hearth/stripe-*/features-*"))
        filler.unlink()
        daemon.wait_for_state(job, "SUCCEEDED")
        daemon.kill()


def test_without_data_disks_such_jobs_are_refused(daemon):
    refused = daemon.hearth(*STRIPED, code=1)
    assert "--striped: must be false: this daemon has no --data-disk" in refused.err
    other = daemon.hearth(*QUICK, "--strategy", "mmap", "--striped", "true", code=2)
    assert "--striped" in other.err


def test_folders_that_cannot_be_used_end_the_start(tmp_path, striping, disks):
    def start(*folders):
        ended = run([HEARTHD, "--data-dir", str(tmp_path / "other"), "--metrics-listen", "",
                     *flags(folders)])
        assert ended.code != 0
        return ended.err

    one = tmp_path / "one"
    one.mkdir()
    (tmp_path / "file").write_text("")
    assert f"--data-disk {tmp_path / 'none'}: there is no such folder" in start(tmp_path / "none")
    assert f"--data-disk {tmp_path / 'file'}: is not a folder" in start(tmp_path / "file")
    assert "the same folder" in start(one, one)
    assert "--data-disk" in start(Path("relative")) and "absolute" in start(Path("relative"))
    assert f"--data-disk {disks[0]}: " in start(disks[0])
    assert "in use by another hearthd, process" in start(disks[0])
