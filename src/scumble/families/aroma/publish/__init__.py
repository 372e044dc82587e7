"""Rows that show several values, the true one among them."""

from scumble.families.aroma.publish.aroma import Aroma as Aroma
