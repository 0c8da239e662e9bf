"""``export``: its options, errors and damaged logs."""

import pytest
from tests.cli.export_calls import ask, write_damaged_log
from tests.spark.truth import EXAMPLE_LOG_DIR, rows_of

from kafkaframes.errors import KafkaframesError


def test_filters_and_options_are_applied(tmp_path):
    result = ask(
        EXAMPLE_LOG_DIR, "--to", tmp_path / "out", "--topic", "orders", "--format", "csv", "--start", "100",
        "--end", "110", "--no-headers",
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    csv_files = sorted((tmp_path / "out" / "topic=orders").glob("*/*.csv"))
    lines = [line for path in csv_files for line in path.read_text().splitlines()]
    assert sum(line.startswith('"key","value","offset","timestamp","timestampType"') for line in lines) == len(
        csv_files
    )
    truth = [row for row in rows_of(EXAMPLE_LOG_DIR, "orders") if 100 <= row[1] < 110]
    assert len(lines) - len(csv_files) == len(truth) > 0


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["/no/such/place", "--to", "{tmp}/out"], "no such file"),
        ([EXAMPLE_LOG_DIR, "--to", "{tmp}/out", "--topic", "order"], "topic order does not exist"),
        ([EXAMPLE_LOG_DIR, "--to", "s3://bucket/out"], "must be a directory"),
        ([EXAMPLE_LOG_DIR, "--to", "{tmp}/out", "--start", "soon"], "not a time"),
        ([EXAMPLE_LOG_DIR, "--to", "{tmp}"], "the directory has other files"),
    ],
)
def test_errors_are_reported(arguments, message, tmp_path):
    (tmp_path / "precious").write_text("")
    result = ask(*[str(argument).format(tmp=tmp_path) for argument in arguments])
    assert isinstance(result.exception, KafkaframesError)
    assert message in str(result.exception)


def test_damage_has_its_own_exit_status(tmp_path):
    result = ask(write_damaged_log(tmp_path), "--to", tmp_path / "out")
    assert result.exit_code == 1
    assert "the codec number is unknown to Kafka" in result.stderr
    assert "15 records" in result.stdout
    assert (tmp_path / "out" / "_SUCCESS").exists()
    result = ask(write_damaged_log(tmp_path / "b"), "--to", tmp_path / "strict", "--on-damage", "fail")
    assert result.exit_code == 1
    assert "not exported: the codec number" in result.stderr
    assert "1 segment is missing" in result.stdout
    assert not (tmp_path / "strict" / "_SUCCESS").exists()
