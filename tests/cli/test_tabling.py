"""What ``table`` does: sources that are topics or paths, and commits until a signal."""

import pytest
from tests.cli.table_calls import ORDERS, as_json, ask, refused, rows, send, told

deltalake = pytest.importorskip("deltalake")
pytestmark = pytest.mark.usefixtures("closed_catalogs")


def test_continuously_until_a_signal(broker, topic, tmp_path, monkeypatch):
    import os
    import signal

    from kafkaframes.cli import tabling

    place, sent, told_of = tmp_path / "t", [], []
    tell = tabling._report

    def then_send(outcome, **named):
        told_of.append(outcome.summary.records)
        tell(outcome, **named)
        if len(sent) < 2:
            sent.append(None)
            send(broker, topic, as_json(ORDERS[len(sent) * 2 : len(sent) * 2 + 2]))
        else:
            os.kill(os.getpid(), signal.SIGTERM)

    send(broker, topic, as_json(ORDERS[:2]))
    flags = ("--to", "delta", place, "--mode", "json", "--continuous", "--interval", "0.1")
    with monkeypatch.context() as patch:
        patch.setattr(tabling, "_report", then_send)
        patch.setattr(tabling, "TIDY_EVERY", 2)
        result = ask(topic, "-b", broker.bootstrap_servers, *flags)
    assert result.exit_code == 0, result.output
    assert told_of == [2, 2, 2]
    assert [row["id"] for row in rows("delta", place)] == list(range(6))
    assert len(deltalake.DeltaTable(str(place)).file_uris()) == 2  # two of the three were put together
    assert told(topic, "-b", broker.bootstrap_servers, *flags[:5])["table"]["commits"] == 0


def test_a_source_that_is_neither_topic_nor_path(tmp_path, monkeypatch):
    monkeypatch.delenv("KAFKA_BOOTSTRAP_SERVERS", raising=False)
    said = refused("orders", "--to", "delta", tmp_path / "t")
    assert "-b HOST:PORT" in said
    assert "$KAFKA_BOOTSTRAP_SERVERS" in said
