"""The public API is what its snapshot says, and a package exports the classes that its methods return."""

import difflib
import inspect
import re
import sys
from importlib import import_module

import pytest
from tools.public_api import TARGET, api_lines

import kafkaframes.client


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
