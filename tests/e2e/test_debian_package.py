"""The Debian package: what is in it, and its life on a bare Debian 12 in a chroot."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from pathlib import Path

import pytest

from chroots import Chroot, bare_debian

pytestmark = pytest.mark.full("package")

DEPLOY = Path(__file__).resolve().parents[2] / "deploy"


def build(folder, revision):
    built = subprocess.run(
        [str(DEPLOY / "debian/build_deb.sh"), str(folder)], capture_output=True, text=True,
        check=False, env={**os.environ, "HEARTH_DEB_REVISION": str(revision)})
    assert built.returncode == 0, built.stdout + built.stderr
    return Path(built.stdout.splitlines()[-1])


@pytest.fixture(scope="module")
def packages(tmp_path_factory):
    """One version and the next."""
    folder = tmp_path_factory.mktemp("packages")
    return build(folder, 1), build(folder, 2)


def test_what_is_in_it(packages, tmp_path):
    package = packages[0]
    subprocess.run(["dpkg-deb", "--raw-extract", str(package), str(tmp_path / "x")], check=True)
    files = {str(path.relative_to(tmp_path / "x")) for path in (tmp_path / "x").rglob("*")
             if path.is_file()}
    for file in ("usr/bin/hearthd", "usr/bin/hearth", "usr/bin/hearth-piece",
                 "usr/share/man/man1/hearth-piece.1.gz", "usr/lib/hearth/libtorch_cpu.so",
                 "lib/systemd/system/hearthd.service", "usr/lib/sysusers.d/hearth.conf",
                 "usr/lib/tmpfiles.d/hearth.conf", "etc/hearth/hearthd.yaml",
                 "usr/share/hearth/prometheus/alerts.yml", "usr/share/hearth/grafana/hearth.json",
                 "usr/share/bash-completion/completions/hearth",
                 "usr/share/zsh/vendor-completions/_hearth", "usr/share/man/man1/hearth.1.gz",
                 "usr/share/man/man1/hearth-train.1.gz", "usr/share/man/man8/hearthd.8.gz",
                 "usr/share/doc/hearth/guide/index.html", "usr/share/doc/hearth/copyright"):
        assert file in files
    assert not any(file.startswith("var/") for file in files)
    control = (tmp_path / "x/DEBIAN/control").read_text()
    assert re.search(r"^Depends: .*libgrpc\+\+1.*systemd", control, re.MULTILINE)
    assert (tmp_path / "x/DEBIAN/conffiles").read_text() == "/etc/hearth/hearthd.yaml\n"
    owners = subprocess.run(["dpkg-deb", "--contents", str(package)], capture_output=True,
                            text=True, check=True).stdout
    assert all(line.split()[1] == "root/root" for line in owners.splitlines())
    found = subprocess.run(["readelf", "--dynamic", str(tmp_path / "x/usr/bin/hearthd")],
                           capture_output=True, text=True, check=True).stdout
    assert "[$ORIGIN/../lib/hearth]" in found and "_solib" not in found


class PackagedDebian(Chroot):
    def with_daemon(self, script: str) -> str:
        """Runs a shell script while the daemon runs, which then stops as it should."""
        return self.run(f"""
            install -d -o hearth -g hearth /run/hearth
            export HEARTH_HOME=/var/lib/hearth
            runuser -u hearth -- hearthd --config /etc/hearth/hearthd.yaml 2>/tmp/log & daemon=$!
            until [ -e /run/hearth/addresses.json ]; do
              kill -0 $daemon || {{ cat /tmp/log; exit 1; }}
              sleep 0.1
            done
            {script}
            kill $(cut -d' ' -f1 /var/lib/hearth/hearth.lock)
            wait $daemon
            rm -f /run/hearth/addresses.json""")


@pytest.fixture
def bare(tmp_path):
    with bare_debian(tmp_path) as bare:
        yield PackagedDebian(bare.root)


TRAIN = """hearth train --dataset small --strategy gnndrive --cpu-cache 1MiB --model sage \\
    --fanouts 5,5 --hidden 16 --batch-size 128 --epochs 2 --seed 3 --output json"""


def digest(shown):
    return re.search(r'"loss_digest": *"(\w{64})"', shown)[1]


# As a terminal with bash-completion does when the first Tab is pressed.
COMPLETED = r"""bash -c '
    . /usr/share/bash-completion/bash_completion
    _completion_loader hearth || test $? = 124
    COMP_LINE="hearth train --strat" COMP_POINT=${#COMP_LINE}
    "$(complete -p hearth | sed "s/.*-F \([^ ]*\).*/\1/")"
    echo "${COMPREPLY[@]}"'"""


def check_help(bare):
    """The manual and the completion, by the shell's own means."""
    for page in ("hearth", "hearth-train", "8 hearthd"):
        shown = bare.run(f"MANPAGER=cat MANWIDTH=80 man --warnings {page} 2>&1")
        assert shown.startswith(page.split()[-1].upper()) and "warning" not in shown
    assert "hearthd" in bare.run("man -k hearth") and "hearth-train" in bare.run("man -k hearth")
    assert "--strategy" in bare.run(COMPLETED)


def test_it_has_its_manual_and_completion(packages, bare):
    bare.run("apt-get install -y -qq --no-install-recommends man-db bash-completion")
    for package in packages:
        bare.install(package)
        check_help(bare)
    bare.run("apt-get remove -y -qq hearth")
    assert not [path for path in (bare.root / "usr/share").rglob("*hearth*") if path.is_file()]
    bare.run("! man hearth 2>/tmp/none")


def test_it_starts_trains_upgrades_and_goes_without_the_data(packages, bare):
    first, second = packages
    bare.install(first)
    assert "hearth" in bare.run("getent passwd hearth")
    trained = bare.with_daemon(
        "hearth dataset generate small --nodes 4000 --edges 30000 --dim 32 --classes 4\n" + TRAIN)
    bare.run("echo '# mine' >>/etc/hearth/hearthd.yaml")

    bare.install(second)
    assert bare.run("dpkg-query -W -f='${Version}' hearth").endswith("-2")
    assert "# mine" in (bare.root / "etc/hearth/hearthd.yaml").read_text()
    again = bare.with_daemon("hearth job show train-2 --output json\n")
    assert digest(again) == digest(trained)
    assert digest(bare.with_daemon(TRAIN)) == digest(trained)

    data = bare.root / "var/lib/hearth"
    kept = sorted(path for path in data.rglob("*") if path.is_file())
    assert data / "jobs/train-2/model/model.safetensors" in kept
    bare.run("apt-get remove -y -qq hearth")
    assert not (bare.root / "usr/bin/hearthd").exists()
    assert not (bare.root / "usr/lib/hearth").exists()
    assert sorted(path for path in data.rglob("*") if path.is_file()) == kept
    bare.run("apt-get purge -y -qq hearth")
    assert not (bare.root / "etc/hearth/hearthd.yaml").exists()
    assert sorted(path for path in data.rglob("*") if path.is_file()) == kept


@pytest.fixture
def buildah(tmp_path):
    """Builds images without a daemon, in a store of its own."""
    if os.geteuid() != 0 or shutil.which("buildah") is None:
        pytest.skip("needs root and buildah (Debian: buildah)")

    def run(*arguments):
        done = subprocess.run(
            ["buildah", "--root", str(tmp_path / "store"), "--runroot", str(tmp_path / "run"),
             "--storage-driver", "vfs", *arguments], capture_output=True, text=True, check=False,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"})
        assert done.returncode == 0, f"{arguments}\n{done.stdout}\n{done.stderr}"
        return done.stdout.strip()
    yield run
    shutil.rmtree(tmp_path / "store")


def test_the_image_trains_as_an_ordinary_user(packages, bare, buildah, tmp_path):
    base = "localhost/debian:12-slim"
    container = buildah("from", "scratch")
    buildah("copy", "--quiet", container, str(bare.root), "/")
    buildah("commit", "--quiet", container, base)
    context = tmp_path / "context"
    context.mkdir()
    shutil.copy(packages[0], context)
    dockerfile = (DEPLOY / "docker/Dockerfile").read_text()
    (context / "Dockerfile").write_text(dockerfile.replace("FROM debian:12-slim", f"FROM {base}"))
    buildah("build", "--format", "docker", "--network", "host", "--tag", "hearth", str(context))
    container = buildah("from", "localhost/hearth")
    shown = buildah("run", "--network", "host", container, "--", "sh", "-ec", f"""
        [ $(id -u) = 7600 ]
        hearthd --data-dir /var/lib/hearth --metrics-listen '' \\
          --address-file /tmp/addresses 2>/tmp/log & daemon=$!
        until [ -e /tmp/addresses ]; do kill -0 $daemon || {{ cat /tmp/log; exit 1; }}; sleep 0.1; done
        export HEARTH_SERVER=$(sed 's/.*"grpc": "\\([^"]*\\)".*/\\1/' /tmp/addresses)
        hearth dataset generate small --nodes 4000 --edges 30000 --dim 32 --classes 4
        {TRAIN}
        kill $daemon
        wait $daemon""")
    assert digest(shown)
