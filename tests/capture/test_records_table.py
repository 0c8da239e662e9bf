"""The table of records: every version of the APIs with records, times outside microseconds, and unreadable records."""

import json
import struct
import uuid

import pytest
from tests.capture.conversation import CLIENT, SERVER, START_NS, frame_of

import kafkaframes
from kafkaframes.capture.container import ConversationWriter, build_file_header
from kafkaframes.errors import DecodeError
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.protocol.messages.registry import CATALOG

FAR_TIMESTAMP = 1_700_000_000_000_000_000  # nanoseconds in place of milliseconds
RECORDS = [{"key": b"k", "value": b"v1", "timestamp": 5}, {"key": b"k", "value": b"v2", "timestamp": 7}]
VERSIONS = [
    pytest.param(name, version, id=f"{name}-{version}")
    for name, key in (("Produce", 0), ("Fetch", 1), ("ShareFetch", 78))
    for version in CATALOG.apis_by_key[key].versions
]


def build_call(name, version, records):
    """Return a request and its response, one of which has the records."""
    data = kafkaframes.build_records(records, negative_timestamps=True) if isinstance(records, list) else records
    request, response = message(f"{name}Request"), message(f"{name}Response")
    has_ids = name == "ShareFetch" or version >= 13
    topic = {"topic_id": uuid.UUID(int=7)} if has_ids else {"name" if name == "Produce" else "topic": "orders"}
    if name == "Produce":
        partitions = [request.PartitionProduceData(index=3, records=data)]
        return request(topic_data=[request.TopicProduceData(**topic, partition_data=partitions)]), response()
    kind = response.FetchableTopicResponse if name == "Fetch" else response.ShareFetchableTopicResponse
    partitions = [response.PartitionData(partition_index=3, records=data)]
    return request(), response(responses=[kind(**topic, partitions=partitions)])


def write_capture(path, *calls):
    """Write a capture of encoded requests and responses."""
    talk = ConversationWriter(("10.0.0.1", 50000), ("10.0.0.2", 9092))
    parts = [build_file_header("test"), talk.build_handshake(START_NS)]
    for number, (request, response) in enumerate(calls):
        parts += talk.build_data_packets(CLIENT, frame_of(request), START_NS + number * 2_000_000)
        parts += talk.build_data_packets(SERVER, frame_of(response), START_NS + number * 2_000_000 + 1_000_000)
    path.write_bytes(b"".join(parts))
    return path


def encode_call(name, version, records, *, number=0):
    request, response = build_call(name, version, records)
    return (
        encode_request(request, version, correlation_id=number, client_id="me"),
        encode_response(response, version, correlation_id=number),
    )


def read_records_table(path, **options):
    """Return the rows of the table of records, and the unread data."""
    batches = kafkaframes.read_capture(path, table="records", **options)
    return batches.read_all().to_pylist(), [error.text for error in batches.errors]


@pytest.mark.parametrize(("name", "version"), VERSIONS)
def test_records_of_each_version_are_rows(name, version, tmp_path):
    rows, unread = read_records_table(write_capture(tmp_path / "c.pcapng", encode_call(name, version, RECORDS)))
    assert unread == []
    assert [(row["apiName"], row["partition"], row["offset"], row["value"]) for row in rows] == [
        (name, 3, 0, b"v1"),
        (name, 3, 1, b"v2"),
    ]
    assert rows[0]["topic"] == "orders" or rows[0]["topicId"] == "AAAAAAAAAAAAAAAAAAAABw"


