"""A missing path has the same error text in every command; a path of a wrong kind is named with the command that reads
it.
"""

import click
import pytest
from click.testing import CliRunner
from tests.capture.test_records_table import RECORDS, encode_call, write_capture

import kafkaframes
from kafkaframes.cli.main import cli, main
from kafkaframes.errors import KafkaframesError, LogDirError

MISSING_PATH = "GONE"  # placeholder for the missing path
SERVERS = ("-b", "127.0.0.1:1")
TO_OPTION = ("--to", "out")
# Arguments of each command and subcommand with a path that must exist.
ARGUMENTS_BY_COMMAND = {
    "info": [MISSING_PATH],
    "report": [MISSING_PATH, "-o", "o.html"],
    "grep": ["a", MISSING_PATH],
    "dump-log": [MISSING_PATH],
    "verify": [MISSING_PATH],
    "export": [MISSING_PATH, *TO_OPTION],
    "table": [MISSING_PATH, "--to", "parquet", "out"],
    "mirror": ["--from", MISSING_PATH, *TO_OPTION],
    "restore": [MISSING_PATH, *TO_OPTION],
    "repair": [MISSING_PATH, *TO_OPTION],
    "convert": [MISSING_PATH, "--record-format", "v2", *TO_OPTION],
    "recompress": [MISSING_PATH, "--codec", "zstd", *TO_OPTION],
    "compact": [MISSING_PATH, *TO_OPTION],
    "produce": ["t", MISSING_PATH, *SERVERS],
    "broker": ["--serve", MISSING_PATH],
    "checkpoint show": [MISSING_PATH],
    "checkpoint convert": [MISSING_PATH, "out", "--for", "kafka"],
    "audit": [MISSING_PATH],
    "redact": [MISSING_PATH, "-o", "o.pcap"],
    "decode": [MISSING_PATH],
    "encode": ["ApiVersionsRequest", "0", MISSING_PATH],
    "diff": [MISSING_PATH, MISSING_PATH],
    "spec check": [MISSING_PATH, MISSING_PATH],
    "spec lint": [MISSING_PATH],
    "spec tags": ["--specs", MISSING_PATH],
    "spec show": [f"{MISSING_PATH}.json"],
    "spec guide": ["--specs", MISSING_PATH, "-o", "o.html"],
    "spec stubs": ["--specs", MISSING_PATH, "-o", "o.py"],
    "spec import": [MISSING_PATH],
    "spec new-kip": [MISSING_PATH, *TO_OPTION],
    "spec propose": ["flexible", MISSING_PATH],
    "analyze records": [MISSING_PATH],
    "users set": ["u", "--password-file", MISSING_PATH, *SERVERS],
}
MORE_ARGUMENTS = {
    "table --schema": ["table", "t", *SERVERS, "--to", "parquet", "out", "--mode", "json", "--schema", MISSING_PATH],
    "broker --config": ["broker", "--config", MISSING_PATH],
    "broker --specs": ["broker", "--specs", MISSING_PATH],
    "compact --prove-gone": ["compact", MISSING_PATH, "--prove-gone", "k"],
    "decode --specs": ["decode", "00", "--specs", MISSING_PATH],
    "table without a slash": ["table", "gone-topic", "--to", "parquet", "out"],
}
WITHOUT_SOURCES = {
    *("consume", "topics", "groups", "configs", "acls", "quotas", "transactions", "record", "vectors", "doctor"),
    *("kernels pack", "kernels path", "kernels status", "kernels warm", "users list", "users delete"),
    *("spec list", "spec diff", "spec show-codec", "spec rewrite", "analyze tag-header"),
}


def commands():
    context = click.Context(cli)
    for name in cli.list_commands(context):
        command = cli.get_command(context, name)
        is_group = isinstance(command, click.Group)
        names = [f"{name} {each}" for each in command.list_commands(context)] if is_group else []
        yield from names if names and name not in WITHOUT_SOURCES else [name]


def test_every_command_is_in_the_tables():
    assert sorted(commands()) == sorted({*ARGUMENTS_BY_COMMAND, *WITHOUT_SOURCES})


