"""Pages of auditors: certificate, entries of the journal with their hashes, and seals."""

from __future__ import annotations

from typing import Any

from scumble.server.http.routes import AUDITING, Call, Result, Route
from scumble.server.pages.gates import HTML, render, shared
from scumble.server.service import Service

_SHOWN = 200


def audit(service: Service, call: Call) -> Result:
    """The chain of a database, its totals, and the form to verify a seal."""
    return _page(service, call, seal="", findings=None)


def verify(service: Service, call: Call) -> Result:
    """The page again, with what is wrong with the journal, if anything."""
    seal = str(call.body.get("seal", "")).strip()
    return _page(service, call, seal=seal, findings=call.data.verify(seal or None))


def certificate(service: Service, call: Call) -> Result:
    """The certificate to hand on: one HTML file that loads nothing from the network."""
    name = f'attachment; filename="{call.data.name}-certificate.html"'
    return Result(call.data.certificate(), 200, HTML, {"Content-Disposition": name})


def _page(service: Service, call: Call, **values: Any) -> Result:
    data = call.data
    chain = data.chain(0) if data.kind != "release" else {"seal": "", "entries": []}
    return render(
        "audit.html",
        data=data,
        entries=chain["entries"][-_SHOWN:][::-1],
        total=len(chain["entries"]),
        now=chain["seal"],
        totals=data.status(None),
        guarantees=list(data.guarantees),
        **shared(service, call),
        **values,
    )


ROUTES = (
    Route("GET", "/data/{dataset}/audit", "page: audit", AUDITING, audit, "The journal."),
    Route("POST", "/data/{dataset}/verify", "page: verify", AUDITING, verify, "Verify a seal."),
    Route(
        "GET", "/data/{dataset}/certificate", "page: certificate", AUDITING, certificate,
        "The certificate as a file.",
    ),
)  # fmt: skip
