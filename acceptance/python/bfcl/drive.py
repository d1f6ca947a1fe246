"""Takes dialogues through a loop, with a kill of the gateway in each if that is asked for."""

import collections
import json
import random
import statistics
import threading
import time
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from .apis import World
from .dialogues import Dialogue, Reference
from .engine import CALL, Count, Engine, Script
from .gateway import SECONDS, Gateway
from .judge import Judge
from .standin import StandIn

MOMENTS = ("time", "asked", "answered", "call", "result")
# What a gateway says before the result of a call that failed.
FAILED = ("error: ", "")


@dataclass
class Outcome:
    """What came of one dialogue."""

    dialogue: str
    category: str
    faults: list[str] = field(default_factory=list)
    count: Count = field(default_factory=Count)
    ranks: list[int] = field(default_factory=list)
    searches: int = 0
    lost: int = 0
    # The moment of the kill, and how the calls that were under way were settled.
    killed: str | None = None
    settled: list[str] = field(default_factory=list)


class Kill:
    """Kills the gateway once, at a moment of a dialogue that no one knows before."""

    def __init__(self, dialogue: Dialogue, gateway: Gateway, seed: str, seconds: float) -> None:
        chance = random.Random(f"{seed} {dialogue.id}")
        self.gateway, self.killed, self.seen = gateway, False, 0
        self.moment = chance.choice(MOMENTS)
        made = sum(call.fault() is None for turn in dialogue.turns for call in turn)
        # Each turn asks the model at least once.
        self.place = chance.randrange(max(1, made) if self.moment in ("call", "result") else len(dialogue.turns))
        self.timer = threading.Timer(chance.uniform(0, seconds), self.now)
        if self.moment == "time":
            self.timer.start()

    def now(self) -> None:
        self.killed = True
        self.gateway.kill()

    def watch(self, moment: str) -> bool:
        """Whether what begins at this moment happens: a call may be lost on its way."""
        if moment != self.moment or self.killed:
            return True
        self.seen += 1
        if self.seen <= self.place:
            return True
        self.now()
        return moment != "call"

    def close(self) -> str:
        self.timer.cancel()
        if self.killed:
            return self.moment
        self.now()
        return "end"


