"""Answers to a SELECT that is more than one COUNT, SUM or AVG: arithmetic, groups, quantiles."""
