"""Decode damaged and random bytes with all message decoders: the result is quick, a value or a DecodeError, and equals
the reference's.

    python tests/fuzz/messages.py [SECONDS] [SEED]

A message that is accepted in `strict` mode is encoded to the same bytes, memory is limited, and a frame decoder returns
a frame or raises a DecodeError. The command prints the seed, and after a failure the message, the version and the
bytes.
"""

from __future__ import annotations

import random
import sys
import time
import tracemalloc
from functools import partial
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.protocol.messages.values import list_message_versions, make_value

from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.envelopes import decode_coordinator_record, decode_metadata_record
from kafkaframes.protocol.messages.headers import decode_request

# maximum memory per byte of input; a struct of two bytes becomes an object with many fields
MAX_BYTES_PER_INPUT_BYTE = 2000


def decode_outcome(read):
    try:
        return repr(read())
    except DecodeError as error:
        return f"{type(error).__name__} {error}"


def damage(data: bytes, rng: random.Random) -> bytes:
    raw = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 5))):
        position = rng.randrange(len(raw) + 1)
        piece = rng.choice(
            (b"\xff\xff\xff\xff\x07", b"\xff" * 4, b"\x7f\xff\xff\xff", b"\0", b"\x80", rng.randbytes(3))
        )
        raw[position : position + rng.choice((0, 1, len(piece)))] = piece
    return bytes(raw[: rng.randrange(len(raw) + 1)] if rng.random() < 0.3 else raw)


def check_message(name: str, version: int, rng: random.Random) -> None:
    cls = message(name)
    codec = cls.codec(version)
    data = make_value(cls, version, rng.randrange(1 << 30), unknown_tags=True).encode(version)
    bad = damage(data, rng) if rng.random() < 0.8 else rng.randbytes(rng.randrange(60))
    fast = ""
    for mode in ("reference", "strict"):
        fast = decode_outcome(partial(cls.decode_prefix, bad, version, mode=mode))
        slow = decode_outcome(partial(codec.decode_interpreted, bad, 0, strict=mode == "strict"))
        assert fast == slow, (name, version, mode, bad.hex(), fast, slow)
    # NaN does not equal itself, and tag 2147483647 can be decoded but not encoded, as in Kafka.
    if not fast.startswith(("DecodeError", "TruncatedError")) and "nan" not in fast and "(2147483647," not in fast:
        value, end = cls.decode_prefix(bad, version, mode="strict")
        assert value.encode(version) == bad[:end], (name, version, bad.hex())


def check_frame(rng: random.Random) -> None:
    raw = rng.randrange(95).to_bytes(2) + rng.randrange(20).to_bytes(2) + rng.randbytes(rng.randrange(80))
    decode_outcome(lambda: decode_request(raw))
    decode_outcome(lambda: decode_coordinator_record("__consumer_offsets", raw[:2] + raw[4:], raw[2:]))
    decode_outcome(lambda: decode_metadata_record("__cluster_metadata", b"\1" + raw[1:2] + raw[3:]))


def check_memory(name: str, version: int, rng: random.Random) -> None:
    raw = rng.choice((b"\xff\xff\xff\x7f", b"\x7f\xff\xff\xff", b"\2")) * rng.randrange(1, 500)
    tracemalloc.start()
    decode_outcome(lambda: message(name).decode_prefix(raw, version))
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 2_000_000 + MAX_BYTES_PER_INPUT_BYTE * len(raw), (name, version, raw.hex(), peak)


def main() -> None:
    seconds = float(sys.argv[1]) if len(sys.argv) > 1 else 60.0
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 32)
    rng, pairs, rounds = random.Random(seed), list_message_versions(), 0
    print(f"seed {seed}")
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        name, version = rng.choice(pairs)
        start_s = time.monotonic()
        check_message(name, version, rng)
        check_frame(rng)
        if rounds % 20 == 0:
            check_memory(name, version, rng)
        assert time.monotonic() - start_s < 20, (name, version)
        rounds += 1
    print(f"{rounds} rounds")


if __name__ == "__main__":
    main()
