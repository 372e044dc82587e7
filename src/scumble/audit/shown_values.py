"""Whether the rows of a release can have come through the channels that it states."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pyarrow.parquet as pq

from scumble.audit.claims import CONFIDENCE
from scumble.audit.finding import Finding, Verdict
from scumble.model.evidence.channels import UniformChannel
from scumble.model.evidence.evidence import Records
from scumble.public.release import Release


def shown_values(release: Release) -> Iterator[Finding]:
    """For each channel that replaces values by any of them: every value is shown in a share of the
    rows at least, however rare it is in the table.
    """
    evidence = release.evidence
    if not isinstance(evidence, Records):
        return
    for channel in evidence.channels:
        if isinstance(channel, UniformChannel) and evidence.rows:
            yield _rarest(release, evidence.file, channel)


def _rarest(release: Release, file: str, channel: UniformChannel) -> Finding:
    """The value that is shown least often. A row shows it with a probability of at least
    (1 - keep) / values, independently of the others, and all values are looked at.
    """
    from scipy.stats import binom

    schema, names = release.schema, channel.attributes
    table = pq.read_table(release.folder / file, columns=list(names))
    codes = [schema[name].encode(table[name])[0] for name in names]
    values, rows = schema.size(names), table.num_rows
    found = np.unique(schema.radix(names).pack(codes), return_counts=True)[1]
    fewest = int(found.min()) if len(found) == values else 0
    share = float(1 - channel.keep) / values
    refuted = values * float(binom.cdf(fewest, rows, share)) < 1 - CONFIDENCE
    verdict: Verdict = "refuted" if refuted else "stands"
    sentence = (
        f"Of {rows} rows {fewest} show the rarest of {values} values of {', '.join(names)}; the "
        f"channel that is stated shows every one in {rows * share:.4g} of them or more, on average."
    )
    claim = f"the values of {', '.join(names)} came through the channel that is stated"
    numbers = {"found": float(fewest), "expected at least": rows * share}
    return Finding("shown rows", claim, verdict, sentence, numbers, CONFIDENCE)
