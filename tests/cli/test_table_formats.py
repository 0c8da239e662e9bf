"""``table --to delta|iceberg`` of logs: what is printed, where it writes, and which flags are rejected."""

import builtins
import json
import sys

import pytest
from click.testing import CliRunner
from tests.spark.truth import EXAMPLE_LOG_DIR

import kafkaframes
from kafkaframes.cli.main import cli
from kafkaframes.errors import KafkaframesError

deltalake = pytest.importorskip("deltalake")
catalogs = pytest.importorskip("pyiceberg.catalog.sql")
pytestmark = pytest.mark.usefixtures("close_catalogs")
FORMATS = ("delta", "iceberg")


def ask(*args):
    return CliRunner().invoke(cli, ["table", *map(str, args)])


def get_error_message(*args):
    """Return the error message of a command."""
    result = ask(*args)
    assert isinstance(result.exception, KafkaframesError), result.output
    return str(result.exception)


@pytest.mark.parametrize("form", FORMATS)
def test_a_table_is_created_and_described(form, tmp_path):
    result = ask(EXAMPLE_LOG_DIR, "--to", form, tmp_path / "t", "--topic", "payments")
    assert result.exit_code == 0, result.output
    assert "1,047 records" in result.output
    assert "1 commit" in result.output
    again = ask(EXAMPLE_LOG_DIR, "--to", form, tmp_path / "t", "--topic", "payments")
    assert "nothing new" in again.output
    report = json.loads(ask(EXAMPLE_LOG_DIR, "--to", form, tmp_path / "t", "--json").stdout)
    assert report["table"]["offsets"]["payments"] == {"0": 722, "1": 757}
    assert report["table"]["offsets"]["customers"] == {"0": 2200}
    assert report["table"]["commits"] == 1


def test_several_processes_write_an_equal_table(tmp_path, monkeypatch):
    for workers in ("1", "2"):
        result = ask(EXAMPLE_LOG_DIR, "--to", "delta", tmp_path / workers, "--workers", workers)
        assert result.exit_code == 0, result.output
    one, two = (deltalake.DeltaTable(str(tmp_path / name)).to_pyarrow_table() for name in ("1", "2"))
    order = [(name, "ascending") for name in ("topic", "partition", "offset")]
    assert one.sort_by(order) == two.sort_by(order)


@pytest.mark.spark
@pytest.mark.parametrize("form", FORMATS)
def test_spark_writes_an_equal_table(form, spark, tmp_path, monkeypatch):
    monkeypatch.setattr(type(spark), "stop", lambda self: None)  # the session of all tests is used
    result = ask(EXAMPLE_LOG_DIR, "--to", form, tmp_path / "t", "--master", "local[2]", "--json")
    assert result.exit_code == 0, result.output
    report = json.loads(result.stdout)
    assert report["records"] == 13_682
    assert report["table"]["commits"] == 1


@pytest.mark.parametrize("form", FORMATS)
def test_the_error_for_a_missing_library_names_the_extra(form, tmp_path, monkeypatch):
    package = {"delta": "deltalake", "iceberg": "pyiceberg"}[form]
    load = builtins.__import__

    def without(name, *arguments, **options):
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return load(name, *arguments, **options)

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    assert f"pip install 'kafkaframes[{form}]'" in get_error_message(EXAMPLE_LOG_DIR, "--to", form, tmp_path / "t")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize(
    ("form", "flags", "message"),
    [
        ("delta", ("--catalog", "x"), "--catalog requires the format iceberg"),
        ("delta", ("--table", "a.b"), "--table requires the format iceberg"),
        ("delta", ("--continuous", "--overwrite"), "cannot be combined with --continuous"),
        ("delta", ("--mode", "latest", "--overwrite"), "cannot be combined with --mode latest"),
        ("iceberg", ("--table", "noname"), "NAMESPACE.NAME"),
        ("iceberg", ("--catalog", "not-configured"), "--catalog not-configured"),
        ("delta", ("--start", "latest"), "cannot start at latest"),
    ],
)
def test_incompatible_options_are_rejected(form, flags, message, tmp_path):
    assert message in get_error_message(EXAMPLE_LOG_DIR, "--to", form, tmp_path / "t", *flags)
    assert not list(tmp_path.glob("t/**/*.parquet"))


def test_overwrite_replaces_the_content_in_one_commit(tmp_path):
    assert ask(EXAMPLE_LOG_DIR, "--to", "delta", tmp_path / "t", "--topic", "payments").exit_code == 0
    before = deltalake.DeltaTable(str(tmp_path / "t"))
    assert ask(EXAMPLE_LOG_DIR, "--to", "delta", tmp_path / "t", "--topic", "customers", "--overwrite").exit_code == 0
    after = deltalake.DeltaTable(str(tmp_path / "t"))
    assert after.version() == before.version() + 1
    assert set(after.to_pyarrow_table()["topic"].to_pylist()) == {"customers"}
    assert deltalake.DeltaTable(str(tmp_path / "t"), version=before.version()).to_pyarrow_table() == (
        before.to_pyarrow_table()
    )


@pytest.mark.parametrize("form", FORMATS)
def test_a_directory_with_other_files_is_rejected(form, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "precious").write_text("")
    assert "the directory has other files, but no table" in get_error_message(
        EXAMPLE_LOG_DIR, "--to", form, tmp_path / "mine"
    )
    kafkaframes.export_log(EXAMPLE_LOG_DIR, tmp_path / "files", topics="payments")
    assert "the directory has other files" in get_error_message(EXAMPLE_LOG_DIR, "--to", form, tmp_path / "files")


def test_a_run_killed_before_its_first_commit_does_not_prevent_the_next(tmp_path):
    place = tmp_path / "t"
    (place / "_kafkaframes" / "runs").mkdir(parents=True)
    (place / "_kafkaframes" / "runs" / "feedbeef.json").write_text("{}")
    stray = place / "topic=payments" / "partition=0" / f"{0:020}-aa-feedbeef.parquet"
    stray.parent.mkdir(parents=True)
    stray.write_bytes(b"half")
    assert "1 file of killed runs" in ask(EXAMPLE_LOG_DIR, "--to", "delta", place).output
    assert not stray.exists()


def test_a_catalog_in_the_configuration_of_pyiceberg_is_used(tmp_path, monkeypatch):
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__URI", f"sqlite:///{tmp_path}/own.db")
    monkeypatch.setenv("PYICEBERG_CATALOG__LAKE__WAREHOUSE", f"file://{tmp_path}/house")
    import pyiceberg.catalog
    import pyiceberg.utils.config

    config = pyiceberg.utils.config.Config()
    monkeypatch.setattr(pyiceberg.catalog, "_ENV_CONFIG", config)
    flags = ("--to", "iceberg", "", "--catalog", "lake", "--table", "raw.payments", "--topic", "payments")
    result = ask(EXAMPLE_LOG_DIR, *flags)
    assert result.exit_code == 0, result.output
    table = pyiceberg.catalog.load_catalog("lake").load_table("raw.payments")
    assert table.location().startswith(f"file://{tmp_path}/house")
    assert table.scan().to_arrow().num_rows == 1047
    assert "nothing new" in ask(EXAMPLE_LOG_DIR, *flags).output


def test_pyiceberg_logs_no_warnings(tmp_path, caplog):
    """Previously, it warned about dictionaries in the Arrow schema of each data file."""
    result = ask(EXAMPLE_LOG_DIR, "--to", "iceberg", tmp_path / "t", "--topic", "payments", "--workers", "1")
    assert result.exit_code == 0, result.output
    assert [record.message for record in caplog.records if record.name.startswith("pyiceberg")] == []
