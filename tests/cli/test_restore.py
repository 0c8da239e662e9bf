"""The command ``restore``: its output, its exit status, and its option errors."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from kafkaframes.cli.restore import command
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.storage.log.discover import discover

DATA = Path(__file__).parents[1] / "data"
EXAMPLE = str(DATA / "examples" / "kafka-4.3")


def ran(*arguments):
    return CliRunner().invoke(command, [str(argument) for argument in arguments])


def test_the_output_has_the_result_and_the_next_steps(tmp_path):
    result = ran(EXAMPLE, "--to", tmp_path / "new", "--topic", "orders", "--node-id", 7)
    assert result.exit_code == 0, result.output
    assert "orders-2" in result.output
    assert f"log.dirs={tmp_path / 'new'}" in result.output
    assert "controller.quorum.voters=7@localhost:9093" in result.output
    assert "retention.ms=-1 for orders" in result.output
    again = ran(EXAMPLE, "--to", tmp_path / "new", "--topic", "orders", "--node-id", 7, "--json")
    assert json.loads(again.output)["done_before"]


def test_a_dry_run_shows_the_plan_and_writes_nothing(tmp_path):
    result = ran(EXAMPLE, "--to", tmp_path / "new", "--dry-run")
    assert "nothing was written" in result.output
    assert ran(EXAMPLE, "--dry-run").output == result.output
    assert list(tmp_path.iterdir()) == []
    assert "specify --to DIR" in str(ran(EXAMPLE).exception)


def test_skipped_damage_is_reported_and_has_its_exit_status(tmp_path):
    (source,) = discover(EXAMPLE)
    segment = next(partition for partition in source.partitions if partition.topic == "orders").segments[0]
    (tmp_path / "old" / "orders-0").mkdir(parents=True)
    data = bytearray(Path(segment.path).read_bytes())
    data[100] ^= 1
    (tmp_path / "old" / "orders-0" / Path(segment.path).name).write_bytes(data)
    refused_result = ran(tmp_path / "old", "--to", tmp_path / "new")
    assert isinstance(refused_result.exception, KafkaframesError)
    skipping_result = ran(tmp_path / "old", "--to", tmp_path / "new", "--on-damage", "drop")
    assert skipping_result.exit_code == 1
    assert "bytes 0 to" in skipping_result.output


@pytest.mark.parametrize(
    "text", ["Topic: orders\tTopicId: {}\tPartitionCount: 3\n\tTopic: orders\tPartition: 0", "orders {}"]
)
def test_the_ids_of_an_existing_cluster_are_used(tmp_path, text):
    topic_id = "AAAAAAAAAAAAAAAAAAAAAQ"
    (tmp_path / "ids").write_text(text.format(topic_id))
    result = ran(EXAMPLE, "--to", tmp_path / "new", "--into-cluster-ids", tmp_path / "ids")
    assert result.exit_code == 0, result.output
    (log_dir,) = discover(str(tmp_path / "new"))
    assert {(partition.topic, partition.metadata.topic_id) for partition in log_dir.partitions} == {
        ("orders", topic_id)
    }
    assert [epoch.leader_epoch for epoch in log_dir.partitions[0].leader_epochs] == [0]
    assert log_dir.meta is None
    assert not (tmp_path / "new" / "bootstrap.checkpoint").exists()
    assert '"orders",0,1026' in (tmp_path / "new" / "group-offsets.csv").read_text()


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--topic-map", "orders"),
        ("--config", "=9"),
        ("--topic-id", "orders=x"),
        ("--topic", "no"),
        ("--start", "soon"),
    ],
)
def test_options_without_an_effect_are_rejected(tmp_path, option, value):
    result = ran(EXAMPLE, "--to", tmp_path / "new", option, value)
    assert isinstance(result.exception, OptionError)
    assert list(tmp_path.iterdir()) == []


def test_a_file_without_ids_is_rejected(tmp_path):
    (tmp_path / "ids").write_text("this is no list of topics")
    result = ran(EXAMPLE, "--to", tmp_path / "new", "--into-cluster-ids", tmp_path / "ids")
    assert isinstance(result.exception, OptionError)
