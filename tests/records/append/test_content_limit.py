"""Batches that are small and hold far more than a broker may be asked to inflate are refused, on every path."""

from __future__ import annotations

import pytest

from kafkaframes import build_records
from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.append import AppendSettings, settings, validate_and_assign
from kafkaframes.records.append.validator import validate_general

CODECS = [("gzip", 1), ("gzip", 2), ("lz4", 1), ("lz4", 2), ("zstd", 2)]


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch):
    monkeypatch.setattr(settings, "CONTENT_RATIO", 4)


def bomb(codec: str, record_format: int, size: int) -> bytes:
    columns = {"value": [bytes(size)], "timestamp": [1]}
    return build_records(columns, codec=codec, record_format=record_format, batch_bytes=1 << 30)


@pytest.mark.parametrize(("codec", "record_format"), CODECS)
@pytest.mark.parametrize("append", [validate_and_assign, validate_general])
def test_what_is_too_large_inside_is_refused_as_a_batch_that_is_too_large(codec, record_format, append):
    how = AppendSettings(record_format=record_format, max_batch_bytes=1 << 20)
    with pytest.raises(AppendRefusedError, match="4194304 bytes after decompression") as caught:
        append(bomb(codec, record_format, 6 << 20), 0, how)
    assert caught.value.exception == "RecordTooLargeException"
    assert append(bomb(codec, record_format, 3 << 20), 0, how).in_place


def test_the_limit_follows_that_of_a_batch():
    sizes = {most: AppendSettings(max_batch_bytes=most).max_content_bytes >> 20 for most in (0, 2 << 20, 1 << 30)}
    assert sizes == {0: 4, 2 << 20: 8, 1 << 30: 256}
    assert AppendSettings().max_content_bytes == 512 << 20
