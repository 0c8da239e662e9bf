"""Small batches that decompress to more than the limit are rejected, on every path."""

from __future__ import annotations

import pytest

from kafkaframes import build_records
from kafkaframes.errors import AppendRefusedError
from kafkaframes.records.append import AppendSettings, settings, validate_and_assign
from kafkaframes.records.append.validator import validate_general

CODECS_AND_FORMATS = [("gzip", 1), ("gzip", 2), ("lz4", 1), ("lz4", 2), ("zstd", 2)]


@pytest.fixture(autouse=True)
def _small_limit(monkeypatch):
    monkeypatch.setattr(settings, "CONTENT_RATIO", 4)


def build_bomb(codec: str, record_format: int, size: int) -> bytes:
    columns = {"value": [bytes(size)], "timestamp": [1]}
    return build_records(columns, codec=codec, record_format=record_format, batch_bytes=1 << 30)


@pytest.mark.parametrize(("codec", "record_format"), CODECS_AND_FORMATS)
@pytest.mark.parametrize("append", [validate_and_assign, validate_general])
def test_too_large_decompressed_data_is_rejected_as_a_too_large_batch(codec, record_format, append):
    settings = AppendSettings(record_format=record_format, max_batch_bytes=1 << 20)
    with pytest.raises(AppendRefusedError, match="4194304 bytes after decompression") as error_info:
        append(build_bomb(codec, record_format, 6 << 20), 0, settings)
    assert error_info.value.exception == "RecordTooLargeException"
    assert append(build_bomb(codec, record_format, 3 << 20), 0, settings).in_place


def test_the_limit_depends_on_the_batch_limit():
    sizes = {
        batch_bytes: AppendSettings(max_batch_bytes=batch_bytes).max_content_bytes >> 20
        for batch_bytes in (0, 2 << 20, 1 << 30)
    }
    assert sizes == {0: 4, 2 << 20: 8, 1 << 30: 256}
    assert AppendSettings().max_content_bytes == 512 << 20
