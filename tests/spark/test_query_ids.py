"""The streaming query for which ``foreachBatch`` calls a function. tests/interop tests the same under Spark Connect."""

from types import SimpleNamespace

from kafkaframes.spark.progress.checkpoint_files import create_query_id_lookup, is_connect


def test_a_classic_session_has_the_query_id_on_its_thread():
    properties = {"sql.streaming.queryId": "q-1"}
    session = SimpleNamespace(sparkContext=SimpleNamespace(getLocalProperty=properties.get))
    name, ask = create_query_id_lookup(session, None)
    assert (name, ask(session), is_connect(session)) == (None, "q-1", False)
    assert create_query_id_lookup(session, "mine")[0] == "mine"


def test_under_spark_connect_the_query_is_found_by_its_name():
    connect = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session", "session_id": "s"})()
    assert is_connect(connect)
    assert create_query_id_lookup(connect, "mine")[0] == "mine"
    first, second = (create_query_id_lookup(connect, None)[0] for _ in range(2))
    assert first.startswith("kafkaframes-")
    assert first != second
