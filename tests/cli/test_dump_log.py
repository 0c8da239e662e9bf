"""The command ``kafkaframes dump-log``: flags, formats, exit status."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.cli.dump_calls import run

from kafkaframes.cli.dump_log import command
from kafkaframes.errors import KafkaframesError, OptionError

LOGS = Path(__file__).parent.parent / "data" / "logs"


def test_a_directory_is_dumped_as_text(log_dir):
    lines = run(log_dir, "--print-data-log").splitlines()
    assert lines[0] == f"Dumping {log_dir}/orders-2/00000000000000000000.log"
    assert [line.split(":")[0] for line in lines[2:]] == ["baseOffset", *["| offset"] * 3, "baseOffset", "| offset"]


def test_files_are_selected_by_the_flag_of_kafka(log_dir):
    path = f"{log_dir}/orders-2/00000000000000000000.log"
    assert run("--files", f"{path},{path}").count("Dumping ") == 2


@pytest.mark.parametrize(
    ("arguments", "offsets"),
    [
        (["--offset", "1"], [1, 2]),
        (["--offset", "-3"], [1, 2]),
        (["--offset", "beginning", "-c", "1"], [0]),
        (["--offset", "end"], []),
        (["--offset", "s@1760000000500"], [1, 2]),
        (["--offset", "e@1760000000500"], [0]),
        (
            ["--start", "2025-10-09T08:53:20.500Z"],
            [1, 2],
        ),  # offset 2 has an older timestamp, but the range is contiguous
        (["--start", "2025-10-09T10:53:20.500+02:00"], [1, 2]),
        (["--end", "1"], [0]),
        (["--start", "2025-10-10"], []),  # after every record
        (["--start", "1", "--end", "2025-10-09T08:53:20.500Z"], []),
        (["--key", "a"], [0]),
        (["--key-regex", "^b"], [2]),
    ],
)
def test_what_is_wanted(log_dir, arguments, offsets):
    assert [int(line) for line in run(log_dir, "-f", "%o\\n", *arguments).split()] == offsets


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ([], "the files are missing"),
        (["/no/such/place"], "no such file"),
        ([str(LOGS), "-f", "%q"], "unknown '%q'"),
        ([str(LOGS), "--offset", "later"], "invalid offset"),
        ([str(LOGS), "--start", "soon"], "not a time"),
        ([str(LOGS), "--key-regex", "("], "not a regular expression"),
        ([str(LOGS), "-J", "--format", "csv"], "--format, -f and -J cannot be combined"),
        ([str(LOGS), "--style", "latest"], "is not a Kafka version"),
        ([str(LOGS), "--output", "/no/such/place"], "cannot be written"),
    ],
)
def test_an_error_is_one_line(arguments, reason):
    with pytest.raises(KafkaframesError, match=reason):
        run(*arguments)


def test_damage_is_on_standard_error_and_in_the_exit_status():
    case = LOGS / "unclean-flipped-bit-active" / "before"
    result = CliRunner().invoke(command, [str(case), "--print-data-log"])
    assert result.exit_code == 1
    assert "00000000000000000334.log" in result.stderr
    assert "the compressed data is damaged" in result.stderr


def test_an_index_flag_selects_the_indexes_of_a_directory():
    output = run(str(LOGS / "kraft-4x-transactions"), "--index-sanity-check")
    assert output.count("passed sanity check.") == 40
    assert ".log\n" not in output
    assert "producerId: " in run(str(LOGS / "kraft-4x-transactions"), "--kind", "snapshot")


def test_a_closed_pipe_is_not_an_error(log_dir):
    shell = f"{sys.executable} -m kafkaframes dump-log {LOGS} --replicas all --print-data-log | head -n 1"
    process = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {shell}"], capture_output=True, timeout=250, env=os.environ
    )
    assert process.stdout.startswith(b"Dumping ")
    assert process.stderr == b""


def test_internal_topics_are_decoded():
    case = LOGS / "kraft-4x-transactions"
    output = run(str(case / "__consumer_offsets-0"), "--offsets-decoder")
    assert 'key: {"type":"1","data":{"group":"' in output
    assert "payload: <DELETE>" in output
    output = run(str(case / "__transaction_state-0"), "--transaction-log-decoder", "--style", "3.9")
    assert "key: transaction_metadata::transactionalId=" in output
    output = run(str(case / "__cluster_metadata-0"), "--cluster-metadata-decoder")
    assert 'LeaderChange: {"version":0,"leaderId":1,' in output
    with pytest.raises(OptionError, match="decoders cannot be combined"):
        run(str(case), "--offsets-decoder", "--cluster-metadata-decoder")


def test_help_has_formats_and_examples():
    help_text = run("--help")
    for word in ("--deep-iteration", "--skip-record-metadata", "--format jsonl", "-f '%t/%p@%o", "--max-message-size"):
        assert word in help_text
