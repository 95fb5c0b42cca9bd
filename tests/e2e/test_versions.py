"""A daemon refuses clients of a version that it does not speak with, and says so."""

from __future__ import annotations

import pytest

pytest.importorskip("grpc", reason="grpcio is not installed")
import grpc  # noqa: E402

from daemon import HEARTH, HEARTHD, run  # noqa: E402


def ask(daemon, method, version):
    """Sends an empty request; returns the code and the message of the answer."""
    metadata = [("hearth-version", version)] if version else []
    with grpc.insecure_channel(daemon.address) as channel:
        call = channel.unary_unary(f"/hearth.v1.{method}")
        try:
            call(b"", metadata=metadata, timeout=60)
        except grpc.RpcError as error:
            return error.code(), error.details()
    return grpc.StatusCode.OK, ""


@pytest.mark.parametrize("version, words", [("99.0.0", "older than this client, 99.0.0"),
                                            ("0.0.1", "newer than this client, 0.0.1")])
def test_a_client_of_another_line_is_refused(daemon, version, words):
    code, message = ask(daemon, "Jobs/ListJobs", version)
    assert code == grpc.StatusCode.FAILED_PRECONDITION
    assert words in message and "install the same version of both" in message


def test_any_client_is_told_the_daemons_version(daemon):
    assert ask(daemon, "Admin/GetStatus", "99.0.0")[0] == grpc.StatusCode.OK


def test_programs_that_name_no_version_are_served(daemon):
    assert ask(daemon, "Jobs/ListJobs", "")[0] == grpc.StatusCode.OK
    assert ask(daemon, "Jobs/ListJobs", "of my own")[0] == grpc.StatusCode.OK


def test_client_and_daemon_of_one_build_have_one_version(daemon):
    versions = {run([program, "--version"]).out.split()[1] for program in (HEARTH, HEARTHD)}
    assert versions == {daemon.json("status")["version"]}
