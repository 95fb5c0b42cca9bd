"""What Hearth ships for containers and clusters: the seccomp profile, the manifests for
Kubernetes, the batch script for Slurm."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from pathlib import Path

import pytest

import seccomp
from daemon import HEARTH, HEARTHD, PATIENCE_SECONDS, wait_for
from jobs import LONG, QUICK

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"
GNNDRIVE = (*QUICK, "--strategy", "gnndrive", "--cpu-cache", "64KiB")


@pytest.fixture
def start_confined(start_daemon, monkeypatch):
    """Starts a daemon under the seccomp profile, less the system calls `without`."""
    launched = subprocess.Popen

    def start(without=()):
        confine = seccomp.under_profile(without)
        with monkeypatch.context() as patch:
            patch.setattr(subprocess, "Popen", lambda *arguments, **options: launched(
                *arguments, preexec_fn=confine, **options))
            return start_daemon()
    return start


def trained(daemon, graph_folder):
    daemon.import_graph("planted", graph_folder)
    return daemon.json(*GNNDRIVE)["report"]["loss_digest"]


def test_the_profile_allows_all_that_the_daemon_does(start_confined, daemon, graph_folder):
    confined = start_confined()
    assert confined.json("status")["read_queues"] == "io_uring"
    assert trained(confined, graph_folder) == daemon.json(*GNNDRIVE)["report"]["loss_digest"]
    confined.json("export", "train-2", "--to", str(confined.data_dir.parent / "model"))
    assert "Seccomp:\t2" in Path(f"/proc/{confined.pid}/status").read_text()
    confined.stop()


def test_without_io_uring_threads_read_the_same(start_confined, daemon, graph_folder):
    confined = start_confined(without=seccomp.IO_URING)
    assert confined.json("status")["read_queues"] == "threads"
    assert trained(confined, graph_folder) == daemon.json(*GNNDRIVE)["report"]["loss_digest"]


def test_the_image_is_of_an_ordinary_user():
    lines = (DEPLOY / "docker/Dockerfile").read_text().splitlines()
    users = [line for line in lines if line.startswith("USER ")]
    assert users == ["USER 7600:7600"]
    assert lines.index(users[0]) > max(i for i, line in enumerate(lines) if line.startswith("RUN"))


@pytest.fixture
def batch(tmp_path, graph_folder):
    """Runs the batch script as Slurm does."""
    binaries = tmp_path / "bin"
    binaries.mkdir()
    for name, path in (("hearthd", HEARTHD), ("hearth", HEARTH)):
        (binaries / name).symlink_to(Path(path).resolve())
    (tmp_path / "models").mkdir()
    environment = {**os.environ, "PATH": f"{binaries}:{os.environ['PATH']}",
                   "SOURCE": str(graph_folder), "RESULTS": str(tmp_path / "models"),
                   "SCRATCH": str(tmp_path / "nvme"), "SLURM_MEM_PER_NODE": "4096"}
    (tmp_path / "nvme").mkdir()

    def start(job, number):
        options = job[job.index("--model"):]
        return subprocess.Popen([str(DEPLOY / "slurm/train.sbatch"), *options], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                env={**environment, "SLURM_JOB_ID": str(number)})
    return start


def test_a_batch_job_leaves_a_model(batch, tmp_path):
    running = batch(QUICK, 7)
    output, _ = running.communicate(timeout=PATIENCE_SECONDS)
    assert running.returncode == 0, output
    assert (tmp_path / "models/run-7/model.safetensors").exists()


def test_a_batch_job_at_its_time_limit_goes_on_in_the_next(batch, tmp_path):
    first = batch(LONG, 8)
    checkpoints = tmp_path / "nvme/hearth/jobs"
    wait_for(lambda: list(checkpoints.glob("train-*/checkpoint*")), "a checkpoint")
    first.send_signal(signal.SIGTERM)
    output, _ = first.communicate(timeout=PATIENCE_SECONDS)
    assert first.returncode == 130, output
    second = batch(LONG, 9)
    output, _ = second.communicate(timeout=PATIENCE_SECONDS)
    assert second.returncode == 0, output
    assert (tmp_path / "models/run-9/model.safetensors").exists()
    assert len(list(checkpoints.glob("train-*"))) == 1, "it was begun anew"


def documents():
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    for manifest in sorted((DEPLOY / "kubernetes").glob("*.yaml")):
        for document in yaml.safe_load_all(manifest.read_text()):
            yield manifest.name, document


def check(client, kind, value, where):
    """Fails unless `value` is one of the API's `kind`: no field that it has not, none that it
    must have missing, each of its type. The types are those of Kubernetes' own client, which
    is made from its published schema."""
    if found := re.fullmatch(r"[Ll]ist\[(.+)\]", kind):
        assert isinstance(value, list), where
        for i, item in enumerate(value):
            check(client, found[1], item, f"{where}[{i}]")
    elif found := re.fullmatch(r"[Dd]ict[\[(]str, (.+)[\])]", kind):
        assert isinstance(value, dict), where
        for key, item in value.items():
            check(client, found[1], item, f"{where}.{key}")
    elif kind in ("str", "int", "bool"):
        assert type(value).__name__ == kind, f"{where}: {value!r} is no {kind}"
    elif kind != "object":
        model = getattr(client, kind)
        names = {json_name: name for name, json_name in model.attribute_map.items()}
        for field, item in value.items():
            assert field in names, f"{where}: no field {field}"
            check(client, model.openapi_types[names[field]], item, f"{where}.{field}")
        # The constructor refuses what lacks a field that must be there.
        model(**{names[field]: item for field, item in value.items()})


@pytest.mark.full("manifests")
def test_manifests_follow_the_schema():
    client = pytest.importorskip("kubernetes.client", reason="kubernetes is not installed")
    kinds = {"Service": "V1Service", "StatefulSet": "V1StatefulSet",
             "PodDisruptionBudget": "V1PodDisruptionBudget", "StorageClass": "V1StorageClass"}
    found = []
    for name, document in documents():
        if document["kind"] == "JobSet":
            continue
        found.append(document["kind"])
        check(client, kinds[document["kind"]], document, f"{name}: {document['kind']}")
    assert sorted(found) == sorted(kinds)


def job_set():
    (found,) = (document for _, document in documents() if document["kind"] == "JobSet")
    return found


@pytest.mark.full("manifests")
def test_the_job_set_follows_its_schema():
    models = pytest.importorskip("kubeflow_trainer_api.models",
                                 reason="kubeflow-trainer-api is not installed")
    found = job_set()
    # A field that the schema lacks is lost, and a wrong or missing one raises.
    assert models.JobsetV1alpha2JobSet.from_dict(found).to_dict() == found


@pytest.mark.full("manifests")
def test_pods_of_the_job_set_are_ranks_that_find_each_other():
    found = job_set()
    name, spec = found["metadata"]["name"], found["spec"]
    (machine,) = spec["replicatedJobs"]
    job = machine["template"]["spec"]
    assert machine["replicas"] == 1 and job["completionMode"] == "Indexed"
    assert job["completions"] == job["parallelism"]
    pod = job["template"]["spec"]
    (container,) = pod["containers"]
    values = {one["name"]: one.get("value") for one in container["env"]}
    assert values["HEARTH_RANKS"] == str(job["completions"])
    assert (values["HEARTH_LEADER"] ==
            f"{name}-{machine['name']}-0-0.{spec['network']['subdomain']}")
    assert spec["network"]["enableDNSHostnames"]
    (term,) = pod["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert term["labelSelector"]["matchLabels"] == {"jobset.sigs.k8s.io/jobset-name": name}
    assert_confined(pod, {volume["name"] for volume in pod["volumes"]})


def assert_confined(pod, volumes):
    assert pod["securityContext"]["runAsNonRoot"] and pod["securityContext"]["runAsUser"] == 7600
    container = pod["containers"][0]
    assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
    assert not container["securityContext"]["allowPrivilegeEscalation"]
    assert {mount["name"] for mount in container["volumeMounts"]} == volumes


@pytest.mark.full("manifests")
def test_the_pod_is_confined_and_finds_what_it_names():
    by_kind = {document["kind"]: document for _, document in documents()}
    spec = by_kind["StatefulSet"]["spec"]
    pod = spec["template"]["spec"]
    claims = {claim["metadata"]["name"] for claim in spec["volumeClaimTemplates"]}
    assert_confined(pod, claims | {volume["name"] for volume in pod["volumes"]})
    container = pod["containers"][0]
    claim = spec["volumeClaimTemplates"][0]["spec"]
    assert claim["storageClassName"] == by_kind["StorageClass"]["metadata"]["name"]
    assert spec["serviceName"] == by_kind["Service"]["metadata"]["name"]
    assert spec["selector"]["matchLabels"].items() <= \
        spec["template"]["metadata"]["labels"].items()
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container[probe]["exec"]["command"] == ["hearth", "status"]
