"""A command whose request has several items prints the error of each failed item."""

import subprocess
import sys

from kafkaframes.client import Admin


def test_the_error_of_each_item_is_printed(servers):
    with Admin(servers) as admin:
        admin.create_topics(["cli-deleted"])
    command = [sys.executable, "-m", "kafkaframes", "topics", "delete", "no-1", "cli-deleted", "no-2", "--yes"]
    process = subprocess.run([*command, "-b", servers], capture_output=True, text=True, timeout=200, check=False)
    assert process.returncode == 2
    first, second = process.stderr.splitlines()
    assert first.startswith("kafkaframes: 2 of 3 items failed; the first: topic no-1: UNKNOWN_TOPIC_OR_PARTITION")
    assert second.startswith("also: topic no-2: UNKNOWN_TOPIC_OR_PARTITION")
    with Admin(servers) as admin:
        assert "cli-deleted" not in admin.list_topics()
