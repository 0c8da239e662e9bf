"""The stub that editors read says what the catalog says."""

import ast
import importlib.util

from click.testing import CliRunner
from tests.capture.own_specs import write_specs

from kafkaframes.cli.main import cli
from kafkaframes.cli.spec_import import STUB
from kafkaframes.protocol.messages import kafka, message
from kafkaframes.protocol.spec import catalog


def classes_in(stub):
    names = {node.name for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)}
    return {name for name in names if not name.startswith("_")}


def test_the_stub_is_current():
    result = CliRunner().invoke(cli, ["spec", "stubs", "--check"])
    assert (result.exit_code, result.output) == (0, "current\n")


def test_the_stub_has_every_message_and_the_module_gives_it():
    assert classes_in(STUB) == set(catalog.names())
    assert kafka.MetadataResponse is message("MetadataResponse")
    assert "MetadataResponse" in dir(kafka)
    assert not hasattr(kafka, "MetadataReponse")


def test_own_specs_get_a_module_and_its_stub(tmp_path):
    folder, module = write_specs(tmp_path / "specs"), tmp_path / "greetings.py"
    result = CliRunner().invoke(cli, ["spec", "stubs", "--specs", str(folder), "-o", str(module)])
    assert result.exit_code == 0, result.output
    assert classes_in(module.with_suffix(".pyi")) == {
        "GreetRequest",
        "GreetResponse",
        "HeartbeatRequest",
        "HeartbeatResponse",
    }
    spec = importlib.util.spec_from_file_location("greetings", module)
    greetings = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(greetings)
    assert greetings.GreetRequest(words="hi").encode(0) == b"\0\2hi"
    assert greetings.GreetRequest is greetings.GreetRequest
    assert not hasattr(greetings, "MetadataRequest")
    assert CliRunner().invoke(cli, ["spec", "stubs", "--specs", str(folder)]).exit_code != 0
