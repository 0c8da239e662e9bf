"""``kafkaframes redact CAPTURE -o OUT``: a capture that can be shared."""

from __future__ import annotations

from pathlib import Path

import click

from kafkaframes.cli.options import ports_option, specs_option
from kafkaframes.cli.text import say, size_text
from kafkaframes.errors import OptionError


@click.command("redact", context_settings={"help_option_names": ["-h", "--help"]})
@click.argument("paths", nargs=-1, required=True, metavar="CAPTURE...")
@click.option("-o", "--output", required=True, metavar="OUT", help="The pcapng file to write; it must not exist.")
@click.option("--keep-addresses", is_flag=True, help="Leave IP addresses as they are.")
@click.option("--keep-client-ids", is_flag=True, help="Leave client ids as they are, for an audit by name.")
@ports_option
@specs_option
def command(
    paths: tuple[str, ...], output: str, keep_addresses: bool, keep_client_ids: bool, ports: str, specs: str | None
) -> None:
    """Write a capture without payloads, names and secrets; sizes, versions, times and errors stay.

    Texts and ids become others of the same length (the same one always the same), bytes become zeros, records keep
    their batches' headers only. The names of client software and SASL mechanisms are kept. Only calls of Kafka's APIs
    are written; what cannot be read is zeros.

    Example: kafkaframes redact trace.pcap -o for-the-ticket.pcapng
    """
    from kafkaframes.capture.files import find_files
    from kafkaframes.capture.redaction import redact
    from kafkaframes.capture.streams import ports_of
    from kafkaframes.protocol.messages.registry import Apis
    from kafkaframes.storage.files.atomic import new_file, refuse_inside

    target = Path(output)
    if target.exists():
        raise OptionError(f"-o {output}: exists already")
    refuse_inside(target, paths)
    try:
        listening = ports_of(ports) if ports else ()
    except ValueError:
        raise OptionError(f"--ports {ports}: must be numbers and ranges") from None
    files, apis = find_files(paths), Apis(specs)
    with new_file(target, durable=False) as file:
        done = redact(
            files,
            file,
            ports=listening,
            keep_addresses=keep_addresses,
            keep_client_ids=keep_client_ids,
            apis=apis,
        )
    zeroed = f"; {done.frames_zeroed} frames that cannot be read are zeros" if done.frames_zeroed else ""
    unknown = f"; {done.frames_left_out} frames of no known API are left out" if done.frames_left_out else ""
    say(f"{output}: {done.calls} calls, {size_text(done.bytes_written)}{zeroed}{unknown}")
