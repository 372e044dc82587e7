"""Commands of the owner's ledger: create it, and see what releases have cost together."""

from __future__ import annotations

import shlex

from scumble.cli import console, options, options_ledger

app = console.group("Add up what several releases of one table cost.")


@app.command()
def create(
    folder: options_ledger.Folder,
    neighbours: options_ledger.Neighbours,
    epsilon: options_ledger.Epsilon = None,
    delta: options_ledger.Delta = None,
    pure: options_ledger.Pure = None,
    contribution: options_ledger.Contribution = 1,
    sensitive: options_ledger.Sensitive = None,
    parts: options_ledger.Parts = None,
    name: options_ledger.Name = "one table",
    as_json: options.Json = False,
) -> None:
    """Make a ledger for the people of one table.

    Then charge every release about them to it: scumble publish ... --ledger LEDGER.
    """
    from scumble.cli import listing_ledger
    from scumble.model.privacy.guarantee import large_loss
    from scumble.private.ledger.ledger import Ledger

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
        console.print_json(listing_ledger.fields(ledger))
    else:
        listing_ledger.show_created(ledger, folder)


@app.command()
def show(
    folder: options_ledger.Folder,
    delta: options_ledger.AnyDelta = None,
    as_json: options.Json = False,
) -> None:
    """Show what all releases cost together, and each of them."""
    from scumble.cli import listing_ledger
    from scumble.private.ledger.ledger import Ledger

    ledger = Ledger.open(folder)
    if as_json:
        console.print_json(listing_ledger.fields(ledger, delta))
    else:
        listing_ledger.show(ledger, delta)


@app.command()
def verify(
    folder: options_ledger.Folder, seal: options.Seal = None, as_json: options.Json = False
) -> None:
    """Find entries of the ledger that were changed or cut off."""
    from scumble.cli import listing_ledger
    from scumble.private.ledger.ledger import Ledger

    ledger = Ledger.open(folder)
    findings = ledger.verify(seal)
    now = None if findings else ledger.seal
    listing_ledger.show_verified(
        findings, now, f"ledger verify {shlex.quote(str(folder))}", as_json
    )
