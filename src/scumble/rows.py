"""Rows of people, perturbed one by one: `sc.rows.Uniform`."""

from scumble.families.randomised_response.publish import Subset, Uniform

__all__ = [
    "Subset",
    "Uniform",
]
