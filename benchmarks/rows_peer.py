"""One library that draws synthetic rows, run by the Python of its own environment.

    python rows_peer.py LIBRARY METHOD IN.npz OUT.npz

IN.npz has the codes (a column for each attribute), the sizes of the domains, epsilon, delta, rho
and a seed; OUT.npz gets as many synthetic rows, and the CPU seconds of all processes without those
of imports. Domains are given, so that no library spends budget on them. mbi has no mechanisms: MST
is written here on its estimator, as McKenna, Miklau and Sheldon (JPC 2021) describe it.

`AIM-small` and `aim-small` are AIM with few rounds and a small model: with the libraries' own
settings it runs for hours. `mst-sampled` and `aim-small` draw rows of smartnoise's model
independently. By default its sampler (mbi 1.1, "round") gives the values of all children of an
attribute in the same order of rows, so that they depend on each other where the model says that
they do not.
"""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

import numpy as np
import numpy.typing as npt

Codes = npt.NDArray[np.int64]

ROUNDS, MEGABYTES = 32, 1  # of small AIM; 16 d and 80 as published, without a limit in dpmm


def main() -> None:
    library, method, given, output = sys.argv[1:]
    with np.load(given) as file:
        codes, sizes = file["codes"], [int(size) for size in file["sizes"]]
        promise = {name: float(file[name]) for name in ("epsilon", "delta", "rho")}
        seed = int(file["seed"])
    np.random.seed(seed)  # some of them know no other source
    draw = {"mbi": _mbi, "dpmm": _dpmm, "smartnoise": _smartnoise}[library](method)
    start = _seconds()
    rows = draw(codes, sizes, promise, seed)
    np.savez(output, rows=rows, seconds=_seconds() - start)


def _seconds() -> float:
    """The CPU seconds of this process and of those that it has waited for."""
    used = os.times()
    return used.user + used.system + used.children_user + used.children_system


def _frame(codes: Codes) -> Any:
    import pandas as pd

    return pd.DataFrame(codes, columns=[f"c{place}" for place in range(codes.shape[1])])


def _dpmm(method: str) -> Any:
    from dpmm import pipelines

    name, _, small = method.partition("-")
    made = getattr(pipelines, f"{name}Pipeline")

    def draw(codes: Codes, sizes: list[int], promise: dict[str, float], seed: int) -> Codes:
        chosen: dict[str, Any] = {name: promise[name] for name in ("epsilon", "delta")}
        if small:
            chosen |= {"max_model_size": MEGABYTES, "gen_kwargs": {"rounds": ROUNDS}}
        pipeline = made(**chosen, disable_processing=True, n_jobs=1)
        frame = _frame(codes)
        pipeline.fit(frame, domain=dict(zip(frame, sizes, strict=True)), random_state=seed)
        found = pipeline.generate(n_records=len(frame), random_state=seed)
        return found[list(frame)].to_numpy(np.int64)

    return draw


def _smartnoise(method: str) -> Any:
    from snsynth import Synthesizer
    from snsynth.transform import LabelTransformer, TableTransformer

    def draw(codes: Codes, sizes: list[int], promise: dict[str, float], _seed: int) -> Codes:
        name, _, setting = method.partition("-")
        chosen: dict[str, Any] = {each: promise[each] for each in ("epsilon", "delta")}
        if setting == "small":
            chosen |= {"max_model_size": MEGABYTES, "rounds": ROUNDS}
        made = Synthesizer.create(name, **chosen)
        frame = _frame(codes)
        # The labels of the whole domain, so that none has to be bought.
        labels = [LabelTransformer(nullable=False) for _ in sizes]
        for label, size in zip(labels, sizes, strict=True):
            label.fit(range(size))
        transformer = TableTransformer(labels)
        made.fit(frame, transformer=transformer, preprocessor_eps=0.0, nullable=False)
        if setting:
            made.synthesizer = _Sampled(made.synthesizer)
        return made.sample(len(frame))[list(frame)].to_numpy(np.int64)

    return draw


