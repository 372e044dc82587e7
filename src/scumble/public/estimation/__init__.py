"""Estimators: from evidence and a Query to an Estimate."""
