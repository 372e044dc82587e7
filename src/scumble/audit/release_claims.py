"""The promises of a release, checked one by one against what its evidence allows."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from typing import cast

from scumble.audit import hooks
from scumble.audit.exposure import Exposure, exposure
from scumble.audit.report import Finding
from scumble.model.evidence.evidence import Records
from scumble.model.long_work import told
from scumble.model.privacy.guarantee import PROBABILISTIC, Guarantee, format_parameter
from scumble.public.archive.promises import computed
from scumble.public.release import Release

CONFIDENCE = 0.9999
SLACK = 1e-9  # promises are rounded to floats

Check = Callable[[Release, Guarantee], "Finding | None"]


def claims(release: Release) -> Iterator[Finding]:
    """Yield a finding for each promise of the release; "noted" where no check is known."""
    for promise in told(release.guarantees):
        check = _CHECKS.get(promise.statement)
        check = check or hooks.of_evidence(release.evidence, "check_promise")
        found = check(release, promise) if check else None
        yield found or _untried(promise)


def shown_value_findings(release: Release) -> Iterator[Finding]:
    """Yield whether the rows of a release can be the output of the channels that it states."""
    for channel in hooks.channels_of(release.evidence):
        own = hooks.of_channel(channel, "channel_findings")
        if own is not None:
            yield from own(release, channel)


def _untried(promise: Guarantee) -> Finding:
    sentence = f"No exact check of this promise is known here; its proof: {promise.proof}."
    return Finding("exact check", promise.claim, "noted", sentence, dict(promise.parameters))


def _exact(release: Release, promise: Guarantee) -> Finding | None:
    """Check a number of the promise that follows from the evidence."""
    found = computed(release.manifest, release.folder, promise)
    if found is None:
        return None
    return within(promise, found.found, found.claimed, found.what, found.name)


def _exposed(release: Release, promise: Guarantee) -> Finding | None:
    success = _promised_exposure(release, promise)
    if success is None or success.values != promise.parameters.get("values"):
        return None
    return at_most(promise, "p", success.success, "the success of the best adversary")


def _promised_exposure(release: Release, promise: Guarantee) -> Exposure | None:
    """Return the exposure that a promise is about, which may be that of one of the attributes."""
    evidence, manifest = release.evidence, release.manifest
    own = hooks.of_evidence(evidence, "promised_exposure")
    if own is not None:
        promised: Exposure | None = own(manifest)
        return promised
    if hooks.channels_of(evidence):
        records = cast(Records, evidence)
        records = replace(records, channels=records.promised_channels(promise))
        manifest = replace(manifest, evidence=records)
    return exposure(manifest)


def at_most(promise: Guarantee, name: str, found: float, what: str) -> Finding:
    """Return whether a number is within that of the promise of the same name."""
    return within(promise, found, promise.parameters[name], what, name)


def within(promise: Guarantee, found: float, claimed: float, what: str, name: str = "") -> Finding:
    """Return whether `what`, a number computed from the release, is within the claimed one."""
    broken = found > claimed * (1 + SLACK)
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
    "ε-LDP": _exact,
    "γ-amplification within a sub-table": _exact,
    "(ρ1, ρ2)-privacy": _exact,
    "p-exposure": _exposed,
    "(d, γ)-privacy": _exact,
    "(d, γ), d-exclusive attackers": _exact,
    "ε-DP": _exact,
    PROBABILISTIC: _exact,
}
