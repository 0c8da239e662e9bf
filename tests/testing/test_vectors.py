"""Vectors for other libraries: complete, stable, and correct according to independent libraries."""

from __future__ import annotations

import gzip
import json
import struct
from itertools import islice

import pytest
from aiokafka.record.memory_records import MemoryRecords
from click.testing import CliRunner
from tests.capture.own_specs import write_specs

from kafkaframes.cli.main import cli
from kafkaframes.errors import DecodeError, OptionError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import decode_request, decode_response
from kafkaframes.protocol.spec import catalog
from kafkaframes.testing.vectors import write, write_vectors
from kafkaframes.testing.vectors.messages import generate_value_rows, list_catalog_specs
from kafkaframes.testing.vectors.records import generate_record_files

# Values of Kafka's UtilsTest.
EXPECTED_HASHES = {b"21": -973932308, b"foobar": -790332482, b"a-little-bit-long-string": -985981536}


@pytest.fixture(scope="module")
def vectors(tmp_path_factory):
    target = tmp_path_factory.mktemp("vectors") / "new"
    result = CliRunner().invoke(cli, ["vectors", str(target)])
    assert result.exit_code == 0, result.output
    assert "README.md describes them" in result.output
    return target


def rows(path):
    data = path.read_bytes()
    return [json.loads(line) for line in (gzip.decompress(data) if path.suffix == ".gz" else data).splitlines()]


def test_every_version_of_every_message_decodes_to_its_value(vectors):
    message_rows = rows(vectors / "messages.jsonl.gz")
    pairs = {(row["message"], row["version"]) for row in message_rows}
    assert pairs == {
        (name, version) for name in catalog.list_names() for version in catalog.load_spec(name).valid_versions
    }
    for row in message_rows:
        if "error" in row:
            assert row["case"] == "defaults"
            continue
        value = message(row["message"]).decode(bytes.fromhex(row["bytes"]), row["version"], mode="strict")
        assert value.to_json(row["version"], unknown_tags=False) == row["json"]
        assert row["size"] == len(row["bytes"]) // 2
    assert sum("error" in row for row in message_rows) < len(message_rows) // 100


def test_each_case_has_a_description(vectors):
    message_rows = [row for row in rows(vectors / "messages.jsonl.gz") if row["message"] == "MetadataRequest"]
    at_13 = {row["case"]: row for row in message_rows if row["version"] == 13}
    assert set(at_13) == {"defaults", "ordinary", "lowest", "highest", "nulls", "unknown tags"}
    assert at_13["nulls"]["json"]["topics"] is None
    assert [tag for tag, _ in at_13["unknown tags"]["unknown_tags"]] == [10_000, 20_000, 2_000_000]
    assert "unknown tags" not in {row["case"] for row in message_rows if row["version"] == 8}


def test_damaged_messages_are_rejected_or_decoded_as_described(vectors):
    message_rows = rows(vectors / "messages-damaged.jsonl.gz")
    assert {"error" in row for row in message_rows} == {True, False}
    for row in message_rows:
        cls, data = message(row["message"]), bytes.fromhex(row["bytes"])
        if "error" in row:
            with pytest.raises(DecodeError):
                cls.decode_prefix(data, row["version"])
        else:
            assert len(data) - cls.decode_prefix(data, row["version"])[1] == row["remaining"]


def test_frames_have_the_header_of_their_version(vectors):
    for row in rows(vectors / "frames.jsonl.gz"):
        data = bytes.fromhex(row["bytes"])
        if row["type"] == "request":
            frame = decode_request(data)
            assert (frame.header.request_api_key, frame.header.request_api_version) == (row["api_key"], row["version"])
        else:
            frame = decode_response(data, row["api_key"], row["version"])
        assert frame.correlation_id == row["correlation_id"]


