"""Says in words why no connection could be made, the same for every transport."""

from __future__ import annotations

import os
import socket
import ssl

from workers.loadgen.transport import CONNECT_LIMIT_S


def connect_words(error: BaseException, host: str, port: int, role: str = "") -> str:
    """`role` goes before the host: "the proxy "."""
    place = f"{role}{host} port {port}"
    if isinstance(error, ssl.SSLCertVerificationError):
        hint = "name a file with its authority as ca_file, or set verify_tls to false"
        return f"certificate not trusted: {error.verify_message} ({place}); {hint}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS at {place}: {error.reason or error}; is the address https?"
    if isinstance(error, socket.gaierror):
        return f"{role or 'the host '}{host} cannot be resolved: {error.strerror}"
    if isinstance(error, TimeoutError) and error.errno is None:
        return f"no connection to {place} within {CONNECT_LIMIT_S:.0f} s"
    words = os.strerror(error.errno) if isinstance(error, OSError) and error.errno else str(error)
    return f"no connection to {place}: {words or 'it closed the connection'}"
