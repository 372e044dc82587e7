"""The fifty occupations of the fictitious census: what each asks for, pays and costs in health."""

from __future__ import annotations

from typing import NamedTuple


class Occupation(NamedTuple):
    """How an occupation is chosen and what follows from it.

    `schooling` is the level of education (0 to 9) that it usually takes, `women` the log-odds that
    lean towards women, `share` its relative size, `pay` a typical yearly income in thousands, and
    `strain` how hard it is on the body (0 to 2).
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
