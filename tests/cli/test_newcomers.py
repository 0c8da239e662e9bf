"""Mistakes of new users: misspelt commands, closed pipes, files that are not logs, numbers in JSON."""

from __future__ import annotations

import errno
import json
import os
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.calling import ask, ask_or_raise

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import LogDirError, OptionError

LOG = Path(__file__).parents[1] / "data" / "examples" / "kafka-4.3"


def test_a_file_that_does_not_belong_to_a_log_is_an_error():
    result = CliRunner().invoke(cli, ["dump-log", "/etc/passwd"])
    assert result.exit_code != 0
    assert "is not a segment, an index or a snapshot" in str(result.exception)


@pytest.mark.parametrize("command", ["info", "verify", "report"])
def test_an_unreadable_file_is_not_reported_as_damaged(tmp_path, monkeypatch, command):
    """The test simulates a failing disk, because root can read files without permission."""
    log = tmp_path / "log" / "t-0"
    log.mkdir(parents=True)
    for kind in ("log", "index", "timeindex"):
        (log / f"{0:020}.{kind}").write_bytes(kafkaframes.build_records([{"value": b"x"}]) if kind == "log" else b"")
    real = os.open

    def failing(path, *arguments, **more):
        if str(path).endswith(".log"):
            raise OSError(errno.EIO, os.strerror(errno.EIO))
        return real(path, *arguments, **more)

    monkeypatch.setattr(os, "open", failing)
    options = ["-o", str(tmp_path / "r.html")] if command == "report" else []
    result = CliRunner().invoke(cli, [command, str(tmp_path / "log"), *options, "--workers", "1"])
    assert result.exit_code == 1
    assert "DAMAGED" not in result.output
    assert command == "report" or "unreadable" in result.output.lower()


def test_numbers_in_json_have_units_and_missing_ones_are_null(tmp_path):
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020}.log").touch()
    (partition_row,) = json.loads(CliRunner().invoke(cli, ["info", str(tmp_path), "--json"]).stdout)["partitions"]
    assert partition_row["first_timestamp_ms"] is None
    assert partition_row["segments"][0]["last_offset"] is None
    assert -1 not in [*partition_row.values(), *partition_row["segments"][0].values()]
    whole = json.loads(CliRunner().invoke(cli, ["report", str(LOG), "--json"]).stdout)
    assert None in [one["first_timestamp_ms"] for one in whole["partitions"]]
    assert -1 not in [one[name] for one in whole["partitions"] for name in ("first_timestamp_ms", "last_timestamp_ms")]


@pytest.mark.parametrize(
    "arguments",
    [
        "consume localhost:9092 orders -e",
        "consume [::1]:9092 orders",
        "produce localhost:9092 orders",
        "topics describe broker-1:9092,broker-2:9092",
        "topics create kafka://localhost:9092",
        "transactions find-hanging localhost:9092",
    ],
)
def test_the_error_for_an_address_instead_of_a_topic_names_the_flag(arguments):
    """A user typed the broker's address as the first argument. The error is reported without opening a connection."""
    with pytest.raises(OptionError, match=r"'.*' is not a topic name, .*-b HOST:PORT \(or --bootstrap-server\)"):
        ask_or_raise(*arguments.split(), "-X", "bootstrap.servers=invalid host")


def test_grep_explains_the_order_of_its_arguments(tmp_path):
    """A user typed the log directory before the pattern."""
    with pytest.raises(OptionError) as error:
        ask_or_raise("grep", LOG, "order 17")
    assert str(error.value) == (
        f"no such file or directory (at order 17); the first argument is PATTERN, and {LOG} is an existing path; "
        f"expected PATTERN LOGDIR..., such as kafkaframes grep 'order 17' {LOG}"
    )
    assert "PATTERN" not in str(ask("grep", "order", tmp_path / "gone").exception)


@pytest.mark.parametrize("command", ["info -", "verify -", "dump-log -", "redact - -o o.pcap", "spec lint -"])
def test_a_dash_is_not_read_as_a_file(command, tmp_path, monkeypatch):
    """A user piped a segment into a command that reads files, and the error was only that ``-`` does not exist."""
    monkeypatch.chdir(tmp_path)
    error = ask(*command.split(), stdin=b"x").exception
    assert str(error).startswith("no such file or directory (at -)")
    assert str(error).count("; this command cannot read standard input, so specify a path") == 1
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "command",
    ["audit {}", "report {} -o p.html", "redact {} -o o.pcap", "info {}", "verify {}", "dump-log {}", "grep x {}"],
)
def test_a_pipe_is_not_read_as_an_empty_file(command, tmp_path, monkeypatch):
    """``tcpdump -w - | kafkaframes audit /dev/stdin`` only named an illegal seek, and ``grep`` found nothing.

    The file is a FIFO, as in ``kafkaframes audit <(zcat trace.pcap.gz)``.
    """
    monkeypatch.chdir(tmp_path)
    os.mkfifo("pipe")
    writer = os.open("pipe", os.O_RDWR)  # so that neither end waits for the other
    os.write(writer, b"x" * 100)
    try:
        with pytest.raises((OptionError, LogDirError), match=r"is a pipe or a device, .* write the data to a file"):
            ask_or_raise(*command.format("pipe").split())
    finally:
        os.close(writer)
    assert os.listdir() == ["pipe"]


