"""What the package's own checker says of a dialogue: of the calls that reached the APIs, of the state that these really
have after each turn, and of the results that the model really saw."""

import itertools
from typing import Any

from bfcl_eval.eval_checker.multi_turn_eval import multi_turn_utils
from bfcl_eval.eval_checker.multi_turn_eval.multi_turn_checker import (
    multi_turn_checker,
    multi_turn_irrelevance_checker,
    response_checker,
    state_checker,
)

from .apis import World
from .dialogues import Dialogue

NUMBERS = itertools.count(1)


class Judge:
    """Follows one dialogue turn by turn."""

    def __init__(self, dialogue: Dialogue, world: World) -> None:
        self.dialogue, self.world = dialogue, world
        # The checker keeps its instances by name; no two may share one.
        self.name = f"judge{next(NUMBERS)}"
        # A reference that breaks its own schema is refused by the gateway; the rest is the truth.
        self.truth = [[call.text for call in turn if call.fault() is None] for turn in dialogue.turns]
        self.results: list[str] = []
        self.faults: list[str] = []

    def turn(self, number: int, results: list[str]) -> None:
        """Compares state and results after a turn."""
        self.results += results
        expected, instances = multi_turn_utils.execute_multi_turn_func_call(
            func_call_list=self.truth[number],
            initial_config=self.dialogue.entry["initial_config"],
            involved_classes=self.dialogue.entry["involved_classes"],
            model_name=f"{self.name}_truth",
            test_entry_id=self.dialogue.id,
            long_context=self.dialogue.category == "long_context",
            is_evaL_run=True,
        )
        self.take(number, state_checker(self.world.instances, instances))
        self.take(number, response_checker(self.results, expected, number))

    def end(self) -> list[str]:
        """What the checker says of all calls; every fault so far."""
        calls: list[list[list[str]]] = []
        for number in range(len(self.truth)):
            made = [call.text for call in self.world.executed if call.turn == number]
            calls.append([made] if made else [])
        self.take(None, multi_turn_checker(calls, self.truth, self.dialogue.entry, self.dialogue.id, self.name))
        self.take(None, multi_turn_irrelevance_checker(calls, self.truth))
        kept = vars(multi_turn_utils)
        for name in [name for name in kept if name.startswith(f"{self.name}_")]:
            del kept[name]
        return self.faults

    def take(self, turn: int | None, verdict: dict[str, Any]) -> None:
        if not verdict["valid"]:
            where = "" if turn is None else f"turn {turn}: "
            text = verdict.get("details", {}).get("differences") or verdict.get("details", {}).get("missing_items", "")
            self.faults.append(f"{where}{verdict['error_message']} {str(text)[:400]}")
