"""``kafkaframes users`` manages SCRAM credentials; ``kafkaframes quotas`` manages client quotas."""

from __future__ import annotations

import math
import os
import sys
from typing import TYPE_CHECKING, Any

import click

from kafkaframes.cli.connecting import (
    Connect,
    add_confirmation,
    as_json_option,
    make_connecting_group,
    parse_pairs,
    print_rows,
    with_admin,
)
from kafkaframes.cli.options import ExistingPath, add_click_options
from kafkaframes.cli.text import print_text
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.client import QuotaEntity
    from kafkaframes.client.administration.users import QuotaMatch

PASSWORD_VARIABLE = "KAFKAFRAMES_NEW_PASSWORD"
_MECHANISM_CHOICE = click.Choice(("SCRAM-SHA-256", "SCRAM-SHA-512"))

command = make_connecting_group("users", "List, create and delete SCRAM credentials of users.")


@command.command("list")
@click.argument("names", nargs=-1, metavar="[USER]...")
@with_admin
@as_json_option
def list_users(names: tuple[str, ...], connect: Connect, as_json: bool) -> None:
    """List the SCRAM credentials of users: mechanism and iterations. Default: all users."""
    with connect() as admin:
        users = admin.describe_user_scram_credentials(names or None)
    rows = [
        {"user": user, "mechanism": info.mechanism, "iterations": info.iterations}
        for user, infos in sorted(users.items())
        for info in infos
    ]
    print_rows(rows, as_json, text_without_rows="no users")


