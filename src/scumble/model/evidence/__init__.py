"""What a release publishes, and the channels that made it."""
