"""Exceptions: they name settings instead of flags, and can be pickled."""

import ast
import copy
import inspect
import pickle
import re
from pathlib import Path

import pytest

import kafkaframes
from kafkaframes.errors import ErrorCode, OptionError, RecordRefusal, exceptions
from kafkaframes.jobs.mirror.settings import check_endpoints

ROOT = Path(kafkaframes.__file__).parent
FLAG = re.compile(r"(?<![\w-])--[a-z]")


def messages_with_flags(path):
    """Return the messages of a file's ``raise`` statements that contain a flag."""
    statements = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, ast.Raise)]
    texts = [node.value for statement in statements for node in ast.walk(statement) if isinstance(node, ast.Constant)]
    return [text for text in texts if isinstance(text, str) and FLAG.search(text)]


def test_errors_outside_the_command_line_contain_no_flag():
    files = [path for path in ROOT.rglob("*.py") if path.relative_to(ROOT).parts[0] not in ("cli", "testing")]
    assert len(files) > 300
    assert {str(path): messages for path in files if (messages := messages_with_flags(path))} == {}


def test_an_error_names_the_setting():
    with pytest.raises(OptionError, match=r"^`source` is empty"):
        check_endpoints("", "b:1")


CLASSES = [kind for _, kind in inspect.getmembers(exceptions, inspect.isclass) if issubclass(kind, Exception)]


class EqualError(exceptions.BrokerError):
    """An exception that equals its copies. Other exceptions are compared by identity."""

    def __eq__(self, other):
        return isinstance(other, EqualError) and vars(self) == vars(other)

    __hash__ = None


ARGUMENTS = {
    "AppendRefusedError": (
        ("InvalidRecordException", "reason"),
        {"record_errors": (RecordRefusal(1, ErrorCode.INVALID_RECORD, "x"),)},
    ),
    "DamagedChunkError": (("reason",), {"lost": (1, 2), "file": "x.log", "position": 5}),
    "MissingExtraError": (("a feature", "spark"), {"instead": "do without"}),
    "PartialFailureError": (({"a": None, "b": EqualError("reason", ErrorCode.UNKNOWN_SERVER_ERROR)},), {}),
    "RefusedError": ((ErrorCode.NOT_COORDINATOR,), {}),
    "UnknownOutcomeError": (("table", "run", "reason"), {}),
    "UnsupportedFormatError": (("orders-0", 17, 2, (0, 1)), {}),
}


@pytest.mark.parametrize("kind", CLASSES)
def test_pickling_and_copying_preserve_an_error(kind):
    args, keywords = ARGUMENTS.get(kind.__name__, (("reason",), {}))
    if issubclass(kind, exceptions._LocatedError):
        keywords = {"path": ("Topics", 3), "position": 7, "file": "x"} | keywords
    if issubclass(kind, exceptions.BrokerError) and kind is not exceptions.PartialFailureError:
        keywords = {"code": ErrorCode.NOT_COORDINATOR}
    error = kind(*args, **keywords)
    error.rows = (1, 2)  # attributes that are set later are preserved, too
    for twin in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert (type(twin), str(twin), twin.args, vars(twin)) == (kind, str(error), error.args, vars(error))
        assert getattr(twin, "msg", None) == getattr(error, "msg", None)  # ImportError has it
