"""Summaries made of trees of boxes."""
