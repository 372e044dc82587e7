"""Rows whose sensitive values are kept or replaced by chance, each by itself."""

from scumble.families.randomised_response.publish.subset import Subset as Subset
from scumble.families.randomised_response.publish.uniform import Uniform as Uniform
