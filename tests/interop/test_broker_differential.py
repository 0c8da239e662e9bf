"""The embedded broker answers thousands of raw requests, of each API at each version, as Kafka does in each field."""

from __future__ import annotations

from tests.interop.broker_script import FrameClient, is_allowed, play_script

from kafkaframes.broker import Broker

PROPERTIES = {
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.retention.ms": "-1",  # the records' timestamps are old, and retention starts after half a minute
}
# as by Kafka's default; by its own default, the embedded broker stores ACLs
EMBEDDED_PROPERTIES = PROPERTIES | {"authorizer.class.name": ""}
MIN_REQUESTS = 2_000


def test_responses_equal_kafkas(kafka, tmp_path):
    with kafka(tmp_path, PROPERTIES) as node, Broker(config=EMBEDDED_PROPERTIES) as broker:
        ours, theirs = FrameClient(broker.port), FrameClient(int(node.bootstrap.rpartition(":")[2]))
        try:
            all_differences, count = play_script(ours, theirs)
        finally:
            ours.close()
            theirs.close()
    assert count >= MIN_REQUESTS
    unexplained_differences = [str(difference) for difference in all_differences if not is_allowed(difference)]
    assert not unexplained_differences, f"{len(unexplained_differences)} of {count} requests:\n" + "\n".join(
        unexplained_differences[:40]
    )
