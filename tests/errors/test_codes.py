"""Error codes: complete, valid for unknown numbers, and the same as in kio's table."""

import copy
import pickle

import pytest
from kio.schema.errors import ErrorCode as KioCode

from kafkaframes.errors import LEADER_MOVED_CODES, BrokerError, ErrorCode


def test_numbers_have_no_gap_and_messages_are_unique():
    assert [*map(int, ErrorCode)] == list(range(-1, 134))
    assert len({code.message for code in ErrorCode}) == len(ErrorCode)


@pytest.mark.parametrize("number", [9999, -2, 6])
def test_a_code_of_any_number_can_be_pickled(number):
    code = ErrorCode(number)
    assert code == number
    assert hash(code) == hash(number)
    assert code.is_retriable == (number == 6)
    for twin in (pickle.loads(pickle.dumps(code)), copy.deepcopy(code)):
        assert (twin, twin.name, twin.message) == (code, code.name, code.message)
    assert pickle.loads(pickle.dumps(BrokerError("refused", code))).code == code


def test_an_unknown_name_is_an_error():
    with pytest.raises(KeyError):
        ErrorCode["NO_SUCH_ERROR"]
    with pytest.raises(ValueError, match="NO_SUCH_ERROR"):
        ErrorCode("NO_SUCH_ERROR")


@pytest.mark.parametrize("kio_code", KioCode, ids=lambda code: code.name)
def test_names_and_retriability_equal_those_of_kio(kio_code):
    code = ErrorCode(kio_code.value)
    assert (code.name.lower(), code.is_retriable) == (kio_code.name, kio_code.retriable)


def test_errors_of_stale_leader_metadata_are_retriable():
    assert all(code.is_retriable for code in LEADER_MOVED_CODES)  # UNSUPPORTED_COMPRESSION_TYPE (76) is not