def test_numbers_equal_those_of_kafka(vectors):
    hashes = {bytes.fromhex(row["key"]): row["murmur2"] for row in rows(vectors / "keys.jsonl")}
    assert {key: hashes[key] for key in EXPECTED_HASHES} == EXPECTED_HASHES
    for row in rows(vectors / "varints.jsonl"):
        if row["kind"] == "varint" and "value" in row and row.get("canonical", True):
            data, value, shift = bytes.fromhex(row["bytes"]), 0, 0
            for byte in data:
                value |= (byte & 127) << shift
                shift += 7
            assert struct.unpack(">i", struct.pack(">I", (value >> 1) ^ (-(value & 1) & 0xFFFFFFFF)))[0] == row["value"]
    coordinators = {row["id"]: row["partition_of"] for row in rows(vectors / "coordinators.jsonl")}
    assert coordinators["a"]["50"] == 97 % 50


def test_another_library_reads_equal_batches(vectors):
    descriptions = json.loads((vectors / "records.json").read_text())
    read = 0
    for name, description in descriptions.items():
        if any("error" in batch or not batch["crc_ok"] for batch in description["batches"]) or "ends_at" in description:
            continue
        if (
            name.startswith(("v0-", "mixed")) or "far" in name
        ):  # format 0 has no timestamps; aiokafka fails at the other vectors
            continue
        records = MemoryRecords((vectors / "records" / f"{name}.bin").read_bytes())
        read_rows = []
        while records.has_next():
            read_rows += [
                (one.offset, -1 if one.timestamp is None else one.timestamp, one.key, one.value)
                for one in records.next_batch()
            ]
        expected_rows = [
            (one["offset"], one["timestamp"], binary(one["key"]), binary(one["value"]))
            for batch in description["batches"]
            for one in batch["records"]
        ]
        assert read_rows == expected_rows, name
        read += 1
    assert read > 15


def binary(text):
    return None if text is None else bytes.fromhex(text)


def test_damage_is_described(vectors):
    descriptions = json.loads((vectors / "records.json").read_text())
    assert not all(batch["crc_ok"] for batch in descriptions["v2-a-bit-flipped"]["batches"])
    assert "ends_at" in descriptions["v1-cut"]
    assert "ends_at" in descriptions["unknown-magic"]
    assert any("error" in batch for batch in descriptions["v2-unknown-codec"]["batches"])


def test_the_bytes_are_reproducible(vectors):
    for name, data in generate_record_files():
        assert (vectors / "records" / f"{name}.bin").read_bytes() == data
    again = list(islice(generate_value_rows(list_catalog_specs()), 200))
    assert again == rows(vectors / "messages.jsonl.gz")[:200]


def test_existing_files_are_not_overwritten(vectors):
    with pytest.raises(OptionError, match="not empty"):
        write_vectors(vectors)


def test_an_interruption_leaves_no_partial_directory(monkeypatch, tmp_path):
    (tmp_path / "there").mkdir()
    monkeypatch.setattr(write, "_NUMBER_FILES", write._NUMBER_FILES[:1])
    monkeypatch.setattr(write, "_MESSAGE_FILES", ())
    with monkeypatch.context() as patch:
        patch.setattr(write, "_write_records", interrupt)
        for place in ("there", "new"):
            with pytest.raises(KeyboardInterrupt):
                write_vectors(tmp_path / place)
    assert list(tmp_path.iterdir()) == [tmp_path / "there"]
    assert list((tmp_path / "there").iterdir()) == []
    monkeypatch.chdir(tmp_path / "there")
    assert write_vectors(".")["varints.jsonl"] > 0


def interrupt(*_):
    raise KeyboardInterrupt


def test_a_proposal_has_its_own_vectors(tmp_path):
    counts = write_vectors(tmp_path / "out", specs=write_specs(tmp_path / "specs"))
    with gzip.open(tmp_path / "out/messages.jsonl.gz", "rt") as file:
        rows = [json.loads(line) for line in file]
    assert {(row["message"], row["version"]) for row in rows} == {
        *((f"Greet{half}", version) for half in ("Request", "Response") for version in (0, 1)),
        ("HeartbeatRequest", 5),
        ("HeartbeatResponse", 5),
    }
    assert counts["frames.jsonl.gz"] == 6
