"""Functions on Spark columns of Kafka messages: bytes to structs and back, Arrow batch by Arrow batch.

    from kafkaframes.spark.messages import decode_message, decode_request, decode_response, encode_message

    df.select(decode_message("value", "MetadataResponse", 12).alias("m")).select("m.topics.name", "m._error")

They are Arrow UDFs (PySpark 4.1 and later). A bad message never fails the job: its row has the reason in ``_error`` and
nulls elsewhere. Fields are named as in Kafka's JSON form; uuids are 16 bytes of binary.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from kafkaframes.errors import DecodeError, OptionError
from kafkaframes.spark import _compat

if TYPE_CHECKING:
    from pyspark.sql import Column

    ColumnOrName: TypeAlias = Column | str

REQUEST_TYPE = pa.struct(
    [
        ("apiKey", pa.int16()),
        ("apiVersion", pa.int16()),
        ("correlationId", pa.int32()),
        ("clientId", pa.string()),
        ("name", pa.string()),
        ("header", pa.string()),
        ("body", pa.string()),
        ("_error", pa.string()),
    ]
)


def decode_message(
    col: ColumnOrName, name: str, version: int, *, mode: str = "reference", specs: str | None = None
) -> Column:
    """Return a column of structs: the message ``name`` at ``version`` that each binary value is.

    Args:
        col: bodies, without header and size.
        name: as Kafka names it: ``MetadataResponse``, ``OffsetCommitValue``.
        version: the version of all of them.
        mode: ``reference`` accepts what Kafka accepts, ``strict`` only canonical bytes.
        specs: a folder of specs, which the workers can read too, instead of the catalog.

    Raises:
        OptionError: no such message, version or mode.
    """
    from kafkaframes.protocol.messages import message
    from kafkaframes.protocol.messages.codec import check_mode

    check_mode(mode)
    cls = message(name, specs=specs)
    return _column(
        col, lambda data: message(name, specs=specs).decode_columns(data, version, mode=mode), _type(cls, version)
    )


def encode_message(col: ColumnOrName, name: str, version: int, *, specs: str | None = None) -> Column:
    """Return a binary column: each struct as the message ``name`` at ``version``; the inverse of ``decode_message``.

    Fields are found by name; what is missing is at its default, ``_error`` is not looked at, a null struct is null.
    A row that cannot be written fails the job with an EncodeError that names its field.

    Raises:
        OptionError: no such message or version.
    """
    from kafkaframes.protocol.messages import message

    _type(message(name, specs=specs), version)
    return _column(col, lambda rows: message(name, specs=specs).encode_columns(rows, version), pa.binary())


def decode_response(col: ColumnOrName, api_key: int, api_version: int, *, mode: str = "reference") -> Column:
    """Return a column of structs ``header, body, _error``: responses to requests of one API and version.

    Args:
        col: responses as they are on the wire, without their sizes.
        api_key: of the request that each answers; as ``api_version``.
        mode: as for :func:`decode_message`.

    Raises:
        OptionError: no such API, version or mode.
    """
    from kafkaframes.protocol.messages.framed import response_columns

    type_ = response_columns([], api_key, api_version, mode=mode).type
    return _column(col, lambda data: response_columns(data, api_key, api_version, mode=mode), type_)


def decode_request(
    col: ColumnOrName, api_key: int | None = None, api_version: int | None = None, *, mode: str = "reference"
) -> Column:
    """Return a column of structs: requests, which name their API and version themselves.

    Without ``api_key`` the requests may be any: ``apiKey, apiVersion, correlationId, clientId, name, header, body,
    _error``; ``header`` and ``body`` are Kafka's JSON form (records as base64, unknown tags as ``_unknownTags``: trace
    ids live there). That is one Python object a row. With API and version, which all of them must have, it is
    ``header, body, _error`` as :func:`decode_response` gives, at the kernels' speed.

    Args:
        col: requests as they are on the wire, without their sizes.
        api_key: of all of them, with ``api_version``.
        mode: as for :func:`decode_message`.

    Raises:
        OptionError: no such API, version or mode; or one of API and version without the other.
    """
    if api_key is None and api_version is None:
        return _column(col, lambda data: _any_requests(data, mode), REQUEST_TYPE)
    if api_key is None or api_version is None:
        raise OptionError("decode_request takes an API key and a version, or neither")
    from kafkaframes.protocol.messages.framed import request_columns

    type_ = request_columns([], api_key, api_version, mode=mode).type
    key, version = api_key, api_version
    return _column(col, lambda data: request_columns(data, key, version, mode=mode), type_)


def _any_requests(data: pa.Array, mode: str) -> pa.StructArray:
    return pa.array([None if one is None else _request(one, mode) for one in data.to_pylist()], REQUEST_TYPE)


def _request(data: bytes, mode: str) -> dict[str, Any]:
    from kafkaframes.protocol.messages import headers

    try:
        frame = headers.decode_request(data, mode=mode)
    except DecodeError as error:
        return {"_error": str(error)}
    row: dict[str, Any] = {
        "apiKey": frame.api_key,
        "apiVersion": frame.api_version,
        "correlationId": frame.correlation_id,
    }
    row["clientId"] = frame.header.client_id
    row["header"] = json.dumps(frame.header.to_json(frame.header_version))
    if not isinstance(frame.body, bytes):  # an ApiVersions request of an unknown version
        row["name"] = type(frame.body).__name__
        row["body"] = json.dumps(frame.body.to_json(frame.api_version, records="base64"))
    return row


def _type(cls: Any, version: int) -> pa.DataType:
    try:
        return cls.decode_columns([], version).type
    except DecodeError as error:
        raise OptionError(str(error)) from None


def _column(col: ColumnOrName, convert: Callable[[pa.Array], pa.Array], type_: pa.DataType) -> Column:
    """Return ``convert`` as an Arrow UDF on ``col``."""
    version = _compat.require_pyspark("kafkaframes.spark.messages")
    if version < (4, 1):
        raise OptionError(
            f"these functions are Arrow UDFs, which PySpark {version[0]}.{version[1]} does not have: 4.1 has"
        )
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_type

    requested = _without_fixed_binary(type_)

    def run(data: pa.Array) -> pa.Array:
        return convert(data).cast(requested)

    run.__annotations__ = {"data": pa.Array, "return": pa.Array}  # as objects: the worker does not resolve text
    return arrow_udf(run, returnType=from_arrow_type(requested))(col)


def _without_fixed_binary(type_: pa.DataType) -> pa.DataType:
    """Return a type with plain binary for binary(16), which Spark's side of Arrow does not read."""
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _without_fixed_binary(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_without_fixed_binary(type_.value_type))
    return pa.binary() if pa.types.is_fixed_size_binary(type_) else type_
