"""The API keys that this package refers to in code; ``spec/catalog`` has all of Kafka's APIs."""

from __future__ import annotations

from typing import Final

PRODUCE: Final = 0
FETCH: Final = 1
METADATA: Final = 3
SASL_HANDSHAKE: Final = 17
API_VERSIONS: Final = 18
CREATE_TOPICS: Final = 19
INIT_PRODUCER_ID: Final = 22
SASL_AUTHENTICATE: Final = 36
INCREMENTAL_ALTER_CONFIGS: Final = 44
CONSUMER_GROUP_DESCRIBE: Final = 69
GET_TELEMETRY_SUBSCRIPTIONS: Final = 71
PUSH_TELEMETRY: Final = 72
DESCRIBE_TOPIC_PARTITIONS: Final = 75
SHARE_FETCH: Final = 78
