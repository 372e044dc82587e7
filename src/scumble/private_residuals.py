"""Noisy marginals, and parts of them, behind the meter."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from scumble.designs.residual_axis import differences
from scumble.designs.residual_price import cost
from scumble.designs.residuals import Residuals
from scumble.person import Person
from scumble.private import PrivateTable
from scumble.private_counts import blur, check_scale


def noisy_tables(table: PrivateTable, design: Residuals, person: Person) -> npt.NDArray[np.int64]:
    """The numbers of all tables of a design, one after the other.

    What they cost together is in `designs.residual_price`, with its proof.
    """
    for each in design.tables:
        check_scale(each.law)
    loss = cost(design.tables, design.sizes, person)
    table._account.charge(f"noisy tables of {', '.join(design.attributes)}", loss)
    sets = [[design.attributes[place] for place in each.places] for each in design.tables]
    counted = table.marginals(sets, person)
    numbers = np.empty(design.numbers, np.int64)
    for each, counts, part in zip(design.tables, counted, design.slices(), strict=True):
        cells = counts._counts.reshape([design.sizes[place] for place in each.places])
        noisy = (differences(cells) if each.form == "contrast" else cells).reshape(-1)
        blur(table._noise, noisy, each.law)
        if each.form == "residual":
            noisy = differences(noisy.reshape(cells.shape)).reshape(-1)
        numbers[part] = noisy
    return numbers