def test_decode_reads_a_pipe(tmp_path):
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    thread = threading.Thread(target=pipe.write_bytes, args=(b"00 00 00 00",))
    thread.start()
    assert ask("decode", pipe, "--message", "MetadataRequest", "--version", "0").exit_code == 0
    thread.join(60)


def test_a_file_named_dash_is_read(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    shutil.copytree(LOG, tmp_path / "-")
    assert ask("info", "-").exit_code == 0


def test_produce_reads_standard_input_for_a_dash(run):
    run("topics create piped")
    run("produce piped -", stdin=b"a\nb\n")
    assert run("consume piped -e").stdout == "a\nb\n"


def test_archives_of_a_log_are_recognized(tmp_path, monkeypatch):
    """A tar archive begins with a path, and was called a segment under another name."""
    shutil.copytree(LOG, tmp_path / "kafka-logs")
    monkeypatch.chdir(tmp_path)
    descriptions = {
        "tar": "a tar archive: unpack it first",
        "gztar": "a compressed tar archive: unpack it first",
        "bztar": "a compressed tar archive: unpack it first",
        "xztar": "a compressed tar archive: unpack it first",
        "zip": "a zip archive: unpack it first",
    }
    for form, description in descriptions.items():
        archive = shutil.make_archive(f"backup-{form}", form, tmp_path, "kafka-logs")
        for command in (["info"], ["verify"], ["dump-log"], ["grep", "x"]):
            assert f"but {description} (at" in str(ask(*command, archive).exception), (form, command)


def test_grep_prints_the_path_of_a_segment_outside_a_partition(tmp_path, monkeypatch):
    """A user searched a copy of a single segment, and the records were printed with the partition ``None-None``."""
    monkeypatch.chdir(tmp_path)
    Path("single.log").write_bytes(kafkaframes.build_records([{"value": b"paid", "timestamp": 0}]))
    assert ask("grep", "paid", "single.log").stdout == "single.log@0 1970-01-01 00:00:00 (null) paid\n"
    assert ask("grep", "paid", "single.log", "--json").exit_code == 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ("topics --list", "No such option '--list': list is a command: kafkaframes topics list"),
        ("groups --describe --group g", "describe is a command: kafkaframes groups describe"),
        ("-b a:1 topics list", "No such option '-b': -b follows the command"),
        ("--bootstrap-server a:1 topics list", "such as kafkaframes topics list --bootstrap-server HOST:PORT"),
        ("consume orders --from-beginning", "consume starts at the beginning by default; omit it"),
        ("consume -C -t orders", "No such option '-C': consume always reads; omit it"),
        ("consume orders -o beginning", "No such option '-o': --offset sets the start position"),
        ("produce -t orders", "No such option '-t': the topic is the first argument: kafkaframes produce TOPIC"),
        ("produce orders --broker-list a:1", "-b specifies the brokers"),
        ("topics create orders --partition 3", "No such option '--partition'. Did you mean '--partitions'?"),
    ],
)
def test_options_of_other_tools_are_explained(arguments, message):
    """Options of kafka-topics, kafka-consumer-groups, kafka-console-consumer and kcat."""
    result = CliRunner().invoke(cli, arguments.split(), prog_name="kafkaframes")
    assert result.exit_code == 2
    assert message in result.output


def test_a_refused_connection_to_the_default_address_names_the_flag(monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    monkeypatch.setattr("kafkaframes.cli.connecting._DEFAULT_SERVERS", "localhost:1")
    message = str(ask("topics", "list", "--timeout", "0.1").exception)
    assert message.endswith("; -b HOST:PORT or $KAFKA_BOOTSTRAP_SERVERS specifies the cluster")


def test_symbols_are_ascii_in_a_locale_that_does_not_have_them():
    """In a container without a locale, ``doctor`` printed ``\\u2713``. Other characters of names are still escaped."""
    run = "from kafkaframes.cli.main import main; main()"
    environment = {**os.environ, "LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0", "PYTHONIOENCODING": ""}
    command = [sys.executable, "-c", run, "doctor", "--only", "Python"]
    result = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert result.stdout.startswith("ok  Python")
    assert "\xf6\u2713\udc80".encode("ascii", "kafkaframes.replace") == rb"\xf6ok\udc80"


def test_a_directory_of_another_broker_names_the_flags(tmp_path):
    (tmp_path / "notes.txt").touch()
    error = str(ask("broker", "--data-dir", tmp_path, "--port", "0").exception)
    assert (
        "was not created by this broker (notes.txt); --serve reads a log directory, and --adopt writes to it" in error
    )


def test_an_audit_of_a_log_counts_its_topics():
    """A user audited a log directory, and the only line of the output was that there are 0 clients."""
    logs = LOG.parent
    assert ask("audit", LOG, "--target", "4.0.1").stdout == "Upgrade to 4.0.1: 7 topics on disk: 7 fine\n"
    first_line = ask("audit", logs / "kafka-2.8-format-1", "--target", "4.0.1").stdout.splitlines()[0]
    assert first_line.startswith("Upgrade to 4.0.1: ")
    assert "in deprecated formats" in first_line
    assert "client" not in first_line


def test_an_option_without_its_values_shows_their_form():
    result = CliRunner().invoke(cli, ["table", str(LOG), "--to", "lake"], prog_name="kafkaframes")
    assert result.exit_code == 2
    assert "Option '--to' requires 2 arguments. Expected --to FORMAT DIR." in result.output
