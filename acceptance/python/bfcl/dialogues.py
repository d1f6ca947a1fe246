"""The dialogues as the installed package has them: words of the user, reference calls, tools and their schemas."""

import ast
import functools
import importlib
import inspect
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import bfcl_eval
from bfcl_eval.constants.default_prompts import DEFAULT_USER_PROMPT_FOR_ADDITIONAL_FUNCTION_FC as MORE_TOOLS
from bfcl_eval.constants.executable_backend_config import CLASS_FILE_PATH_MAPPING, MULTI_TURN_FUNC_DOC_FILE_MAPPING
from jsonschema import Draft202012Validator

DATA = Path(bfcl_eval.__path__[0]) / "data"
CATEGORIES = ("base", "miss_func", "miss_param", "long_context")
# The names of the servers, and the classes of the package that they serve.
APIS = {
    "files": "GorillaFileSystem",
    "math": "MathAPI",
    "messages": "MessageAPI",
    "posts": "TwitterAPI",
    "tickets": "TicketAPI",
    "trading": "TradingBot",
    "travel": "TravelAPI",
    "vehicle": "VehicleControlAPI",
}
SERVERS = {name: server for server, name in APIS.items()}
# The package's own names of types, where JSON Schema has others.
TYPES = {"dict": "object", "float": "number", "tuple": "array"}


@dataclass(frozen=True)
class Reference:
    """One call that the reference makes."""

    server: str
    tool: str
    arguments: dict[str, Any]
    text: str

    def fault(self) -> str | None:
        """Why the arguments do not fit the tool's own schema, if they do not."""
        faults = validator(self.server, self.tool).iter_errors(self.arguments)
        return next((fault.message for fault in faults), None)


@dataclass(frozen=True)
class Dialogue:
    """What a user says turn by turn, and what is called then."""

    id: str
    entry: dict[str, Any]
    users: list[str]
    turns: list[list[Reference]]

    @property
    def category(self) -> str:
        return self.id.removeprefix("multi_turn_").rsplit("_", 1)[0]

    @property
    def calls(self) -> int:
        return sum(len(turn) for turn in self.turns)

    def words(self, turn: int) -> str:
        """What the user wants in a turn: its words, and those before that could not be answered."""
        first = turn
        while first > 0 and not self.turns[first - 1]:
            first -= 1
        return "\n".join(self.users[one] for one in range(first, turn + 1) if self.users[one] != MORE_TOOLS)


def lines(path: Path) -> list[dict[str, Any]]:
    with path.open(encoding="utf-8") as file:
        return [json.loads(line) for line in file if line.strip()]


def as_json_schema(value: Any) -> Any:
    """A schema in the words of JSON Schema."""
    if isinstance(value, list):
        return [as_json_schema(one) for one in value]
    if not isinstance(value, dict):
        return value
    out = {}
    for key, inner in value.items():
        if key == "properties":
            out[key] = {name: as_json_schema(one) for name, one in inner.items()}
        elif key == "type" and isinstance(inner, str):
            out[key] = TYPES.get(inner, inner)
        else:
            out[key] = as_json_schema(inner)
    return out


@functools.cache
def api(server: str) -> type:
    """The class that a server serves."""
    return getattr(importlib.import_module(CLASS_FILE_PATH_MAPPING[APIS[server]]), APIS[server])


@functools.cache
def tools(server: str) -> dict[str, dict[str, Any]]:
    """The tools of a server by name: `description` and `schema`."""
    found = lines(DATA / "multi_turn_func_doc" / MULTI_TURN_FUNC_DOC_FILE_MAPPING[APIS[server]])
    return {
        one["name"]: {"description": one["description"], "schema": as_json_schema(one["parameters"])} for one in found
    }


@functools.cache
def validator(server: str, tool: str) -> Draft202012Validator:
    return Draft202012Validator(tools(server)[tool]["schema"])


def reference(text: str, classes: list[str]) -> Reference:
    """A call in Python's syntax. Arguments without a name are those of the function, in its order."""
    call = ast.parse(text, mode="eval").body
    assert isinstance(call, ast.Call) and isinstance(call.func, ast.Name), text
    tool = call.func.id
    server = next(SERVERS[name] for name in classes if tool in tools(SERVERS[name]))
    # The schema of one tool has another order than its function.
    names = list(inspect.signature(getattr(api(server), tool)).parameters)[1:]
    arguments = {names[place]: ast.literal_eval(value) for place, value in enumerate(call.args)}
    arguments |= {str(one.arg): ast.literal_eval(one.value) for one in call.keywords}
    # As they are after they went through JSON.
    return Reference(server, tool, json.loads(json.dumps(arguments)), text)


def read(categories: tuple[str, ...] = CATEGORIES) -> list[Dialogue]:
    found = []
    for category in categories:
        file = f"BFCL_v4_multi_turn_{category}.json"
        truths = {one["id"]: one["ground_truth"] for one in lines(DATA / "possible_answer" / file)}
        for entry in lines(DATA / file):
            users = ["\n".join(said["content"] for said in turn) or MORE_TOOLS for turn in entry["question"]]
            turns = [[reference(text, entry["involved_classes"]) for text in turn] for turn in truths[entry["id"]]]
            found.append(Dialogue(entry["id"], entry, users, turns))
    return found


def misfits(dialogues: list[Dialogue]) -> list[tuple[str, str, str]]:
    """The references that break their own schema: dialogue, call and fault."""
    references = ((one.id, call) for one in dialogues for turn in one.turns for call in turn)
    return [(name, call.text, fault) for name, call in references if (fault := call.fault())]
