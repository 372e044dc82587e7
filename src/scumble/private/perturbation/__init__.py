"""Publishers of perturbed rows, one mechanism a file."""
