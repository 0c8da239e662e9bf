"""Traffic as columns: labels, reasons, and request logs, which contain only the sizes of records."""

from __future__ import annotations

import json
from pathlib import Path

from kafkaframes.errors.sensitive import REQUEST, RESPONSE
from kafkaframes.jobs.analyze.traffic import BY, TrafficTask, read_messages

DATA = Path(__file__).parents[2] / "data"
CAPTURE = str(DATA / "captures" / "share-groups-broker43.pcap.zst")


def write_request_log(tmp_path, version, *partitions):
    body = {"transactionalId": None, "acks": 1, "timeoutMs": 1}
    body["topicData"] = [{"name": "t", "partitionData": list(partitions)}]
    header = {"requestApiKey": 0, "requestApiVersion": version, "correlationId": 1, "clientId": "c"}
    entry = {"requestHeader": header, "request": body, "connection": "a-b-0"}
    path = tmp_path / "request.log"
    path.write_text(f"[2026-01-01 00:00:00,000] TRACE Completed request:{json.dumps(entry)} (kafka.request.logger)\n")
    (messages,) = read_messages(TrafficTask((str(path),)), (REQUEST,))
    return messages


def test_records_are_counted_by_their_sizes(tmp_path):
    """Two record sets of 100 and 300 bytes: the compact length of the second takes two bytes instead of one."""
    messages = write_request_log(
        tmp_path, 9, {"index": 0, "recordsSizeInBytes": 100}, {"index": 1, "recordsSizeInBytes": 300}
    )
    assert messages.records == [[100, 300]]
    assert messages.sum_record_bytes(compact=False).tolist() == [400]
    assert messages.sum_record_bytes(compact=True).tolist() == [401]
    assert messages.wire_sizes is None


def test_a_missing_size_is_not_counted(tmp_path):
    for size in (-1, 1 << 40, "5"):
        assert write_request_log(tmp_path, 9, {"index": 0, "recordsSizeInBytes": size}).records == [[]]


def test_a_call_without_a_spec_is_listed(tmp_path):
    messages = write_request_log(tmp_path, 999, {"index": 0, "recordsSizeInBytes": 1})
    assert messages.unread == {(0, "the specs do not have this API version"): 1}
    assert len(messages.frames) == 0


def test_labels_have_the_requested_parts_and_add_up():
    whole = count = 0
    for messages in read_messages(TrafficTask((CAPTURE,)), (RESPONSE,), BY):
        assert all(isinstance(client, str) and "-" in connection for client, connection, _ in messages.names)
        whole += len(messages.frames)
        count += sum(len(part.frames) for part in messages.split_by_label())
    assert whole == count > 70
    (nobody,) = {names for one in read_messages(TrafficTask((CAPTURE,)), (RESPONSE,)) for names in one.names}
    assert nobody == (None, None, None)
