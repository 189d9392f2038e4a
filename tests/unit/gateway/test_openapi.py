"""The OpenAPI document: complete, valid, and without loose ends."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from openapi_spec_validator import OpenAPIV31SpecValidator

from telemetry.gateway import openapi
from telemetry.gateway.routes import ENDPOINTS


def documented(*, token: bool = False) -> dict[str, Any]:
    """Return the document as a client reads it."""
    return dict(msgspec.json.decode(msgspec.json.encode(openapi.document(ENDPOINTS, token=token))))


def references(node: Any) -> Iterator[str]:
    if isinstance(node, dict):
        if isinstance(node.get("$ref"), str):
            yield node["$ref"]
        mapping = (
            node.get("discriminator", {}).get("mapping", {}) if isinstance(node.get("discriminator"), dict) else {}
        )
        yield from mapping.values()
        for inner in node.values():
            yield from references(inner)
    elif isinstance(node, list):
        for inner in node:
            yield from references(inner)


@pytest.mark.parametrize("token", [False, True])
def test_the_document_is_valid(token: bool) -> None:
    """The document is valid by the schema of OpenAPI 3.1, including all JSON schemas in it."""
    OpenAPIV31SpecValidator(documented(token=token)).validate()


def test_every_endpoint_is_in_it() -> None:
    """Each with a name of its own and all its answers."""
    document = documented()
    names = set()
    for endpoint in ENDPOINTS:
        operation = document["paths"][endpoint.path][endpoint.method.lower()]
        names.add(operation["operationId"])
        assert set(map(str, endpoint.answers)) <= set(operation["responses"])
        assert "421" in operation["responses"]
        assert ("requestBody" in operation) == (endpoint.body is not None or endpoint.raw_body)
        if endpoint.body is not None:
            assert set(operation["requestBody"]["content"]) == set(endpoint.media_types)
            assert {"400", "413", "415", "422"} <= set(operation["responses"])
        if endpoint.writes:
            assert {"410", "503"} <= set(operation["responses"])
        if endpoint.query is not None:
            parameters = {parameter["name"] for parameter in operation["parameters"]}
            assert parameters == set(endpoint.query.__struct_encode_fields__)
            assert "422" in operation["responses"]
    assert len(names) == len(ENDPOINTS)
    assert sum(len(methods) for methods in document["paths"].values()) == len(ENDPOINTS)


def test_every_reference_resolves() -> None:
    """Every reference of the document resolves, and every schema is used."""
    document = documented()
    found = set(references(document))
    schemas = {f"#/components/schemas/{name}" for name in document["components"]["schemas"]}
    assert found <= schemas
    queries = {f"#/components/schemas/{endpoint.query.__name__}" for endpoint in ENDPOINTS if endpoint.query}
    assert schemas - found <= queries


def test_a_token_is_documented_only_where_it_is_demanded() -> None:
    """Clients made from the document then ask for it."""
    with_token, without = documented(token=True), documented()
    assert with_token["security"] == [{"token": []}]
    assert with_token["components"]["securitySchemes"]["token"]["scheme"] == "bearer"
    assert "security" not in without
    for methods in with_token["paths"].values():
        assert all("401" in operation["responses"] for operation in methods.values())
    for methods in without["paths"].values():
        assert all("401" not in operation["responses"] for operation in methods.values())


def test_events_are_told_apart_by_their_type() -> None:
    """A client that is made from the document sends the right fields."""
    events = documented()["components"]["schemas"]["Events"]["properties"]["events"]["items"]
    assert set(events["discriminator"]["mapping"]) == {
        *("count", "sample", "gauge", "expect", "mark", "params", "step", "end_step", "span", "text", "artifact"),
    }
    assert events["discriminator"]["propertyName"] == "type"
