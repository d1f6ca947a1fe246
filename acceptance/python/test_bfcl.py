"""Multi-turn dialogues of BFCL (PyPI `bfcl-eval`) as agent runs: eight APIs as MCP servers, a scripted model, the package's
own checker, and a kill -9 of the gateway in the middle.

A few dialogues by default; `python -m bfcl --binary …` takes all 800, and so does this with `TOOLCRIB_BFCL=all`."""

import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from bfcl.__main__ import PRICES, served, stage, table
from bfcl.apis import Apis
from bfcl.dialogues import APIS, Dialogue, misfits, read, tools
from bfcl.drive import Drive, Outcome
from bfcl.engine import Engine
from bfcl.gateway import SHOWN, Gateway
from bfcl.standin import StandIn
from doors import GATEWAY

ALL = os.environ.get("TOOLCRIB_BFCL") == "all"
DIALOGUES = read()
# One of each category, spread over the APIs.
FEW = DIALOGUES if ALL else DIALOGUES[7::173]
Stage = tuple[Apis, Engine, Drive]


@pytest.fixture(scope="module")
def staged() -> Iterator[Stage]:
    with stage(PRICES) as parts:
        yield parts


@pytest.fixture(scope="module")
def gateway(staged: Stage, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    apis, engine, _ = staged
    assert GATEWAY is not None
    with served(Path(GATEWAY["stdio"]["command"]), tmp_path_factory.mktemp("bfcl"), apis, engine, PRICES) as one:
        yield one


def faults(outcomes: list[Outcome]) -> dict[str, list[str]]:
    return {one.dialogue: one.faults for one in outcomes if one.faults}


def breaking() -> Dialogue:
    """The first dialogue with a reference that breaks its own schema."""
    name = misfits(DIALOGUES)[0][0]
    return next(one for one in DIALOGUES if one.id == name)


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


@pytest.mark.gateway
@pytest.mark.parametrize("shown", SHOWN)
def test_dialogues_are_valid(staged: Stage, gateway: Gateway, shown: str) -> None:
    outcomes = [staged[2].with_gateway(gateway, one, shown) for one in FEW]
    print(table({shown: outcomes}, PRICES))
    assert faults(outcomes) == {}
    assert (shown == "all") == all(one.searches == 0 for one in outcomes)


@pytest.mark.gateway
def test_a_reference_that_breaks_its_own_schema_is_refused(staged: Stage, gateway: Gateway) -> None:
    assert staged[2].with_gateway(gateway, breaking(), "all").faults == []


@pytest.mark.gateway
@pytest.mark.parametrize("shown", SHOWN)
def test_dialogues_are_valid_with_a_kill_in_each(staged: Stage, gateway: Gateway, shown: str) -> None:
    starts = gateway.starts
    outcomes = [staged[2].with_gateway(gateway, one, shown, seed=f"a test {shown}") for one in FEW]
    assert faults(outcomes) == {}
    assert gateway.starts == starts + len(FEW)
