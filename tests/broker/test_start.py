"""The modules that a broker imports before its first answers are limited in number."""

from __future__ import annotations

import json
import subprocess
import sys

_SCRIPT = """
import json, socket, struct, sys
from kafkaframes.broker import Broker
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request

def large():
    names = ("pyarrow", "pyspark", "numba", "llvmlite", "pandas", "kafkaframes.spark", "kafkaframes.records.rows")
    return [name for name in names if name in sys.modules]

def ask(peer, body, version):
    frame = encode_request(body, version)
    peer.sendall(struct.pack(">i", len(frame)) + frame)
    size = struct.unpack(">i", peer.recv(4, socket.MSG_WAITALL))[0]
    return len(peer.recv(size, socket.MSG_WAITALL)) == size

batch = bytes.fromhex(sys.argv[1])
produce, fetch, metadata = (message(name + "Request") for name in ("Produce", "Fetch", "Metadata"))
with Broker(journal=False) as broker, socket.create_connection((broker.host, broker.port), 60) as peer:
    answered = ask(peer, metadata(topics=[metadata.MetadataRequestTopic(name="orders")]), 9)
    first = large(), len([name for name in sys.modules if name.startswith("kafkaframes.")]), len(sys.modules)
    row = produce.PartitionProduceData(index=0, records=batch)
    topic = produce.TopicProduceData(name="orders", partition_data=[row])
    answered &= ask(peer, produce(acks=-1, topic_data=[topic]), 9)
    row = fetch.FetchPartition(partition=0, partition_max_bytes=1 << 20)
    body = fetch(max_bytes=1 << 20, session_epoch=-1, topics=[fetch.FetchTopic(topic="orders", partitions=[row])])
    answered &= ask(peer, body, 11)
    print(json.dumps([answered, *first, large()]))
"""


def test_the_first_requests_import_neither_arrow_nor_spark_nor_the_compiler(require_compiler):
    from kafkaframes.records.build import build_records

    batch = build_records({"key": [b"k"], "value": [b"v"], "timestamp": [1_700_000_000_000]})
    process = subprocess.run(
        [sys.executable, "-c", _SCRIPT, batch.hex()], capture_output=True, text=True, timeout=120, check=True
    )
    has_answers, large, ours, all_of_them, later = json.loads(process.stdout)
    assert has_answers
    assert (large, later) == ([], [])
    assert ours <= 330  # 323 modules; a third of them are files of one API each
    assert all_of_them <= 658


def test_importing_the_package_does_not_import_spark():
    script = "import kafkaframes, sys; print(sorted(name for name in sys.modules if 'spark' in name))"
    script += "; print(kafkaframes.spark.__name__, kafkaframes.export_log.__name__)"
    process = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=120, check=True)
    assert process.stdout.splitlines() == ["[]", "kafkaframes.spark export_log"]
