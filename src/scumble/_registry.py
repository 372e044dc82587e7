"""The list of all mechanisms.

A mechanism is one file and one line here. From the line and the class come its public name, its
command-line options, its documentation page, its type stub, and its entries in the conformance
suite, in `scumble audit --all`, in `scumble compare` and in DPBench. `make options docs` writes the
generated files.

This module imports nothing, so that `import scumble` and the command line start at once.
"""

# The name on the command line, then the module and the class.
REGISTRY = {
    "uniform": "scumble.private.perturbation.uniform:Uniform",
    "subset": "scumble.private.perturbation.subset:Subset",
    "frapp": "scumble.private.perturbation.frapp:Frapp",
    "alphabeta": "scumble.private.perturbation.alphabeta:AlphaBeta",
    "partition": "scumble.private.perturbation.partition:Partition",
    "anatomy": "scumble.private.perturbation.anatomy:Anatomy",
    "generalise": "scumble.private.perturbation.generalisation.generalise:Generalise",
    "aroma": "scumble.private.perturbation.aroma:Aroma",
    "histogram": "scumble.private.summaries.histogram:Histogram",
    "hierarchy": "scumble.private.summaries.hierarchy:Hierarchy",
    "wavelet": "scumble.private.summaries.wavelet:Wavelet",
    "marginals": "scumble.private.summaries.marginals:Marginals",
    "fourier": "scumble.private.summaries.fourier:Fourier",
    "datacube": "scumble.private.summaries.datacube:Datacube",
    "sparse": "scumble.private.summaries.sparse:Sparse",
    "workload": "scumble.private.summaries.workload:Workload",
    "quadtree": "scumble.private.summaries.trees.quadtree:Quadtree",
    "kdtree": "scumble.private.summaries.trees.kdtree:Kdtree",
    "privtree": "scumble.private.summaries.trees.privtree:PrivTree",
    "grid": "scumble.private.summaries.trees.grid:Grid",
    "mosaic": "scumble.private.summaries.trees.mosaic:Mosaic",
    "dawa": "scumble.private.summaries.trees.dawa:Dawa",
    "sequences": "scumble.private.summaries.lists.sequences:Sequences",
    "keys": "scumble.private.summaries.keys:Keys",
    "baskets": "scumble.private.summaries.lists.baskets:Baskets",
    "synthesis": "scumble.private.summaries.synthetic.synthesis:Synthesis",
    "mwem": "scumble.private.summaries.synthetic.mwem:Mwem",
    "trajectories": "scumble.private.summaries.lists.trajectories:Trajectories",
    "diffpart": "scumble.private.summaries.lists.diffpart:DiffPart",
    "dirichlet": "scumble.private.summaries.synthetic.dirichlet:Dirichlet",
}


def class_names() -> dict[str, str]:
    """The public class names of all mechanisms, each with its module."""
    places = (place.partition(":") for place in REGISTRY.values())
    return {name: module for module, _, name in places}
