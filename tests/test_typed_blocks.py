"""mypy --strict accepts each Python block of README and docs. Pyright: ``tests/interop/test_pyright.py``."""

from tests.typed_blocks import describe_errors, write_modules
from tests.under_mypy import run_mypy_on, set_mypy_option


def test_mypy_accepts_the_blocks_of_the_documents(tmp_path):
    places = write_modules(tmp_path)
    assert len(places) > 60
    paths = sorted(tmp_path.glob("*.py"))
    # PySpark's decorators are untyped here, because the settings of `make check` do not follow imports of PySpark.
    set_mypy_option(paths, "allow-untyped-decorators")
    output = run_mypy_on(paths)
    assert any("Success" in line or "error" in line for line in output), output
    assert describe_errors(output, places) == []


def test_mypy_reports_an_error_in_a_block(tmp_path):
    """Otherwise the test above would pass if mypy skipped the blocks."""
    (tmp_path / "wrong_block.py").write_text('from kafkaframes.client import Producer\n\nProducer("b", acks=[])\n')
    output = run_mypy_on([tmp_path / "wrong_block.py"])
    assert any("wrong_block.py:3: error: " in line for line in output), output
