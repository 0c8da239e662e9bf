"""``table``: sources that are topics or paths, invalid settings, and commits until a signal."""

import pytest
from tests.cli.table_calls import BAD, ORDERS, as_json, ask, rows, run_json, run_refused, send

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("close_catalogs")


def test_records_are_committed_continuously_until_a_signal(broker, topic, tmp_path, monkeypatch):
    import os
    import signal

    from kafkaframes.cli import table
    from kafkaframes.jobs.tables import job

    place, sent_values, told_of = tmp_path / "t", [], []
    tell = table._print_outcome

    def then_send(outcome, **options):
        told_of.append(outcome.summary.records)
        tell(outcome, **options)
        if len(sent_values) < 2:
            sent_values.append(None)
            send(broker, topic, as_json(ORDERS[len(sent_values) * 2 : len(sent_values) * 2 + 2]))
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    send(broker, topic, as_json(ORDERS[:2]))
    flags = ("--to", "delta", place, "--mode", "json", "--continuous", "--interval", "0.1")
    with monkeypatch.context() as patch:
        patch.setattr(table, "_print_outcome", then_send)
        patch.setattr(job, "ROUNDS_BETWEEN_COMPACTIONS", 2)
        result = ask(topic, "-b", broker.bootstrap_servers, *flags)
    assert result.exit_code == 0, result.output
    assert told_of == [2, 2, 2]
    assert [row["id"] for row in rows("delta", place)] == list(range(6))
    assert len(deltalake.DeltaTable(str(place)).file_uris()) == 2  # two of the three files were compacted
    assert run_json(topic, "-b", broker.bootstrap_servers, *flags[:5])["table"]["commits"] == 0


def test_a_source_that_is_neither_topic_nor_path_is_rejected(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    message = run_refused("orders", "--to", "delta", tmp_path / "t")
    assert "-b HOST:PORT" in message
    assert "$KAFKA_BOOTSTRAP_SERVERS" in message


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (("--mode", "avro"), "--schema FILE or --registry URL"),
        (("--mode", "protobuf"), "--schema FILE or --registry URL"),
        (("--registry", "http://x"), "cannot be combined with raw values"),
        (("--mode", "json", "--registry", "ftp://x"), "http://HOST:PORT"),
        (("--mode", "json", "--registry", "http://x", "--schema", "y"), "--schema and --registry cannot be combined"),
        (("--mode", "json", "--subject", "y"), "--subject requires --registry"),
        (("--mode", "json", "--message", "y"), "--message requires --mode=protobuf"),
        (("--mode", "json", "--value", "json"), "--value requires --mode=latest"),
        (("--mode", "json", "--schema", "nowhere.json"), "--schema: no such file or directory (at nowhere.json)"),
        (("--mode", "protobuf", "--schema", "a.proto"), "protoc --include_imports"),
        (("--catalog", "c"), "--catalog requires the format iceberg"),
        (("--topic", "x"), "--topic is for a log directory"),
        (("--internal-topics",), "--internal-topics is for a log directory"),
        (("--key-file", "k.pem"), "--key-file is for a log directory"),
    ],
)
def test_incompatible_flags_are_rejected_before_the_source_is_read(flags, message, tmp_path):
    assert message in run_refused("orders", "-b", "127.0.0.1:9", "--to", "delta", tmp_path / "t", *flags)
    assert not (tmp_path / "t").exists()


def test_a_topic_without_values_to_infer_columns_from_is_rejected(broker, topic, tmp_path):
    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t", "--mode", "json")
    send(broker, topic, [BAD])
    assert "set --schema" in run_refused(*flags)
    (tmp_path / "order.json").write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    run_json(*flags, "--schema", tmp_path / "order.json")
    assert len(rows("delta", tmp_path / "t", dead=True)) == 1


@pytest.mark.parametrize(("mode", "package"), [("protobuf", "google")])
def test_the_error_for_a_missing_library_names_the_extra(mode, package, tmp_path, monkeypatch):
    import builtins
    import sys

    load = builtins.__import__

    def without(name, *arguments, **options):
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return load(name, *arguments, **options)

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "s").write_text('"string"')
    flags = ("orders", "-b", "127.0.0.1:9", "--to", "delta", tmp_path / "t", "--mode", mode)
    assert f"pip install 'kafkaframes[{mode}]'" in run_refused(*flags, "--schema", tmp_path / "s")


def test_latest_mode_is_rejected_for_parquet_files(tmp_path):
    message = run_refused("orders", "-b", "127.0.0.1:9", "--to", "parquet", tmp_path / "t", "--mode", "latest")
    assert "requires the format delta or iceberg" in message


def test_a_table_of_another_mode_is_not_changed(broker, topic, tmp_path):
    send(broker, topic, as_json(ORDERS[:2]))
    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t")
    run_json(*flags)
    assert "--mode was raw and is json" in run_refused(*flags, "--mode", "json")


def test_a_second_run_without_the_mode_names_the_option(broker, topic, tmp_path):
    """Previously the error said that the column value was removed from the table."""
    send(broker, topic, as_json(ORDERS[:2]))
    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t")
    run_json(*flags, "--mode", "json")
    message = run_refused(*flags)
    assert "--mode was json and is raw" in message
    assert "column" not in message
