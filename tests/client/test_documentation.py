"""The reference documents every setting and every public name of the client."""

import importlib.util
import inspect
from dataclasses import fields, is_dataclass
from pathlib import Path

import pytest

from kafkaframes import client

ROOT = Path(__file__).parents[2]
_SPEC = importlib.util.spec_from_file_location("docs_tables", ROOT / "docs" / "tables.py")
tables = importlib.util.module_from_spec(_SPEC)
_SPEC.loader.exec_module(tables)


def public_methods():
    for name in client.__all__:
        value = getattr(client, name)
        if inspect.isclass(value):
            for method, function in inspect.getmembers(value, inspect.isroutine):
                if not method.startswith("_") and (getattr(function, "__module__", None) or "").startswith(
                    "kafkaframes.client"
                ):
                    yield f"{name}.{method}", function


PUBLIC_METHODS = dict(public_methods())


@pytest.mark.parametrize("name", tables.CLIENT_SETTINGS)
def test_every_setting_is_described(name):
    settings, settings_type = tables.CLIENT_SETTINGS[name]
    meanings = tables.meanings_of(settings_type)
    page = (ROOT / "docs" / "client-settings.md").read_text()
    common_settings = {field.name for field in fields(tables.ClientSettings)} if name != "client" else set()
    specific_settings = {field.name for field in fields(settings)} - common_settings - {"bootstrap_servers"}
    assert specific_settings == set(meanings)
    assert [setting for setting in specific_settings if f"| `{setting}` |" not in page] == []


@pytest.mark.parametrize("name", [name for name in client.__all__ if inspect.isclass(getattr(client, name))])
def test_every_public_class_has_a_docstring(name):
    assert inspect.getdoc(getattr(client, name))


@pytest.mark.parametrize("name", PUBLIC_METHODS)
def test_every_public_method_has_a_docstring(name):
    assert inspect.getdoc(PUBLIC_METHODS[name])


PUBLIC_CLASSES = [name for name in client.__all__ if inspect.isclass(getattr(client, name))]


def find_undescribed(names, docstring):
    """Return the names without an entry ``name: ...`` in a docstring."""
    return [name for name in names if f"{name}:" not in docstring]


def fields_of(cls):
    return [field.name for field in fields(cls)] if is_dataclass(cls) else list(getattr(cls, "_fields", ()))


@pytest.mark.parametrize("name", PUBLIC_METHODS)
def test_every_argument_of_a_public_method_is_described(name):
    arguments = [
        argument for argument in inspect.signature(PUBLIC_METHODS[name]).parameters if argument not in ("self", "cls")
    ]
    assert find_undescribed(arguments, inspect.getdoc(PUBLIC_METHODS[name])) == []


@pytest.mark.parametrize("name", PUBLIC_CLASSES)
def test_every_field_of_a_public_record_class_is_described(name):
    cls = getattr(client, name)
    assert find_undescribed(fields_of(cls), inspect.getdoc(cls)) == []


@pytest.mark.parametrize("name", [name for name in PUBLIC_CLASSES if name.endswith(("Producer", "Consumer", "Admin"))])
def test_every_argument_of_a_client_constructor_is_described(name):
    cls = getattr(client, name)
    if not fields_of(cls):
        assert find_undescribed(("bootstrap_servers", "options"), inspect.getdoc(cls.__init__)) == []
