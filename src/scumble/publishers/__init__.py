"""Input perturbation, one file each: rows in, rows out, the proof in the docstring."""
