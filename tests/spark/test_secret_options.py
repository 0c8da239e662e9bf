"""A secret option of a query is in no plan, description, error, progress, repr, catalog or log."""

import re
import traceback
from dataclasses import fields
from itertools import product

import pytest

import kafkaframes
from kafkaframes.client.settings import ConsumerSettings, ProducerSettings
from kafkaframes.errors import KafkaframesError, OptionError
from kafkaframes.errors.sensitive import is_secret
from kafkaframes.jobs.driver_process.address import TaskServerAddress
from kafkaframes.spark.exactly_once.exactly_once_task import TaskArguments
from kafkaframes.spark.options import parse_log_options, parse_topic_options, parse_topic_write_options
from kafkaframes.spark.sessions.builder import create_default_config
from kafkaframes.spark.sources.kafka_topic import KafkaTopicDataSource
from kafkaframes.storage.files.filesystem import get_store

MARK = "hidden8f3a"
MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule required"
TEXTS = (MARK, f'{MODULE} username="u" password="{MARK}";', f"{MODULE} password={MARK}", f'x"{MARK}\\', f"\n{MARK}\n")
NAMES = sorted(
    "kafka." + field.name.replace("_", ".")
    for field in {field.name: field for kind in (ConsumerSettings, ProducerSettings) for field in fields(kind)}.values()
    if is_secret(field.name)
)
STORE = {
    "path": "s3://bucket/logs",
    "fs.s3a.secret.key": MARK,
    "token": MARK,
    "storageOptions": f'{{"secret": "{MARK}"}}',
}


def text_of_call(make, *arguments, **options) -> str:
    """Return the repr of a call's result, or its error with all causes."""
    try:
        return repr(make(*arguments, **options))
    except KafkaframesError:
        return traceback.format_exc()


def test_spark_redacts_every_secret_option():
    hidden_pattern = re.compile(create_default_config("local", memory="1g", overrides={})["spark.redaction.regex"])
    assert len(NAMES) >= 9
    assert [name for name in NAMES if hidden_pattern.search(name) is None] == []


@pytest.mark.parametrize("name", NAMES)
def test_options_and_their_errors_do_not_show_the_secret(name):
    ways = product(("PLAINTEXT", "SSL", "SASL_SSL"), ("PLAIN", "SCRAM-SHA-512", "OAUTHBEARER"), TEXTS)
    for protocol, mechanism, text in ways:
        client = {"kafka.bootstrap.servers": "h:1", "kafka.security.protocol": protocol, name: text}
        client["kafka.sasl.mechanism"] = mechanism
        for options in (client, client | {"kafka.linger.ms": "x", "kafka.fetch.max.wait.ms": "x"}):
            assert MARK not in text_of_call(parse_topic_options, options | {"subscribe": "t"}, is_stream=False)
            assert MARK not in text_of_call(parse_topic_write_options, options)


def test_arguments_of_tasks_do_not_show_the_secret():
    options = parse_topic_write_options({"kafka.bootstrap.servers": "h:1", "kafka.sasl.password": MARK})
    work = TaskArguments(options, TaskServerAddress("h", 1, MARK.encode()), {})
    assert MARK not in repr(work)
    read = parse_log_options(STORE)
    assert MARK in str(read.storage)
    assert MARK not in repr(read) + repr(get_store("s3://bucket", options=read.storage))
    assert MARK not in text_of_call(parse_log_options, STORE | {"storageOptions": MARK})


@pytest.mark.spark
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SASL_SSL", "SSL"])
def test_queries_do_not_show_the_secret(spark, servers, topic, tmp_path, capfd, caplog, protocol):
    secrets = {name: TEXTS[1] if "jaas" in name else MARK for name in NAMES}
    waits = {"kafka.default.api.timeout.ms": "1000", "kafkaConsumer.pollTimeoutMs": "1000"}
    options = {"kafka.bootstrap.servers": servers, "kafka.security.protocol": protocol, **secrets, **waits}
    writing = {name: text for name, text in options.items() if name.startswith("kafka.")}
    assert MARK not in batch(spark, options)
    assert MARK not in write(spark, writing)
    assert MARK not in stream(spark, options, writing, tmp_path / "checkpoint")
    assert "kafka-topic" in executions(spark)
    assert MARK not in executions(spark)
    captured_output = capfd.readouterr()
    assert MARK not in captured_output.out + captured_output.err + caplog.text


