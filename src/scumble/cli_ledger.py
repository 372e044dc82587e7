"""Commands of the owner's ledger: create it, and see what releases have cost together."""

from __future__ import annotations

import shlex

from scumble import console, options
from scumble import options_ledger as given

app = console.group("Add up what several releases of one table cost.")


@app.command()
def create(
    folder: given.Folder,
    neighbours: given.Neighbours,
    epsilon: given.Epsilon = None,
    delta: given.Delta = None,
    pure: given.Pure = None,
    contribution: given.Contribution = 1,
    sensitive: given.Sensitive = None,
    parts: given.Parts = None,
    name: given.Name = "one table",
    as_json: options.Json = False,
) -> None:
    """Make a ledger for the people of one table.

    Then charge every release about them to it: scumble publish ... --ledger LEDGER.
    """
    from scumble import listing_ledger as listing
    from scumble.guarantee import large_loss
    from scumble.ledgers.ledger import Ledger

    columns = [each.strip() for part in sensitive or [] for each in part.split(",")]
    ledger = Ledger.create(
        folder,
        neighbours=neighbours,
        epsilon=epsilon,
        delta=delta,
        pure=pure,
        contribution=contribution,
        sensitive=columns or None,
        parts=parts,
        name=name,
    )
    if ledger.terms.limit and (remark := large_loss(ledger.terms.limit.epsilon)):
        console.say(f"Note: {remark}")
    if as_json:
        console.print_json(listing.fields(ledger))
    else:
        listing.show_created(ledger, folder)


@app.command()
def show(folder: given.Folder, delta: given.AnyDelta = None, as_json: options.Json = False) -> None:
    """Show what all releases cost together, and each of them."""
    from scumble import listing_ledger as listing
    from scumble.ledgers.ledger import Ledger

    ledger = Ledger.open(folder)
    if as_json:
        console.print_json(listing.fields(ledger, delta))
    else:
        listing.show(ledger, delta)


@app.command()
def verify(folder: given.Folder, seal: options.Seal = None, as_json: options.Json = False) -> None:
    """Find entries of the ledger that were changed or cut off."""
    from scumble import listing_ledger as listing
    from scumble.ledgers.ledger import Ledger

    ledger = Ledger.open(folder)
    findings = ledger.verify(seal)
    now = None if findings else ledger.seal
    listing.show_verified(findings, now, f"ledger verify {shlex.quote(str(folder))}", as_json)
