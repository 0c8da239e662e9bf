"""One micro-batch, one transaction: wherever it is cut off, what is written in the end is there once. No Spark.

The driver's half and the tasks' half run in one process here, over the embedded broker.
"""

import pyarrow as pa
import pytest

from kafkaframes.broker import Broker
from kafkaframes.client import Admin, Consumer, NewTopic
from kafkaframes.spark import topic_exactly_once as sink
from kafkaframes.spark.topic_options import TopicWriteOptions

ROWS = pa.record_batch({"key": [b"k%d" % n for n in range(60)], "value": [b"v%d" % n for n in range(60)]})
APIS = ("InitProducerId", "CreateTopics", "ListOffsets", "Fetch", "Metadata", "Produce", "EndTxn")
STEPS = ("before", "half", "sent", "committed")


class KilledError(BaseException):
    """A driver that is killed does nothing more: no abort, no clean end."""


@pytest.fixture(scope="module")
def broker():
    with Broker(nodes=2) as broker:
        yield broker


@pytest.fixture
def options(broker, request):
    name = request.node.name.replace("[", "-").replace("]", "")
    with Admin(broker.bootstrap_servers) as admin:
        admin.create_topics([NewTopic(name=name, num_partitions=3)])
    return TopicWriteOptions.parse({"kafka.bootstrap.servers": broker.bootstrap_servers, "topic": name})


def tasks(options, identifier, identity, rows=ROWS):
    """Do what Spark's tasks do: build batches, then send them."""
    blobs = sink._packing(options, 3)(iter([rows]))
    return sum(sum(done["records"].to_pylist()) for done in sink._sending(options, identifier, identity)(blobs))


def write(options, batch_id, monkeypatch, *, killed=""):
    """Write a micro-batch; ``killed``: at which step the driver is."""

    def send(_, options, identifier, producer):
        if killed == "before":
            raise KilledError
        identity = producer.share_transaction()
        rows = ROWS.slice(0, 30) if killed == "half" else ROWS
        count = tasks(options, identifier, identity, rows)
        if killed in ("half", "sent"):
            raise KilledError
        return count

    monkeypatch.setattr(sink, "_send", send)
    monkeypatch.setattr(sink, "_abort", lambda _: None)
    sink._write(None, options, f"sink-of-{options.topic}", batch_id)


def committed(options):
    with Consumer(**options.client, isolation_level="read_committed", auto_offset_reset="earliest") as consumer:
        partitions = consumer.partitions_for(options.topic)
        consumer.assign(partitions)
        ends, found = consumer.end_offsets(partitions), []
        while any(consumer.position(one) < end for one, end in ends.items()):
            found += consumer.fetch_arrow(1_000, columns=("value",))["value"].to_pylist()
        return sorted(found)


WANTED = sorted(ROWS.column("value").to_pylist())


@pytest.mark.parametrize("api", APIS)
def test_an_answer_that_is_lost_after_its_request_was_carried_out(broker, options, monkeypatch, api):
    with broker.on(api).once().drop_reply() as rule:
        write(options, 0, monkeypatch)
    assert committed(options) == WANTED
    assert rule.seen or api == "CreateTopics"  # the topic of markers is made once


@pytest.mark.parametrize("step", STEPS)
def test_a_driver_that_is_killed_and_writes_the_batch_again(options, monkeypatch, step):
    if step == "committed":
        write(options, 0, monkeypatch)
    else:
        with pytest.raises(KilledError):
            write(options, 0, monkeypatch, killed=step)
        assert committed(options) == []
    write(options, 0, monkeypatch)
    assert committed(options) == WANTED
    write(options, 1, monkeypatch)
    assert committed(options) == sorted([*WANTED, *WANTED])
