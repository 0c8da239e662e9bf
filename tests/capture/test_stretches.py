"""A stream reads groups of files, each with some earlier files. Every call is one row, like in a single read."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from tests.capture.conversation import CLIENT, SERVER, START_NS, frame_of

from kafkaframes.capture.container import ConversationWriter, build_file_header
from kafkaframes.capture.reader import CaptureOptions, read_capture
from kafkaframes.protocol.messages import message
from kafkaframes.protocol.messages.headers import encode_request, encode_response

COLUMNS = ("clientPort", "correlationId", "apiName", "requestState", "responseState", "_error")


def yield_packets():
    """Yield the packets of some connections: late or missing responses, frames in pieces, holes."""
    time = START_NS
    talks = [ConversationWriter(("10.0.0.1", 20000 + number), ("10.0.0.2", 9092)) for number in range(3)]
    for talk in talks:
        yield talk.build_handshake(time)
        request = message("ApiVersionsRequest")(client_software_name="soft", client_software_version="1")
        yield from yield_segments(talk, CLIENT, encode_request(request, 3, correlation_id=0, client_id="c"), time)
        yield from yield_segments(
            talk, SERVER, encode_response(message("ApiVersionsResponse")(), 3, correlation_id=0), time
        )
    late = []
    for number in range(1, 40):
        yield from late.pop(0) if number % 9 == 6 and late else ()
        talk = talks[number % 3]
        time += 7_000_000_000
        request = encode_request(
            message("HeartbeatRequest")(group_id="g" * 90), 4, correlation_id=number, client_id="c"
        )
        answer = encode_response(message("HeartbeatResponse")(error_code=27), 4, correlation_id=number)
        yield from yield_segments(talk, CLIENT, request, time, skip=number == 20)
        if number % 8 == 7:
            talk.skip(SERVER, 4 + len(answer))  # lost before it was recorded
        elif number != 38:  # the last request of its connection has no response
            response_packets = yield_segments(talk, SERVER, answer, time + 1)
            if number % 9 == 4:  # two calls of other connections in between
                late.append(list(response_packets))
            else:
                yield from response_packets


def yield_segments(talk, side, data, time, *, skip=False):
    """Yield a frame in segments of 40 bytes."""
    whole = frame_of(data)
    for at in range(0, len(whole), 40):
        if skip and at == 40:
            talk.skip(side, 40)
        else:
            yield from talk.build_data_packets(side, whole[at : at + 40], time)


def write_files(folder, count):
    """Write the packets as the files of a rotating recorder."""
    data = list(yield_packets())
    paths = []
    for number in range(count):
        path = folder / f"x.{number}.pcapng"
        part = data[len(data) * number // count : len(data) * (number + 1) // count]
        path.write_bytes(build_file_header("test") + b"".join(part))
        paths.append(str(path))
    return paths


def list_rows(paths, **options):
    rows = read_capture(paths, CaptureOptions(columns=COLUMNS, **options)).read_all().to_pylist()
    return Counter(tuple(row.values()) for row in rows)


@pytest.mark.parametrize(("count", "wait"), [(2, 1), (5, 1), (9, 2), (16, 3), (16, 5)])
@pytest.mark.parametrize("step", [1, 2])
def test_every_row_is_returned_once(tmp_path, count, wait, step):
    paths = write_files(tmp_path, count)
    for number in range(wait):  # no more files follow, so that pending calls of the last files are returned as well
        paths.append(str(tmp_path / f"x.{count + number}.pcapng"))
        Path(paths[-1]).write_bytes(build_file_header("test"))
    rows_given = Counter()
    for start in range(0, len(paths), step):
        lead = min(start, wait + 1)
        rows_given += list_rows(paths[start - lead : start + step], lead_files=lead, wait_files=wait)
    whole = list_rows(paths)
    assert rows_given == whole
    assert sum(row[-1] is not None for row in whole) == 7
