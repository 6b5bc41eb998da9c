"""The OpenAPI 3.1 description of the API, made from the endpoints and their types."""

import re
from collections.abc import Sequence
from inspect import cleandoc
from typing import Any

import msgspec

import rareswitch
from rareswitch.service.endpoint import ANYBODY, Endpoint
from rareswitch.service.problems import MEDIA_TYPE, describe_problems

REFERENCE = "#/components/schemas/{name}"
_PART = re.compile(r"\{(\w+)(?::(\w+))?\}")
JSON = "application/json"
ONE_REPORT = {
    "type": "object",
    "description": "A report; docs/campaigns/recording.md has its fields.",
}
IF_MATCH = {
    "name": "If-Match",
    "in": "header",
    "required": True,
    "description": "The digest of the candidate.",
    "schema": {"type": "string"},
}


def describe(endpoints: Sequence[Endpoint]) -> dict[str, Any]:
    """Return the description of all endpoints except pages."""
    described = [one for one in endpoints if not one.is_page]
    types = [*dict.fromkeys(_types(described))]
    made, named = msgspec.json.schema_components(types, ref_template=REFERENCE)
    schemas, components = [_modern(one) for one in made], _modern(named)
    known = dict(zip(map(_key, types), schemas, strict=True))
    paths: dict[str, Any] = {}
    for one in described:
        path = _PART.sub(lambda part: f"{{{part[1]}}}", one.path)
        paths.setdefault(path, {})[one.method.lower()] = _operation(one, known, components)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "rareswitch",
            "version": rareswitch.__version__,
            "description": "Campaigns over HTTP: assignments, reports, decisions and the record.",
        },
        "paths": paths,
        "components": {
            "schemas": {**components, "Problem": describe_problems()},
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"token": []}],
    }


def _types(endpoints: Sequence[Endpoint]) -> list[Any]:
    found: list[Any] = []
    for one in endpoints:
        found += [kind for kind in (one.body, one.query) if kind is not None]
        found += [kind for kind in one.answers.values() if kind not in (None, bytes)]
    return found


def _modern(schema: Any) -> Any:
    """Convert a schema to OpenAPI 3.1: the items of a tuple become `prefixItems`."""
    if isinstance(schema, list | tuple):
        return [_modern(one) for one in schema]
    if not isinstance(schema, dict):
        return schema
    found = {name: _modern(value) for name, value in schema.items()}
    if isinstance(found.get("items"), list):
        found["prefixItems"] = found.pop("items")
    return found


def _key(kind: Any) -> str:
    return repr(kind)


def _operation(one: Endpoint, known: dict[str, Any], components: dict[str, Any]) -> dict[str, Any]:
    text = cleandoc(one.handler.__doc__ or "")
    parameters = [_path_part(name, kind) for name, kind in _PART.findall(one.path)]
    if one.query is not None:
        parameters += _query(components[one.query.__name__])
    if "If-Match" in text:
        parameters.append(IF_MATCH)
    made: dict[str, Any] = {
        "operationId": one.name,
        "summary": text.partition("\n")[0],
        "description": f"{text}\n\nAction: {one.action or 'none'}.",
        "responses": {
            str(status): _answer(one, kind, known) for status, kind in one.answers.items()
        }
        | {"default": {"description": "A problem.", "content": {MEDIA_TYPE: _PROBLEM}}},
    }
    if parameters:
        made["parameters"] = parameters
    if one.body is not None:
        content = {JSON: {"schema": known[_key(one.body)]}}
        made["requestBody"] = {"required": True, "content": content}
    elif one.name == "record":
        either = {"oneOf": [ONE_REPORT, {"type": "array", "items": ONE_REPORT}]}
        content = {JSON: {"schema": either}, "application/x-ndjson": {"schema": {}}}
        made["requestBody"] = {"required": True, "content": content}
    if one.action == ANYBODY:
        made["security"] = []
    return made


# The schema of a stream's event; `data` is JSON text.
EVENT = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in ("event", "data", "id")},
    "required": ["event", "data"],
}
_PROBLEM = {"schema": {"$ref": "#/components/schemas/Problem"}}


def _answer(one: Endpoint, kind: Any, known: dict[str, Any]) -> dict[str, Any]:
    if kind is None:
        return {"description": "No content."}
    schema = {"type": "string"} if kind is bytes else known[_key(kind)]
    if one.media_type == "text/event-stream":
        schema = EVENT
    return {"description": "The answer.", "content": {one.media_type: {"schema": schema}}}


def _path_part(name: str, kind: str) -> dict[str, Any]:
    schema = {"type": "integer", "minimum": 0} if kind == "int" else {"type": "string"}
    return {"name": name, "in": "path", "required": True, "schema": schema}


def _query(schema: dict[str, Any]) -> list[dict[str, Any]]:
    """Return the parameters of a query from the schema of its type."""
    return [
        {
            "name": name,
            "in": "query",
            "required": name in schema.get("required", ()),
            "schema": part,
        }
        for name, part in schema["properties"].items()
    ]