@pytest.mark.parametrize(
    "command_words",
    [*({**{name: [*name.split(), *rest] for name, rest in ARGUMENTS_BY_COMMAND.items()}, **MORE_ARGUMENTS}).items()],
    ids=lambda one: one[0],
)
def test_the_error_for_a_missing_path_is_equal_in_all_commands(command_words, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    gone_path = str(tmp_path / "gone")
    arguments = [word.replace(MISSING_PATH, gone_path) for word in command_words[1]]
    monkeypatch.setattr("sys.argv", ["kafkaframes", *arguments])
    with pytest.raises(SystemExit) as exit_info:
        main()
    assert exit_info.value.code == 2
    errors = capsys.readouterr().err
    assert "kafkaframes: " in errors
    assert "no such file or directory (at " in errors
    assert list(tmp_path.iterdir()) == []


@pytest.fixture(name="files")
def _files(tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    write_capture(tmp_path / "trace.bin", encode_call("Fetch", 12, RECORDS))
    pq.write_table(pa.table({"value": [b"a"]}), tmp_path / "rows.bin")
    (tmp_path / "text.txt").write_text("hello\nworld\n" * 20)
    (tmp_path / "rows.jsonl").write_text('{"value":"a"}\n')
    (tmp_path / "broker.txt").write_text('[2026-01-01] DEBUG Completed request:{"requestHeader":{}}\n')
    (tmp_path / "noise.bin").write_bytes(bytes(range(200, 256)))
    (tmp_path / "segment.bin").write_bytes(kafkaframes.build_records([{"value": b"v"}]))
    (tmp_path / "empty").mkdir()
    return tmp_path


CONTENTS = {
    "trace.bin": "`kafkaframes report` and `kafkaframes audit` read captures",
    "rows.bin": "a Parquet file: `kafkaframes restore`",
    "text.txt": "text: `kafkaframes produce` reads lines",
    "rows.jsonl": "JSON text: `kafkaframes produce --format jsonl`",
    "broker.txt": "a request log of a broker: `kafkaframes audit`",
    "noise.bin": "a file that begins with c8 c9 ca cb",
    "segment.bin": "a segment under another name",
    "empty": "contains no Kafka log directory, partition or segment",
}
LOG_COMMANDS = {
    name: [*name.split(), *ARGUMENTS_BY_COMMAND[name]]
    for name in (
        "info",
        "verify",
        "dump-log",
        "grep",
        "export",
        "table",
        "restore",
        "repair",
        "convert",
        "recompress",
        "compact",
    )
}


@pytest.mark.parametrize("name", CONTENTS)
@pytest.mark.parametrize("command", LOG_COMMANDS)
def test_the_error_for_a_path_of_another_kind_names_its_command(command, name, files, monkeypatch):
    monkeypatch.chdir(files)
    if (command, name) == ("grep", "segment.bin"):
        pytest.skip("scans read a segment under any name")
    text = CONTENTS[name]
    result = CliRunner().invoke(
        cli, [str(files / name) if word == MISSING_PATH else word for word in LOG_COMMANDS[command]]
    )
    assert isinstance(result.exception, KafkaframesError), result.output
    if (command, name) != ("restore", "rows.bin"):
        assert text in str(result.exception)
        assert str(files / name) in str(result.exception)
    assert not (files / "out").exists()


@pytest.mark.parametrize("command", ["audit", "redact"])
@pytest.mark.parametrize("name", ["rows.bin", "text.txt", "noise.bin", "segment.bin"])
def test_the_error_for_a_file_without_traffic_names_its_command(command, name, files, monkeypatch):
    monkeypatch.chdir(files)
    flags = ["-o", str(files / "o.pcap")] if command == "redact" else []
    result = CliRunner().invoke(cli, [command, str(files / name), *flags])
    assert isinstance(result.exception, KafkaframesError), result.output
    assert CONTENTS[name] in str(result.exception)


@pytest.mark.parametrize("name", ["trace.bin", "rows.bin", "text.txt", "rows.jsonl", "noise.bin"])
def test_a_scan_of_a_file_that_is_not_a_segment_is_an_error(name, files):
    """Previously, a scan of such a file returned no rows and raised no error."""
    with pytest.raises(LogDirError, match=CONTENTS[name].split(":")[0].replace("`", ".")):
        kafkaframes.scan_log(files / name).to_arrow()
    with pytest.raises(LogDirError):
        kafkaframes.read_records(files / name).read_all()


def test_a_scan_of_a_segment_under_another_name_reads_it(files):
    assert kafkaframes.scan_log(files / "segment.bin").to_arrow().num_rows == 1
