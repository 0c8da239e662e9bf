"""Arguments that are paths: every public function rejects other values with an error that names the accepted types.

Previously, paths or segment contents of type bytes raised "expected str, bytes or os.PathLike object, not int", because
bytes were read as a sequence of paths.
"""

import inspect
from pathlib import Path

import pytest

import kafkaframes
from kafkaframes.errors import OptionError
from kafkaframes.storage.files.paths import to_path_list

FUNCTIONS = {name: getattr(kafkaframes, name) for name in kafkaframes.__all__}
SOURCES = ("paths", "path", "source", "sources", "proposal")
OTHER_ARGUMENTS = {"to": "out", "pattern": "a", "key": b"k", "target": "kafka", "codec": "zstd", "record_format": 2}


def takes_paths(function):
    parameters = inspect.signature(function).parameters if inspect.isfunction(function) else {}
    return any(name in SOURCES and "Path" in str(parameter.annotation) for name, parameter in parameters.items())


@pytest.mark.parametrize("name", sorted(name for name, function in FUNCTIONS.items() if takes_paths(function)))
@pytest.mark.parametrize("value", [b"logs", 5, None, [b"logs"], [Path("logs"), 5], bytearray(61)], ids=str)
def test_a_value_that_is_not_a_path_is_rejected(name, value, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    first, *others = inspect.signature(FUNCTIONS[name]).parameters.values()
    if isinstance(value, bytes | bytearray) and "bytes" in str(first.annotation):
        return  # read_records and read_batches read bytes
    arguments = {each.name: OTHER_ARGUMENTS[each.name] for each in others if each.default is inspect.Parameter.empty}
    with pytest.raises(OptionError, match=r"path.*; expected a str or an os.PathLike"):
        FUNCTIONS[name](value, **arguments)
    assert list(tmp_path.iterdir()) == []


def test_paths_can_be_any_sequence_of_any_path_type():
    assert to_path_list(path for path in ("a", Path("b"))) == ["a", "b"]
    assert to_path_list(Path("c")) == ["c"]
