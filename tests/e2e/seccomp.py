"""A container runtime's seccomp profile, put in force as a runtime does, by libseccomp."""

from __future__ import annotations

import ctypes
import json
from pathlib import Path
from typing import Callable, Iterable

PROFILE = Path(__file__).resolve().parents[2] / "deploy/docker/seccomp.json"
IO_URING = ("io_uring_setup", "io_uring_enter", "io_uring_register")
_ALLOW = 0x7FFF0000
_ERRNO = 0x00050000
_UNKNOWN = -1
_COMPARISONS = {"SCMP_CMP_EQ": 4, "SCMP_CMP_MASKED_EQ": 7}
_PR_SET_NO_NEW_PRIVS = 38


class _Argument(ctypes.Structure):
    _fields_ = [("arg", ctypes.c_uint), ("op", ctypes.c_int),
                ("a", ctypes.c_uint64), ("b", ctypes.c_uint64)]


def _action(entry: dict, key: str, number: str) -> int:
    return _ALLOW if entry[key] == "SCMP_ACT_ALLOW" else _ERRNO | entry[number]


def under_profile(without: Iterable[str] = ()) -> Callable[[], None]:
    """What a process calls, before it becomes another program, to be under the profile; less
    the system calls `without`."""
    profile = json.loads(PROFILE.read_text())
    seccomp = ctypes.CDLL("libseccomp.so.2")
    seccomp.seccomp_init.restype = ctypes.c_void_p
    context = ctypes.c_void_p(
        seccomp.seccomp_init(_action(profile, "defaultAction", "defaultErrnoRet")))
    for entry in profile["syscalls"]:
        arguments = [_Argument(one["index"], _COMPARISONS[one["op"]], one["value"],
                               one.get("valueTwo", 0)) for one in entry.get("args", ())]
        compared = (_Argument * len(arguments))(*arguments)
        for name in entry["names"]:
            number = seccomp.seccomp_syscall_resolve_name(name.encode())
            if number == _UNKNOWN or name in without:
                continue
            failed = seccomp.seccomp_rule_add_array(
                context, _action(entry, "action", "errnoRet"), number, len(arguments), compared)
            assert failed == 0, name
    libc = ctypes.CDLL(None)

    def enforce() -> None:
        assert libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0
        assert seccomp.seccomp_load(context) == 0
    return enforce
