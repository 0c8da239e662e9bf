"""The options of ``kafkaframes record``: addresses and ranges of ports."""

from __future__ import annotations

import pytest

from kafkaframes.cli.record import _listen, _upstream
from kafkaframes.errors import OptionError


@pytest.mark.parametrize("text", [":x", ":9093-9092", ":0-99999"])
def test_options_that_make_no_sense(text):
    with pytest.raises(OptionError):
        _listen(text)
    with pytest.raises(OptionError):
        _upstream(text)


def test_listen_takes_a_range():
    assert _listen(":9092-9094") == ("0.0.0.0", (9092, 9093, 9094))
    assert _listen("[::1]:9092") == ("::1", (9092,))
