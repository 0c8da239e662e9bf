"""``spec rewrite kip-636``: files that every other command accepts, and rejected destinations."""

from __future__ import annotations

import csv
import io
import json

import pytest
from click.testing import CliRunner

from kafkaframes.cli.main import cli
from kafkaframes.errors import OptionError
from kafkaframes.protocol.messages import message


def run_rewrite(*arguments):
    result = CliRunner().invoke(cli, list(map(str, arguments)))
    return result.exit_code, result.output, result.exception


@pytest.fixture(scope="module")
def rewritten_dir(tmp_path_factory):
    folder = tmp_path_factory.mktemp("kip") / "new"
    code, text, _ = run_rewrite("spec", "rewrite", "kip-636", "--to", folder)
    assert code == 0, text
    return folder, text


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def test_the_text_lists_all_fields_exceptions_figures_and_the_verdict(rewritten_dir):
    folder, text = rewritten_dir
    assert "OffsetDeleteResponse 0 -> 1, flexible now\n  ErrorCode: tag 0\n" in text
    assert "left: SaslHandshakeResponse: KIP-636 excludes it" in text
    assert "error codes that became tagged          119     111" in text
    assert "breaking (spec check): 3 breaking" in text
    assert len(contents(folder)) == 192


def test_other_commands_accept_the_written_files(rewritten_dir, tmp_path):
    folder, _ = rewritten_dir
    code, text, _ = run_rewrite("spec", "lint", folder)
    assert (code, text.splitlines()[-1].split(",")[1]) == (0, " 0 errors")
    assert "tag 0, default 0" in run_rewrite("spec", "show", folder / "HeartbeatResponse.json", "5")[1]
    assert run_rewrite("spec", "import", folder, "-o", tmp_path)[0] == 0
    cls = message("HeartbeatResponse", specs=folder)
    assert (cls().encode(5).hex(), cls(error_code=27).encode(5).hex()) == ("0000000000", "00000000" + "01" + "0002001b")
    decode_result = run_rewrite(
        "decode", "00000001000000000001000200" + "1b", "--api", "12", "--version", "5", "--specs", folder
    )
    assert "HeartbeatResponse.ErrorCode" in decode_result[1], decode_result


def test_a_second_rewrite_gives_equal_bytes(rewritten_dir, tmp_path):
    folder, _ = rewritten_dir
    before = contents(folder)
    assert run_rewrite("spec", "rewrite", "kip-636", "--to", folder)[0] == 0
    assert contents(folder) == before
    assert run_rewrite("spec", "rewrite", "kip-636", "--from", folder, "--to", tmp_path / "again")[0] == 0
    assert contents(tmp_path / "again") == before


def test_reports_are_written(tmp_path):
    rows = list(
        csv.DictReader(io.StringIO(run_rewrite("spec", "rewrite", "kip-636", "--to", tmp_path, "--report", "csv")[1]))
    )
    assert rows == [
        {key: "" if value is None else str(value) for key, value in row.items()}
        for row in json.loads(run_rewrite("spec", "rewrite", "kip-636", "--to", tmp_path, "--report", "json")[1])
    ]
    produce = [row for row in rows if row["message"] == "ProduceResponse"]
    assert [(row["field"], row["tag"], row["tagged_versions"], row["default"], row["arrays"]) for row in produce] == [
        ("Responses.PartitionResponses.ErrorCode", "1", "14+", "", "2"),
        ("Responses.PartitionResponses.ErrorMessage", "2", "14+", "null", "2"),
    ]
    assert sum(row["outcome"].startswith("left: ") for row in rows) == 5
    assert sum(row["default"] == "null (was empty)" for row in rows) == 27


def test_nothing_is_written_into_the_source_or_among_other_files(rewritten_dir, tmp_path):
    folder, _ = rewritten_dir
    before = contents(folder)
    for target in (folder, folder / "within"):
        assert isinstance(run_rewrite("spec", "rewrite", "kip-636", "--from", folder, "--to", target)[2], OptionError)
    assert contents(folder) == before
    for name in ("other.txt", "Other.json"):
        place = tmp_path / name.replace(".", "-")
        place.mkdir()
        (place / name).write_text("mine")
        code, _, error = run_rewrite("spec", "rewrite", "kip-636", "--to", place)
        assert (code != 0, isinstance(error, OptionError), len(contents(place))) == (True, True, 1)
    (tmp_path / "file").write_text("")
    assert run_rewrite("spec", "rewrite", "kip-636", "--to", tmp_path / "file")[0] == 2
    assert isinstance(run_rewrite("spec", "rewrite", "kip-636", "--to", tmp_path / "file" / "below")[2], OptionError)
    assert isinstance(
        run_rewrite("spec", "rewrite", "kip-636", "--from", tmp_path / "none", "--to", tmp_path / "x")[2], OptionError
    )


def test_unchanged_specs_keep_their_text(tmp_path):
    """Kafka's verifier of evolution compares the texts of defaults."""
    fields = [
        {"name": "ErrorCode", "type": "int16", "versions": "0+"},
        {"name": "Most", "type": "int32", "versions": "0+", "default": "0x7fffffff"},
        {"name": "Sure", "type": "bool", "versions": "0+", "default": "false"},
    ]
    half = {"apiKey": 200, "validVersions": "0", "flexibleVersions": "0+"}
    request = half | {"type": "request", "name": "GreetRequest", "fields": []}
    response = half | {"type": "response", "name": "GreetResponse", "fields": fields}
    other = "// theirs\n" + json.dumps(
        {"type": "data", "name": "Other", "fields": []} | half | {"apiKey": 201}, indent=3
    )
    source = tmp_path / "old"
    source.mkdir()
    (source / "Other.json").write_text(other)
    for spec in (request, response):
        (source / f"{spec['name']}.json").write_text("// ours {\n" + json.dumps(spec))
    code, text, _ = run_rewrite("spec", "rewrite", "kip-636", "--from", source, "--to", tmp_path / "new")
    assert code == 0, text
    assert (tmp_path / "new/Other.json").read_text() == other
    written_text = (tmp_path / "new/GreetResponse.json").read_text()
    assert written_text.startswith("// ours {\n{\n")
    assert '"default": "0x7fffffff"' in written_text
    assert '"default": "false"' in written_text


def test_the_catalogs_oldest_apis_lose_the_listener_that_kafka_4_refuses(rewritten_dir):
    assert not any(b"zkBroker" in text for text in contents(rewritten_dir[0]).values())
