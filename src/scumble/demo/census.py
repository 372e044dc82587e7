"""A census of fictitious people, with its public schema.

People are drawn by a seeded generator of numpy: the same seed gives the same people. It draws no
privacy noise; only `private/sampling` does that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa

from scumble.model.schema.attribute import Attribute
from scumble.model.schema.domains import Category, IntegerRange
from scumble.model.schema.schema import Schema
from scumble.model.schema.unit import Unit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Codes = NDArray[np.int64]
    Floats = NDArray[np.float64]

YOUNGEST, OLDEST = 18, 90
SEXES = ("female", "male")
SCHOOLING = (
    "No schooling", "Primary", "Lower secondary", "Secondary", "Vocational",
    "Higher vocational", "Bachelor", "Master", "Professional degree", "Doctorate",
)  # fmt: skip
INCOMES = tuple(range(0, 130_000, 10_000))

# Name, relative size, and how urban it is: cities pay more and have more graduates.
REGIONS = (
    ("Alder Coast", 9.0, 0.6), ("Birch Valley", 5.0, -0.3), ("Cedar Plain", 6.5, 0.1),
    ("Dune Islands", 1.5, -0.7), ("Elm Harbour", 14.0, 1.0), ("Fern Hills", 4.0, -0.5),
    ("Granite North", 2.5, -0.8), ("Hazel Lakes", 5.5, -0.1), ("Iris Capital", 17.0, 1.3),
    ("Juniper South", 7.0, 0.0), ("Kelp Shore", 3.5, -0.2), ("Linden Centre", 11.0, 0.8),
    ("Maple Borders", 4.5, -0.4), ("Nettle Moor", 2.0, -0.9), ("Oak Downs", 6.0, 0.2),
)  # fmt: skip

# Name, log-odds at age 45, and their change by ten years of age, being a woman, poverty, strain.
CONDITIONS = (
    ("No condition", 1.50, -0.38, 0.00, -0.20, -0.25),
    ("Allergy", -0.60, -0.22, 0.15, -0.05, 0.00),
    ("Anxiety", -1.00, -0.15, 0.45, 0.25, 0.00),
    ("Arthritis", -1.30, 0.42, 0.40, 0.10, 0.30),
    ("Asthma", -1.00, -0.08, 0.15, 0.20, 0.05),
    ("Back pain", -0.70, 0.08, 0.05, 0.15, 0.60),
    ("Cancer", -2.10, 0.40, 0.05, 0.05, 0.05),
    ("Depression", -1.10, -0.05, 0.50, 0.35, 0.05),
    ("Diabetes", -1.25, 0.30, -0.15, 0.30, 0.05),
    ("Epilepsy", -3.00, -0.05, 0.00, 0.10, 0.00),
    ("Heart disease", -1.80, 0.50, -0.35, 0.25, 0.10),
    ("High blood pressure", -0.45, 0.35, -0.10, 0.15, 0.00),
    ("Kidney disease", -2.80, 0.35, 0.00, 0.20, 0.05),
    ("Migraine", -1.20, -0.18, 0.90, 0.05, 0.00),
    ("Thyroid disorder", -1.90, 0.10, 1.20, 0.00, 0.00),
)

_CHUNK = 50_000


def census(people: int = 100_000, seed: int = 1) -> tuple[pa.Table, Schema]:
    """Return a table of `people` fictitious people and its schema; the same for the same seed."""
    starts = range(0, max(people, 1), _CHUNK)
    generators = np.random.default_rng(seed).spawn(len(starts))
    chunks = [
        _people(generator, start, min(_CHUNK, people - start))
        for generator, start in zip(generators, starts, strict=True)
    ]
    return pa.concat_tables(chunks), census_schema()


def census_schema() -> Schema:
    """Return the schema; its domains are part of the generator and reveal nothing about people."""
    return Schema(
        (
            Attribute("person", "identifier", None),
            Attribute("age", "quasi", IntegerRange(YOUNGEST, OLDEST)),
            Attribute("sex", "quasi", Category(SEXES)),
            Attribute("region", "quasi", Category(_names(REGIONS))),
            Attribute("education", "quasi", Category(SCHOOLING, ordered=True)),
            Attribute("occupation", "quasi", Category(_names(OCCUPATIONS))),
            Attribute("income", "quasi", Category(INCOMES, ordered=True)),
            Attribute("condition", "sensitive", Category(_names(CONDITIONS))),
        ),
        Unit(),
    )


def _people(generator: np.random.Generator, start: int, count: int) -> pa.Table:
    """Draw `count` people, one attribute after the other, each given those before it."""
    age = _draw_age(generator, count)
    woman = generator.random(count) < 0.49 + 0.0012 * (age - YOUNGEST)
    region = generator.choice(len(REGIONS), count, p=_shares([size for _, size, _ in REGIONS]))
    urban = np.array([urban for _, _, urban in REGIONS])[region]
    education = _draw_education(generator, age, urban)
    occupation = _draw_occupation(generator, age, woman, education)
    income = _draw_income(generator, age, woman, urban, education, occupation)
    condition = _draw_condition(generator, age, woman, income, occupation)
    return pa.table(
        {
            "person": pa.array([f"P{k:07d}" for k in range(start, start + count)], pa.string()),
            "age": pa.array(age),
            "sex": _text(np.where(woman, 0, 1), SEXES),
            "region": _text(region, _names(REGIONS)),
            "education": _text(education, SCHOOLING),
            "occupation": _text(occupation, _names(OCCUPATIONS)),
            "income": pa.array(np.array(INCOMES)[income]),
            "condition": _text(condition, _names(CONDITIONS)),
        }
    )


def _draw_age(generator: np.random.Generator, count: int) -> Codes:
    """Draw ages from a mixture of young, middle-aged and old, reflected into the domain."""
    centre = generator.choice([27.0, 47.0, 68.0], count, p=[0.30, 0.45, 0.25])
    age = np.abs(generator.normal(centre, 11.0) - YOUNGEST) + YOUNGEST
    years: Codes = np.minimum(age, 2 * OLDEST - age).clip(YOUNGEST, OLDEST).astype(np.int64)
    return years


def _draw_education(generator: np.random.Generator, age: Codes, urban: Floats) -> Codes:
    """Draw education: more in later cohorts and cities; the very young have not finished."""
    level = generator.normal(4.6 + 0.7 * urban - 0.022 * (age - 40), 1.9)
    unfinished = np.where(age < 25, 3.0 + 0.5 * (age - YOUNGEST), 9.0)
    return np.minimum(level, unfinished).round().clip(0, len(SCHOOLING) - 1).astype(np.int64)


def _draw_occupation(
    generator: np.random.Generator, age: Codes, woman: NDArray[np.bool_], education: Codes
) -> Codes:
    """Draw occupations by education and sex; the young study and the old retire."""
    schooling, women, share = (
        np.array([getattr(job, field) for job in OCCUPATIONS])
        for field in ("schooling", "women", "share")
    )
    gap = education[:, None] - schooling
    scores = np.log(share) - 0.35 * gap**2 + np.where(woman, 0.5, -0.5)[:, None] * women
    for name, score in (
        (STUDENT, np.where(age < 27, 4.0 - 0.35 * (age - YOUNGEST), -8.0)),
        (RETIRED, 0.55 * (age - 63.0)),
        (HOME, scores[:, _job(HOME)] * 0.5 - 0.5),
        (SEEKING, scores[:, _job(SEEKING)] * 0.6 - np.where(age > 66, 4.0, 0.0)),
    ):
        scores[:, _job(name)] = score
    return _draw_by_score(generator, scores)


def _draw_income(
    generator: np.random.Generator,
    age: Codes,
    woman: NDArray[np.bool_],
    urban: Floats,
    education: Codes,
    occupation: Codes,
) -> Codes:
    """Draw incomes by occupation, experience, education, region and sex.

    They are rounded to 10,000 and cut at the largest value of the domain.
    """
    pay = np.array([job.pay for job in OCCUPATIONS])[occupation]
    experience = 0.012 * (np.minimum(age, 55) - 40)
    scale = experience + 0.03 * (education - 4) + 0.10 * urban - 0.11 * woman
    thousands = pay * np.exp(scale + generator.normal(0.0, 0.30, len(pay)))
    step: Codes = (thousands / 10).round().clip(0, len(INCOMES) - 1).astype(np.int64)
    return step


def _draw_condition(
    generator: np.random.Generator,
    age: Codes,
    woman: NDArray[np.bool_],
    income: Codes,
    occupation: Codes,
) -> Codes:
    """Draw conditions by age, sex, poverty and the strain of the occupation."""
    strain = np.array([job.strain for job in OCCUPATIONS])[occupation]
    causes = np.stack([np.ones(len(age)), (age - 45) / 10, woman, (4.0 - income) / 2, strain])
    effects = np.array([row[1:] for row in CONDITIONS])
    return _draw_by_score(generator, causes.T @ effects.T)


def _draw_by_score(generator: np.random.Generator, scores: Floats) -> Codes:
    """Draw a column per row with probability proportional to exp(score): the Gumbel maximum."""
    drawn: Codes = np.argmax(scores + generator.gumbel(size=scores.shape), axis=1)
    return drawn


def _text(codes: Codes, names: tuple[str, ...]) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(codes, pa.int8()), pa.array(names))


def _names(rows: tuple[tuple[object, ...], ...]) -> tuple[str, ...]:
    return tuple(str(row[0]) for row in rows)


def _job(name: str) -> int:
    return _names(OCCUPATIONS).index(name)


def _shares(weights: list[float]) -> Floats:
    shares: Floats = np.array(weights) / np.sum(weights)
    return shares


class Occupation(NamedTuple):
    """How likely an occupation is, and its effects.

    `schooling` is the level of education (0 to 9) that it usually requires, `women` the log-odds in
    favour of women, `share` its relative size, `pay` a typical yearly income in thousands, and
    `strain` the physical strain (0 to 2).
    """

    name: str
    schooling: float
    women: float
    share: float
    pay: float
    strain: float


STUDENT, RETIRED, HOME, SEEKING = "Student", "Retired", "Home-maker", "Looking for work"

OCCUPATIONS: tuple[Occupation, ...] = (
    Occupation(STUDENT, 4.5, 0.1, 1.0, 6, 0.0),
    Occupation(RETIRED, 3.5, 0.0, 1.0, 22, 0.2),
    Occupation(HOME, 3.0, 1.6, 2.0, 2, 0.4),
    Occupation(SEEKING, 2.5, -0.1, 2.5, 9, 0.3),
    Occupation("Accountant", 6.5, 0.3, 1.8, 56, 0.0),
    Occupation("Actor", 5.5, 0.1, 0.3, 27, 0.3),
    Occupation("Architect", 7.5, -0.3, 0.6, 68, 0.0),
    Occupation("Baker", 3.0, 0.0, 0.8, 28, 1.0),
    Occupation("Bricklayer", 2.0, -2.5, 1.0, 33, 2.0),
    Occupation("Bus driver", 2.5, -1.2, 1.2, 34, 0.9),
    Occupation("Butcher", 2.5, -1.3, 0.7, 30, 1.3),
    Occupation("Carpenter", 3.0, -2.3, 1.4, 36, 1.6),
    Occupation("Cashier", 2.5, 0.9, 2.4, 22, 0.7),
    Occupation("Chef", 3.5, -0.5, 1.3, 33, 1.0),
    Occupation("Civil servant", 5.5, 0.3, 2.6, 46, 0.0),
    Occupation("Cleaner", 1.0, 1.1, 2.4, 21, 1.4),
    Occupation("Dentist", 8.5, 0.0, 0.4, 98, 0.4),
    Occupation("Designer", 6.0, 0.3, 0.8, 43, 0.0),
    Occupation("Electrician", 4.0, -2.4, 1.5, 42, 1.1),
    Occupation("Engineer", 7.0, -1.2, 2.6, 71, 0.0),
    Occupation("Factory worker", 2.0, -0.6, 3.6, 31, 1.5),
    Occupation("Farmer", 2.5, -0.9, 1.3, 29, 1.7),
    Occupation("Firefighter", 4.0, -2.0, 0.5, 45, 1.3),
    Occupation("Gardener", 2.0, -0.9, 0.9, 27, 1.5),
    Occupation("Hairdresser", 3.0, 1.7, 1.0, 24, 0.8),
    Occupation("Journalist", 6.5, 0.1, 0.5, 45, 0.0),
    Occupation("Judge", 8.0, 0.0, 0.3, 94, 0.0),
    Occupation("Lawyer", 8.0, 0.0, 1.0, 85, 0.0),
    Occupation("Librarian", 6.5, 1.1, 0.4, 40, 0.1),
    Occupation("Lorry driver", 2.0, -2.4, 1.9, 34, 1.2),
    Occupation("Manager", 6.0, -0.5, 3.2, 82, 0.0),
    Occupation("Mechanic", 3.0, -2.5, 1.7, 36, 1.4),
    Occupation("Midwife", 5.5, 3.2, 0.4, 46, 0.8),
    Occupation("Musician", 5.0, -0.3, 0.4, 28, 0.3),
    Occupation("Nurse", 5.0, 1.8, 3.0, 44, 1.3),
    Occupation("Nursery teacher", 4.5, 2.4, 1.4, 32, 0.9),
    Occupation("Painter", 2.5, -1.8, 0.9, 31, 1.4),
    Occupation("Pharmacist", 7.5, 0.7, 0.6, 63, 0.1),
    Occupation("Physician", 9.0, 0.0, 1.2, 104, 0.3),
    Occupation("Pilot", 7.0, -2.2, 0.2, 99, 0.3),
    Occupation("Plumber", 3.0, -2.7, 1.1, 41, 1.5),
    Occupation("Police officer", 4.5, -0.9, 1.2, 47, 0.7),
    Occupation("Professor", 9.0, -0.3, 0.5, 84, 0.0),
    Occupation("Programmer", 6.5, -1.3, 2.2, 67, 0.0),
    Occupation("Scientist", 8.5, -0.1, 0.6, 66, 0.0),
    Occupation("Secretary", 4.0, 1.9, 2.6, 34, 0.1),
    Occupation("Shop assistant", 3.0, 0.8, 3.6, 26, 0.8),
    Occupation("Social worker", 5.5, 1.1, 1.2, 38, 0.3),
    Occupation("Teacher", 7.0, 0.8, 3.0, 51, 0.3),
    Occupation("Waiter", 2.5, 0.3, 1.6, 22, 1.0),
)