def test_times_before_1970_and_outside_microseconds_are_kept(tmp_path):
    times = [-1, -2, -86_400_000, FAR_TIMESTAMP, -FAR_TIMESTAMP, 5]
    records = [{"value": b"v", "timestamp": at} for at in times]
    path = write_capture(tmp_path / "c.pcapng", encode_call("Produce", 7, records))
    rows, _ = read_records_table(path)
    timestamps = [None if row["timestamp"] is None else round(row["timestamp"].timestamp() * 1000) for row in rows]
    assert timestamps == [None, -2, -86_400_000, None, None, 5]
    assert [row["timestampMs"] for row in rows] == [None, None, None, FAR_TIMESTAMP, -FAR_TIMESTAMP, None]

    duckdb = pytest.importorskip("duckdb")
    connection = duckdb.connect()
    kafkaframes.scan_capture(path, table="records").to_duckdb(connection, "records")
    sql_rows = connection.sql('SELECT epoch_ms(timestamp), "timestampMs" FROM records').fetchall()
    assert sql_rows == list(zip(timestamps, [None, None, None, FAR_TIMESTAMP, -FAR_TIMESTAMP, None], strict=True))


def test_a_version_that_the_specs_lack_is_reported(tmp_path):
    """Previously, records were silently missing from captures of newer Kafka releases."""
    request, response = encode_call("Fetch", 12, RECORDS, number=1)
    newer = request[:2] + struct.pack(">h", 99) + request[4:]
    path = write_capture(tmp_path / "c.pcapng", encode_call("Fetch", 12, RECORDS), (newer, response))
    rows, unread = read_records_table(path)
    assert len(rows) == 2
    assert unread == ["Fetch response: version 99 is not in the specs"]
    with pytest.raises(DecodeError, match="version 99 is not in the specs"):
        read_records_table(path, on_damage="fail")


def test_a_message_that_cannot_be_decoded_is_reported(tmp_path):
    request, response = encode_call("Fetch", 4, RECORDS, number=1)
    broken_response = response[:8] + b"\x7f\xff\xff\xff" + response[12:]  # number of topics
    path = write_capture(tmp_path / "c.pcapng", encode_call("Fetch", 4, RECORDS), (request, broken_response))
    rows, unread = read_records_table(path)
    assert len(rows) == 2
    assert unread == ["Fetch response: cannot be decoded"]


def test_a_record_set_without_a_readable_record_is_reported(tmp_path):
    """Previously, no row had its error."""
    data = bytearray(kafkaframes.build_records(RECORDS))
    data[61] = 0x7F  # the size of the first record
    path = write_capture(tmp_path / "c.pcapng", encode_call("Produce", 7, bytes(data)))
    rows, unread = read_records_table(path)
    assert rows == []
    assert len(unread) == 1
    assert unread[0].startswith("Produce request: records are damaged: ")


def test_own_specs_with_other_fields_are_reported(tmp_path):
    """The specs nest the partition number in a header, like those of Kafka before 2.8."""
    folder = tmp_path / "specs"
    folder.mkdir()
    header = [{"name": "PartitionIndex", "type": "int32", "versions": "0+"}]
    partition = [
        {"name": "PartitionHeader", "type": "PartitionHeader", "versions": "0+", "fields": header},
        {"name": "RecordSet", "type": "records", "versions": "0+", "nullableVersions": "0+"},
    ]
    topic = [
        {"name": "Topic", "type": "string", "versions": "0+"},
        {"name": "Partitions", "type": "[]PartitionData", "versions": "0+", "fields": partition},
    ]
    common = {"apiKey": 1, "validVersions": "99", "flexibleVersions": "none"}
    specs = [
        common | {"type": "request", "name": "FetchRequest", "listeners": ["broker"], "fields": []},
        common
        | {
            "type": "response",
            "name": "FetchResponse",
            "fields": [{"name": "Responses", "type": "[]Topic", "versions": "0+", "fields": topic}],
        },
    ]
    for spec in specs:
        (folder / f"{spec['name']}.json").write_text(json.dumps(spec))
    request = message("FetchRequest", specs=folder)()
    response = message("FetchResponse", specs=folder)()
    frames = encode_request(request, 99, correlation_id=0), encode_response(response, 99, correlation_id=0)
    path = write_capture(tmp_path / "c.pcapng", frames)
    rows, unread = read_records_table(path, specs=folder)
    assert rows == []
    assert unread == ["Fetch response: the fields of version 99 differ from Kafka's"]
