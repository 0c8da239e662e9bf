"""Errors below the command line name settings, not flags."""

import ast
import re
from pathlib import Path

import pytest

import kafkaframes
from kafkaframes.errors import OptionError
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
