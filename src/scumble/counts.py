"""Noisy counts and tables of counts: `sc.counts.Histogram`."""

from scumble.families.axes.publish import Dyadic, Hierarchy, Wavelet
from scumble.families.boxes.publish import Dawa, Grid, KdTree, Mosaic, PrivTree, Quadtree
from scumble.families.histogram.publish import Histogram, Sparse
from scumble.families.marginals.publish import Datacube, Fourier, Marginals
from scumble.families.quantiles.publish import Quantiles
from scumble.families.workload.publish import Workload

__all__ = [
    "Datacube",
    "Dawa",
    "Dyadic",
    "Fourier",
    "Grid",
    "Hierarchy",
    "Histogram",
    "KdTree",
    "Marginals",
    "Mosaic",
    "PrivTree",
    "Quadtree",
    "Quantiles",
    "Sparse",
    "Wavelet",
    "Workload",
]
