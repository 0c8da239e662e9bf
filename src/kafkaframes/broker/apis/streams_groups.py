"""Streams groups (KIP-1071): StreamsGroupHeartbeat, StreamsGroupDescribe."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from kafkaframes.broker.access import all_denied, may
from kafkaframes.broker.api import Answer, Api, Right
from kafkaframes.broker.apis._groups import GROUP, client_host, descriptions, elsewhere, error_of
from kafkaframes.broker.apis.topics import make_topics
from kafkaframes.broker.changes import Steps
from kafkaframes.broker.request import RequestOf
from kafkaframes.broker.state import BrokerState
from kafkaframes.coordination.groups.streams import NO_TASKS, StreamsGroup, StreamsMember, TaskRole, Tasks, by_subtopology
from kafkaframes.coordination.groups.streams_protocol import StreamsBeat, StreamsBeaten, check
from kafkaframes.coordination.groups.streams_records import TASK_FIELDS, subtopology_fields, task_rows, topology_of
from kafkaframes.coordination.groups.streams_topology import InternalTopic
from kafkaframes.errors import ErrorCode, KafkaframesError, RefusedError
