"""The evidence that a release publishes, and the channels that produced it."""
