"""Keywords of the clients are typed: mypy reports unknown keywords and wrong types."""

import ast
import inspect
import re
from dataclasses import fields

import pytest
from tests.under_mypy import run_mypy

import kafkaframes.client as client
from kafkaframes.client import options
from kafkaframes.client.settings import ClientSettings, ConsumerSettings, ProducerSettings, ShareConsumerSettings

VALID_CALLS = """\
Producer({"bootstrap.servers": "a:1"}, acks="all", linger_ms=5)
AsyncProducer("a:1", enable_idempotence=None)
Consumer(["a:1", "b:2"], group_id="g", auto_offset_reset="earliest", formats=(2,))
AsyncConsumer("a:1", api_version=(2, 8))
Admin("a:1", sasl_oauthbearer_token=lambda: "token")
AsyncAdmin("a:1", client_id="me")
"""
INVALID_CALLS = {
    'Producer("a:1", nonsense=3)': 'Unexpected keyword argument "nonsense"',
    'AsyncProducer("a:1", nonsense=3)': 'Unexpected keyword argument "nonsense"',
    'Producer("a:1", linger_ms="5")': 'incompatible type "str"; expected "int"',
    'Consumer("a:1", group_id=3)': 'incompatible type "int"; expected "str | None"',
    'AsyncConsumer("a:1", linger_ms=5)': 'Unexpected keyword argument "linger_ms"',
    'Consumer("a:1").poll("now")': 'incompatible type "str"; expected "int | None"',
    'Consumer("a:1").fetch_arrow(max_byte=1)': 'Unexpected keyword argument "max_byte"',
    'Consumer("a:1").seek(("t", 0))': "Too few arguments",
    'Producer("a:1").topic_id("t") + 1': 'Unsupported operand types for + ("UUID" and "int")',
    'Admin("a:1", acks=1)': 'Unexpected keyword argument "acks"',
    'AsyncAdmin("a:1", retries="all")': 'incompatible type "str"; expected "int"',
}


@pytest.mark.timeout(600)
def test_mypy_reports_unknown_keywords_and_wrong_types(tmp_path):
    path = tmp_path / "clients_under_mypy.py"
    path.write_text("from kafkaframes.client import *\n" + VALID_CALLS + "\n".join(INVALID_CALLS) + "\n")
    errors = [line for line in run_mypy(path) if " error: " in line]
    first = 2 + VALID_CALLS.count("\n")
    for number, (error, (call, reason)) in enumerate(zip(errors, INVALID_CALLS.items(), strict=True), first):
        assert error.startswith(f"{number}: error: "), call
        assert reason in error


def test_each_option_documents_its_meaning_and_default():
    """Editors show the docstring below a field: Pylance and pyright do so for the keywords of an ``Unpack``."""
    tree = ast.parse(inspect.getsource(options))
    for name, settings in (
        ("Client", ClientSettings),
        ("Producer", ProducerSettings),
        ("Consumer", ConsumerSettings),
        ("ShareConsumer", ShareConsumerSettings),
    ):
        (body,) = (node.body for node in tree.body if getattr(node, "name", None) == f"{name}Options")
        defaults = {field.name: field.default for field in fields(settings)}
        for field, text in zip(body[1::2], body[2::2], strict=True):
            docstring = ast.literal_eval(text.value)
            assert re.fullmatch(r"[^.\n].*\.", docstring), field.target.id
            default = defaults[field.target.id]
            default_text = ", ".join(map(str, default)) if isinstance(default, tuple) else default
            stated_default = re.search(r" Default: (.*)\.$", docstring)
            assert (stated_default[1] if stated_default else None) == (
                None if default_text in (None, "") else str(default_text)
            ), field.target.id


@pytest.mark.parametrize("name", ["Producer", "Consumer", "Admin"])
def test_synchronous_methods_have_the_arguments_and_docstrings_of_the_async_ones(name):
    waiting, async_class = getattr(client, name), getattr(client, f"Async{name}")
    methods = {name for name, method in vars(async_class).items() if callable(method) and not name.startswith("_")}
    assert methods - {"start", "send_and_wait"} <= vars(waiting).keys()
    for method in methods & vars(waiting).keys() - {"send"}:
        of_waiting, of_awaited = getattr(waiting, method), getattr(async_class, method)
        assert inspect.signature(of_waiting) == inspect.signature(of_awaited), method
        assert inspect.getdoc(of_waiting), method
        assert not inspect.iscoroutinefunction(of_waiting), method
