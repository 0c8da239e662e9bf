"""Compressed captures: many members, members of any size, for work that grows with the bytes."""

from __future__ import annotations

import gzip
import io
import random

import pytest

from kafkaframes.capture.files import Gunzip


class Counted:
    """A decompressor that counts the bytes that it is given."""

    given = 0

    def __init__(self, make):
        self._inner = make()

    def decompress(self, data, most):
        Counted.given += len(data)
        return self._inner.decompress(data, most)

    def __getattr__(self, name):
        return getattr(self._inner, name)


def test_the_work_grows_with_the_bytes_however_many_members_they_are():
    raw = gzip.compress(b"") * 20_000
    reader = Gunzip(io.BytesIO(raw))
    make = reader._new
    reader._new = lambda: Counted(make)
    Counted.given = 0
    assert reader.read() == b""
    assert Counted.given < 30 * len(raw)


@pytest.mark.parametrize("seed", range(8))
def test_members_of_any_size_with_zeros_between(seed):
    rng = random.Random(seed)
    parts = [rng.randbytes(rng.choice((0, 1, 600, 5000, 300_000))) * rng.choice((1, 1, 20)) for _ in range(12)]
    raw = b"".join(gzip.compress(part) + bytes(rng.choice((0, 0, 3, 2000))) for part in parts)
    assert Gunzip(io.BytesIO(raw)).read() == b"".join(parts)
    with pytest.raises(EOFError):
        Gunzip(io.BytesIO(raw.rstrip(b"\0")[:-3])).read()
