"""Audits of synthetic rows, and of models that are measured in rounds."""
