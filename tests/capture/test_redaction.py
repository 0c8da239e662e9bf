"""A redacted capture decodes as before, and holds nothing of what it was about."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from kafkaframes.capture.files import open_bytes
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.redaction import Pseudonyms, redact, without_payload
from kafkaframes.records.build import build_records

DATA = Path(__file__).parent.parent / "data" / "captures"
SAME = (
    "apiKey", "apiVersion", "correlationId", "requestSizeBytes", "responseSizeBytes", "requestOffset",
    "responseOffset", "requestState", "responseState", "errors", "records", "softwareName", "softwareVersion",
)  # fmt: skip
CASES = sorted(path for path in DATA.iterdir() if "truth" not in path.name and path.suffix != ".json")


def rows(path):
    return read_capture(str(path), CaptureOptions(columns=SAME)).read_all().to_pylist()


@pytest.mark.parametrize("path", CASES, ids=lambda path: path.name)
def test_it_decodes_as_before(path, tmp_path):
    out = tmp_path / "out.pcapng"
    with out.open("wb") as file:
        done = redact([str(path)], file)
    before, after = rows(path), rows(out)
    assert done.calls == len(before)
    assert sorted(map(str, after)) == sorted(map(str, before))


def test_nothing_of_it_is_left(tmp_path):
    """No client id, topic, user or token of the original is in the file."""
    path = DATA / "sasl-raw-tokens-broker39.pcap.gz"
    found = read_capture(str(path), CaptureOptions()).read_all().to_pylist()
    words = {row["clientId"] for row in found} | {"alice", "alice-secret", "rawsasl", "127.0.0.1"}
    with open_bytes(str(path)) as file:
        original = file.read()
    out = io.BytesIO()
    redact([str(path)], out)
    for word in words - {None}:
        assert word.encode() in original or word == "127.0.0.1"
        assert word.encode() not in out.getvalue(), word
    assert bytes([127, 0, 0, 1]) not in out.getvalue()[:4000]


def test_pseudonyms_have_the_same_length_and_are_the_same_for_the_same():
    names = Pseudonyms()
    assert names.of("grüße".encode()) == names.of("grüße".encode())
    assert len(names.of("grüße".encode())) == 7
    assert names.of(b"orders") != names.of(b"others")
    assert Pseudonyms().of(b"orders") != names.of(b"orders")


def test_records_keep_the_headers_of_their_batches():
    records = build_records([{"key": b"secret key", "value": b"secret value"}] * 3)
    masked = without_payload(records)
    assert len(masked) == len(records)
    assert masked[:61] == records[:61]
    assert not any(masked[61:])
