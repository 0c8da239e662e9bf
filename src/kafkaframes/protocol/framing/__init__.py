"""One connection's bytes, without I/O: frames, the client's end, and the versions that both ends know."""

from kafkaframes.protocol.framing.buffer import MAX_REQUEST_BYTES, FrameBuffer, frame
from kafkaframes.protocol.framing.client import (
    ClientConnection,
    Ranges,
    choose_version,
    fallback_version,
    known_versions,
    listed_versions,
    versions_of_release,
)

__all__ = [
    "MAX_REQUEST_BYTES",
    "ClientConnection",
    "FrameBuffer",
    "Ranges",
    "choose_version",
    "fallback_version",
    "frame",
    "known_versions",
    "listed_versions",
    "versions_of_release",
]
