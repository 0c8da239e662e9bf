"""No command ends in a traceback over logs that are mutilated: an error in words, and a documented exit status."""

from __future__ import annotations

import json
import os
import random
import shutil
import struct
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from click.testing import CliRunner

from kafkaframes.cli.main import cli
from kafkaframes.errors import KafkaframesError, OptionError

DATA = Path(__file__).parents[1] / "data"
LOGS = [DATA / "logs" / "zk-0102-v1", DATA / "logs" / "kraft-4x-transactions", DATA / "examples" / "kafka-2.8-format-1"]
ONE_PROCESS = ("--workers", "1")
VALID_STATUSES = {"audit": (0, 2, 3, 4, 5)}  # by default: success, damage, error
OFFSET, LENGTH, EPOCH, MAGIC, CRC, ATTRIBUTES, LAST_DELTA, TIME, PRODUCER, COUNT = 0, 8, 12, 16, 17, 21, 23, 27, 43, 57

COMMANDS: dict[str, Callable[[Path, Path], list]] = {
    "info": lambda log, to: ["info", log, "--deep", "--json", *ONE_PROCESS],
    "verify": lambda log, to: ["verify", log, "--deep", *ONE_PROCESS],
    "report": lambda log, to: ["report", log, "-o", to, *ONE_PROCESS],
    "dump-log": lambda log, to: ["dump-log", log, "--deep-iteration", "--print-data-log", "--kind", "all"],
    "dump-log-jsonl": lambda log, to: ["dump-log", log, "--format", "jsonl"],
    "dump-log-csv": lambda log, to: ["dump-log", log, "--format", "csv"],
    "export": lambda log, to: ["export", log, "--to", to, *ONE_PROCESS],
    "repair": lambda log, to: ["repair", log, "--to", to, *ONE_PROCESS],
    "repair-as-kafka": lambda log, to: ["repair", log, "--as-kafka", "--dry-run", *ONE_PROCESS],
    "convert": lambda log, to: [
        "convert",
        log,
        "--record-format",
        "v2",
        "--on-damage",
        "keep",
        "--to",
        to,
        *ONE_PROCESS,
    ],
    "recompress": lambda log, to: ["recompress", log, "--codec", "gzip", "--to", to, *ONE_PROCESS],
    "compact": lambda log, to: ["compact", log, "--dry-run", "--topic", "*", *ONE_PROCESS],
    "grep": lambda log, to: ["grep", "a", log, "--json"],
    "prove-gone": lambda log, to: ["compact", log, "--prove-gone", "a", *ONE_PROCESS],
    "audit": lambda log, to: ["audit", log, "--target", "4.3"],
    "analyze": lambda log, to: ["analyze", "records", log],
    "table": lambda log, to: ["table", log, "--to", "parquet", to],
    "restore": lambda log, to: ["restore", log, "--to", to, "--on-damage", "drop", *ONE_PROCESS],
}


def files(log: Path, suffix: str) -> list[Path]:
    return sorted(path for path in log.rglob(f"*{suffix}") if path.is_file())


def each(suffix: str, change: Callable[[bytearray, random.Random], bytes | bytearray]):
    """Change every file with that suffix."""

    def damage_files(log: Path, chance: random.Random) -> None:
        for path in files(log, suffix):
            path.write_bytes(change(bytearray(path.read_bytes()), chance))

    return damage_files


def put_number(place: int, form: str, value: int):
    """Write a number over a field of the first batch, and of another one in the middle."""

    def change(data: bytearray, chance: random.Random) -> bytearray:
        at = 0
        while at + 61 <= len(data):
            length = struct.unpack_from(">i", data, at + LENGTH)[0]
            if at == 0 or chance.random() < 0.3:
                struct.pack_into(form, data, at + place, value)
            if length <= 0:
                break
            at += length + 12
        return data

    return change


