"""The promises of a release, checked one by one against what its evidence allows."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt
import pyarrow.parquet as pq

from scumble.audit.anonymity.generalised import check as check_groups
from scumble.audit.evidence_checks import TupleOdds, amplification, estimated_delta, multiset_counts
from scumble.audit.exposure import Exposure, exposure
from scumble.audit.report import Finding, Verdict
from scumble.model.evidence.channels import (
    MultisetChannel,
    PartitionChannel,
    PoolLaw,
    UniformChannel,
)
from scumble.model.evidence.evidence import Groups, Records, Synthetic, Tuples
from scumble.model.evidence.presence import InclusionProbabilities, ReplacedTuples
from scumble.model.laws.probabilities import binomial_at_most
from scumble.model.long_work import told
from scumble.model.privacy.guarantee import (
    PROBABILISTIC,
    Guarantee,
    format_parameter,
    posterior_at_most,
)
from scumble.model.stored import known_codes
from scumble.public.release import Release

CONFIDENCE = 0.9999
_DRAWS = 200_000
_SLACK = 1e-9  # promises are rounded to floats

Check = Callable[[Release, Guarantee], "Finding | None"]


def claims(release: Release) -> Iterator[Finding]:
    """Yield a finding for each promise of the release; "noted" where no check is known."""
    for promise in told(release.guarantees):
        check = _CHECKS.get(promise.statement)
        found = check(release, promise) if check else check_groups(release, promise)
        yield found or _untried(promise)


def _untried(promise: Guarantee) -> Finding:
    sentence = f"No exact check of this promise is known here; its proof: {promise.proof}."
    return Finding("exact check", promise.claim, "noted", sentence, dict(promise.parameters))


def _ratios(release: Release) -> list[Fraction | None]:
    """Return the amplification of each channel that perturbs rows; None in it means unbounded."""
    evidence, schema = release.evidence, release.schema
    if isinstance(evidence, Records):
        return [amplification(channel, schema) for channel in evidence.channels]
    if isinstance(evidence, Tuples) and isinstance(evidence.presence, ReplacedTuples):
        whole = UniformChannel(evidence.columns, evidence.presence.keep)
        return [amplification(whole, schema)]
    return []


def _local(release: Release, promise: Guarantee) -> Finding | None:
    """Check ε-LDP of all channels together."""
    losses = [math.inf if ratio is None else math.log(ratio) for ratio in _ratios(release)]
    if not losses:
        return None
    return _at_most(promise, "epsilon", math.fsum(losses), "the loss of one row's sensitive values")


def _amplification(release: Release, promise: Guarantee) -> Finding | None:
    gammas = [math.inf if ratio is None else float(ratio) for ratio in _ratios(release)]
    gamma = max(gammas, default=math.inf)
    return _at_most(promise, "gamma", gamma, "the amplification within a sub-table")


def _rho(release: Release, promise: Guarantee) -> Finding | None:
    """Check the highest posterior of a single value whose prior is ρ1."""
    prior, ratios = Fraction(promise.parameters["rho1"]), _ratios(release)
    ends = [1.0 if ratio is None else float(posterior_at_most(prior, ratio)) for ratio in ratios]
    if not ends:
        return None
    return _at_most(promise, "rho2", max(ends), f"the posterior of a prior of {float(prior):.3g}")


def _restricted(release: Release, promise: Guarantee) -> Finding | None:
    """Check the highest posterior of a value that at most a share ρ1 of the rows have.

    A bound that holds for every table is used if it is within the promise. Otherwise the shown rows
    give a lower limit, since only the private table tells how frequent a value is in its part.
    """
    parts, asked = Parts.of(release), release.manifest.parameters.get("rho2")
    if parts is None or asked is None:
        return None
    prior, claimed = Fraction(str(promise.parameters["rho1"])), promise.parameters["rho2"]
    seen = parts.posterior_from_rows(prior, CONFIDENCE)
    most = parts.posterior_of_any_table(prior)
    end = parts.posterior_of_split(Fraction(str(asked)))
    what = f"the posterior of a value that a share of {float(prior):.3g} of the rows have"
    if seen <= claimed and most <= claimed:
        return _at_most(promise, "rho2", float(most), what)
    if seen <= claimed and end is not None and end > claimed * (1 + _SLACK):
        return _at_most(promise, "rho2", float(end), what)
    sentence = (
        f"The rows that are shown imply a posterior of at least {seen:.4g} for some value that at "
        f"most a share of {float(prior):.3g} of the rows have; promised is {claimed:.4g}."
    )
    if seen <= claimed and end is not None:
        sentence += (
            " The channels are those of a split that keeps it, if it was made of true counts."
        )
    verdict: Verdict = "refuted" if seen > claimed else "stands"
    numbers = {"found": seen, "claimed": claimed}
    return Finding("shown rows", promise.claim, verdict, sentence, numbers, CONFIDENCE)


def _exposed(release: Release, promise: Guarantee) -> Finding | None:
    found, values = exposure(release.manifest), promise.parameters.get("values")
    evidence = release.evidence
    if isinstance(evidence, Tuples) and isinstance(evidence.presence, ReplacedTuples):
        # The exposure of a whole row to an adversary who is told which row is whose.
        size, keep = release.schema.size(evidence.columns), evidence.presence.keep
        found = Exposure(size, float(keep + (1 - keep) / size))
    if found is None or found.values != values:
        return None
    return _at_most(promise, "p", found.success, "the success of the best adversary")


def _profile(release: Release, promise: Guarantee) -> Finding | None:
    """Check δ at each ε of the profile by drawing multisets.

    Each δ is the mean of numbers from 0 to 1, whose distance from the expectation is bounded by
    Hoeffding's inequality.
    """
    evidence = release.evidence
    if not isinstance(evidence, Records) or not isinstance(evidence.channels[0], MultisetChannel):
        return None
    law = evidence.channels[0].law
    if not isinstance(law, PoolLaw) or law.caps is not None:
        return None
    margin = math.sqrt(-math.log((1 - CONFIDENCE) / len(promise.parameters)) / (2 * _DRAWS))
    claimed = {
        float(name.split()[-1]): delta
        for name, delta in promise.parameters.items()
        if name.startswith("delta at epsilon ")
    }
    excess = {epsilon: estimated_delta(law, epsilon, _DRAWS) for epsilon in claimed}
    worst = max(claimed, key=lambda epsilon: excess[epsilon] - claimed[epsilon])
    broken = excess[worst] - margin > claimed[worst]
    sentence = (
        f"In {_DRAWS} drawn multisets δ at ε = {worst:g} is {excess[worst]:.4g} (± {margin:.2g}); "
        f"promised is {claimed[worst]:.4g}."
    )
    numbers = {"found": excess[worst], "claimed": claimed[worst]}
    verdict: Verdict = "refuted" if broken else "stands"
    return Finding("drawn multisets", promise.claim, verdict, sentence, numbers, CONFIDENCE)


def _tuples(release: Release, promise: Guarantee) -> Finding | None:
    """Check how far the prior of a tuple can rise and, where that is promised, fall."""
    odds, given = _odds(release), promise.parameters
    if odds is None or not ("d" in given or ("k" in given and odds.law.sources)):
        return None
    end = (
        odds.end(Fraction(given["d"])) if "d" in given else odds.end_by_share(Fraction(given["k"]))
    )
    low = given.get("least", 0.0)
    if odds.least < Fraction(low):
        what = "one through the smallest factor by which a prior can fall"
        found = 1 / float(odds.least) if odds.least else math.inf
        return _finding(promise, found, 1 / low, what)
    return _at_most(promise, "gamma", float(end), "the highest posterior of a tuple")


def _exclusive(release: Release, promise: Guarantee) -> Finding | None:
    odds = _odds(release)
    if odds is None:
        return None
    end = odds.end_of_one(Fraction(promise.parameters["d"]))
    what = "the highest posterior of one of several tuples of which exactly one is true"
    return _at_most(promise, "gamma", float(end), what)


def _drawn(release: Release, promise: Guarantee) -> Finding | None:
    """Check the promise of synthetic rows by the rows and the prior of every stratum."""
    from scumble.audit.synthetic.urns import release_loss

    found = release_loss(release, promise)
    return None if found is None else _at_most(promise, found[0], found[1], found[2])


def _added(release: Release, promise: Guarantee) -> Finding | None:
    if isinstance(release.evidence, Synthetic):
        return _drawn(release, promise)
    odds = _odds(release)
    if odds is None:
        return None
    loss = odds.loss(replaced=promise.neighbourhood == "replace one person")
    return _at_most(promise, "epsilon", loss, "the loss of one tuple, view by view")


def _diverse(release: Release, promise: Guarantee) -> Finding | None:
    evidence = release.evidence
    if not isinstance(evidence, Groups):
        return None
    shown = pq.read_table(release.folder / evidence.values)
    group, count = (shown[name].to_numpy() for name in (evidence.group, evidence.count))
    share = count / np.bincount(group, count)[group]
    worst, claimed = float(share.max()), 1 / promise.parameters["l"]
    return _finding(promise, worst, claimed, "the largest share of one value in a group", "p")


def _close(release: Release, promise: Guarantee) -> Finding | None:
    """Check that no value is in a multiset more often than among n members of the pool."""
    evidence = release.evidence
    if not isinstance(evidence, Records) or not isinstance(evidence.channels[0], MultisetChannel):
        return None
    channel = evidence.channels[0]
    if not isinstance(channel.law, PoolLaw):
        return None
    table = pq.read_table(release.folder / evidence.file, columns=list(channel.columns))
    counts = multiset_counts(channel, table, channel.law.values)
    members = counts.max(axis=0) * promise.parameters["n"] / channel.law.size
    pool = [promise.parameters["pool"] * float(share) for share in channel.law.shares]
    worst = float((members / np.array(pool)).max())
    what = "the count of a value in a multiset, over that in n members of the pool, at its largest,"
    return _finding(promise, worst, 1.0, what)


def _odds(release: Release) -> TupleOdds | None:
    evidence = release.evidence
    if not isinstance(evidence, Tuples) or not isinstance(
        evidence.presence, InclusionProbabilities
    ):
        return None
    law = evidence.presence
    return TupleOdds(law, release.schema.size(evidence.columns) * law.multiplicity)


def _at_most(promise: Guarantee, name: str, found: float, what: str) -> Finding:
    return _finding(promise, found, promise.parameters[name], what, name)


def _finding(
    promise: Guarantee, found: float, claimed: float, what: str, name: str = ""
) -> Finding:
    broken = found > claimed * (1 + _SLACK)
    if broken:
        said = f"{found:.6g}: more than the {claimed:.6g} promised"
    else:
        least, most = (format_parameter(name, each) for each in (min(found, claimed), claimed))
        said = f"{least}: within the {most} promised"
    return Finding(
        "exact check",
        promise.claim,
        "refuted" if broken else "exact",
        f"Computed from the release, {what} is {said}.",
        {"found": found, "claimed": claimed},
    )


_CHECKS: Mapping[str, Check] = {
    "ε-LDP": _local,
    "γ-amplification within a sub-table": _amplification,
    "(ρ1, ρ2)-privacy": _rho,
    "p-exposure": _exposed,
    "(ε, δ)-LDP profile": _profile,
    "(d, γ)-privacy": _tuples,
    "(d, γ), d-exclusive attackers": _exclusive,
    "restricted (ρ1, ρ2)-privacy": _restricted,
    "ε-DP": _added,
    PROBABILISTIC: _drawn,
    "l-diversity": _diverse,
    "(n, 0)-closeness": _close,
}


# Releases of `partition`: parts of the table, each with a channel of its own. The attacker knows
# how frequent every value is; what matters is how likely a value that is rare in the table can
# become.

Floats = npt.NDArray[np.float64]


@dataclass(frozen=True)
class Parts:
    """The parts of a release, with their numbers of rows, domains and channels."""

    release: Release
    channel: PartitionChannel
    file: str

    @classmethod
    def of(cls, release: Release) -> Parts | None:
        """Return the parts; None if the release has none, or if one of them is not perturbed."""
        evidence = release.evidence
        if not isinstance(evidence, Records) or not isinstance(
            evidence.channels[0], PartitionChannel
        ):
            return None
        channel = evidence.channels[0]
        return cls(release, channel, evidence.file) if 1 not in channel.keeps else None

    @property
    def gammas(self) -> list[Fraction]:
        """The factor by which each channel can change the odds of two values."""
        pairs = zip(self.channel.keeps, self.channel.domains, strict=True)
        return [1 + keep * len(domain) / (1 - keep) for keep, domain in pairs]

    def posterior_of_any_table(self, rho1: Fraction) -> Fraction:
        """Return the highest posterior of a value that at most a share ρ1 of all rows have.

        It holds for every table: in the worst case all rows with the value are in one part.
        """
        rare = math.floor(rho1 * sum(self.channel.rows))
        shares = [Fraction(min(rare, size), max(size, 1)) for size in self.channel.rows]
        return max(map(posterior_at_most, shares, self.gammas))

    def posterior_of_split(self, rho2: Fraction) -> Fraction | None:
        """Return the highest posterior of such a value in a table that was split to reach `rho2`.

        Such a split gives each part the channel that takes the most frequent of its rare values to
        `rho2` exactly, so that γ tells how many rows have that value. The result is None if that is
        not a whole number, so that the channels are not those of such a split.
        """
        shares = [rho2 / (rho2 + gamma * (1 - rho2)) for gamma in self.gammas]
        sizes = self.channel.rows
        if any((share * size).denominator > 1 for share, size in zip(shares, sizes, strict=True)):
            return None
        return max(map(posterior_at_most, shares, self.gammas))

    def posterior_from_rows(self, rho1: Fraction, confidence: float) -> float:
        """Return a lower limit of the highest such posterior, from the rows that are shown.

        It is wrong with a probability of at most 1 - `confidence`. Hoeffding's inequality bounds
        how many rows of a part have a value from below, and how many of all rows from above.
        """
        error = 2 * (sum(map(len, self.channel.domains)) + self._cells) / (1 - confidence)
        reach = math.sqrt(math.log(error) / 2)
        most, wide = np.zeros(self._cells), np.zeros(self._cells)
        lowest: list[tuple[npt.NDArray[np.int64], Floats, float]] = []
        for (domain, shown, size), keep, gamma in zip(
            self._shown(), map(float, self.channel.keeps), self.gammas, strict=True
        ):
            rows = (shown - size * (1 - keep) / len(domain)) / keep
            most[domain] += rows
            wide[domain] += size / keep**2
            share = np.clip((rows - reach * math.sqrt(size) / keep) / max(size, 1), 0, 1)
            lowest.append((domain, share, float(gamma)))
        rare = most + reach * np.sqrt(wide) <= float(rho1) * sum(self.channel.rows)
        ends = [
            gamma * share[rare[domain]] / (1 + (gamma - 1) * share[rare[domain]])
            for domain, share, gamma in lowest
        ]
        return max((float(each.max(initial=0.0)) for each in ends), default=0.0)

    @property
    def _cells(self) -> int:
        return self.release.schema.size(self.channel.attributes)

    def _shown(self) -> Iterator[tuple[npt.NDArray[np.int64], Floats, int]]:
        """Yield the values of each part, how many rows show each, and the number of its rows."""
        schema, channel = self.release.schema, self.channel
        table = pq.read_table(
            self.release.folder / self.file, columns=[*channel.attributes, channel.column]
        )
        codes = [known_codes(schema[name], table[name]) for name in channel.attributes]
        cells = schema.cell_keys(channel.attributes).pack(codes).astype(np.int64)
        parts = table[channel.column].to_numpy()
        for number, domain in enumerate(channel.domains):
            inside = cells[parts == number]
            counts = np.bincount(inside, minlength=self._cells)
            yield np.array(domain), counts[list(domain)].astype(np.float64), len(inside)


# Whether the rows of a release can be the output of the channels that it states.


def shown_value_findings(release: Release) -> Iterator[Finding]:
    """Check for each uniform channel that no value is shown too rarely.

    Such a channel shows every value in some share of the rows, however rare it is in the table.
    """
    evidence = release.evidence
    if not isinstance(evidence, Records):
        return
    for channel in evidence.channels:
        if isinstance(channel, UniformChannel) and evidence.rows:
            yield _rarest(release, evidence.file, channel)


def _rarest(release: Release, file: str, channel: UniformChannel) -> Finding:
    """Test the value that is shown least often.

    A row shows any value with a probability of at least (1 - keep) / values, independently of other
    rows. The minimum over all values is tested, hence the factor `values` (a union bound).
    """
    schema, names = release.schema, channel.attributes
    table = pq.read_table(release.folder / file, columns=list(names))
    codes = [known_codes(schema[name], table[name]) for name in names]
    values, rows = schema.size(names), table.num_rows
    found = np.unique(schema.cell_keys(names).pack(codes), return_counts=True)[1]
    fewest = int(found.min()) if len(found) == values else 0
    share = float(1 - channel.keep) / values
    refuted = values * binomial_at_most(fewest, rows, share) < 1 - CONFIDENCE
    verdict: Verdict = "refuted" if refuted else "stands"
    sentence = (
        f"Of {rows:,} rows {fewest:,} show the rarest of {values} values of {', '.join(names)}; "
        f"the channel that is stated shows every one in {rows * share:,.1f} of them or more, on "
        "average."
    )
    claim = f"the values of {', '.join(names)} came through the channel that is stated"
    numbers = {"found": float(fewest), "expected at least": rows * share}
    return Finding("shown rows", claim, verdict, sentence, numbers, CONFIDENCE)
