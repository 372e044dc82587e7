"""Which sums of cells to measure for given questions."""
