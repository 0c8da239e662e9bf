"""The options that many commands share."""

import json

import click
import pytest
from click.testing import CliRunner
from tests.capture.own_specs import write_specs, write_traffic
from tests.cli.calling import ask

from kafkaframes.cli.options import (
    add_budget_option,
    add_click_options,
    add_log_settings,
    parse_position,
    parse_size_flag,
)
from kafkaframes.errors import OptionError
from kafkaframes.jobs.settings import SourceSettings
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request, encode_response
from kafkaframes.records.limits import current_budget


def test_a_store_has_only_the_given_options():
    assert SourceSettings().storage == {}
    storage = SourceSettings(key_files=("one.pem", "id=two.pem"), follow_links=True).storage
    assert storage == {"key_files": ("one.pem", "id=two.pem"), "follow_links": True}


def test_sizes_are_parsed_like_in_spark():
    assert (parse_size_flag("1g"), parse_size_flag("64m")) == (1 << 30, 64 << 20)
    with pytest.raises(click.BadParameter, match="64x"):
        parse_size_flag("64x")


def test_a_position_is_an_offset_a_time_earliest_or_latest():
    assert [parse_position(text) for text in ("17", "2025-10-09", "latest")] == [17, "2025-10-09", "latest"]
    with pytest.raises(OptionError, match="soon"):
        parse_position("soon")
    with pytest.raises(OptionError, match="cannot be a group"):
        parse_position("group:g")


def test_options_are_added_in_order():
    @click.command()
    @add_click_options(click.option("--one"), click.option("--two"))
    def command(one, two): ...

    assert [option.name for option in command.params] == ["one", "two"]


def test_a_reading_command_gets_its_store_and_reports_skipped_links(tmp_path):
    (tmp_path / "log").mkdir()
    (tmp_path / "log" / "link").symlink_to(tmp_path)
    storages = []

    @click.command()
    @click.argument("paths", nargs=-1)
    @add_log_settings("paths")
    def command(paths, storage):
        storages.append(storage)

    result = CliRunner().invoke(command, [str(tmp_path / "log"), "--key-file", "k.pem"])
    assert f"left out: {tmp_path}/log/link is a symbolic link" in result.stderr
    assert CliRunner().invoke(command, [str(tmp_path / "log"), "--follow-links"]).stderr == ""
    assert storages == [{"key_files": ("k.pem",)}, {"follow_links": True}]
    for number in range(30):
        (tmp_path / "log" / f"link-{number}").symlink_to(tmp_path)
    lines = CliRunner().invoke(command, [str(tmp_path / "log")]).stderr.splitlines()
    assert (len(lines), lines[-1]) == (11, "kafkaframes: left out: 21 more symbolic links")


def test_the_budget_applies_while_the_command_runs():
    budgets = []

    @click.command()
    @add_budget_option
    def command():
        budgets.append(current_budget())

    before = current_budget()
    CliRunner().invoke(command, ["--budget", "3m"], catch_exceptions=False)
    assert (budgets, current_budget()) == ([3 << 20], before)


@pytest.fixture(name="folder")
def _folder(tmp_path):
    return write_specs(tmp_path / "specs")


def test_decode_prefers_own_specs_to_the_catalog(folder):
    request = encode_request(message("GreetRequest", specs=folder)(words="hi"), 1)
    assert "GreetRequest.Words" in ask("decode", request.hex(), "--specs", str(folder)).output
    heartbeat = encode_request(message("HeartbeatRequest")(group_id="g"), 4)
    assert "HeartbeatRequest.MemberId" in ask("decode", heartbeat.hex(), "--specs", str(folder)).output
    response = encode_response(message("GreetResponse", specs=folder)(mood=3), 1)
    output = ask("decode", response.hex(), "--api", "Greet", "--version", "1", "--specs", str(folder)).output
    assert "GreetResponse.Mood" in output


def test_audit_names_own_apis_and_redact_keeps_them(folder, tmp_path):
    trace = write_traffic(tmp_path / "own.pcapng", folder)
    output = ask("audit", trace, "--target", "4.0.1", "--json", "--specs", str(folder)).output
    assert {"Greet 0", "Greet 1", "Heartbeat 5"} <= {
        one["what"] for client in json.loads(output)["clients"] for one in client["findings"]
    }
    out = tmp_path / "share.pcapng"
    assert "4 calls" in ask("redact", trace, "-o", str(out), "--specs", str(folder)).output
