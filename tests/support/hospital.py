"""A fictitious hospital's stays, as a European program exports them: semicolons, dd.mm.yyyy,
decimal commas, points for thousands, ja and nein, codes, and up to ten stays of a patient.
"""

from __future__ import annotations

from datetime import date, timedelta
from pathlib import Path

import numpy as np

HEADER = (
    "PatientID;Aufnahme;Alter;Geschlecht;Station Nr;Liegedauer;Kosten;Temperatur;Diabetes;"
    "Diagnose;Bemerkung"
)
_DIAGNOSES = ("I10", "E11", "J45", "K35", "S72", "C50")
_FIRST = date(2022, 1, 1)


def hospital_lines(patients: int = 600, seed: int = 1) -> list[str]:
    """Return the lines of the table, its header first."""
    draw = np.random.default_rng(seed)
    lines = []
    for patient in range(patients):
        age, sex = int(draw.integers(0, 95)), int(draw.integers(1, 3))
        diabetes = "ja" if draw.random() < 0.02 + age / 300 else "nein"
        for _ in range(min(int(draw.geometric(0.55)), 10)):
            day = _FIRST + timedelta(days=int(draw.integers(0, 730)))
            stay = int(draw.geometric(0.15))
            fields = (
                f"P{10_000 + patient}",
                day.strftime("%d.%m.%Y"),
                age,
                sex,
                int(draw.integers(1, 9)) * 10,
                stay,
                _german(float(stay * draw.lognormal(6.5, 0.5)), 2),
                _german(float(draw.normal(37.2, 0.7)), 1),
                diabetes,
                _DIAGNOSES[int(draw.integers(0, 6)) if diabetes == "nein" else 1],
                "",
            )
            lines.append(";".join(map(str, fields)))
    draw.shuffle(lines)
    return [HEADER, *lines]


def write_hospital(
    path: Path, patients: int = 600, seed: int = 1, encoding: str = "utf-8-sig"
) -> Path:
    """Write the table with CRLF; by default with a byte order mark, as Excel does."""
    path.write_bytes(
        "".join(f"{line}\r\n" for line in hospital_lines(patients, seed)).encode(encoding)
    )
    return path


def _german(number: float, places: int) -> str:
    return f"{number:,.{places}f}".translate(str.maketrans(",.", ".,"))
