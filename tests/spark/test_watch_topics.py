"""The settings that ``watch_topics`` rejects before a query begins."""

import pytest
from tests.spark.test_topic_progress import servers  # noqa: F401  a fixture

import kafkaframes
from kafkaframes.errors import OptionError

NOW_MS = 1_700_000_100_000


def test_a_group_requires_a_query_name_and_settings_are_checked(servers):  # noqa: F811
    for options, watch_settings, message in (
        ({"kafka.bootstrap.servers": servers}, {"group_id": "g"}, "two queries must not commit to the same group"),
        ({}, {}, "kafka.bootstrap.servers is missing"),
        ({"kafka.bootstrap.servers": servers, "kafka.clientid": "x"}, {}, "did you mean client_id"),
    ):
        with (
            pytest.raises(OptionError, match=message),
            kafkaframes.spark.watch_topics(None, options, **watch_settings),
        ):
            pass
