"""Creates the TLS context of a client's settings, from PEM files or from key stores of Java's clients.

Stores are PEM, JKS or PKCS#12 (KIP-651). The first bytes of a file determine its format, because the default of
``ssl.truststore.type`` is JKS even for PKCS#12 files, and Java reads both under that name. PKCS#12 requires the package
``cryptography``.
"""

from __future__ import annotations

import os
import ssl
import tempfile
from base64 import encodebytes
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from kafkaframes.errors import DecodeError, MissingExtraError, OptionError

STORE_TYPES: Final = ("PEM", "JKS", "PKCS12")
_MAX_STORE_BYTES: Final = 64 << 20
_JCEKS_MAGIC: Final = b"\xce\xce\xce\xce"
_TLS_VERSIONS: Final = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def create_ssl_context(settings: Any) -> ssl.SSLContext:
    """Return the TLS context of a client's settings.

    Raises:
        OptionError: a file cannot be read, is damaged or has another format, or its password is wrong.
        MissingExtraError: a store is PKCS#12, and ``cryptography`` is not installed.
    """
    if settings.ssl_context is not None:
        context: ssl.SSLContext = settings.ssl_context
        return context
    trust = _build_store(settings, "truststore", settings.ssl_truststore_certificates)
    key_store = _build_store(settings, "keystore", _join_key_and_certificates(settings))
    trusted_text = load_trusted_certificates(trust) if trust.is_present else None
    try:
        context = ssl.create_default_context(cafile=settings.ssl_cafile, cadata=trusted_text)
    except ssl.SSLError as error:
        name = trust.option if settings.ssl_cafile is None else f"ssl_cafile={settings.ssl_cafile}"
        raise OptionError(f"{name}: expected certificates in PEM format: {error}") from None
    except OSError as error:
        raise OptionError(f"ssl_cafile={settings.ssl_cafile}: cannot be read: {error.strerror or error}") from None
    if settings.ssl_certfile:
        _load_certificate_files(context, settings)
    _limit_versions(context, settings.tls_versions)
    context.check_hostname = settings.ssl_check_hostname and settings.ssl_endpoint_identification_algorithm != ""
    if key_store.is_present:
        load_identity(context, key_store, settings.ssl_password)
    return context


def _load_certificate_files(context: ssl.SSLContext, settings: Any) -> None:
    """Load the client's certificate and key from PEM files."""
    for name in ("ssl_certfile", "ssl_keyfile"):
        if path := getattr(settings, name):
            try:
                open(path, "rb").close()
            except OSError as error:  # the error of ``load_cert_chain`` does not name the file
                raise OptionError(f"{name}={path}: cannot be read: {error.strerror or error}") from None
    try:
        # With an empty password OpenSSL reports an error for an encrypted key. With None it would prompt for one.
        context.load_cert_chain(settings.ssl_certfile, settings.ssl_keyfile, settings.ssl_password or "")
    except (OSError, ValueError) as error:  # OSError includes ssl.SSLError
        hint = "" if settings.ssl_password else "; an encrypted key needs `ssl_password`"
        if getattr(error, "reason", None) == "KEY_VALUES_MISMATCH":
            hint = "; the key does not belong to the certificate"
        elif settings.ssl_password:
            hint = "; is `ssl_password` the password of the key?"
        raise OptionError(
            f"ssl_certfile={settings.ssl_certfile} with the key in {settings.ssl_keyfile or settings.ssl_certfile} "
            f"cannot be used: {error}{hint}"
        ) from None


def _limit_versions(context: ssl.SSLContext, names: list[str]) -> None:
    """Restrict a TLS context to the range of the given versions."""
    unknown = [name for name in names if name not in _TLS_VERSIONS]
    if unknown:
        raise OptionError(f"ssl.enabled.protocols has {unknown[0]!r}; expected {', '.join(_TLS_VERSIONS)}")
    if names:
        context.minimum_version, context.maximum_version = _TLS_VERSIONS[names[0]], _TLS_VERSIONS[names[-1]]