def batch(spark, options) -> str:
    rows = spark.read.format("kafka-topic").options(**options, subscribe="flights").load()
    counts_frame = rows.groupBy("partition").count()
    return plans(counts_frame) + attempt(counts_frame.collect)


def write(spark, options) -> str:
    rows = spark.range(1).selectExpr("'v' AS value")
    writer = rows.write.format("kafka-topic").options(**options, topic="secret").mode("append")
    return attempt(writer.save) + attempt(lambda: kafkaframes.spark.write_topic(rows, {**options, "topic": "secret"}))


def stream(spark, options, writing, checkpoint) -> str:
    frame = (
        spark.readStream.format("kafka-topic")
        .options(**options, subscribe="flights", startingOffsets="earliest")
        .load()
    )
    queries, text = [], plans(frame)
    rows = frame.select("value")

    def start(query):
        queries.append(query)
        return query.awaitTermination(240)

    once = rows.writeStream.format("kafka-topic").options(**writing, topic="secret").trigger(availableNow=True)
    text += attempt(lambda: start(once.option("checkpointLocation", f"{checkpoint}-a").start()))
    target = {**writing, "topic": "secret"}
    exactly = {"checkpoint": f"{checkpoint}-b", "trigger": {"availableNow": True}}
    text += attempt(lambda: start(kafkaframes.spark.write_topic(rows, target, **exactly)))
    for query in queries:
        text += f"{query.recentProgress}{query.exception()}{query._jsq.explainInternal(True)}{query.status}"
    return text


def plans(frame) -> str:
    execution = frame._jdf.queryExecution()
    return execution.toString() + execution.logical().toJSON()


def attempt(action) -> str:
    """Return the error text of a failed action, with Java's stack."""
    try:
        return str(action())
    except Exception as error:
        java = getattr(error, "_origin", None)
        return f"{error!r}{error}{java.toString() if java is not None else ''}{getattr(error, '_stackTrace', '')}"


def executions(spark) -> str:
    """Return the contents of Spark's UI about queries and jobs."""
    session = spark._jsparkSession
    executions = [
        session.sharedState().statusStore().executionsList(),
        session.sparkContext().statusStore().jobsList(None),
    ]
    texts = [session.sparkContext().statusStore().environmentInfo().toString()]
    for values in executions:
        texts += [text_of(values.apply(index)) for index in range(values.size())]
    return "".join(texts)


def text_of(row) -> str:
    parts = ("description", "details", "physicalPlanDescription", "modifiedConfigs", "name")
    return "".join(str(getattr(row, part)()) for part in parts if hasattr(type(row), part) or part in dir(row))


@pytest.mark.parametrize("name", NAMES)
def test_table_descriptions_do_not_show_the_secret(name):
    secret = {name: TEXTS[1] if "jaas" in name else MARK}
    table = {"provider": "kafka-topic", "kafka.bootstrap.servers": "h:1", "subscribe": "flights"}
    source = KafkaTopicDataSource(table | secret)
    with pytest.raises(OptionError, match=f"option {name} would be visible to all users of the catalog") as caught:
        source.schema()
    assert MARK not in str(caught.value)


@pytest.mark.spark
def test_a_catalog_stores_no_secret(spark, servers):
    table_options = {"kafka.bootstrap.servers": servers, "subscribe": "flights"}
    check_refused(spark, "kafka-topic", table_options | {"kafka.sasl.jaas.config": TEXTS[1]})
    check_refused(spark, "kafka-log", {"path": f"s3://me:{MARK}@bucket/logs"})
    assert "hidden" not in [table.name for table in spark.catalog.listTables()]


def check_refused(spark, source, table_options):
    options_sql = ", ".join(f"`{name}` '{text}'" for name, text in table_options.items())
    with pytest.raises(Exception, match="would be visible to all users of the catalog") as caught:
        spark.sql(f"CREATE TABLE hidden USING `{source}` OPTIONS ({options_sql})")
    assert MARK not in str(caught.value)
