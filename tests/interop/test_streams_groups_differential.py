"""Streams groups of the embedded broker and of Kafka respond equally in each field."""

from __future__ import annotations

import pytest
from tests.interop.coordinator_script import differences
from tests.interop.streams_script import SETTINGS, play

from kafkaframes.broker import Broker

MIN_STEPS = 180


@pytest.mark.parametrize("kafka", ["4.3.1"], indirect=True)  # Kafka 3.9 does not have streams groups
def test_streams_groups_respond_as_in_kafka(kafka, tmp_path):
    with Broker(config=SETTINGS) as broker:
        ours = play("127.0.0.1", broker.port)
    with kafka(tmp_path, SETTINGS) as node:
        host, _, port = node.bootstrap.rpartition(":")
        theirs = play(host, int(port))
    assert len(theirs) >= MIN_STEPS
    differing_steps = [
        f"{label}:\n  ours  {mine[:900]}\n  Kafka {text[:900]}" for label, mine, text in differences(ours, theirs)
    ]
    assert not differing_steps, f"{len(differing_steps)} of {len(theirs)} steps differ\n" + "\n".join(
        differing_steps[:30]
    )
