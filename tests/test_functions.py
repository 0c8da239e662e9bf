"""Commands as functions: typed, with results that can be printed, convert to JSON and equal the commands' output."""

from __future__ import annotations

import inspect
import json
from html import escape
from pathlib import Path

import pytest
from click.testing import CliRunner

import kafkaframes
from kafkaframes import errors
from kafkaframes.cli.main import cli
from kafkaframes.errors import KafkaframesError, OptionError

SHOP_LOG = Path(__file__).parent / "data" / "examples" / "kafka-4.3"
OLD_LOG = Path(__file__).parent / "data" / "examples" / "kafka-2.8-format-1"
FUNCTIONS = [
    "verify_log",
    "convert_log",
    "recompress_log",
    "compact_log",
    "repair_log",
    "export_log",
    "report_log",
    "describe_log",
    "dump_log",
    "grep_log",
    "prove_key_gone",
    "audit_upgrade",
    "report_traffic",
    "record_traffic",
    "redact_capture",
    "read_checkpoint",
    "convert_checkpoint",
]


def run_json(command, *arguments):
    return json.loads(CliRunner().invoke(cli, [command, *map(str, arguments), "--workers", "1", "--json"]).stdout)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_every_function_is_typed_and_described(name):
    function = getattr(kafkaframes, name)
    assert name in kafkaframes.__all__
    docstring = inspect.getdoc(function)
    assert "Args:" in docstring
    assert "Raises:" in docstring
    for parameter in inspect.signature(function).parameters.values():
        assert parameter.annotation is not inspect.Parameter.empty
        assert parameter.kind is not inspect.Parameter.VAR_KEYWORD
        assert parameter.name in docstring


def test_results_can_be_printed_and_compared(tmp_path):
    results = {
        "verify": kafkaframes.verify_log(SHOP_LOG),
        "info": kafkaframes.describe_log(SHOP_LOG, topics=["orders"]),
        "report": kafkaframes.report_log(SHOP_LOG, to=tmp_path / "r.html"),
        "convert": kafkaframes.convert_log(OLD_LOG, tmp_path / "v2", record_format=2),
        "recompress": kafkaframes.recompress_log(SHOP_LOG, tmp_path / "gz", codec="gzip"),
        "compact": kafkaframes.compact_log(SHOP_LOG, topics=["orders"]),
        "repair": kafkaframes.repair_log(SHOP_LOG, tmp_path / "fixed"),
        "export": kafkaframes.export_log(SHOP_LOG, tmp_path / "out", topics=["orders"]),
        "restore": kafkaframes.restore_log(SHOP_LOG, tmp_path / "new", topics=("orders",), codec="lz4"),
    }
    for name, result in results.items():
        json.dumps(result.to_dict())
        assert len(str(result).splitlines()[-1]) > 10, name
        assert repr(result) == str(result)
        assert result._repr_html_() == f"<pre>{escape(str(result))}</pre>"
    assert (tmp_path / "r.html").read_text().startswith("<!doctype html")
    assert "records read" in str(results["convert"])
    assert "records read" in str(results["restore"])
    assert results["export"].report.records_read == results["export"].to_dict()["records"]
    assert repr(results["verify"]).startswith("sound: ")
    assert (
        repr(kafkaframes.read_records(SHOP_LOG, columns=["offset"]))
        == "Arrow batches of offset; read_all() returns a table"
    )


def test_functions_return_what_the_commands_print(tmp_path):
    assert kafkaframes.verify_log(SHOP_LOG, deep=True).to_dict() == run_json("verify", SHOP_LOG, "--deep")
    assert kafkaframes.describe_log(SHOP_LOG).to_dict()["partitions"] == run_json("info", SHOP_LOG)["partitions"]
    mine = kafkaframes.recompress_log(SHOP_LOG, tmp_path / "a", codec="zstd").to_dict()
    other = run_json("recompress", SHOP_LOG, "--codec", "zstd", "--to", tmp_path / "b")
    assert mine["partitions"] == other["partitions"]
    assert (
        kafkaframes.compact_log(SHOP_LOG, topics=["orders"]).to_dict()["partitions"]
        == (run_json("compact", SHOP_LOG, "--topic", "orders", "--dry-run")["partitions"])
    )


def test_mistakes_raise_this_packages_errors(tmp_path):
    with pytest.raises(OptionError, match="sources are never changed"):
        kafkaframes.report_log(SHOP_LOG, to=SHOP_LOG / "r.html")
    with pytest.raises(OptionError, match="sources are never changed"):
        kafkaframes.export_log(SHOP_LOG, SHOP_LOG / "out")
    with pytest.raises(OptionError, match=r"no topic order: did you mean orders\?"):
        kafkaframes.verify_log(SHOP_LOG, topics=["order"])
    with pytest.raises(TypeError, match="unexpected keyword argument 'topic'"):
        kafkaframes.restore_log(SHOP_LOG, tmp_path / "new", topic="orders")


def test_errors_names_every_exception():
    tree = [KafkaframesError]
    for kind in tree:
        tree += [one for one in kind.__subclasses__() if one.__module__.startswith("kafkaframes.")]
    inside = (
        "kafkaframes.broker.",
        "kafkaframes.coordination.",
    )  # the broker answers with error codes; callers never receive this exception
    public = {one for one in tree if not one.__name__.startswith("_") and not one.__module__.startswith(inside)}
    assert {one.__name__ for one in public} <= set(errors.__all__)
