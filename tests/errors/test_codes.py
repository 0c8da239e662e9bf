"""Error codes: numbers without gaps, unknown ones kept, and the same facts as another client's table."""

import copy
import pickle

import pytest
from kio.schema.errors import ErrorCode as KioCode

from kafkaframes.errors import LEADER_MOVED, BrokerError, ErrorCode


def test_numbers_have_no_gap_and_each_has_its_own_words():
    assert [*map(int, ErrorCode)] == list(range(-1, 134))
    assert len({code.message for code in ErrorCode}) == len(ErrorCode)


@pytest.mark.parametrize("number", [9999, -2, 6])
def test_any_number_is_a_code_that_can_be_sent_to_other_processes(number):
    code = ErrorCode(number)
    assert code == number
    assert hash(code) == hash(number)
    assert code.is_retriable == (number == 6)
    for same in (pickle.loads(pickle.dumps(code)), copy.deepcopy(code)):
        assert (same, same.name, same.message) == (code, code.name, code.message)
    assert pickle.loads(pickle.dumps(BrokerError("refused", code))).code == code


def test_names_that_are_not_known_are_errors():
    with pytest.raises(KeyError):
        ErrorCode["NO_SUCH_ERROR"]
    with pytest.raises(ValueError, match="NO_SUCH_ERROR"):
        ErrorCode("NO_SUCH_ERROR")


@pytest.mark.parametrize("theirs", KioCode, ids=lambda one: one.name)
def test_facts_are_those_of_kio(theirs):
    ours = ErrorCode(theirs.value)
    assert (ours.name.lower(), ours.is_retriable) == (theirs.name, theirs.retriable)


def test_a_moved_leader_is_worth_another_try():
    assert all(code.is_retriable for code in LEADER_MOVED)  # UNSUPPORTED_COMPRESSION_TYPE (76) is not
