"""Symbolic links under the paths of a log."""

from __future__ import annotations

import pytest

import kafkaframes
from kafkaframes.storage.log.discover import discover, find_links

SEGMENT_NAME = f"{0:020}.log"


@pytest.fixture
def linked_log(tmp_path):
    """A log with links: to a key file, to a partition in another directory, and to its own directory."""
    log = tmp_path / "log"
    for name in ("orders-0", "users-0"):
        (log / name).mkdir(parents=True)
        (log / name / SEGMENT_NAME).write_bytes(kafkaframes.build_records([{"value": b"v"}]))
    (tmp_path / "secret.pem").write_text("secret")
    (tmp_path / "elsewhere" / "moved-0").mkdir(parents=True)
    (log / "key.pem").symlink_to(tmp_path / "secret.pem")
    (log / "orders-0" / "key.pem").symlink_to(tmp_path / "secret.pem")
    (log / "moved-0").symlink_to(tmp_path / "elsewhere" / "moved-0")
    (log / "loop").symlink_to("..")
    return log


def test_a_path_follows_links_but_patterns_do_not(linked_log, tmp_path):
    (tmp_path / "named").symlink_to(linked_log)
    (log_dir,) = discover(str(tmp_path / "named"))
    assert {partition.topic for partition in log_dir.partitions} == {"orders", "users"}
    assert {partition.topic for partition in discover(f"{linked_log}/*-0")[0].partitions} == {"orders", "users"}
    assert len(find_links([str(tmp_path / "named")])) == 4


def test_every_link_is_reported_once(linked_log, tmp_path):
    link_paths = [path.removeprefix(f"{linked_log}/") for path in find_links([str(linked_log)])]
    assert sorted(link_paths) == ["key.pem", "loop", "moved-0", "orders-0/key.pem"]
    assert find_links([str(tmp_path / "elsewhere"), "s3://bucket/logs", str(tmp_path / "nowhere")]) == []


def test_an_error_is_shown_despite_many_links(tmp_path):
    from tests.cli.calling import ask

    for number in range(40):
        (tmp_path / f"link-{number}").symlink_to("/nowhere")
    result = ask("info", tmp_path)
    lines = result.output.splitlines()
    assert (len(lines), lines[-1]) == (11, "kafkaframes: left out: 30 more symbolic links")
    assert "contains no Kafka log directory" in str(result.exception)
