"""The flags of ``table`` about modes and schemas."""

import pytest
from tests.cli.table_calls import BAD, refused, rows, send, told

pytestmark = pytest.mark.usefixtures("closed_catalogs")


@pytest.mark.parametrize(
    ("flags", "said"),
    [
        (("--mode", "avro"), "--schema FILE or --registry URL"),
        (("--mode", "protobuf"), "--schema FILE or --registry URL"),
        (("--registry", "http://x"), "mode raw keeps values as they are"),
        (("--mode", "json", "--registry", "ftp://x"), "http://HOST:PORT"),
        (("--mode", "json", "--registry", "http://x", "--schema", "y"), "only one of"),
        (("--mode", "json", "--subject", "y"), "--subject is for --registry"),
        (("--mode", "json", "--message", "y"), "--message is for protobuf"),
        (("--mode", "json", "--value", "json"), "--value is for --mode latest"),
        (("--mode", "json", "--schema", "nowhere.json"), "nowhere.json: No such file"),
        (("--mode", "protobuf", "--schema", "a.proto"), "protoc --include_imports"),
        (("--catalog", "c"), "--catalog is for --to iceberg"),
        (("--topic", "x"), "--topic is for a log directory"),
        (("--option", "mode=FAILFAST"), "--option is for a log directory"),
    ],
)
def test_flags_that_do_not_fit_are_refused_before_anything_is_read(flags, said, tmp_path):
    assert said in refused("orders", "-b", "127.0.0.1:9", "--to", "delta", tmp_path / "t", *flags)
    assert not (tmp_path / "t").exists()


def test_nothing_to_infer_columns_from(broker, topic, tmp_path):
    flags = (topic, "-b", broker.bootstrap_servers, "--to", "delta", tmp_path / "t", "--mode", "json")
    send(broker, topic, [BAD])
    assert "--schema says them" in refused(*flags)
    (tmp_path / "order.json").write_text('{"type": "object", "properties": {"id": {"type": "integer"}}}')
    told(*flags, "--schema", tmp_path / "order.json")
    assert len(rows("delta", tmp_path / "t", dead=True)) == 1


@pytest.mark.parametrize(("mode", "package"), [("avro", "fastavro"), ("protobuf", "google")])
def test_an_absent_library_is_named_with_its_extra(mode, package, tmp_path, monkeypatch):
    import builtins
    import sys

    load = builtins.__import__

    def without(name, *given, **named):
        if name.partition(".")[0] == package:
            raise ImportError(f"No module named {name!r}")
        return load(name, *given, **named)

    for name in [name for name in sys.modules if name.partition(".")[0] == package]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without)
    (tmp_path / "s").write_text('"string"')
    flags = ("orders", "-b", "127.0.0.1:9", "--to", "delta", tmp_path / "t", "--mode", mode)
    assert f"pip install 'kafkaframes[{mode}]'" in refused(*flags, "--schema", tmp_path / "s")
