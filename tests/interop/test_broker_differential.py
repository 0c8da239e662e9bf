"""The embedded broker and real ones: thousands of raw requests, each API at each version, compared field by field."""

from __future__ import annotations

from tests.interop.broker_script import FrameClient, is_allowed, script

from kafkaframes.broker import Broker

PROPERTIES = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # the records are old, and retention starts after half a minute
}
OURS = PROPERTIES | {"authorizer.class.name": ""}  # as by Kafka's default; our broker stores ACLs
MIN_REQUESTS = 2_000


def test_responses_are_those_of_kafka(kafka, tmp_path):
    with kafka(tmp_path, PROPERTIES) as node, Broker(config=OURS) as broker:
        ours, theirs = FrameClient(broker.port), FrameClient(int(node.bootstrap.rpartition(":")[2]))
        try:
            all_differences, count = script(ours, theirs)
        finally:
            ours.close()
            theirs.close()
    assert count >= MIN_REQUESTS
    unexplained_differences = [str(difference) for difference in all_differences if not is_allowed(difference)]
    assert not unexplained_differences, f"{len(unexplained_differences)} of {count} requests:\n" + "\n".join(
        unexplained_differences[:40]
    )