class _Sampled:
    """A model of mbi 1.1 whose rows are drawn independently."""

    def __init__(self, model: Any) -> None:
        self._model = model

    def synthetic_data(self, rows: int) -> Any:
        return self._model.synthetic_data(rows=rows, method="sample")


# --- MST on mbi -----------------------------------------------------------------------------------


def _mbi(method: str) -> Any:
    import jax

    jax.config.update("jax_enable_x64", True)
    jax.config.update("jax_enable_compilation_cache", False)
    import mbi

    if method != "MST":
        raise ValueError("mbi: MST")

    def draw(codes: Codes, sizes: list[int], promise: dict[str, float], seed: int) -> Codes:
        names = [f"c{place}" for place in range(len(sizes))]
        domain = mbi.Domain(names, sizes)
        data = mbi.Dataset({name: codes[:, place] for place, name in enumerate(names)}, domain)
        return _mst(mbi, data, promise["rho"], np.random.default_rng(seed))

    return draw


def _mst(mbi: Any, data: Any, rho: float, random: np.random.Generator) -> Codes:
    """Draw rows by MST: a third of ρ for single attributes, for the choice of a tree, and for the
    pairs of the tree.
    """
    names, rows = list(data.domain), data.records
    singles = _measured(mbi, data, [(name,) for name in names], rho / 3, random)
    merged = {}
    for each in singles:
        low = np.asarray(each.noisy_measurement) < 3 * each.stddev
        if low.sum() > 1:
            merged[each.clique[0]] = np.where(low, (~low).sum(), np.cumsum(~low) - 1)
    kept = [each.compress(merged, data.domain) for each in singles]
    small = data.compress(merged)
    first = mbi.estimation.MirrorDescent().estimate(small.domain, kept, iters=1000)
    pairs = _tree(small, first, rho / 3, random)
    kept += _measured(mbi, small, pairs, rho / 3, random)
    model = mbi.estimation.MirrorDescent().estimate(small.domain, kept, iters=5000)
    found = model.synthetic_data(rows=rows).decompress(merged)
    return np.column_stack([found.data[name] for name in names]).astype(np.int64)


def _measured(
    mbi: Any, data: Any, cliques: list[tuple[str, ...]], rho: float, random: np.random.Generator
) -> list[Any]:
    """Measure tables with Gaussian noise, under ρ for all of them."""
    sigma = (len(cliques) / (2 * rho)) ** 0.5
    found = []
    for clique in cliques:
        counts = np.asarray(data.project(clique).datavector())
        noisy = counts + random.normal(0, sigma, counts.size)
        found.append(mbi.LinearMeasurement(noisy, clique, sigma))
    return found


def _tree(data: Any, model: Any, rho: float, random: np.random.Generator) -> list[tuple[str, str]]:
    """Choose a tree of pairs by exponential mechanisms, under ρ for all of them: pairs that are far
    from what `model` says.
    """
    names = list(data.domain)
    scores = {
        pair: float(np.abs(_vector(data, pair) - _vector(model, pair)).sum())
        for pair in itertools.combinations(names, 2)
    }
    part = {name: name for name in names}
    epsilon = (8 * rho / (len(names) - 1)) ** 0.5
    tree = []
    while len(tree) < len(names) - 1:
        joining = [pair for pair in scores if part[pair[0]] != part[pair[1]]]
        weights = np.array([epsilon / 2 * scores[pair] for pair in joining])
        shares = np.exp(weights - weights.max())
        one, other = joining[random.choice(len(joining), p=shares / shares.sum())]
        tree.append((one, other))
        part = {name: part[one] if each == part[other] else each for name, each in part.items()}
    return tree


def _vector(holder: Any, pair: tuple[str, str]) -> npt.NDArray[np.float64]:
    return np.asarray(holder.project(pair).datavector())


if __name__ == "__main__":
    main()
