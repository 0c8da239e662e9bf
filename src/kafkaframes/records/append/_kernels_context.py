"""The places in a context (``context.py``) and the answers of the append kernels: numbers that all of them share."""

from kafkaframes.records._kernels_codecs import CALLS
from kafkaframes.wire._jit import types

# Python's bytes as they are, and a bytearray that is written to: an array made of them would cost as much as the call.
BYTES, SENT = types.Bytes(types.uint8, 1, "C", readonly=True), types.ByteArray(types.uint8, 1, "C")
# Behind the functions that ``decompress_stream`` calls: memory, the content if it is there already (its size, else -1),
# the settings, where ``take`` has found the records, and what ``rewrite`` leaves for ``wrap``.
CONTENT_AT, CONTENT_SIZE, OUT_AT, OUT_SIZE, CONTENT_KNOWN = range(CALLS, CALLS + 5)
SETTINGS = CONTENT_KNOWN + 1
(
    TO_MAGIC,
    TO_CODEC,
    LOWEST_MS,
    HIGHEST_MS,
    NEED_KEY,
    TRUSTED,
    APPEND_TIME,
    NOW_MS,
    LEADER_EPOCH,
    MOST_BYTES,
    REASSIGN,
) = range(SETTINGS, SETTINGS + 11)
SETTINGS_END = REASSIGN + 1
HELD_AT, HELD_START, HELD_END = range(SETTINGS_END, SETTINGS_END + 3)
FIRST_MS, LARGEST_MS, COUNT = range(HELD_END + 1, HELD_END + 4)
WORDS = COUNT + 1
OWN_WORDS = WORDS - CALLS
ANY_CODEC = -1  # as TO_CODEC: that of what was sent
# Answers: ``ANEW`` is opened and must be written anew, ``PLAIN`` is written and waits for its compressor.
UNUSUAL, IN_PLACE, ANEW, WRITTEN, PLAIN, CAREFUL, TOO_SMALL, NO_OUT = 0, 1, 2, 3, 4, -1, -2, -3
MOST_MS = 1 << 61  # beyond it sums could wrap as Java's do: the general path knows
NO_TIMESTAMP = -1
