"""Output of commands that read logs about several copies of a partition."""

import json

import pytest
from tests.cli.calling import ask

import kafkaframes
from kafkaframes.cli.options import MAX_PRINTED_DECISIONS, format_decisions
from kafkaframes.storage.copies.decisions import Decision
from kafkaframes.storage.copies.one_log import merge_directories
from kafkaframes.storage.files.names import TopicPartition
from kafkaframes.storage.log.discover import discover, has_copies


@pytest.fixture
def brokers(tmp_path):
    for broker in ("a", "b"):
        (tmp_path / broker / "t-0").mkdir(parents=True)
        (tmp_path / broker / "t-0" / f"{0:020}.log").write_bytes(kafkaframes.build_records([{"value": b"v"}]))
    return [str(tmp_path / "a"), str(tmp_path / "b")]


def test_the_same_partition_in_two_directories_is_two_copies(brokers):
    assert has_copies(discover(brokers), brokers)
    assert not has_copies(discover(brokers[0]), brokers[:1])


def test_a_renamed_directory_is_only_a_copy_if_a_path_names_it(brokers, tmp_path):
    stray_dir = (tmp_path / "b" / "t-0").rename(tmp_path / "b" / f"t-0.{'0' * 32}-stray")
    assert not has_copies(discover(brokers), brokers)
    paths = [brokers[0], str(stray_dir)]
    assert has_copies(discover(paths), paths)


def test_copies_are_merged_but_directories_of_two_clusters_are_not(brokers, tmp_path):
    assert len(merge_directories(discover(brokers), brokers, check=True)[0].merged_partitions) == 1
    for number, broker in enumerate(brokers):
        (tmp_path / broker / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id=c{number}\n")
    apart, reason = merge_directories(discover(brokers), brokers, check=True)
    assert (len(apart.directories), apart.merged_partitions) == (2, ())
    assert "t-0 belongs to two clusters" in str(reason)
    for command in ("info", "verify"):
        result = ask(command, *brokers)
        assert "kafkaframes: not merged: t-0 belongs to two clusters" in result.stderr
    for function in (kafkaframes.describe_log, kafkaframes.verify_log):
        assert "not merged: t-0 belongs to two clusters" in str(function(brokers))


def test_many_decisions_of_one_check_are_counted():
    decisions = [
        Decision("missing", TopicPartition("t", 0), n, n + 1, f"offset {n}") for n in range(MAX_PRINTED_DECISIONS + 3)
    ]
    lines = format_decisions([*decisions, Decision("damaged", TopicPartition("t", 0), 1, 2, "x")])
    assert len(lines) == MAX_PRINTED_DECISIONS + 2
    assert lines[-1] == "missing: and 3 more"


def test_functions_merge_copies_like_their_commands(brokers, tmp_path):
    segment = tmp_path / "b" / "t-0" / f"{0:020}.log"
    segment.write_bytes(segment.read_bytes() + kafkaframes.build_records([{"value": b"w"}], base_offset=1))
    description = kafkaframes.describe_log(brokers)
    (summary,) = description.report
    assert (summary.log_start_offset, summary.log_end_offset) == (0, 2)
    assert len(kafkaframes.describe_log(brokers, replicas="all").report) == 2
    verification = kafkaframes.verify_log(brokers)
    assert verification.report.merged_partitions == 1
    assert verification.report.lost_ranges == 0
    assert json.loads(json.dumps(verification.to_dict())) == json.loads(ask("verify", *brokers, "--json").stdout)
    assert "each offset is undamaged in at least one copy" in str(verification)
    assert kafkaframes.verify_log(brokers, replicas="all").report.merged_partitions == 0
    assert kafkaframes.verify_log(brokers[0]).report.merged_partitions == 0
