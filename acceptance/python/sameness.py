"""What two results must have in common: everything but the clock and the keys that each hop stamps anew."""

import base64
import re
from typing import Any

CLOCK = re.compile(r"\d{1,2}:\d{2}:\d{2}(\s?[AP]M)?")
# Two servers of one program offer the same URIs; the gateway tells them apart by their names.
OWNER = re.compile(r"\beverything(-http)?\+(?=demo://)")
RESERVED = "io.modelcontextprotocol/"
# The envelope of a modern result; it belongs to the hop, not to the server.
ENVELOPE = {"resultType", "ttlMs", "cacheScope", "nextCursor"}


def plain(result: Any) -> Any:
    """The result as JSON, without what may differ between two honest answers to the same call."""
    settled = settle({key: value for key, value in dump(result).items() if key not in ENVELOPE})
    if settled.get("isError") is False:
        del settled["isError"]  # what an absent one means
    return settled


def dump(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=False, exclude_unset=True)


def settle(value: Any) -> Any:
    if isinstance(value, dict):
        settled = {key: settle_blob(inner) if key == "blob" else settle(inner) for key, inner in value.items()}
        meta = settled.get("_meta")
        if isinstance(meta, dict):
            kept = {key: inner for key, inner in meta.items() if not key.startswith(RESERVED)}
            settled.pop("_meta")
            if kept:
                settled["_meta"] = kept
        return {key: inner for key, inner in settled.items() if not (key == "_meta" and inner is None)}
    if isinstance(value, list):
        return [settle(inner) for inner in value]
    if isinstance(value, str):
        return OWNER.sub("", CLOCK.sub("<clock>", value))
    return value


def settle_blob(value: Any) -> Any:
    """A blob that is a text with the time of day in it is compared as that text."""
    try:
        return settle(base64.b64decode(value, validate=True).decode("utf-8"))
    except (ValueError, TypeError):
        return value


def text(result: Any) -> str:
    """All text blocks of a result, one after the other."""
    return "\n".join(block.text for block in result.content if block.type == "text")
