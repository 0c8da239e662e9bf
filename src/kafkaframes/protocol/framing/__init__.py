"""One connection's bytes, without I/O."""

from kafkaframes.protocol.framing.buffer import FrameBuffer
from kafkaframes.protocol.framing.client import ClientConnection, needs_fallback
from kafkaframes.protocol.framing.frames import MAX_REQUEST_BYTES, frame
from kafkaframes.protocol.framing.negotiation import (
    answer_api_versions,
    common_versions,
    known_versions,
    listed_versions,
)
from kafkaframes.protocol.framing.server import Request, ServerConnection

__all__ = [
    "MAX_REQUEST_BYTES",
    "ClientConnection",
    "FrameBuffer",
    "Request",
    "ServerConnection",
    "answer_api_versions",
    "common_versions",
    "frame",
    "known_versions",
    "listed_versions",
    "needs_fallback",
]
