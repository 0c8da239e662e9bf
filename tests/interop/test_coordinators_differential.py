"""The embedded broker's coordinators answer hundreds of steps as Kafka's do, in each field."""

from __future__ import annotations

from tests.interop.coordinator_script import CLOSED, differences, play

from kafkaframes.broker import Broker

MIN_STEPS = 500
# Differences from brokers before 4.0, whose group coordinator has different code, by prefix of the label.
ALLOWED_BEFORE_4 = {
    "DeleteGroups": "a group whose last offset is deleted is removed immediately (GroupMetadataManager.scala)",
    "state before offsets": "EndTxn 5, which bumps the epoch, does not exist and is not played",
    "OffsetCommit v9 no group": "ILLEGAL_GENERATION at each version (GroupCoordinator.scala)",
}
SETTINGS = {"group.min.session.timeout.ms": "6000"}


def test_coordinators_respond_as_in_kafka(kafka, tmp_path):
    with Broker(config=SETTINGS) as broker:
        ours = play("127.0.0.1", broker.port)
    with kafka(tmp_path, {"group.initial.rebalance.delay.ms": "0"}) as node:
        host, _, port = node.bootstrap.rpartition(":")
        theirs = play(host, int(port))
    assert len(theirs) >= MIN_STEPS
    is_old = any(label.startswith("beat") and CLOSED in text for label, text in theirs)
    differing_steps = []
    for label, mine, text in differences(ours, theirs):
        if is_old and (CLOSED in text or any(label.startswith(one) for one in ALLOWED_BEFORE_4)):
            continue  # an API or version that Kafka's broker does not have, or a response of the old coordinator
        differing_steps.append(f"{label}:\n  ours  {mine[:400]}\n  Kafka {text[:400]}")
    assert not differing_steps, f"{len(differing_steps)} of {len(theirs)} steps differ\n" + "\n".join(
        differing_steps[:30]
    )
