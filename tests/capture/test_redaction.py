"""A redacted capture is decoded like the original, and contains none of its texts."""

from __future__ import annotations

import io
import random
import re
from pathlib import Path

import pytest
from tests.capture.conversation import CLIENT, Tape, frame_of
from tests.fuzz import redaction as campaign

from kafkaframes.capture.files import open_bytes
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.capture.redaction import UNREDACTED_TEXTS, Pseudonyms, redact, remove_payloads
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import decode_request, encode_request
from kafkaframes.records.build import build_records

DATA = Path(__file__).parent.parent / "data" / "captures"
UNCHANGED_COLUMNS = (
    "apiKey", "apiName", "apiVersion", "correlationId", "requestSizeBytes", "responseSizeBytes", "requestOffset",
    "responseOffset", "requestState", "responseState", "errors", "records", "softwareName", "softwareVersion",
)  # fmt: skip
CAPTURE_FILES = sorted(path for path in DATA.iterdir() if "truth" not in path.name and path.suffix != ".json")


def rows(path):
    return read_capture(str(path), CaptureOptions(columns=UNCHANGED_COLUMNS)).read_all().to_pylist()


@pytest.mark.parametrize("path", CAPTURE_FILES, ids=lambda path: path.name)
def test_a_redacted_capture_is_decoded_like_the_original(path, tmp_path):
    """Frames of unknown APIs are omitted, so offsets are counted from the first available byte."""
    out = tmp_path / "out.pcapng"
    with out.open("wb") as file:
        report = redact([str(path)], file)
    known_rows = [
        row for row in rows(path) if (row["apiName"] is not None and row["apiVersion"] < 32) or row["apiKey"] == 18
    ]
    left_out = len(rows(path)) - len(known_rows)
    assert (report.calls, report.frames_left_out) == (len(known_rows), left_out)
    for row in known_rows if left_out else ():
        row |= {"requestOffset": None, "responseOffset": None}
    after = [row | {"requestOffset": None, "responseOffset": None} if left_out else row for row in rows(out)]
    assert sorted(map(str, after)) == sorted(map(str, known_rows))


def test_no_original_text_is_left(tmp_path):
    """No client id, topic, user or token of the original is in the file."""
    path = DATA / "sasl-raw-tokens-broker39.pcap.gz"
    rows = read_capture(str(path), CaptureOptions()).read_all().to_pylist()
    words = {row["clientId"] for row in rows} | {"alice", "alice-secret", "rawsasl", "127.0.0.1"}
    with open_bytes(str(path)) as file:
        original = file.read()
    out = io.BytesIO()
    redact([str(path)], out)
    for word in words - {None}:
        assert word.encode() in original or word == "127.0.0.1"
        assert word.encode() not in out.getvalue(), word
    assert bytes([127, 0, 0, 1]) not in out.getvalue()[:4000]


def test_pseudonyms_have_the_same_length_and_are_consistent():
    names = Pseudonyms()
    assert names.pseudonymize("grüße".encode()) == names.pseudonymize("grüße".encode())
    assert len(names.pseudonymize("grüße".encode())) == 7
    assert names.pseudonymize(b"orders") != names.pseudonymize(b"others")
    assert Pseudonyms().pseudonymize(b"orders") != names.pseudonymize(b"orders")


def test_records_keep_their_batch_headers():
    records = build_records([{"key": b"secret key", "value": b"secret value"}] * 3)
    masked_records = remove_payloads(records)
    assert len(masked_records) == len(records)
    assert masked_records[:17] + masked_records[21:61] == records[:17] + records[21:61]
    assert not any(masked_records[17:21]), "short values could be guessed from the checksum"
    assert not any(masked_records[61:])


@pytest.mark.parametrize("version", [0, 1, 2])
def test_truncated_records_keep_no_byte_of_their_contents(version):
    """After truncation at any byte, only the header of the last batch is kept, and nothing of other bytes."""
    records = build_records([{"key": b"!" * 30, "value": b"?" * 90}] * 2, record_format=version)
    for size in range(len(records)):
        masked_records = remove_payloads(records[:size])
        assert len(masked_records) == size
        assert b"!" not in masked_records
        assert b"?" not in masked_records
    assert not any(remove_payloads(b"secret" * 20))
    whole = campaign.SecretFactory(random.Random(1)).create(200)
    assert not any(remove_payloads(records + whole)[len(records) :])


def test_no_message_keeps_a_secret(tmp_path):
    """Every API at every version, truncated at some positions; ``tests/fuzz/redaction.py`` truncates at every byte."""
    searched_count, calls = campaign.check(
        campaign.create_sender(campaign.every_api(), campaign.some_cuts), 1, tmp_path
    )
    assert searched_count > 10_000
    assert calls > 5 * len(campaign.every_api())


def read_documented():
    """Return the texts that the documentation lists as kept: message and field, pattern."""
    text = (Path(__file__).parents[2] / "docs" / "recording.md").read_text()
    matches = re.findall(r"^\| `(\w+)` \| `(\w+)` \| where it matches `([^`]+)` \|$", text, re.MULTILINE)
    return {f"{name}.{field}": pattern.replace("/", "|") for field, name, pattern in matches}


def test_the_documentation_lists_every_text_that_is_kept():
    assert read_documented() == dict(UNREDACTED_TEXTS)


def redact_requests(path, tmp_path, **options):
    """Return the redacted requests of a capture of one connection."""
    out = tmp_path / "out.pcapng"
    with out.open("wb") as file:
        redact([path], file, ports=(9092,), **options)
    rows = read_capture(str(out), CaptureOptions(columns=("requestBytes",), ports=(9092,))).read_all()
    return [decode_request(row["requestBytes"]) for row in rows.to_pylist()]


def test_only_documented_texts_are_kept_in_their_fields(tmp_path):
    cls, texts = message("ApiVersionsRequest"), [("librdkafka", "2.16.1"), ("my secret", "p@ssword")]
    requests = [
        encode_request(cls(client_software_name=a, client_software_version=b), 3, client_id="app") for a, b in texts
    ]
    path = Tape().segment(CLIENT, 0, b"".join(map(frame_of, requests))).write(tmp_path / "x.pcapng")
    kept_request, other = (frame.body for frame in redact_requests(path, tmp_path))
    assert (kept_request.client_software_name, kept_request.client_software_version) == texts[0]
    assert (len(other.client_software_name), len(other.client_software_version)) == (9, 8)
    assert (other.client_software_name, other.client_software_version) != texts[1]


@pytest.mark.parametrize("keep", [True, False])
def test_client_ids_in_headers_are_kept_as_documented(keep, tmp_path):
    request = encode_request(message("HeartbeatRequest")(group_id="g", member_id="m"), 4, client_id="my-client")
    path = Tape().segment(CLIENT, 0, frame_of(request)).write(tmp_path / "x.pcapng")
    (frame,) = redact_requests(path, tmp_path, keep_client_ids=keep)
    assert (frame.header.client_id == "my-client") is keep
