"""The row model of privately chosen tables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from scumble.model.evidence.chosen_tables import ChosenTables, by_class
from scumble.public.synthesis.noisy_tables import NoisyTable, estimated_total
from scumble.public.synthesis.row_model import Classes, RowModel


def chosen_model(
    design: ChosenTables, tables: Sequence[npt.NDArray[Any]], rows: int | None
) -> RowModel:
    """Return the model of the noisy `tables` of a design; `rows` is their number, if known."""
    number = len(design.attributes)
    noisy = [
        NoisyTable(each.places, np.asarray(counts, np.float64), each.law.variance)
        for each, counts in zip(design.tables, tables, strict=True)
    ]
    single = noisy[:number]
    total = float(rows) if rows is not None else estimated_total(single)
    coarse, classes = [], []
    for place, each in enumerate(single):
        own = design.classes(place)
        coarse.append(NoisyTable(each.places, by_class(each.counts, [own]), each.variance))
        classes.append(Classes(own, each.counts) if design.merged[place] else None)
    return RowModel(design.class_sizes, [*coarse, *noisy[number:]], max(total, 1.0), classes)
