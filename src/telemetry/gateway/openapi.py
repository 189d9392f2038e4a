"""The OpenAPI document of the gateway, made from its endpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Final

import msgspec

from telemetry.common.distribution import version
from telemetry.gateway.endpoint import JSON, MSGPACK, Endpoint, Failure

_REF: Final = "#/components/schemas/{name}"
_ALWAYS: Final[dict[int, str]] = {
    400: "The body can't be read.",
    401: "The token is missing or wrong.",
    408: "The body did not arrive in time.",
    413: "The body is too large.",
    415: "The content type or encoding is not supported.",
    421: "The Host header names another machine.",
    422: "A field does not fit; `detail` names it.",
}
_WRITING: Final[dict[int, str]] = {
    410: "The run is over.",
    503: "The run can't take anything now. Try again after `Retry-After` seconds.",
    507: "The run has no room left: a part was dropped.",
}
_STATUS: Final[dict[int, str]] = {
    200: "Done.",
    202: "Accepted; the answer says what is not known yet.",
    404: "There is no such thing.",
    501: "The packages for it are not installed.",
    502: "A backend failed.",
    503: "Not available now.",
}


def document(endpoints: Iterable[Endpoint], *, token: bool) -> dict[str, Any]:
    """Return the OpenAPI 3.1 document. `token`: whether requests need one."""
    routes = list(endpoints)
    kinds: dict[Any, None] = {Failure: None}
    for endpoint in routes:
        kinds |= {kind: None for kind in (endpoint.body, endpoint.query) if kind is not None}
        kinds |= {kind: None for kind in endpoint.answers.values() if not _is_media(kind)}
    schemas, components = msgspec.json.schema_components(list(kinds), ref_template=_REF)
    schema_of = dict(zip(kinds, schemas, strict=True))
    paths: dict[str, Any] = {}
    for endpoint in routes:
        paths.setdefault(endpoint.path, {})[endpoint.method.lower()] = _operation(
            endpoint, schema_of, components, token=token
        )
    spec: dict[str, Any] = {
        "openapi": "3.1.0",
        "info": {
            "title": "telemetry gateway",
            "version": version(),
            "description": "Metrics of one run over HTTP.",
        },
        "paths": paths,
        "components": {"schemas": components},
    }
    if token:
        spec["components"]["securitySchemes"] = {"token": {"type": "http", "scheme": "bearer"}}
        spec["security"] = [{"token": []}]
    return spec


def _operation(
    endpoint: Endpoint,
    schema_of: dict[Any, dict[str, Any]],
    components: dict[str, Any],
    *,
    token: bool,
) -> dict[str, Any]:
    name = f"{endpoint.method.lower()}_{endpoint.path[1:].replace('/', '_').replace('.', '_')}"
    operation: dict[str, Any] = {"operationId": name, "summary": endpoint.summary}
    if endpoint.description:
        operation["description"] = endpoint.description
    if endpoint.query is not None:
        schema = components[schema_of[endpoint.query]["$ref"].rpartition("/")[2]]
        required = set(schema.get("required", ()))
        operation["parameters"] = [
            {"name": key, "in": "query", "required": key in required, "schema": of}
            for key, of in schema["properties"].items()
        ]
    if endpoint.body is not None:
        content = {media: {"schema": schema_of[endpoint.body]} for media in endpoint.media_types}
        operation["requestBody"] = {"required": True, "content": content}
    elif endpoint.raw_body:
        operation["requestBody"] = {"required": True, "content": _content(endpoint.media_types)}
    operation["responses"] = _responses(endpoint, schema_of, token=token)
    return operation


def _responses(endpoint: Endpoint, schema_of: dict[Any, dict[str, Any]], *, token: bool) -> dict[str, Any]:
    has_body = endpoint.body is not None or endpoint.raw_body
    failures = {
        status: text
        for status, text in (_ALWAYS | (_WRITING if endpoint.writes else {})).items()
        if (has_body or status in (401, 421) or (status == 422 and endpoint.query is not None))
        and (token or status != 401)
    }
    responses = {
        str(status): {
            "description": text,
            "content": {media: {"schema": schema_of[Failure]} for media in (JSON, MSGPACK)},
        }
        for status, text in failures.items()
    }
    for status, kind in endpoint.answers.items():
        if _is_media(kind):
            content = _content((kind,) if isinstance(kind, str) else kind)
        else:
            content = {media: {"schema": schema_of[kind]} for media in (JSON, MSGPACK)}
        responses[str(status)] = {"description": _STATUS.get(status, "Done."), "content": content}
    return dict(sorted(responses.items()))


def _is_media(answer: Any) -> bool:
    return isinstance(answer, (str, tuple))


def _content(media_types: Iterable[str]) -> dict[str, Any]:
    """Return the content of a body that has no struct: JSON is an object, and other types can't be described."""
    return {media: {"schema": {"type": "object"}} if media == JSON else {} for media in media_types}
