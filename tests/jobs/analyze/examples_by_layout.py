"""Helpers that encode test messages and compare their sizes in several layouts."""

from __future__ import annotations

from collections import Counter

import numpy as np
import pyarrow as pa

from kafkaframes.jobs.analyze.outcome import SizeTotals
from kafkaframes.jobs.analyze.proposals import ProposalSettings
from kafkaframes.jobs.analyze.size_comparison import MessageSizeComparer
from kafkaframes.jobs.analyze.traffic import ApiMessages
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.framed import decode_request_columns, decode_response_columns
from kafkaframes.protocol.messages.headers import encode_request, encode_response

NO_LABELS = (None, None, None)


def compare_values(question, version, *values) -> dict[str, SizeTotals]:
    """Compare the sizes of messages of one class, and return the totals by kind of comparison."""
    spec = values[0].spec
    is_request = spec.type == "request"
    data = [(encode_request if is_request else encode_response)(value, version) for value in values]
    frames = (decode_request_columns if is_request else decode_response_columns)(data, spec.api_key, version)
    sizes = np.array([len(one) for one in data])
    labels = np.zeros(len(values), np.int64)
    bench = MessageSizeComparer(ProposalSettings(question) if isinstance(question, str) else question)
    bench.compare_messages(ApiMessages(spec.api_key, version, spec.type, frames, sizes, labels, [NO_LABELS], Counter()))
    return {group.kind: size_totals for group, size_totals in bench.outcome.totals_by_group.items()}


def columns(name, version, *values) -> pa.StructArray:
    """Return bodies as columns."""
    return message(name).decode_columns([value.encode(version) for value in values], version)
