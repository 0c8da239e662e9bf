"""``kafkaframes configs``: settings are shown, changed, and reset."""

import json


def test_settings_are_shown_and_changed(run):
    run("topics create kept --partitions 1 --config retention.ms=1000")
    assert "retention.ms  1000" in run("configs show topic kept").output
    run("configs set topic kept retention.ms= cleanup.policy=compact")
    (row,) = json.loads(run("configs show topic kept --json").output)
    assert (row["name"], row["value"]) == ("cleanup.policy", "compact")
    everything = json.loads(run("configs show topic kept --all --json").output)
    assert {"retention.ms", "segment.bytes"} <= {one["name"] for one in everything if one["default"] == "yes"}


def test_a_topic_without_settings_has_only_defaults(run):
    run("topics create plain --partitions 1")
    assert run("configs show topic plain").output == "topic plain only has default settings; use --all to show them\n"
    assert json.loads(run("configs show topic plain --json").output) == []
