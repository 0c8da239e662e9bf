"""The public API is what its snapshot says, and a package exports the classes that its methods return."""

import difflib
import inspect
import re
import sys
from importlib import import_module

import pytest
from tools.public_api import TARGET, api_lines

import kafkaframes.client
import kafkaframes.errors.exceptions

# Everything in the API whose type is Any, with the reason.
ANY = {
    "kafkaframes.build_records": "columns of many kinds: mappings, tables, data frames; records/rows.py checks them",
    "kafkaframes.export_log": "storage options are those of fsspec",
    "kafkaframes.mirror_topics": "client settings have types of their own in client/options.py",
    "kafkaframes.scan_log": "storage options are those of fsspec",
    "kafkaframes.scan_topic": "client settings have types of their own in client/options.py",
    "kafkaframes.broker.Broker.append": "values of a record's fields; records/rows.py checks them",
    "kafkaframes.broker.Broker.on": "conditions are fields of any API's request",
    "kafkaframes.broker.Served": "storage options are those of fsspec",
    "kafkaframes.errors.DamagedChunkError": "the position, as the base class takes it",
    "kafkaframes.errors.PartialFailureError": "keys are the items of any request",
    "kafkaframes.errors.PartialFailureError.errors": "keys are the items of any request",
    "kafkaframes.scan.scan.Scan.to_pandas": "options are those of pyarrow's to_pandas",
    "kafkaframes.spark.restore_log": "settings are those of kafkaframes.restore_log, whose signature has their types",
    "kafkaframes.spark.write_log": "options of Spark are of any type",
    "kafkaframes.testing.SchemaRegistry.register": "a schema is JSON of any form",
    "kafkaframes.testing.assert_records": "records are compared in all forms in which this package returns them",
    "kafkaframes.spark.write_topic": "a trigger's value is that of Spark's trigger()",
}


def test_any_is_a_type_only_for_a_reason():
    lines = [line for line in TARGET.read_text().splitlines() if re.search(r"\bAny\b", line)]
    assert {re.match(r"[\w.]+", line)[0] for line in lines} == set(ANY)


def test_the_package_of_errors_exports_exceptions_only():
    exported = {name: getattr(kafkaframes.errors, name) for name in kafkaframes.errors.__all__}
    assert [name for name, value in exported.items() if not issubclass(value, Exception)] == []
    assert set(exported) == {
        name for name in vars(kafkaframes.errors.exceptions) if re.fullmatch(r"[A-Z]\w*Error", name)
    }


def test_the_api_is_its_snapshot():
    pytest.importorskip("pyspark")
    changes = list(difflib.unified_diff(TARGET.read_text().splitlines(), list(api_lines()), lineterm="", n=0))
    assert changes == [], "run python tools/public_api.py, and review the change"


def test_the_client_exports_the_classes_that_its_methods_return():
    exported = set(kafkaframes.client.__all__)
    classes = [getattr(kafkaframes.client, name) for name in exported]
    for kind in filter(inspect.isclass, classes):
        import_module(kind.__module__)
    named = {
        name: value
        for module in [value for key, value in sys.modules.items() if key.startswith("kafkaframes.client")]
        for name, value in vars(module).items()
        if inspect.isclass(value) and value.__module__.startswith("kafkaframes.client")
    }
    returned = set()
    for kind in filter(inspect.isclass, classes):
        for name, member in inspect.getmembers(kind):
            function = member.fget if isinstance(member, property) else member
            annotation = getattr(function, "__annotations__", {}).get("return", "")
            if not name.startswith("_"):
                returned |= {word for word in re.findall(r"[A-Za-z_]\w*", str(annotation)) if word in named}
    assert {"RecordFuture", "Cluster"} <= returned
    # Not exported: a node in Metadata responses, whose name is that of the embedded broker, and the result of
    # `Cluster.read_topics`, which only the connections call.
    assert {name for name in returned if not name.startswith("_")} - exported == {"Broker", "TopicUpdate"}
