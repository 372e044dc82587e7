"""The part of the HTTP interface for owners: tokens, quotas, tables, data sets and long work."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from scumble.private.ledger.ledger import Ledger
from scumble.server.catalogue import DatabaseDataset
from scumble.server.http.routes import AUDITING, OWNER, Call, Field, Result, api_route
from scumble.server.problems import Problem
from scumble.server.publishing.service import UPLOAD

if TYPE_CHECKING:
    from scumble.server.publishing.jobs import Job
    from scumble.server.service import Service

# --- tokens, quotas -------------------------------------------------------------------------------


def list_tokens(service: Service, call: Call) -> Result:
    return Result({"tokens": [each.public() for each in service.tokens.all()]})


def create_token(service: Service, call: Call) -> Result:
    body = call.body
    for name in body.get("datasets", ()):
        if service.catalogue.get(name) is None:
            raise Problem(422, f"There is no data set {name[:60]!r}.", {"member": "datasets"})
    text, token = service.tokens.create(
        body["role"], body["name"], days=body.get("days"), datasets=body.get("datasets")
    )
    return Result({"token": text, **token.public()}, status=201)


def usage(service: Service, call: Call) -> Result:
    return Result({"analysts": [asdict(each) for each in call.data.usage()]})


def set_quota(service: Service, call: Call) -> Result:
    call.data.set_quota(call.body["analyst"], call.body.get("epsilon"))
    return Result({"analysts": [asdict(each) for each in call.data.usage()]})


def revoke_token(service: Service, call: Call) -> Result:
    return Result(service.tokens.revoke(call.path["prefix"]).public())


def stop_dataset(service: Service, call: Call) -> Result:
    service.catalogue.remove(call.data.name)
    return Result({"stopped": call.data.name})


# --- tables and what is made of them --------------------------------------------------------------


def sources(service: Service, call: Call) -> Result:
    configured = [{"source": each.name, "title": each.title} for each in service.settings.sources]
    sent = [
        {"source": UPLOAD + each.number, "title": each.title}
        for each in service.publishing.drafts()
    ]
    return Result({"sources": [*configured, *sent]})


def upload(service: Service, call: Call) -> Result:
    draft = call.body["draft"]
    return Result({"source": UPLOAD + draft.number, "title": draft.title}, status=201)


def delete_upload(service: Service, call: Call) -> Result:
    draft = service.publishing.draft(call.path["upload"])
    service.publishing.delete(draft)
    return Result({"deleted": UPLOAD + draft.number})


def propose(service: Service, call: Call) -> Result:
    source, publishing = call.body["source"], service.publishing
    known = source.startswith(UPLOAD)
    draft = publishing.draft(source.removeprefix(UPLOAD)) if known else publishing.new_draft(source)
    return _begun(publishing.propose(draft))


def create_dataset(service: Service, call: Call) -> Result:
    body = call.body
    recipe = _recipe(call)
    return _begun(
        service.publishing.make(
            body["name"],
            body["source"],
            body["schema"],
            recipe,
            title=body.get("title", ""),
            description=body.get("description", ""),
        )
    )


def _recipe(call: Call) -> dict[str, object]:
    body = call.body
    release, database = "method" in body, "epsilon" in body and "noise" in body
    if release == database:
        raise Problem(
            422, "Give method and parameters for a release, or epsilon and noise for a database."
        )
    if release:
        parameters = body.get("parameters", {})
        return {"kind": "release", "method": body["method"], "parameters": parameters}
    asked = {"attributes": body.get("attributes")}
    return {"kind": "database", "epsilon": body["epsilon"], "noise": body["noise"], **asked}


def append(service: Service, call: Call) -> Result:
    if not isinstance(call.data, DatabaseDataset):
        live = "Rows cannot be added to a live database."
        release = "Rows are added to databases; a release is published once."
        raise Problem(409, live if call.data.kind == "live" else release)
    body = call.body
    return _begun(service.publishing.append(call.data, body["source"], body.get("key")))


def list_jobs(service: Service, call: Call) -> Result:
    return Result({"jobs": [each.public() for each in service.publishing.jobs.all()]})


def get_job(service: Service, call: Call) -> Result:
    return Result(service.publishing.jobs.get(call.path["job"]).public())


def cancel_job(service: Service, call: Call) -> Result:
    return Result(service.publishing.jobs.cancel(call.path["job"]).public())


def owner_ledger(service: Service, call: Call) -> Result:
    if service.settings.ledger is None:
        raise Problem(409, "No ledger is configured: [server] ledger names its folder.")
    ledger = Ledger.open(service.settings.ledger)
    if call.user.datasets is not None:  # of other data sets it sees nothing, and no total of all
        known = service.publishing.charges()
        own = {known.get(name) for name in call.user.datasets}
        return Result({"charges": [e.to_dict() for e in ledger.charges if e.number in own]})
    return Result(
        {
            "seal": ledger.seal,
            "total": ledger.statement().to_dict(),
            "charges": [each.to_dict() for each in ledger.charges],
        }
    )


def _begun(job: Job) -> Result:
    return Result(job.public(), status=202, headers={"Location": f"/api/v1/jobs/{job.number}"})


_DATASET = "datasets/{dataset}"
_SOURCE = Field("source", "string", "A source of the configuration, or upload:NUMBER.", True)
ROUTES = (
    api_route(
        "GET", f"{_DATASET}/usage", "usage", OWNER, usage,
        "What each analyst asked and was charged, with the quotas.", statuses=(409,),
    ),
    api_route(
        "POST", f"{_DATASET}/quotas", "quota", OWNER, set_quota,
        "Give an analyst a part of epsilon, change it, or end it.",
        body=(
            Field("analyst", "string", "The name of the analyst's token.", True, longest=60),
            Field(
                "epsilon", "number", "Their part of epsilon; null ends the quota.",
                least=0, most=1e6,
            ),
        ),
        statuses=(409,),
    ),
    api_route("GET", "tokens", "tokens", OWNER, list_tokens, "All tokens; never their text."),
    api_route(
        "POST", "tokens", "create token", OWNER, create_token,
        "Make a token. Its text is in this response only.",
        body=(
            Field("role", "string", "Its role.", True, ("owner", "analyst", "auditor")),
            Field("name", "string", "Who uses it; analysts have quotas by name.", True, longest=60),
            Field("days", "number", "Days until it expires.", least=0.001, most=36_500),
            Field("datasets", "strings", "The data sets that it is for; all by default."),
        ),
        statuses=(201,),
    ),
    api_route(
        "DELETE", "tokens/{prefix}", "revoke token", OWNER, revoke_token, "Revoke a token.",
        statuses=(422,),
    ),
    api_route(
        "DELETE", _DATASET, "stop dataset", OWNER, stop_dataset,
        "Stop serving a data set, until the server starts again. Its files stay.",
    ),
    api_route(
        "GET", "sources", "sources", OWNER, sources,
        "Tables that something can be made of: of the configuration, and sent.",
    ),
    api_route(
        "POST", "uploads", "upload", OWNER, upload,
        "Send a table: a CSV or Parquet file as the body. Only the server reads it.",
        query=(Field("name", "string", "The name of the file, for its kind.", True, longest=200),),
        statuses=(201,), upload=True,
    ),
    api_route(
        "DELETE", "uploads/{upload}", "delete upload", OWNER, delete_upload,
        "Delete a table that was sent. What was made of it stays.", statuses=(404, 409),
    ),
    api_route(
        "POST", "schemas", "propose schema", OWNER, propose,
        "Propose a schema by reading the table; a job, whose result has it as TOML.",
        body=(_SOURCE,), statuses=(202, 404, 409),
    ),
    api_route(
        "POST", "datasets", "create dataset", OWNER, create_dataset,
        "Make a release or a database of a source, and serve it; a job.",
        body=(
            Field("name", "string", "Its name in addresses.", True, longest=40),
            _SOURCE,
            Field("schema", "string", "The schema, as TOML.", True),
            Field("title", "string", "Its name for people.", longest=100),
            Field("description", "string", "What it is about, in a line.", longest=300),
            Field("method", "string", "Of a release, as on the command line.", longest=40),
            Field("parameters", "object", "The parameters of the method."),
            Field("epsilon", "number", "Of a database: for all answers.", least=0, most=1e6),
            Field("noise", "number", "Of a database: of one count.", least=0, most=1e12),
            Field("attributes", "strings", "Of a database: what can be asked about."),
        ),
        statuses=(202, 404, 409),
    ),
    api_route(
        "POST", f"{_DATASET}/append", "append", OWNER, append,
        "Add rows of new people to a database; a job.",
        body=(_SOURCE, Field("key", "string", "Idempotency key.", longest=120)),
        statuses=(202, 409),
    ),
    api_route("GET", "jobs", "jobs", OWNER, list_jobs, "Long work, and how far it is."),
    api_route(
        "GET", "jobs/{job}", "job", OWNER, get_job, "One job, with its result.", statuses=(404,)
    ),
    api_route(
        "DELETE", "jobs/{job}", "cancel job", OWNER, cancel_job, "Cancel a job.", statuses=(404,)
    ),
    api_route(
        "GET", "ledger", "owner ledger", AUDITING, owner_ledger,
        "The owner's ledger: what was charged for releases and databases. A token for some data "
        "sets gets the charges for these.", statuses=(409,),
    ),
)  # fmt: skip
