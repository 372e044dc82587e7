"""Engines: where the units of work of a table are read, counted and perturbed."""