def _build_store(settings: Any, name: str, text: str | None) -> StoreSettings:
    location, kind, password = (getattr(settings, f"ssl_{name}_{field}") for field in ("location", "type", "password"))
    return StoreSettings(f"ssl.{name}", location, kind, password, text)


def _join_key_and_certificates(settings: Any) -> str | None:
    """Return the key and certificates that the settings have as text (KIP-651)."""
    key, chain = settings.ssl_keystore_key, settings.ssl_keystore_certificate_chain
    if (key is None) != (chain is None):
        raise OptionError("ssl.keystore.key and ssl.keystore.certificate.chain must be set together")
    return None if key is None else f"{key}\n{chain}"


@dataclass(frozen=True, slots=True)
class StoreSettings:
    """A trust store or key store, as the settings specify it.

    Attributes:
        option: prefix of the settings' names, for messages.
        location, kind, password: path, format and password of a file.
        text: PEM text instead of a file.
    """

    option: str
    location: str | None = None
    kind: str = "JKS"
    password: str | None = field(default=None, repr=False)
    text: str | None = field(default=None, repr=False)

    @property
    def is_present(self) -> bool:
        """Whether the settings specify the store."""
        return self.location is not None or self.text is not None


@dataclass(frozen=True, slots=True)
class StoreContent:
    """The content of a trust store or key store, as PEM."""

    certificates: str
    key: str | None = field(default=None, repr=False)
    key_password: str | None = field(default=None, repr=False)


def load_trusted_certificates(store: StoreSettings) -> str:
    """Return the certificates of a trust store, as PEM.

    Raises:
        OptionError: the store cannot be read, has no certificate, or the password is wrong.
        MissingExtraError: the store is PKCS#12, and ``cryptography`` is not installed.
    """
    result = _open_store(store, None).certificates
    if "-----BEGIN CERTIFICATE" not in result:
        raise _to_store_error(store, "contains no certificates")
    return result


def load_identity(context: ssl.SSLContext, store: StoreSettings, key_password: str | None) -> None:
    """Load a client's certificate and key into a context.

    Args:
        context: TLS context.
        store: key store with the client certificate and its private key.
        key_password: ``ssl.key.password``; None for the store's own password.

    Raises:
        OptionError: the store cannot be read, has no key or several, or a password is wrong.
        MissingExtraError: the store is PKCS#12, and ``cryptography`` is not installed.
    """
    result = _open_store(store, key_password)
    if result.key is None:
        raise _to_store_error(store, "contains no private key")
    with _write_private_file(result.key + result.certificates) as path:
        try:
            # With an empty password OpenSSL reports an error for an encrypted key. With None it would prompt for one.
            context.load_cert_chain(path, password=result.key_password or "")
        except (ssl.SSLError, ValueError) as error:
            raise _to_store_error(store, f"key and certificate cannot be used: {error}") from None


def _open_store(store: StoreSettings, key_password: str | None) -> StoreContent:
    from kafkaframes.client.security.jks import JKS_MAGIC  # most clients have no key store

    if store.kind.upper() not in STORE_TYPES:
        raise OptionError(f"{store.option}.type is {store.kind!r}; expected one of {', '.join(STORE_TYPES)}")
    if store.text is not None:
        return _read_pem(store.text, key_password)
    raw = _read_file(store)
    if raw.startswith(JKS_MAGIC):
        return _read_jks(store, raw, key_password)
    if raw.startswith(_JCEKS_MAGIC):
        raise _to_store_error(
            store,
            "is a JCEKS store, which is not supported; convert it with keytool -importkeystore -deststoretype PKCS12",
        )
    if raw[:1] == b"\x30":
        return _read_pkcs12(store, raw)
    if b"-----BEGIN " in raw:
        return _read_pem(raw.decode("utf-8", "replace"), key_password)
    raise _to_store_error(store, "is not a PEM, JKS or PKCS#12 store")


