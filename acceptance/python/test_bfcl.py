"""Multi-turn dialogues of BFCL (PyPI `bfcl-eval`): eight APIs as MCP servers, a scripted model, the package's own checker.

A few dialogues by default; `python -m bfcl` takes all 800, and so does this with `TOOLCRIB_BFCL=all`."""

import os
from collections.abc import Iterator
from contextlib import closing

import pytest

from bfcl.__main__ import PRICES, stage
from bfcl.apis import Apis
from bfcl.dialogues import APIS, misfits, read, tools
from bfcl.drive import Drive, Outcome
from bfcl.engine import Engine
from bfcl.standin import StandIn

ALL = os.environ.get("TOOLCRIB_BFCL") == "all"
DIALOGUES = read()
# One of each category, spread over the APIs.
FEW = DIALOGUES if ALL else DIALOGUES[7::173]
Stage = tuple[Apis, Engine, Drive]


@pytest.fixture(scope="module")
def staged() -> Iterator[Stage]:
    with stage(PRICES) as parts:
        yield parts


def faults(outcomes: list[Outcome]) -> dict[str, list[str]]:
    return {one.dialogue: one.faults for one in outcomes if one.faults}


def test_the_package_has_what_is_expected() -> None:
    assert len(DIALOGUES) == 800 and sum(one.calls for one in DIALOGUES) == 4625
    assert sum(len(tools(server)) for server in APIS) == 128
    found = misfits(DIALOGUES)
    print("references that break their own schema:", found)
    assert 0 < len(found) < 10


def test_a_plain_loop_is_judged_valid(staged: Stage) -> None:
    apis, engine, drive = staged
    with closing(StandIn(apis, engine)) as loop:
        assert faults([drive.with_stand_in(loop, one) for one in FEW]) == {}


def test_the_judge_notices_calls_that_are_lost_repeated_or_changed(staged: Stage) -> None:
    apis, engine, drive = staged
    [dialogue] = [one for one in DIALOGUES if one.id == "multi_turn_base_0"]
    with closing(StandIn(apis, engine)) as loop:
        honest = loop.call
        seen: list[str] = []

        def lost(name: str, arguments: dict[str, object]) -> str:
            seen.append(name)
            return "None" if name == "files_mkdir" else honest(name, arguments)

        def repeated(name: str, arguments: dict[str, object]) -> str:
            if name == "files_mv":
                honest(name, arguments)
            return honest(name, arguments)

        def changed(name: str, arguments: dict[str, object]) -> str:
            return honest(name, arguments | ({"dir_name": "other"} if name == "files_mkdir" else {}))

        for dishonest in (lost, repeated, changed):
            loop.call = dishonest
            assert drive.with_stand_in(loop, dialogue).faults, dishonest.__name__
        loop.call = honest
        assert drive.with_stand_in(loop, dialogue).faults == []
    assert "files_mkdir" in seen
