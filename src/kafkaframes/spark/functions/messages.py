"""Spark functions for columns of Kafka messages, which convert bytes to structs and back in Arrow batches.

    from kafkaframes.spark.functions import decode_message, decode_request, decode_response, encode_message

    df.select(decode_message("value", "MetadataResponse", 12).alias("m")).select("m.topics.name", "m._error")

These functions are Arrow UDFs (PySpark 4.1 and later). An invalid message does not fail the job: its row contains the
reason in ``_error``, and other fields are null. Fields have the names of Kafka's JSON form. UUIDs are 16 bytes of
binary.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from kafkaframes.errors import DecodeError, OptionError
from kafkaframes.spark.runtime import _compat

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
    """Return a column of structs, decoded from binary values that are messages of type ``name`` and of one version.

    Args:
        col: Message bodies, without header and size.
        name: Kafka's name of the message, such as ``MetadataResponse`` or ``OffsetCommitValue``.
        version: Version of all messages.
        mode: ``reference`` accepts the bytes that Kafka accepts, ``strict`` only canonical bytes.
        specs: Directory of message specifications that replaces the catalog. Workers must be able to read it.

    Raises:
        OptionError: The message, version or mode does not exist.
    """
    from kafkaframes.protocol.messages import message
    from kafkaframes.protocol.messages.codec import is_strict_mode

    is_strict_mode(mode)
    cls = message(name, specs=specs)
    return _apply_arrow_udf(
        col,
        lambda data: message(name, specs=specs).decode_columns(data, version, mode=mode),
        _build_request_type(cls, version),
    )


def encode_message(col: ColumnOrName, name: str, version: int, *, specs: str | None = None) -> Column:
    """Return a binary column with each struct encoded as the message ``name``; the inverse of ``decode_message``.

    Struct fields are matched by name. Missing fields have their defaults, ``_error`` is ignored, and a null struct is
    null. A row that cannot be encoded fails the job with an EncodeError that names the field.

    Raises:
        OptionError: The message or version does not exist.
    """
    from kafkaframes.protocol.messages import message

    _build_request_type(message(name, specs=specs), version)
    return _apply_arrow_udf(col, lambda rows: message(name, specs=specs).encode_columns(rows, version), pa.binary())


def decode_response(col: ColumnOrName, api_key: int, api_version: int, *, mode: str = "reference") -> Column:
    """Return a column of structs ``header, body, _error``, decoded from responses of one API and version.

    Args:
        col: Responses in wire format, without their sizes.
        api_key: API key of the requests.
        api_version: API version of the requests.
        mode: As for :func:`decode_message`.

    Raises:
        OptionError: The API, version or mode does not exist.
    """
    from kafkaframes.protocol.messages.framed import decode_response_columns

    type_ = decode_response_columns([], api_key, api_version, mode=mode).type
    return _apply_arrow_udf(col, lambda data: decode_response_columns(data, api_key, api_version, mode=mode), type_)


def decode_request(
    col: ColumnOrName, api_key: int | None = None, api_version: int | None = None, *, mode: str = "reference"
) -> Column:
    """Return a column of structs, decoded from requests.

    Without ``api_key``, requests may be of any API and version. The result has ``apiKey, apiVersion, correlationId,
    clientId, name, header, body, _error``. ``header`` and ``body`` are in Kafka's JSON form (records as base64, unknown
    tags such as trace ids as ``_unknownTags``), and each row is decoded in Python. With ``api_key`` and
    ``api_version``, which must be those of all requests, the result has ``header, body, _error`` as for
    :func:`decode_response`, and compiled kernels decode it.

    Args:
        col: Requests in wire format, without their sizes.
        api_key: API key of all requests. It requires ``api_version``.
        api_version: API version of all requests. It requires ``api_key``.
        mode: As for :func:`decode_message`.

    Raises:
        OptionError: The API, version or mode does not exist, or only one of API and version is given.
    """
    if api_key is None and api_version is None:
        return _apply_arrow_udf(col, lambda data: _decode_any_requests(data, mode), REQUEST_TYPE)
    if api_key is None or api_version is None:
        raise OptionError("decode_request requires both an API key and a version, or neither")
    from kafkaframes.protocol.messages.framed import decode_request_columns

    type_ = decode_request_columns([], api_key, api_version, mode=mode).type
    key, version = api_key, api_version
    return _apply_arrow_udf(col, lambda data: decode_request_columns(data, key, version, mode=mode), type_)


def _decode_any_requests(data: pa.Array, mode: str) -> pa.StructArray:
    """Decode requests of any API and version to rows of ``REQUEST_TYPE``."""
    return pa.array(
        [None if request is None else _decode_request(request, mode) for request in data.to_pylist()], REQUEST_TYPE
    )


def _decode_request(data: bytes, mode: str) -> dict[str, Any]:
    """Decode a request to a row of ``REQUEST_TYPE``. If the request is invalid, the row has an ``_error``."""
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
    if not isinstance(frame.body, bytes):  # an ApiVersions request with an unsupported version
        row["name"] = type(frame.body).__name__
        row["body"] = json.dumps(frame.body.to_json(frame.api_version, records="base64"))
    return row


def _build_request_type(cls: Any, version: int) -> pa.DataType:
    """Return the Arrow type of a request in one version."""
    try:
        return cls.decode_columns([], version).type
    except DecodeError as error:
        raise OptionError(str(error)) from None


def _apply_arrow_udf(col: ColumnOrName, convert: Callable[[pa.Array], pa.Array], type_: pa.DataType) -> Column:
    """Return ``convert`` as an Arrow UDF on ``col``."""
    version = _compat.require_pyspark("kafkaframes.spark.functions")
    if version < (4, 1):
        raise OptionError(
            f"PySpark {version[0]}.{version[1]} has no Arrow UDFs; these functions require PySpark 4.1 or later"
        )
    from pyspark.sql.functions import arrow_udf
    from pyspark.sql.pandas.types import from_arrow_type

    target_type = _replace_fixed_binary(type_)

    def convert_values(data: pa.Array) -> pa.Array:
        return convert(data).cast(target_type)

    convert_values.__annotations__ = {
        "data": pa.Array,
        "return": pa.Array,
    }  # the values are types, because the worker does not resolve names
    return arrow_udf(convert_values, returnType=from_arrow_type(target_type))(col)


def _replace_fixed_binary(type_: pa.DataType) -> pa.DataType:
    """Return a type with plain binary instead of binary(16), which Spark cannot read from Arrow."""
    if pa.types.is_struct(type_):
        return pa.struct([(field.name, _replace_fixed_binary(field.type)) for field in type_])
    if pa.types.is_list(type_):
        return pa.list_(_replace_fixed_binary(type_.value_type))
    return pa.binary() if pa.types.is_fixed_size_binary(type_) else type_
