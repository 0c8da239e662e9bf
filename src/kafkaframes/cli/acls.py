"""``kafkaframes acls``: list, create and delete access rules. The flags are named as in Kafka's ``kafka-acls``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkaframes.cli.connecting import (
    Connect,
    add_confirmation,
    as_json_option,
    make_connecting_group,
    print_rows,
    with_admin,
)
from kafkaframes.cli.options import add_click_options
from kafkaframes.cli.text import print_text
from kafkaframes.errors import OptionError
from kafkaframes.errors.words import count_text

if TYPE_CHECKING:
    from kafkaframes.client import AclBinding, AclFilter

Function = TypeVar("Function", bound=Callable[..., Any])
_RESOURCE_FLAGS = ("topic", "group", "transactional-id", "delegation-token", "user-principal")
_RESOURCE_TYPES = {name: name.replace("-", "_") for name in _RESOURCE_FLAGS} | {"user-principal": "user"}

command = make_connecting_group("acls", "List, create and delete access rules (ACLs).")


_resource_options = add_click_options(
    *(
        click.option(
            *(("-t", "--topic") if name == "topic" else (f"--{name}",)),
            _RESOURCE_TYPES[name],
            multiple=True,
            metavar="NAME",
            help=f"Name of a {name.replace('-', ' ')}; * matches every name.",
        )
        for name in _RESOURCE_FLAGS
    ),
    click.option("--cluster", is_flag=True, help="The cluster itself."),
)


def _pop_resources(flags: dict[str, Any]) -> list[tuple[str, str]]:
    """Remove the resource flags from ``flags``, and return the resources as (type, name) pairs."""
    from kafkaframes.client.administration.acls import CLUSTER_RESOURCE_NAME

    resources = [(kind, name) for kind in _RESOURCE_TYPES.values() for name in flags.pop(kind)]
    return resources + ([("cluster", CLUSTER_RESOURCE_NAME)] if flags.pop("cluster") else [])


_pattern_option = click.option(
    "--resource-pattern-type",
    type=click.Choice(("literal", "prefixed")),
    default="literal",
    show_default=True,
    help="literal: the names are complete names; prefixed: the names are prefixes.",
)
_filter_pattern_option = click.option(
    "--resource-pattern-type",
    type=click.Choice(("any", "match", "literal", "prefixed")),
    default="any",
    show_default=True,
    help="Pattern type of the rules to select; match: all rules that apply to the resource.",
)


def _check_principals(context: click.Context, option: click.Parameter, principals: tuple[str, ...]) -> tuple[str, ...]:
    """Reject a principal that is not of the form TYPE:NAME, because no rule could match."""
    for principal in principals:
        kind, colon, name = principal.partition(":")
        if not (kind and colon and name):
            raise OptionError(f"principal {principal!r} has no type; expected TYPE:NAME, such as User:{principal}")
    return principals


def _make_principals_option(flag: str, variable: str, help_text: str) -> Callable[[Function], Function]:
    """Return the decorator that adds an option for principals to a command."""
    return click.option(flag, variable, multiple=True, metavar="User:NAME", help=help_text, callback=_check_principals)


@command.command("list")
@with_admin
@_resource_options
@_filter_pattern_option
@_make_principals_option("--principal", "principals", "Select the rules of this principal.")
@as_json_option
def list_acls(connect: Connect, as_json: bool, **flags: Any) -> None:
    """List access rules. Default: all rules."""
    filters = list(_build_filters(flags))
    with connect() as admin:
        rules = list(dict.fromkeys(rule for condition in filters for rule in admin.describe_acls(condition)))
    print_rows(_to_rows(rules), as_json, text_without_rows="no access rules")


@command.command("create")
@with_admin
@_resource_options
@_pattern_option
@click.option(
    "--operation", "operations", multiple=True, metavar="NAME", help="read, write, describe, ...  [default: all]"
)
@click.option(
    "--producer", is_flag=True, help="Allow the operations that a producer needs on --topic and --transactional-id."
)
@click.option("--consumer", is_flag=True, help="Allow the operations that a consumer needs on --topic and --group.")
@click.option(
    "--idempotent",
    is_flag=True,
    help="With --producer: also allow idempotent writes, which only brokers before 2.8 check.",
)
@_make_principals_option("--allow-principal", "allowed_principals", "Principal to allow.")
@_make_principals_option("--deny-principal", "denied_principals", "Principal to deny.")
@click.option(
    "--host", "hosts", multiple=True, metavar="ADDRESS", help="Address that the principal connects from.  [default: *]"
)
def create_acls(connect: Connect, **flags: Any) -> None:
    """Create an access rule for each combination of resource, principal, operation and host.

    \b
    kafkaframes acls create --topic t --allow-principal User:a --operation read
    kafkaframes acls create --topic t --group g --consumer \\
        --allow-principal User:alice
    """
    from kafkaframes.client import AclBinding

    resources = _pop_resources(flags)
    principals = [(name, "allow") for name in flags["allowed_principals"]] + [
        (name, "deny") for name in flags["denied_principals"]
    ]
    if not resources:
        raise OptionError("specify a resource: --topic, --group, --cluster, --transactional-id, ...")
    if not principals:
        raise OptionError("specify a principal: --allow-principal or --deny-principal")
    rules = [
        AclBinding(kind, name, principal, operation, permission, host, pattern)
        for kind, name, operation, pattern in _list_rules_to_create(resources, flags)
        for (principal, permission), host in product(principals, flags["hosts"] or ["*"])
    ]
    with connect() as admin:
        admin.create_acls(rules)
    print_text(f"created {count_text(len(rules), 'rule')}")


_OPERATIONS_BY_ROLE: dict[str, dict[str, tuple[str, ...]]] = {
    "producer": {"topic": ("write", "describe", "create"), "transactional_id": ("write", "describe")},
    "consumer": {"topic": ("read", "describe"), "group": ("read",)},
}


def _list_rules_to_create(resources: list[tuple[str, str]], flags: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    """Return (resource type, name, operation, pattern type) of each rule that kafka-acls would create."""
    from kafkaframes.client.administration.acls import CLUSTER_RESOURCE_NAME

    pattern = flags["resource_pattern_type"]
    roles = [role for role in _OPERATIONS_BY_ROLE if flags[role]]
    if flags["idempotent"] and "producer" not in roles:
        raise OptionError("--idempotent needs --producer")
    if not roles:
        operations = [_normalize_operation(name) for name in flags["operations"]] or ["all"]
        return [(kind, name, operation, pattern) for (kind, name), operation in product(resources, operations)]
    if flags["operations"] or flags["denied_principals"]:
        raise OptionError(
            "--producer and --consumer select the operations to allow; omit --operation and --deny-principal"
        )
    kinds = {kind for kind, _ in resources}
    if "consumer" in roles and not {"topic", "group"} <= kinds:
        raise OptionError("--consumer needs --topic and --group")
    if "producer" in roles and not {"topic", "transactional_id"} & kinds:
        raise OptionError("--producer needs --topic or --transactional-id")
    unused_flags = kinds - {kind for role in roles for kind in _OPERATIONS_BY_ROLE[role]}
    if unused_flags:
        raise OptionError(
            f"--{' and --'.join(roles)} cannot be combined with resources of type {', '.join(sorted(unused_flags))}"
        )
    rules = [
        (kind, name, operation, pattern)
        for role in roles
        for kind, name in resources
        for operation in _OPERATIONS_BY_ROLE[role].get(kind, ())
    ]
    if flags["idempotent"]:
        rules.append(("cluster", CLUSTER_RESOURCE_NAME, "idempotent_write", "literal"))
    return list(dict.fromkeys(rules))


def _normalize_operation(text: str) -> str:
    """Convert an operation's name, as Kafka's tools or Java spell it, to this package's spelling.

    >>> _normalize_operation("IdempotentWrite"), _normalize_operation("DESCRIBE_CONFIGS"), _normalize_operation("read")
    ('idempotent_write', 'describe_configs', 'read')
    """
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", text).lower().replace("-", "_")


@command.command("delete")
@with_admin
@_resource_options
@_filter_pattern_option
@_make_principals_option("--principal", "principals", "Select the rules of this principal.")
@click.option("--operation", "operations", multiple=True, metavar="NAME", help="Select the rules for this operation.")
@add_confirmation("Delete the matching access rules?")
@as_json_option
def delete_acls(connect: Connect, as_json: bool, **flags: Any) -> None:
    """Delete the access rules that match, and print them. A resource or a principal is required."""
    filters = list(_build_filters(flags, operations=flags.pop("operations")))
    if any(condition.resource_name is None and condition.principal is None for condition in filters):
        raise OptionError("specify a resource or a principal; without them all access rules would be deleted")
    with connect() as admin:
        rules = list(
            dict.fromkeys(rule for deleted_rules in admin.delete_acls(filters).values() for rule in deleted_rules)
        )
    print_rows(_to_rows(rules), as_json, text_without_rows="no access rule matches")


def _build_filters(flags: dict[str, Any], operations: Iterable[str] = ()) -> Iterable[AclFilter]:
    """Yield the ACL filter for each combination of resource, principal and operation in the flags."""

    from kafkaframes.client import AclFilter

    base = AclFilter(pattern_type=flags["resource_pattern_type"])
    resources: list[tuple[str, str | None]] = [*_pop_resources(flags)] or [("any", None)]
    names = [_normalize_operation(name) for name in operations] or ["any"]
    for (kind, name), principal, operation in product(resources, flags["principals"] or [None], names):
        yield replace(base, resource_type=kind, resource_name=name, principal=principal, operation=operation)


def _to_rows(rules: Iterable[AclBinding]) -> list[dict[str, Any]]:
    """Return ACLs as JSON objects."""
    return [asdict(rule) for rule in rules]
