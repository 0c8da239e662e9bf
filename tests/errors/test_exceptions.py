"""Errors below the command line name settings, not flags."""

import ast
import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

import kafkaframes
from kafkaframes.errors import ErrorCode, OptionError, RecordRefusal, exceptions
from kafkaframes.jobs.mirror.settings import check_ends

ROOT = Path(kafkaframes.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z]")


def flags_raised(path):
    """Return the texts with flags in what a file raises."""
    raised = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise)]
    texts = [node.value for one in raised for node in ast.walk(one) if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and FLAG.search(text)]


def test_no_error_below_the_command_line_names_a_flag():
    files = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ("cli", "testing")]
    assert len(files) > 300
    assert {str(path): flags for path in files if (flags := flags_raised(path))} == {}


def test_a_function_names_its_setting():
    with pytest.raises(OptionError, match=r"^`source` is empty"):
        check_ends("", "b:1")


CLASSES = [kind for _, kind in inspect.getmembers(exceptions, inspect.isclass) if issubclass(kind, Exception)]


class EqualError(exceptions.BrokerError):
    """Equal to its copies: exceptions are compared by identity otherwise."""

    def __eq__(self, other):
        return isinstance(other, EqualError) and vars(self) == vars(other)

    __hash__ = None


ARGUMENTS = {
    "AppendRefusedError": (
        ("InvalidRecordException", "why"),
        {"record_errors": (RecordRefusal(1, ErrorCode.INVALID_RECORD, "x"),)},
    ),
    "DamagedChunkError": (("why",), {"lost": (1, 2), "file": "x.log", "position": 5}),
    "MissingExtraError": (("a feature", "spark"), {"instead": "do without"}),
    "PartialFailureError": (({"a": None, "b": EqualError("why", ErrorCode.UNKNOWN_SERVER_ERROR)},), {}),
    "RefusedError": ((ErrorCode.NOT_COORDINATOR,), {}),
    "UnknownOutcomeError": (("table", "run", "why"), {}),
    "UnsupportedFormatError": (("orders-0", 17, 2, (0, 1)), {}),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_an_error_comes_out_of_a_pickle_as_it_was(kind):
    args, named = ARGUMENTS.get(kind.__name__, (("why",), {}))
    if issubclass(kind, exceptions._PathError):
        named = {"path": ("Topics", 3), "position": 7, "file": "x"} | named
    if issubclass(kind, exceptions.BrokerError) and kind is not exceptions.PartialFailureError:
        named = {"code": ErrorCode.NOT_COORDINATOR}
    error = kind(*args, **named)
    error.rows = (1, 2)  # what is known of it later stays, too
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(twin), str(twin), twin.args, vars(twin)) == (kind, str(error), error.args, vars(error))
        assert getattr(twin, "msg", None) == getattr(error, "msg", None)  # of an ImportError
