"""One connection's bytes, without I/O."""

from kafkaframes.connection.buffer import FrameBuffer
from kafkaframes.connection.client import ClientConnection, needs_fallback
from kafkaframes.connection.framing import MAX_REQUEST_BYTES, frame
from kafkaframes.connection.negotiation import answer_api_versions, common_versions, known_versions, listed_versions
from kafkaframes.connection.server import Request, ServerConnection

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
