"""``kafkaframes.broker.json``: files of earlier versions are read, and an invalid field is reported by name."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.mutated_json import mutate

from kafkaframes.broker.lifecycle.assembly import open_broker
from kafkaframes.broker.lifecycle.handle import Broker
from kafkaframes.broker.lifecycle.opening import write_snapshot
from kafkaframes.broker.settings.settings import BrokerSettings
from kafkaframes.broker.state.metadata_file import METADATA_FILE_NAME, StoredMetadata, read_metadata, write_metadata
from kafkaframes.errors import LogDirError
from kafkaframes.storage.files.disk import to_online_disk
from kafkaframes.storage.files.memory_disk import MemoryDisk

FILES_OF_EARLIER_VERSIONS = sorted((Path(__file__).parents[1] / "data" / "broker_metadata").glob("*.json"))
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)


def disk_with(text: str) -> MemoryDisk:
    disk = MemoryDisk()
    disk.make_directory("/data")
    file = disk.open_file(f"/data/{METADATA_FILE_NAME}")
    file.write(0, text.encode("utf-8", "surrogatepass"))
    return disk


def rewrite_metadata(text: str) -> dict:
    """Open a broker on a metadata file with this text; return the metadata as the broker writes it again."""
    disk = disk_with(text)
    state = open_broker(data_dir="/data", disk=disk, settings=BrokerSettings())
    try:
        state.save_metadata()
        return json.loads(disk.read(f"/data/{METADATA_FILE_NAME}"))
    finally:
        state.logs.abandon()


@pytest.mark.parametrize("path", FILES_OF_EARLIER_VERSIONS, ids=lambda path: path.stem)
def test_files_of_earlier_versions_are_read(path):
    values = json.loads(path.read_bytes())
    metadata = read_metadata(to_online_disk(disk_with(path.read_text())), "/data")
    disk = to_online_disk(MemoryDisk())
    disk.make_directory("/data")
    write_metadata(disk, "/data", metadata)
    assert json.loads(disk.read(f"/data/{METADATA_FILE_NAME}")) == values
    again = rewrite_metadata(path.read_text())
    salts = again["entities"]["scram_salts"]
    assert len(bytes.fromhex(salts)) == 32
    values["entities"].setdefault("scram_salts", salts)  # a broker creates salts if the file has none
    assert {key: again[key] for key in ("cluster_id", "configs", "entities", "next_producer_id")} == {
        key: values[key] for key in ("cluster_id", "configs", "entities", "next_producer_id")
    }


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        (("topics", "orders", "partitions"), 1e9, "topics.orders.partitions must be a whole number from 0 to 100000"),
        (("topics", "orders", "partitions"), 10**9, "topics.orders.partitions must be a whole number from 0 to 100000"),
        (("topics", "orders", "topic_id"), "x", "topics.orders.topic_id must be an id of 22 characters, not 'x'"),
        (
            ("topics", "orders", "configs"),
            {"retention.ms": 5},
            "topics.orders.configs.retention.ms must be a text, not 5",
        ),
        (("topics", "orders", "colour"), 1, "topics.orders has the unknown field 'colour'"),
        (("topics", "../etc"), {}, "a name in topics must be a topic name, not '../etc'"),
        (("next_producer_id",), "x", "next_producer_id must be a whole number from 0 to 9223372036854775807, not 'x'"),
        (("next_producer_id",), True, "next_producer_id must be a whole number"),
        (("version",), 2, "version must be a whole number from 1 to 1, not 2"),
        (("configs",), [], "configs must be an object, not"),
        (("entities", "scram", "alice", "SCRAM-SHA-256", "salt"), "é", "alice.SCRAM-SHA-256.salt must be base64, not"),
        (("entities", "scram_salts"), "\ud800", "entities.scram_salts must be hexadecimal digits, not"),
        (("entities", "acls"), [["2"]], "entities.acls[0] must be a list of 7 items, not"),
        (("entities", "quotas"), [{"entity": {}}], "entities.quotas[0] has no field 'values'"),
    ],
    ids=str,
)
def test_an_invalid_field_is_reported_with_its_file(field, value, reason):
    values = json.loads(FILES_OF_EARLIER_VERSIONS[0].read_bytes())
    place = values
    for name in field[:-1]:
        place = place[name]
    place[field[-1]] = value
    with pytest.raises(LogDirError) as error:
        rewrite_metadata(json.dumps(values))
    assert reason in str(error.value)
    assert error.value.file == f"/data/{METADATA_FILE_NAME}"


def assert_read_or_rejected(text: str) -> None:
    error_seen = None
    try:
        rewrite_metadata(text)
    except LogDirError as error:
        error_seen = error
    assert error_seen is None or (error_seen.file, error_seen.reason[:12]) == (
        f"/data/{METADATA_FILE_NAME}",
        "is not a bro",
    )


@given(value=JSON_VALUES)
def test_any_json_value_is_read_or_rejected_as_a_metadata_file(value):
    assert_read_or_rejected(json.dumps(value))


@given(seed=st.integers(0, 10**9))
def test_any_change_of_a_metadata_file_is_read_or_rejected(seed):
    assert_read_or_rejected(mutate(random.Random(seed), FILES_OF_EARLIER_VERSIONS[0].read_bytes()))


def test_the_metadata_file_is_readable_only_by_its_owner(tmp_path):
    path = tmp_path / METADATA_FILE_NAME
    for before in (None, 0o644):  # a new file, and one with the mode that earlier versions set
        if before is not None:
            path.chmod(before)
        open_broker(data_dir=str(tmp_path), settings=BrokerSettings()).logs.abandon()
        assert path.stat().st_mode & 0o777 == 0o600
    with Broker(data_dir=str(tmp_path)) as broker:
        snapshot = broker.snapshot()
    write_snapshot(snapshot, str(tmp_path))
    assert path.stat().st_mode & 0o777 == 0o600


def test_a_temporary_file_left_by_a_crash_is_readable_only_by_its_owner(tmp_path):
    unfinished_file = tmp_path / (METADATA_FILE_NAME + ".tmp")
    unfinished_file.write_text("half")
    unfinished_file.chmod(0o666)
    write_metadata(to_online_disk(None), str(tmp_path), StoredMetadata())
    assert (tmp_path / METADATA_FILE_NAME).stat().st_mode & 0o777 == 0o600
