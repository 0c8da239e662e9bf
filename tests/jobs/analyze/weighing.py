"""Test messages for the bench."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from kafkaframes.jobs.analyze.outcome import Weight
from kafkaframes.jobs.analyze.proposals import ProposalSettings
from kafkaframes.jobs.analyze.traffic import ApiMessages
from kafkaframes.jobs.analyze.weigh import MessageWeigher
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.framed import decode_request_columns, decode_response_columns
from kafkaframes.protocol.messages.headers import encode_request, encode_response

NOBODY = (None, None, None)


def weigh_values(question, version, *values) -> dict[str, Weight]:
    """Return the weights of messages of one class by kind."""
    spec = values[0].spec
    is_request = spec.type == "request"
    data = [(encode_request if is_request else encode_response)(value, version) for value in values]
    frames = (decode_request_columns if is_request else decode_response_columns)(data, spec.api_key, version)
    sizes = np.array([len(one) for one in data])
    labels = np.zeros(len(values), np.int64)
    bench = MessageWeigher(ProposalSettings(question) if isinstance(question, str) else question)
    bench.weigh_messages(ApiMessages(spec.api_key, version, spec.type, frames, sizes, labels, [NOBODY], Counter()))
    return {group.kind: weight for group, weight in bench.outcome.weights.items()}


def columns(name, version, *values) -> pa.StructArray:
    """Return bodies as columns."""
    return message(name).decode_columns([value.encode(version) for value in values], version)
