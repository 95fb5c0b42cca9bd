"""The trace that a client's calls belong to (W3C Trace Context)."""

from __future__ import annotations

import os
import re
import secrets

_FORM = re.compile(r"(?!ff)[0-9a-f]{2}-(?!0{32})[0-9a-f]{32}-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}")


def trace_parent() -> str:
    """The "traceparent" of each call: $TRACEPARENT, else that of a new trace."""
    given = os.environ.get("TRACEPARENT", "")
    if _FORM.fullmatch(given):
        return given
    return f"00-{secrets.token_hex(16)}-{secrets.token_hex(8)}-00"
