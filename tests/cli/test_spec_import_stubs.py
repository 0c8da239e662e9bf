"""The stubs for editors match the catalog or the user's own specs."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

from click.testing import CliRunner
from tests.capture.own_specs import write_specs

from kafkaframes.cli.main import cli
from kafkaframes.protocol.messages import kafka, message
from kafkaframes.protocol.spec import catalog

TOOL = Path(__file__).parents[2] / "tools" / "stub.py"
WRITE = """
import pathlib, runpy, sys
write = runpy.run_path(sys.argv[1])["write_stub"]
write.__globals__["STUB_FILE"] = pathlib.Path(sys.argv[2])
write()
"""


def classes_in(stub):
    names = {node.name for node in ast.parse(stub.read_text()).body if isinstance(node, ast.ClassDef)}
    return {name for name in names if not name.startswith("_")}


def test_a_build_writes_all_stubs_with_the_standard_library_only(tmp_path):
    stub = tmp_path / "kafka.pyi"
    stub.write_text("of another release")
    process = subprocess.run([sys.executable, "-I", "-S", "-c", WRITE, TOOL, stub], capture_output=True, text=True)
    assert (process.returncode, process.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == [stub]
    assert classes_in(stub) == set(catalog.list_names())


def test_the_module_has_every_message():
    assert kafka.MetadataResponse is message("MetadataResponse")
    assert "MetadataResponse" in dir(kafka)
    assert not hasattr(kafka, "MetadataReponse")


def test_own_specs_get_a_module_and_a_stub(tmp_path):
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