class Drive:
    """Dialogues, one after the other."""

    def __init__(self, world: World, engine: Engine, reading: set[tuple[str, str]], prices: dict[str, str]) -> None:
        self.world, self.engine, self.reading, self.prices = world, engine, reading, prices
        self.seconds: list[float] = []

    def with_stand_in(self, loop: StandIn, dialogue: Dialogue) -> Outcome:
        outcome, script, judge = self.begin(dialogue, "all")
        loop.begin()
        for number, words in enumerate(dialogue.users):
            self.world.turn = script.turn = number
            loop.say(words)
            self.judged(judge, script, number)
        return self.end(outcome, script, judge)

    def with_gateway(self, gateway: Gateway, dialogue: Dialogue, shown: str, seed: str | None = None) -> Outcome:
        outcome, script, judge = self.begin(dialogue, shown)
        started = time.monotonic()
        typical = statistics.mean(self.seconds[-20:]) if self.seconds else 0.5
        kill = Kill(dialogue, gateway, seed, typical) if seed is not None else None
        if kill:
            self.world.watch = self.engine.watch = kill.watch
        runs: list[str] = []
        try:
            for number, words in enumerate(dialogue.users):
                self.world.turn = script.turn = number
                if number == 0 or not gateway.converses:
                    runs.append(gateway.begin(shown, words))
                else:
                    gateway.say(runs[-1], words)
                answer = self.finish(gateway, runs[-1], script, outcome)
                if answer["end"] != "done":
                    outcome.faults.append(f"turn {number}: the run ended: {answer['end']}: {answer.get('output', '')}")
                    return outcome
                self.judged(judge, script, number)
            if kill is None:
                self.seconds.append(time.monotonic() - started)
        finally:
            self.world.watch = self.engine.watch = lambda _moment: True
            if kill:
                outcome.killed = kill.close()
        self.compare([gateway.get(f"/runs/{run}") for run in runs], script, outcome)
        return self.end(outcome, script, judge)

    # === parts ===

    def begin(self, dialogue: Dialogue, shown: str) -> tuple[Outcome, Script, Judge]:
        self.world.begin(dialogue)
        script = self.engine.begin(dialogue, shown)
        return Outcome(dialogue.id, dialogue.category), script, Judge(dialogue, self.world)

    def judged(self, judge: Judge, script: Script, number: int) -> None:
        turn = judge.dialogue.turns[number]
        results = []
        for call, result in zip(turn, script.seen, strict=True) if turn else []:
            if result is None:
                judge.faults.append(f"turn {number}: {call.text} has no result")
            elif call.fault() is None:
                results.append(self.as_made(number, call, result))
            elif "invalid arguments" not in result:
                judge.faults.append(f"turn {number}: {call.text} is not refused: {result[:200]}")
        judge.turn(number, results)
        made = collections.Counter(
            (one.server, one.tool, json.dumps(one.arguments, sort_keys=True))
            for one in self.world.executed
            if one.turn == number and (one.server, one.tool) not in self.reading
        )
        wanted = collections.Counter(
            (one.server, one.tool, json.dumps(one.arguments, sort_keys=True))
            for one in turn
            if one.fault() is None and (one.server, one.tool) not in self.reading
        )
        if made != wanted:
            judge.faults.append(f"turn {number}: calls that change something: {made} in place of {wanted}")

    def as_made(self, number: int, call: Reference, seen: str) -> str:
        """The result as the API gave it, if the model saw just that."""
        made = [one.result for one in self.world.executed if one.is_of(number, call.server, call.tool, call.arguments)]
        for result in made:
            shown = seen.split("\n\n[this call gave the same result", 1)[0]
            if shown in [f"{before}{result}" for before in FAILED]:
                return result
        return seen

    def end(self, outcome: Outcome, script: Script, judge: Judge) -> Outcome:
        outcome.faults += script.problems + judge.end()
        outcome.count = script.count
        outcome.ranks = list(script.ranks.values())
        outcome.searches, outcome.lost = len(script.searches), len(script.lost)
        return outcome

    def finish(self, gateway: Gateway, run: str, script: Script, outcome: Outcome) -> dict[str, Any]:
        """Waits until the run has answered; settles what is not known by a look at the APIs."""
        end, patience = time.monotonic() + SECONDS, 0.002
        while True:
            answer = gateway.get(f"/runs/{run}")
            if answer["status"] == "ended" and (answer["end"] != "done" or answer["output"] == script.last()):
                return answer
            for wait in answer.get("waits", []):
                if wait["for"] == "settlement":
                    self.settle(gateway, run, wait["what"], script.turn, outcome)
            assert time.monotonic() < end, f"run {run} does not end: {answer}, {gateway.entries(run)[-8:]}"
            time.sleep(patience)
            patience = min(0.05, patience * 1.5)

    def settle(self, gateway: Gateway, run: str, call: str, turn: int, outcome: Outcome) -> None:
        answers = [entry for entry in gateway.entries(run) if entry["event"] == "answered"]
        number, place = map(int, call.split("."))
        said = answers[number - 1]["calls"][place - 1]
        name, arguments = said["tool"], json.loads(said["arguments"])
        if name == CALL:
            name, arguments = arguments["name"].replace("/", "_", 1), arguments["arguments"]
        done = [
            one
            for one in self.world.executed
            if one.turn == turn and f"{one.server}_{one.tool}" == name and one.arguments == arguments
        ]
        if done:
            body = {"call": call, "settlement": "happened", "result": done[-1].result}
        else:
            # It is repeated in its place: what follows it in the turn waits.
            body = {"call": call, "settlement": "repeat"}
        gateway.settle(run, body)
        outcome.settled.append(body["settlement"])

    def compare(self, answers: list[dict[str, Any]], script: Script, outcome: Outcome) -> None:
        """What the gateway counted beside what the model counted. Answers that were lost cost more than they say."""
        tokens, money = script.count.input + script.count.output, cost(script.count, self.prices)
        spent = [Decimal(answer["cost"].removeprefix("$")) for answer in answers]
        counted = (sum(answer["tokens"] for answer in answers), sum(spent))
        if outcome.killed is None and counted != (tokens, money):
            outcome.faults.append(f"the gateway counted {counted}, the model {(tokens, money)}")
        outcome.faults += [f"after the kill: {answer}" for answer in answers if answer["end"] != "done"]


def cost(count: Count, prices: dict[str, str], cached: int | None = None) -> Decimal:
    """Dollars. What is not cached is written to the cache."""
    price = {name: Decimal(text) for name, text in prices.items()}
    cached = count.cached if cached is None else cached
    fresh = count.input - cached
    return (price["cached"] * cached + price["cache_write"] * fresh + price["output"] * count.output) / 1_000_000


def uncached_cost(count: Count, prices: dict[str, str]) -> Decimal:
    """Dollars without a cache."""
    return (Decimal(prices["input"]) * count.input + Decimal(prices["output"]) * count.output) / 1_000_000
