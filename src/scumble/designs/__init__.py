"""What noisy numbers are measurements of, and the linear algebra that goes with it."""
