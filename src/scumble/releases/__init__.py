"""Differentially private summaries without interaction, one file each."""
