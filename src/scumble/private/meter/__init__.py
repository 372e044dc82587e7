"""Private counts: measured only with noise, and only after a budget account is charged."""
