"""The compressed stream in a batch, or in a message of format 0 or 1 that wraps others: where it starts, its codec."""

from __future__ import annotations

from kafkaframes.records.codecs import Codec
from kafkaframes.records.layout import BATCH_V2, BYTES_TO_MAGIC, CODEC_MASK, MESSAGE_V0, MESSAGE_V1

_LENGTHS = 8  # of key and value
# Where a compressed stream starts and where the byte with the codec is, by format.
_STARTS = (
    (MESSAGE_V0.size + _LENGTHS, MESSAGE_V0.place_of("attributes")),
    (MESSAGE_V1.size + _LENGTHS, MESSAGE_V1.place_of("attributes")),
    (BATCH_V2.size, BATCH_V2.end_of("attributes") - 1),
)


def start_of_stream(data: bytes) -> int:
    """Return where the compressed records of a whole batch or wrapper start."""
    return _STARTS[data[BYTES_TO_MAGIC - 1]][0]


def codec_in(data: bytes) -> Codec:
    """Return the codec of a whole batch or wrapper."""
    return Codec(data[_STARTS[data[BYTES_TO_MAGIC - 1]][1]] & CODEC_MASK)
