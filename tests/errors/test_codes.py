"""Error codes: numbers without gaps, unknown ones kept, and the same facts as another client's table."""

import pytest
from kio.schema.errors import ErrorCode as KioCode

from kafkaframes.errors import ERROR_CODES, error_code


def test_numbers_have_no_gap():
    assert list(ERROR_CODES) == list(range(-1, 134))
    assert len({code.name for code in ERROR_CODES.values()}) == len(ERROR_CODES)


def test_unknown_codes_are_kept():
    code = error_code(9999)
    assert (code.number, code.is_retriable) == (9999, False)
    with pytest.raises(KeyError):
        error_code("NO_SUCH_ERROR")
    assert error_code("NONE").number == 0


@pytest.mark.parametrize("theirs", KioCode, ids=lambda one: one.name)
def test_facts_are_those_of_kio(theirs):
    ours = error_code(theirs.value)
    assert (ours.name.lower(), ours.is_retriable) == (theirs.name, theirs.retriable)
