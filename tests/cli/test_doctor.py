"""The doctor names missing requirements and their remedies."""

import json

import pytest
from click.testing import CliRunner

from kafkaframes.cli import doctor
from kafkaframes.cli.main import cli
from kafkaframes.kernels import directories as places
from kafkaframes.records.libraries import LIBRARIES
from kafkaframes.spark.runtime import _compat
from kafkaframes.spark.sessions import java


@pytest.fixture
def ask():
    def ask(*arguments):
        return CliRunner().invoke(cli, ["doctor", *arguments], catch_exceptions=False, env={"COLUMNS": "200"})

    return ask


def test_this_machine_has_no_problems(ask):
    result = ask("--json")
    assert result.exit_code == 0
    findings = {finding["what"]: finding for finding in json.loads(result.stdout)}
    assert {"Python", "Java", "Spark", "gzip", "snappy", "lz4", "zstd"} <= set(findings)
    assert findings["Python"]["state"] == "ok"
    assert findings["zstd"]["found"].startswith("zstandard ")


def test_a_missing_spark_and_java_are_notes_with_advice(ask, monkeypatch):
    monkeypatch.setattr(_compat, "get_pyspark_version", lambda: None)
    monkeypatch.setattr(java, "find_java", lambda fit: java.JavaSearch(None, ("PATH: /usr/bin/java is Java 8",)))
    result = ask()
    assert result.exit_code == 0
    assert "pip install 'kafkaframes[spark]'" in result.output
    assert "is Java 8" in result.output
    assert "pip install 'kafkaframes[java]'" in result.output


def test_extras_are_listed(ask, monkeypatch):
    """The installation page of the documentation describes this list."""
    requirements = [
        "click>=8.1",
        "pandas<4,>=2.2; extra == 'pandas'",
        'no-such-package; extra == "ray"',
        "x; extra == 'java'",
    ]
    monkeypatch.setattr(doctor.importlib.metadata, "requires", lambda name: requirements)
    (extras,) = json.loads(ask("--json", "--only", "extras").stdout)
    assert extras["found"] == "pandas"
    assert extras["advice"] == "not installed: ray; pip install 'kafkaframes[ray]' adds one"


def test_a_missing_codec_is_an_error(ask, monkeypatch):
    monkeypatch.setitem(doctor.CODEC_LIBRARIES, "zstd", ("zstandard", "no_such_module"))
    result = ask()
    assert result.exit_code == 1
    assert "pip install zstandard" in result.output


def test_workers_on_another_python_are_noted(ask, monkeypatch):
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/other/python")
    assert "PYSPARK_PYTHON=/opt/other/python" in ask().output


def test_one_check_can_be_selected(ask, monkeypatch):
    assert ask("--only", "java").exit_code == 0
    monkeypatch.setattr(java, "find_java", lambda fit: java.JavaSearch(None, ()))
    assert ask("--only", "Java").exit_code == 1
    assert ask("--only", "Jav").exit_code == 2


def test_uncompiled_kernels_and_untrusted_folders_are_notes(ask, monkeypatch, tmp_path):
    refused_folder = places.UnitFolder(tmp_path, "a test", "somebody else may write to it", False)
    monkeypatch.setattr(places, "list_folders", lambda: (refused_folder,))
    output = ask().output
    assert "0 of " in output
    assert "kafkaframes kernels warm" in output
    assert f"{tmp_path} is not used" in output
    assert "somebody else may write to it" in output
    assert "KAFKAFRAMES_CACHE_DIR" in output


def test_a_library_without_native_functions_is_a_note(monkeypatch):
    assert [finding.state for finding in doctor.check_decompression()] == ["ok"]
    monkeypatch.setattr(doctor, "LIBRARIES", [one._replace(functions=("no_such_function",)) for one in LIBRARIES])
    (finding,) = doctor.check_decompression()
    assert finding.state == "note"
    assert finding.result.startswith("lz4, zstd, gzip:")


def test_a_foreign_session_can_run_another_python(monkeypatch, tmp_path):
    (tmp_path / "python3").write_text("#!/bin/sh\n")
    (tmp_path / "python3").chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    (check,) = doctor.check_workers()
    assert str(tmp_path / "python3") in check.result
    assert "PYSPARK_PYTHON=" in check.advice
