"""One connection's bytes, without I/O."""

from kafkaframes.connection.buffer import FrameBuffer
from kafkaframes.connection.client import ClientConnection, needs_fallback
from kafkaframes.connection.framing import MAX_REQUEST_BYTES, FrameReader, frame
from kafkaframes.connection.server import Request, ServerConnection

__all__ = [
    "MAX_REQUEST_BYTES",
    "ClientConnection",
    "FrameBuffer",
    "FrameReader",
    "Request",
    "ServerConnection",
    "frame",
    "needs_fallback",
]