def noise(data: bytearray, chance: random.Random) -> bytearray:
    for _ in range(len(data) // 200 + 1):
        if data:
            data[chance.randrange(len(data))] = chance.randrange(256)
    return data


def swap_bytes(log: Path, chance: random.Random) -> None:
    for path in files(log, ".log"):
        path.with_suffix(".log.swap").write_bytes(path.read_bytes())


def rename_files(log: Path, chance: random.Random) -> None:
    for path in files(log, ".log"):
        path.rename(path.with_name(f"{2**63 - 1:020}.log"))


def directory_for_file(suffix: str):
    def damage_files(log: Path, chance: random.Random) -> None:
        for path in files(log, suffix):
            path.unlink()
            path.mkdir()

    return damage_files


DAMAGE_KINDS: dict[str, Callable[[Path, random.Random], None]] = {
    "segments cut": each(".log", lambda data, chance: data[: len(data) * 2 // 3]),
    "segments empty": each(".log", lambda data, chance: b""),
    "segments of one byte": each(".log", lambda data, chance: data[:1]),
    "segments zeros": each(".log", lambda data, chance: bytes(len(data))),
    "segments ones": each(".log", lambda data, chance: b"\xff" * len(data)),
    "segments text": each(".log", lambda data, chance: b"hello\n" * 500),
    "segments noise": each(".log", noise),
    "segments twice": each(".log", lambda data, chance: data + data),
    "segments backwards": each(".log", lambda data, chance: data[::-1]),
    "without the first batch's start": each(".log", lambda data, chance: data[7:]),
    "largest offsets": each(".log", put_number(OFFSET, ">q", 2**63 - 1)),
    "negative offsets": each(".log", put_number(OFFSET, ">q", -5)),
    "largest lengths": each(".log", put_number(LENGTH, ">i", 2**31 - 1)),
    "negative lengths": each(".log", put_number(LENGTH, ">i", -1)),
    "lengths of zero": each(".log", put_number(LENGTH, ">i", 0)),
    "negative epochs": each(".log", put_number(EPOCH, ">i", -(2**31))),
    "unknown formats": each(".log", put_number(MAGIC, ">b", 9)),
    "wrong checksums": each(".log", put_number(CRC, ">I", 7)),
    "unknown codecs": each(".log", put_number(ATTRIBUTES, ">h", 7)),
    "all flags": each(".log", put_number(ATTRIBUTES, ">h", -1)),
    "last offsets that wrap": each(".log", put_number(LAST_DELTA, ">i", -(2**31))),
    "largest last offsets": each(".log", put_number(LAST_DELTA, ">i", 2**31 - 1)),
    "earliest timestamps": each(".log", put_number(TIME, ">q", -(2**63))),
    "largest timestamps": each(".log", put_number(TIME, ">q", 2**63 - 1)),
    "negative producers": each(".log", put_number(PRODUCER, ">q", -(2**63))),
    "largest counts": each(".log", put_number(COUNT, ">i", 2**31 - 1)),
    "negative counts": each(".log", put_number(COUNT, ">i", -1)),
    "indexes noise": each("index", noise),
    "indexes cut": each("index", lambda data, chance: data[:5]),
    "checkpoints text": each("checkpoint", lambda data, chance: b"\xff\xfe no numbers\n"),
    "properties noise": each("meta.properties", lambda data, chance: b"\xff=\nversion=x\n\x00"),
    "snapshots noise": each(".snapshot", noise),
    "metadata noise": each("partition.metadata", lambda data, chance: b"version: 0\ntopic_id: ?"),
    "half-finished swaps": swap_bytes,
    "the largest base offset": rename_files,
    "directories for indexes": directory_for_file(".index"),
    "directories for segments": directory_for_file(".log"),
}


@pytest.mark.parametrize(("number", "way"), list(enumerate(DAMAGE_KINDS)), ids=list(DAMAGE_KINDS))
def test_damaged_logs_have_an_error_without_a_traceback(tmp_path, number, way):
    log = tmp_path / "log"
    shutil.copytree(LOGS[number % len(LOGS)], log)
    DAMAGE_KINDS[way](log, random.Random(number))
    for name, make_arguments in COMMANDS.items():
        result = CliRunner().invoke(cli, list(map(str, make_arguments(log, tmp_path / f"out-{name}"))))
        error = result.exception
        is_expected = error is None or isinstance(error, SystemExit | KafkaframesError | OSError)
        assert is_expected, f"{name}: {error!r}"
        assert result.exit_code in VALID_STATUSES.get(name, (0, 1, 2)), f"{name}: {result.output[-500:]}"
        assert "Traceback" not in result.output
        assert "Usage:" not in result.output, f"{name} was not run: {result.output}"


@pytest.mark.parametrize("column", ["topic", "partition", "offset", "timestamp", "key", "value", "headers"])
@pytest.mark.parametrize(
    "values",
    [["x", "y"], [1.5, 2.5], [None, None], [True, False], [[1], [2]], [{"a": 1}, {"a": 2}], [-1, 2**40]],
    ids=["text", "float", "null", "bool", "lists", "structs", "numbers"],
)
def test_parquet_of_any_columns_has_an_error_without_a_traceback(tmp_path, column, values):
    columns = {"topic": ["t", "t"], "partition": [0, 1], "value": [b"a", b"b"]} | {column: pa.array(values)}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    result = CliRunner().invoke(
        cli, ["restore", str(tmp_path / "a.parquet"), "--to", str(tmp_path / "new"), *ONE_PROCESS]
    )
    assert result.exception is None or isinstance(result.exception, SystemExit | KafkaframesError)
    assert result.exit_code in (0, 1, 2)


@pytest.mark.parametrize("raw", [b"", b"PAR1", b"PAR1" * 100, json.dumps({"a": 1}).encode()])
def test_invalid_parquet_has_an_error_without_a_traceback(tmp_path, raw):
    (tmp_path / "a.parquet").write_bytes(raw)
    result = CliRunner().invoke(cli, ["restore", str(tmp_path / "a.parquet"), "--to", str(tmp_path / "new")])
    assert isinstance(result.exception, KafkaframesError)
    assert "a.parquet" in str(result.exception)


@pytest.mark.parametrize("text", [b"partition", b"zzzzzzzz"], ids=["a column's name", "a value"])
def test_parquet_with_invalid_utf_8_has_an_error_without_a_traceback(tmp_path, text):
    columns = {"topic": ["zzzzzzzz"], "partition": [0], "offset": [0], "value": ["zzzzzzzz"]}
    pq.write_table(pa.table(columns), tmp_path / "a.parquet", compression="none", use_dictionary=False)
    raw = (tmp_path / "a.parquet").read_bytes()
    (tmp_path / "a.parquet").write_bytes(raw.replace(text, b"\xea" + text[1:]))
    result = CliRunner().invoke(
        cli, ["restore", str(tmp_path / "a.parquet"), "--to", str(tmp_path / "new"), *ONE_PROCESS]
    )
    assert isinstance(result.exception, KafkaframesError), result.exception


INVALID_HOSTS = {
    "topics": lambda host, to: ["topics", "list", "-b", f"{host}:9092"],
    "mirror": lambda host, to: ["mirror", "--from", f"{host}:9092", "--to", to],
    "broker": lambda host, to: ["broker", "--host", host, "--port", "0"],
    "record": lambda host, to: ["record", "--listen", f"{host}:0", "--upstream", "x:1", "-o", to],
    "verify": lambda host, to: ["verify", LOGS[0], "--master", f"spark://{host}:7077"],
}


@pytest.mark.parametrize("command", INVALID_HOSTS)
@pytest.mark.parametrize("host", ["kafka..example", "k" * 64, "caf\xe9\x9b"])
def test_an_invalid_host_name_has_an_error_without_a_traceback(tmp_path, command, host):
    result = CliRunner().invoke(cli, list(map(str, INVALID_HOSTS[command](host, tmp_path / "out"))))
    assert isinstance(result.exception, KafkaframesError), result.exception
    assert host[:3] in str(result.exception)
    assert not (tmp_path / "out").is_file()


@pytest.mark.parametrize("name", ["a.pcap", "a.pcapng", "a.pcap.gz"])
@pytest.mark.parametrize("command", [["export", "--to", "OUT"], ["table", "--to", "parquet", "OUT"], ["info"]], ids=str)
def test_the_error_for_a_capture_instead_of_a_log_names_other_commands(tmp_path, command, name):
    (tmp_path / name).write_bytes(b"\xd4\xc3\xb2\xa1")
    words = [str(tmp_path / "out") if word == "OUT" else word for word in command]
    result = CliRunner().invoke(cli, [words[0], str(tmp_path / name), *words[1:]])
    assert "`kafkaframes report` and `kafkaframes audit` read captures" in str(result.exception), result.output


@pytest.mark.parametrize("to", ["", ".", "/"])
@pytest.mark.parametrize("command", ["repair", "convert", "recompress", "restore"])
def test_a_destination_without_a_name_is_rejected(tmp_path, monkeypatch, command, to):
    monkeypatch.chdir(tmp_path)
    result = CliRunner().invoke(cli, list(map(str, COMMANDS[command](LOGS[0], to))))
    assert isinstance(result.exception, OptionError), result.exception
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "arguments", [["export", LOGS[0], "--to", ""], ["table", LOGS[0], "--to", "parquet", ""]], ids=str
)
def test_an_empty_destination_is_not_the_working_directory(tmp_path, monkeypatch, arguments):
    monkeypatch.chdir(tmp_path)
    assert isinstance(CliRunner().invoke(cli, list(map(str, arguments))).exception, OptionError)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["report", "dump-log", "audit"])
def test_a_pipe_or_a_link_as_destination_is_not_replaced(tmp_path, command):
    arguments_by_command = {
        "report": ["report", LOGS[0], "--json", *ONE_PROCESS, "-o"],
        "audit": ["audit", LOGS[0], "--target", "4.3", "-o"],
    }
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("file")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    for name in ("pipe", "link"):
        arguments = [*arguments_by_command.get(command, ["dump-log", files(LOGS[0], ".log")[0], "-o"]), tmp_path / name]
        CliRunner().invoke(cli, list(map(str, arguments)))
    assert os.read(reader, 1) == (tmp_path / "file").read_bytes()[:1]
    assert (tmp_path / "pipe").is_fifo()
    assert (tmp_path / "link").is_symlink()
    assert sorted(path.name for path in tmp_path.iterdir()) == ["file", "link", "pipe"]
    os.close(reader)
