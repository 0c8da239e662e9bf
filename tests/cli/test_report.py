"""The command ``kafkaframes report``: a page or JSON, and mistakes that are found before anything is read."""

import json

from tests.cli.calling import ask as call
from tests.jobs.report.conftest import cluster  # noqa: F401  a fixture


def ask(*arguments):
    return call("report", *arguments)


def test_the_command_writes_a_page_or_json(cluster, tmp_path):  # noqa: F811
    page, data = tmp_path.parent / f"{tmp_path.name}.html", tmp_path.parent / f"{tmp_path.name}.json"
    result = ask(cluster, "-o", page, "--generated-at", "2026-11-21T15:00:00")
    assert result.exit_code == 0, result.output
    assert "no damage found" in result.output
    assert "Read 2026-11-21 15:00 UTC" in page.read_text()
    assert ask(cluster, "-o", data, "--json", "--workers", "2").exit_code == 0
    values = json.loads(data.read_text())
    assert values["report_version"] == 2
    assert values["sound"] is True
    json_result = ask(cluster, "--json", "--generated-at", "2026-11-21")
    assert json.loads(json_result.output)["generated_at_ms"] == 1_795_219_200_000
    assert not [path for path in tmp_path.parent.iterdir() if path.name.endswith(".part")]


def test_errors_are_reported_before_the_log_is_read(cluster, tmp_path):  # noqa: F811
    for arguments, words in (
        ((tmp_path / "nowhere",), "no such file or directory"),
        ((cluster, "-o", tmp_path), "is a directory"),
        ((cluster, "-o", tmp_path / "no" / "page.html"), "its directory does not exist"),
        ((cluster, "--generated-at", "yesterday"), "a time such as"),
    ):
        result = ask(*arguments)
        assert words in str(result.exception), arguments
    (tmp_path / "nothing").mkdir()
    assert "contains no Kafka log directory" in str(ask(tmp_path / "nothing").exception)
    (tmp_path / "other.txt").write_text("x")
    assert "neither a directory" in str(ask(tmp_path / "other.txt").exception)
