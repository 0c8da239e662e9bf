"""The stub that editors read says what the catalog says."""

import ast

from click.testing import CliRunner

from kafkaframes.cli.main import cli
from kafkaframes.cli.spec_stubs import STUB
from kafkaframes.protocol.messages import kafka, message
from kafkaframes.protocol.spec import catalog


def test_the_stub_is_current():
    result = CliRunner().invoke(cli, ["spec", "stubs", "--check"])
    assert (result.exit_code, result.output) == (0, "current\n")


def test_the_stub_has_every_message_and_the_module_gives_it():
    classes = {node.name for node in ast.parse(STUB.read_text()).body if isinstance(node, ast.ClassDef)}
    assert classes == set(catalog.names())
    assert kafka.MetadataResponse is message("MetadataResponse")
    assert "MetadataResponse" in dir(kafka)
    assert not hasattr(kafka, "MetadataReponse")