def _read_file(store: StoreSettings) -> bytes:
    path = Path(store.location or "")
    try:
        if path.stat().st_size > _MAX_STORE_BYTES:
            raise _to_store_error(store, "is too large for a store")
        return path.read_bytes()
    except OSError as error:
        raise _to_store_error(store, f"cannot be read: {error.strerror or error}") from None


def _read_pem(text: str, key_password: str | None) -> StoreContent:
    parts = list(_iterate_pem_sections(text))
    keys = [part for part in parts if "PRIVATE KEY" in part.partition("\n")[0]]
    certificates = [part for part in parts if part not in keys]
    return StoreContent("".join(certificates), keys[0] if keys else None, key_password)


def _iterate_pem_sections(text: str) -> Iterator[str]:
    """Yield the PEM sections of a text. The text may be a single line, as in a properties file."""
    for part in text.split("-----BEGIN ")[1:]:
        label, _, rest = part.partition("-----")
        body, end, _ = rest.partition("-----END ")
        if end:
            yield _to_pem(label, body)


def _to_pem(label: str, body: str) -> str:
    lines = body.strip() if "\n" in body.strip() else body.replace(" ", "\n").strip()
    return f"-----BEGIN {label}-----\n{lines}\n-----END {label}-----\n"


def _read_jks(store: StoreSettings, raw: bytes, key_password: str | None) -> StoreContent:
    from kafkaframes.client.security import jks

    try:
        result = jks.read_key_store(raw, store.password)
        if len(result.keys) > 1:
            raise OptionError(f"has {len(result.keys)} private keys; expected one")
        if not result.keys:
            return StoreContent(_encode_certificates(result.certificates))
        password = key_password if key_password is not None else store.password
        if password is None:
            raise OptionError(f"a private key needs {store.option}.password or ssl.key.password")
        key = jks.decrypt_key(result.keys[0].encrypted_key, password)
    except (DecodeError, OptionError) as error:
        raise _to_store_error(store, str(error)) from None
    return StoreContent(
        _encode_certificates((*result.keys[0].chain, *result.certificates)), _encode_pem("PRIVATE KEY", key)
    )


def _read_pkcs12(store: StoreSettings, raw: bytes) -> StoreContent:
    try:
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, pkcs12
    except ImportError as error:
        raise MissingExtraError("reading PKCS#12 stores", "tls", instead="convert it to PEM or JKS") from error
    password = None if store.password is None else store.password.encode()
    try:
        result = pkcs12.load_pkcs12(raw, password)
    except ValueError as error:
        raise _to_store_error(store, f"the password is wrong, or the store is damaged ({error})") from None
    own_certificates = [] if result.cert is None else [result.cert]
    certificates = [
        entry.certificate.public_bytes(Encoding.DER) for entry in (*own_certificates, *result.additional_certs)
    ]
    key = result.key
    key_pem = None if key is None else key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()).decode()
    return StoreContent(_encode_certificates(certificates), key_pem)


def _encode_certificates(all_: Iterable[bytes]) -> str:
    return "".join(_encode_pem("CERTIFICATE", entry) for entry in all_)


def _encode_pem(label: str, raw: bytes) -> str:
    return _to_pem(label, encodebytes(raw).decode())


@contextmanager
def _write_private_file(text: str) -> Iterator[str]:
    """Yield a file that only this user can read, and delete it afterwards. OpenSSL reads keys from files only."""
    descriptor, path = tempfile.mkstemp(prefix="kafkaframes-", suffix=".pem")
    try:
        with os.fdopen(descriptor, "w") as out:
            out.write(text)
        yield path
    finally:
        os.unlink(path)


def _to_store_error(store: StoreSettings, reason: str) -> OptionError:
    name = store.option if store.location is None else f"{store.option}.location={store.location}"
    return OptionError(f"{name}: {reason}")
