"""No command writes into its source, follows a symbolic link out of it, or reads topics that are not asked for."""

from __future__ import annotations

import hashlib
import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.storage.files.atomic import reject_nested_destination

SEGMENT_NAME = f"{0:020}.log"
CAPTURE = Path(__file__).parents[1] / "data" / "captures" / "share-groups-broker43.pcap.zst"


def ask(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    assert result.exception is None or isinstance(result.exception, SystemExit | KafkaframesError), result.exception
    return result, f"{result.output}{result.stderr}{result.exception or ''}"


@pytest.fixture
def log(tmp_path):
    directory = tmp_path / "log"
    for topic in ("orders-0", "orders-1", "users-0"):
        (directory / topic).mkdir(parents=True)
        (directory / topic / SEGMENT_NAME).write_bytes(
            kafkaframes.build_records([{"key": b"k", "value": topic.encode()}] * 5)
        )
    (directory / "meta.properties").write_text("version=1\ncluster.id=c\nnode.id=1\n")
    return directory


def content(directory):
    return {str(path): hashlib.sha256(path.read_bytes()).hexdigest() for path in directory.rglob("*") if path.is_file()}


WRITING_COMMANDS = {
    "report": lambda log, to: ["report", log, "-o", to],
    "report of a pattern": lambda log, to: ["report", f"{log}/ord*", "-o", to],
    "report of a segment": lambda log, to: ["report", log / "orders-0" / SEGMENT_NAME, "-o", to],
    "dump-log": lambda log, to: ["dump-log", log, "--output", to],
    "export": lambda log, to: ["export", log, "--to", to, "--workers", "1"],
    "convert": lambda log, to: ["convert", log, "--record-format", "v2", "--to", to, "--workers", "1"],
    "recompress": lambda log, to: ["recompress", log, "--codec", "gzip", "--to", to, "--workers", "1"],
    "compact": lambda log, to: ["compact", log, "--topic", "*", "--to", to, "--workers", "1"],
    "repair": lambda log, to: ["repair", log, "--to", to, "--workers", "1"],
    "restore": lambda log, to: ["restore", log, "--to", to, "--workers", "1"],
    "audit": lambda log, to: ["audit", log, "--target", "4.3", "-o", to],
    "table": lambda log, to: ["table", log, "--to", "delta", to],
    "dead letters": lambda log, to: [
        "table",
        log,
        "--to",
        "parquet",
        f"{log}-t",
        "--mode",
        "json",
        "--dead-letters",
        to,
    ],
    "mirror": lambda log, to: ["mirror", "--from", log, "--to", to],
    "mirror's state": lambda log, to: ["mirror", "--from", log, "--to", f"{log}-copy", "--state", to],
    "compact's scratch": lambda log, to: ["compact", log, "--topic", "*", "--dry-run", "--scratch", to],
    "broker's request log": lambda log, to: ["broker", "--serve", log, "--request-log", to, "--port", "0"],
    "a backup": lambda log, to: ["recompress", log, "--codec", "gzip", "--in-place", "--backup", to, "--workers", "1"],
}


REJECTION_TEXTS = ("sources are never changed", "is a directory", "no earlier output", "exists already", "are the same")


@pytest.mark.parametrize("command", WRITING_COMMANDS)
@pytest.mark.parametrize("place", [f"orders-0/{SEGMENT_NAME}", "orders-0/new", "."])
def test_a_destination_in_the_source_is_rejected(log, command, place):
    place = "orders-0" if place == "." and "of a" in command else place
    before = content(log)
    result, output = ask(*WRITING_COMMANDS[command](log, log / place))
    assert result.exit_code != 0
    assert any(words in output for words in REJECTION_TEXTS), output
    assert content(log) == before


@pytest.mark.parametrize("place", ["new", "../users-0/new", "."])
@pytest.mark.parametrize("source", [".", "..", SEGMENT_NAME])
def test_a_destination_in_the_log_directory_of_a_partition_is_rejected(log, monkeypatch, source, place):
    monkeypatch.chdir(log / "orders-0")
    with pytest.raises(OptionError, match="sources are never changed"):
        reject_nested_destination(Path(place), [source])
    reject_nested_destination(log.parent / "new", [source])


def test_redact_does_not_write_into_the_folder_of_its_captures(tmp_path):
    capture = shutil.copy(CAPTURE, tmp_path)
    _, output = ask("redact", tmp_path, "-o", tmp_path / "new.pcapng")
    assert "sources are never changed" in output
    assert ask("redact", capture, "-o", tmp_path / "new.pcapng")[0].exit_code == 0


def test_a_link_to_the_source_is_rejected(log, tmp_path):
    (tmp_path / "way").symlink_to(log)
    with pytest.raises(OptionError, match="sources are never changed"):
        reject_nested_destination(tmp_path / "way" / "out", [str(log)])
    reject_nested_destination(tmp_path / "out", [str(log)])


@pytest.fixture
def linked_log(log, tmp_path):
    """A log with links: to a key file, to a partition in another directory, and to its own directory."""
    (tmp_path / "secret.pem").write_text("secret")
    other = tmp_path / "elsewhere" / "moved-0"
    other.mkdir(parents=True)
    (other / SEGMENT_NAME).write_bytes(kafkaframes.build_records([{"value": b"moved"}]))
    (log / "key.pem").symlink_to(tmp_path / "secret.pem")
    (log / "orders-0" / "key.pem").symlink_to(tmp_path / "secret.pem")
    (log / "moved-0").symlink_to(other)
    (log / "loop").symlink_to("..")
    return log


@pytest.mark.parametrize("command", ["convert", "compact", "repair", "restore", "export"])
def test_links_are_reported_but_not_followed(linked_log, tmp_path, command):
    to = tmp_path / "out"
    result, output = ask(*WRITING_COMMANDS[command](linked_log, to))
    assert result.exit_code == 0, output
    for name in ("key.pem", "orders-0/key.pem", "moved-0", "loop"):
        assert f"left out: {linked_log}/{name} is a symbolic link" in output
    assert not [path for path in to.rglob("*") if path.name in ("key.pem", "loop") or "moved" in path.name]


@pytest.mark.parametrize("command", ["convert", "export", "info", "verify"])
def test_links_are_followed_on_request(linked_log, tmp_path, command):
    arguments = WRITING_COMMANDS.get(command, lambda log, to: [command, log])(linked_log, tmp_path / "out")
    result, output = ask(*arguments, "--follow-links")
    assert result.exit_code == 0, output
    assert "symbolic link" not in output
    if command in ("convert", "export"):
        assert [path for path in (tmp_path / "out").rglob("*") if "moved" in path.name]
    if command == "info":
        assert "moved" in output


@pytest.mark.parametrize(
    ("options", "topics"),
    [
        (("--topic", "users"), {"users-0"}),
        (("--topic", "ord*", "--partition", "1"), {"orders-1"}),
        (("--topic", "users", "--topic", "orders"), {"users-0", "orders-0", "orders-1"}),
    ],
)
def test_all_commands_select_topics_equally(log, tmp_path, options, topics):
    info = json.loads(ask("info", log, "--json", *options)[0].stdout)
    assert {f"{one['topic']}-{one['partition']}" for one in info["partitions"]} == topics
    assert json.loads(ask("verify", log, "--json", *options)[0].stdout)["partitions"] == len(topics)
    dumped_text = ask("dump-log", log, "-f", "%t-%p\\n", *options)[0].stdout
    assert set(dumped_text.split()) == topics
    report = json.loads(ask("report", log, "--json", *options)[0].stdout)
    assert {one["name"] for one in report["topics"]} == {name[:-2] for name in topics}
    if "--partition" not in options:
        ask("export", log, "--to", tmp_path / "out", "--workers", "1", *options)
        assert {f"{path.parent.name[6:]}-{path.name[10:]}" for path in (tmp_path / "out").glob("topic=*/*")} == topics


@pytest.mark.parametrize("command", ["info", "verify", "dump-log", "report"])
def test_the_error_for_a_missing_topic_suggests_the_nearest(log, command):
    result, output = ask(command, log, "--topic", "order")
    assert result.exit_code != 0
    assert "no topic order: did you mean orders?" in output