@command.command("set")
@click.argument("name", metavar="USER")
@with_admin
@click.option("--mechanism", type=_MECHANISM_CHOICE, default="SCRAM-SHA-512", show_default=True)
@click.option("--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True)
@click.option(
    "--password-file",
    type=ExistingPath(dir_okay=False),
    help="File with the password, which only its owner may read.",
)
def set_user(name: str, connect: Connect, password_file: str | None, **flags: Any) -> None:
    """Create or replace a user's SCRAM credential.

    The password is read from --password-file (mode 600), from the environment variable KAFKAFRAMES_NEW_PASSWORD, or
    from the terminal. The password is not a flag, because other users of this machine can read the flags of a process.
    Brokers receive only its salted hash.
    """
    from kafkaframes.client import ScramCredential

    credential = ScramCredential(name, _read_password(password_file), **flags)
    with connect() as admin:
        admin.alter_user_scram_credentials([credential])
    print_text(f"{name} can log in with {credential.mechanism}")


def _read_password(path: str | None) -> str:
    """Return the password from a file, the environment or a prompt. A missing or empty password is an error."""
    if path is not None:
        from kafkaframes.broker.security.from_settings import read_private_file

        password = read_private_file(path).removesuffix("\n").removesuffix("\r")
    elif PASSWORD_VARIABLE in os.environ:
        password = os.environ[PASSWORD_VARIABLE]
    elif sys.stdin.isatty():
        password = click.prompt("Password", hide_input=True, confirmation_prompt=True, err=True)
    else:
        raise OptionError(f"the password is missing; specify --password-file, or set {PASSWORD_VARIABLE}")
    if not password:
        raise OptionError("the password is empty")
    return password


@command.command("delete")
@click.argument("name", metavar="USER")
@with_admin
@click.option("--mechanism", type=_MECHANISM_CHOICE, help="Mechanism of the credential to delete.  [default: all]")
@add_confirmation("Delete the credentials of this user?")
def delete_user(name: str, connect: Connect, mechanism: str | None) -> None:
    """Delete a user's SCRAM credentials."""
    with connect() as admin:
        mechanisms = (
            [mechanism]
            if mechanism
            else [index.mechanism for index in admin.describe_user_scram_credentials([name])[name]]
        )
        for entry in mechanisms:  # brokers accept only one change of a user in a request
            admin.alter_user_scram_credentials(delete=[(name, entry)])
    print_text(f"deleted {', '.join(mechanisms)} for {name}")


quotas = make_connecting_group("quotas", "List, set and delete quotas of users, client ids and addresses.")


_entity_options = add_click_options(
    click.option("--user", metavar="NAME", help="User name, or <default> for all users without their own quota."),
    click.option("--client-id", metavar="NAME", help="Client id, or <default>."),
    click.option("--ip", metavar="ADDRESS", help="Client address, or <default>. Excludes --user and --client-id."),
)


@quotas.command("list")
@with_admin
@_entity_options
@as_json_option
def list_quotas(connect: Connect, as_json: bool, **names: str | None) -> None:
    """List the quotas, or those of a user, client id or address. <default> applies to names without their own quota."""
    from kafkaframes.client import QuotaEntity

    entity = QuotaEntity(**_replace_default_names(names))
    with connect() as admin:
        entities = admin.describe_client_quotas(user=entity.user, client_id=entity.client_id, ip=entity.ip)
    rows = [
        _to_quota_names(entity) | {"setting": setting, "value": value}
        for entity, settings in sorted(entities.items(), key=lambda item: tuple(map(str, item[0])))
        for setting, value in sorted(settings.items())
    ]
    print_rows(rows, as_json, text_without_rows="no quotas")


@quotas.command("set")
@click.argument("settings", nargs=-1, required=True, metavar="SETTING=NUMBER...")
@with_admin
@_entity_options
def set_quotas(settings: tuple[str, ...], connect: Connect, **names: str | None) -> None:
    """Set quotas: producer_byte_rate, consumer_byte_rate, request_percentage, controller_mutation_rate,
    connection_creation_rate (only with --ip).
    """
    values: dict[str, float | None] = {}
    for setting, text in parse_pairs(settings).items():
        try:
            value = values[setting] = float(text)
        except ValueError:
            raise OptionError(f"{setting}={text}: the value is not a number") from None
        if not math.isfinite(value):
            raise OptionError(f"{setting}={text}: the value is not a finite number; `quotas delete` removes a quota")
    entity = _to_entity(names)
    with connect() as admin:
        admin.alter_client_quotas({entity: values})
    print_text(f"set {', '.join(values)} for {entity}")


@quotas.command("delete")
@click.argument("settings", nargs=-1, metavar="[SETTING]...")
@with_admin
@_entity_options
@add_confirmation("Delete these quotas?")
def delete_quotas(settings: tuple[str, ...], connect: Connect, **names: str | None) -> None:
    """Delete quotas of an entity. Default: all its quotas."""
    entity = _to_entity(names)
    with connect() as admin:
        values = admin.describe_client_quotas(**entity._asdict(), strict=True).get(entity, {})
        unknown = [setting for setting in settings if setting not in values]
        if unknown or not values:
            raise OptionError(f"{entity} has no quota {', '.join(unknown) or 'at all'}")
        admin.alter_client_quotas({entity: dict.fromkeys(settings or values)})
    print_text(f"deleted {', '.join(settings or values)} for {entity}")


def _to_entity(names: dict[str, str | None]) -> QuotaEntity:
    """Return the quota entity that the flags name. At least one name is required."""

    from kafkaframes.client import QuotaEntity

    if all(name is None for name in names.values()):
        raise OptionError("specify an entity: --user, --client-id or --ip")
    return QuotaEntity(**_replace_default_names(names))


def _replace_default_names(names: dict[str, str | None]) -> dict[str, str | QuotaMatch | None]:
    """Replace the text ``<default>`` with ``DEFAULT_ENTITY``. An empty name is an error."""
    from kafkaframes.client import DEFAULT_ENTITY

    empty = next((key for key, name in names.items() if name == ""), None)
    if empty is not None:
        raise OptionError(f"--{empty.replace('_', '-')} is empty; expected a name or {DEFAULT_ENTITY.value}")
    return {key: DEFAULT_ENTITY if name == DEFAULT_ENTITY.value else name for key, name in names.items()}


def _to_quota_names(entity: QuotaEntity) -> dict[str, str | None]:
    """Return a quota entity's names (user, client id, address), with ``<default>`` for the default entity."""

    from kafkaframes.client import DEFAULT_ENTITY

    names = entity._asdict().items()
    return {key: DEFAULT_ENTITY.value if name is DEFAULT_ENTITY else name for key, name in names}
