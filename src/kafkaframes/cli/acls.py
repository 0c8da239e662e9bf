"""``kafkaframes acls``: list, create and delete access rules, with the words of Kafka's ``kafka-acls``."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import asdict, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafkaframes.cli.connecting import Connect, as_json_option, confirmed, connecting_group, print_rows, with_admin
from kafkaframes.cli.text import say
from kafkaframes.errors import OptionError

if TYPE_CHECKING:
    from kafkaframes.client import AclBinding, AclFilter

Function = TypeVar("Function", bound=Callable[..., Any])
_RESOURCES = ("topic", "group", "transactional-id", "delegation-token", "user-principal")
_TYPES = {name: name.replace("-", "_") for name in _RESOURCES} | {"user-principal": "user"}

command = connecting_group("acls", "List, create and delete access rules (ACLs).")


def _resource_options(function: Function) -> Function:
    options = [
        click.option(
            *(("-t", "--topic") if name == "topic" else (f"--{name}",)),
            _TYPES[name],
            multiple=True,
            metavar="NAME",
            help=f"A {name.replace('-', ' ')}; * is all.",
        )
        for name in _RESOURCES
    ]
    options.append(click.option("--cluster", is_flag=True, help="The cluster itself."))
    for option in reversed(options):
        function = option(function)
    return function


def _resources(flags: dict[str, Any]) -> list[tuple[str, str]]:
    """Take the resource flags out of a command's flags; return (type, name) pairs."""
    from kafkaframes.client.administration.acls import CLUSTER_NAME

    resources = [(kind, name) for kind in _TYPES.values() for name in flags.pop(kind)]
    return resources + ([("cluster", CLUSTER_NAME)] if flags.pop("cluster") else [])


_pattern_option = click.option(
    "--resource-pattern-type",
    type=click.Choice(("literal", "prefixed")),
    default="literal",
    show_default=True,
    help="Whether a name is whole, or the beginning of names.",
)
_filter_pattern_option = click.option(
    "--resource-pattern-type",
    type=click.Choice(("any", "match", "literal", "prefixed")),
    default="any",
    show_default=True,
    help="match: every rule that applies to the resource.",
)


@command.command("list")
@with_admin
@_resource_options
@_filter_pattern_option
@click.option("--principal", "principals", multiple=True, metavar="User:NAME", help="Only rules of this principal.")
@as_json_option
def list_acls(connect: Connect, as_json: bool, **flags: Any) -> None:
    """List access rules. Default: all."""
    filters = list(_filters(flags))
    with connect() as admin:
        rules = list(dict.fromkeys(rule for condition in filters for rule in admin.describe_acls(condition)))
    print_rows(_rows(rules), as_json, none="no access rules")


@command.command("create")
@with_admin
@_resource_options
@_pattern_option
@click.option(
    "--operation", "operations", multiple=True, metavar="NAME", help="read, write, describe, ...  [default: all]"
)
@click.option("--allow-principal", "allowed", multiple=True, metavar="User:NAME", help="A principal to allow.")
@click.option("--deny-principal", "denied", multiple=True, metavar="User:NAME", help="A principal to deny.")
@click.option(
    "--host", "hosts", multiple=True, metavar="ADDRESS", help="Where the principal connects from.  [default: *]"
)
def create_acls(connect: Connect, **flags: Any) -> None:
    """Create access rules: one for each resource, principal, operation and host."""
    from kafkaframes.client import AclBinding

    resources = _resources(flags)
    principals = [(name, "allow") for name in flags["allowed"]] + [(name, "deny") for name in flags["denied"]]
    if not resources:
        raise OptionError("name a resource: --topic, --group, --cluster, --transactional-id, ...")
    if not principals:
        raise OptionError("name a principal: --allow-principal or --deny-principal")
    operations = [name.lower().replace("-", "_") for name in flags["operations"]] or ["all"]
    rules = [
        AclBinding(kind, name, principal, operation, permission, host, flags["resource_pattern_type"])
        for (kind, name), (principal, permission), operation, host in product(
            resources, principals, operations, flags["hosts"] or ["*"]
        )
    ]
    with connect() as admin:
        admin.create_acls(rules)
    say(f"created {len(rules)} {'rule' if len(rules) == 1 else 'rules'}")


@command.command("delete")
@with_admin
@_resource_options
@_filter_pattern_option
@click.option("--principal", "principals", multiple=True, metavar="User:NAME", help="Only rules of this principal.")
@click.option("--operation", "operations", multiple=True, metavar="NAME", help="Only rules of this operation.")
@confirmed("Delete the access rules that match?")
@as_json_option
def delete_acls(connect: Connect, as_json: bool, **flags: Any) -> None:
    """Delete the access rules that match, and print them. A resource or a principal has to be named."""
    filters = list(_filters(flags, operations=flags.pop("operations")))
    if any(condition.resource_name is None and condition.principal is None for condition in filters):
        raise OptionError("name a resource or a principal: without them all access rules would be deleted")
    with connect() as admin:
        rules = list(dict.fromkeys(rule for deleted in admin.delete_acls(filters).values() for rule in deleted))
    print_rows(_rows(rules), as_json, none="no access rule matches")


def _filters(flags: dict[str, Any], operations: Iterable[str] = ()) -> Iterable[AclFilter]:
    from kafkaframes.client import AclFilter

    base = AclFilter(pattern_type=flags["resource_pattern_type"])
    resources: list[tuple[str, str | None]] = [*_resources(flags)] or [("any", None)]
    names = [name.lower().replace("-", "_") for name in operations] or ["any"]
    for (kind, name), principal, operation in product(resources, flags["principals"] or [None], names):
        yield replace(base, resource_type=kind, resource_name=name, principal=principal, operation=operation)


def _rows(rules: Iterable[AclBinding]) -> list[dict[str, Any]]:
    return [asdict(rule) for rule in rules]
