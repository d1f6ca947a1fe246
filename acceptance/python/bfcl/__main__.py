"""All dialogues with the gateway, and the table of what they cost."""

import argparse
import contextlib
import shutil
import tempfile
import time
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

from .apis import Apis, World, read_only
from .dialogues import CATEGORIES, Dialogue, misfits, read
from .drive import Drive, Outcome, cost, uncached_cost
from .engine import TOKEN, Count, Engine
from .gateway import SHOWN, Gateway
from .standin import StandIn

# Dollars for a million tokens.
PRICES = {"input": "3", "cached": "0.30", "cache_write": "3.75", "output": "15"}
BEGIN, END = "<!-- bfcl:begin -->", "<!-- bfcl:end -->"


@contextlib.contextmanager
def stage(prices: dict[str, str]) -> Iterator[tuple[Apis, Engine, Drive]]:
    """The servers, the model and the driver."""
    world = World()
    reading = read_only(read(("base",)))
    apis, engine = Apis(world, reading), Engine()
    try:
        yield apis, engine, Drive(world, engine, reading, prices)
    finally:
        engine.close()
        apis.close()


@contextlib.contextmanager
def served(binary: Path, home: Path, apis: Apis, engine: Engine, prices: dict[str, str]) -> Iterator[Gateway]:
    gateway = Gateway(binary, home, apis, engine, prices)
    gateway.start()
    try:
        yield gateway
    finally:
        gateway.close()


def report(name: str, outcomes: list[Outcome], seconds: float) -> bool:
    """Says what came of it; gives whether all is well."""
    wrong = [outcome for outcome in outcomes if outcome.faults]
    for outcome in wrong:
        print(f"{outcome.dialogue} ({name}): killed {outcome.killed}, settled {outcome.settled}")
        for fault in outcome.faults:
            print(f"    {fault}")
    print(f"{name}: {len(outcomes) - len(wrong)} of {len(outcomes)} valid, {seconds:.0f} s")
    kills = [outcome.killed for outcome in outcomes if outcome.killed]
    if kills:
        counts = ", ".join(f"{moment} {kills.count(moment)}" for moment in sorted(set(kills)))
        settled = [one for outcome in outcomes for one in outcome.settled]
        happened = settled.count("happened")
        print(f"    killed at: {counts}; unknown calls: {happened} happened, {len(settled) - happened} did not")
    return not wrong


def table(rows: dict[str, list[Outcome]], prices: dict[str, str]) -> str:
    """Tokens and money of each way to show tools, in Markdown."""
    lines = [
        "| tools | dialogues | valid | requests | input tokens | of them cached | output tokens | money | with the head"
        " shared by dialogues | without a cache |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for shown, outcomes in rows.items():
        for category in ("all", *CATEGORIES):
            some = [one for one in outcomes if category in ("all", one.category)]
            if not some:
                continue
            count = Count()
            for one in some:
                count += one.count
            valid = sum(not one.faults for one in some)
            money: list[Decimal] = [
                cost(count, prices),
                cost(count, prices, count.shared),
                uncached_cost(count, prices),
            ]
            name = f"`{shown}`" if category == "all" else category
            lines.append(
                f"| {name} | {len(some)} | {valid} | {count.requests:,} | {count.input:,} |"
                f" {count.cached / count.input:.0%} | {count.output:,} | {' | '.join(f'${one:.2f}' for one in money)} |"
            )
    searched = {shown: outcomes for shown, outcomes in rows.items() if any(one.searches for one in outcomes)}
    if searched:
        lines += [
            "",
            "| search with the user's words | needed tools | first | in the first 3 | listed | not listed | searches |"
            " not found by the model's own words either |",
            "|---|---:|---:|---:|---:|---:|---:|---:|",
        ]
        for shown, outcomes in searched.items():
            ranks = [rank for one in outcomes for rank in one.ranks]
            first, three, listed = (sum(0 < rank <= most for rank in ranks) for most in (1, 3, 1000))
            lines.append(
                f"| `{shown}` | {len(ranks)} | {first / len(ranks):.0%} | {three / len(ranks):.0%} |"
                f" {listed / len(ranks):.0%} | {1 - listed / len(ranks):.0%} |"
                f" {sum(one.searches for one in outcomes):,} | {sum(one.lost for one in outcomes)} |"
            )
    return "\n".join(lines)


def write(path: Path, text: str) -> None:
    """Puts a text between its marks."""
    before, rest = path.read_text(encoding="utf-8").split(BEGIN, 1)
    after = rest.split(END, 1)[1]
    path.write_text(f"{before}{BEGIN}\n{text}\n{END}{after}", encoding="utf-8")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bfcl", description=__doc__)
    parser.add_argument("--binary", type=Path, help="the gateway; without it a plain loop stands in for it")
    parser.add_argument("--shown", default=",".join(SHOWN), help="ways to show tools (default: %(default)s)")
    parser.add_argument("--categories", default=",".join(CATEGORIES), help="default: %(default)s")
    parser.add_argument("--count", type=int, default=200, help="dialogues of each category (default: %(default)s)")
    parser.add_argument("--kill", metavar="SEED", help="kill the gateway once in each dialogue")
    parser.add_argument("--prices", default="", help="dollars for a million tokens, such as input=3,cached=0.3")
    parser.add_argument("--write", type=Path, metavar="FILE", help="put the table into this file, between its marks")
    parser.add_argument("--keep", action="store_true", help="leave the homes of the gateway")
    return parser.parse_args()


def main() -> int:
    given = arguments()
    prices = PRICES | dict(pair.split("=", 1) for pair in given.prices.split(",") if pair)
    dialogues: list[Dialogue] = []
    for category in given.categories.split(","):
        dialogues += read((category,))[: given.count]
    print(f"{len(dialogues)} dialogues, {sum(one.calls for one in dialogues)} reference calls")
    for name, text, fault in misfits(dialogues):
        print(f"breaks its own schema: {name}: {text}: {fault}")
    rows: dict[str, list[Outcome]] = {}
    fine, unit = True, "dialogue"
    root = Path(tempfile.mkdtemp(prefix="bfcl-"))
    with stage(prices) as (apis, engine, drive):
        ways = given.shown.split(",") if given.binary else ["stand-in"]
        for shown in ways:
            started = time.monotonic()
            with contextlib.ExitStack() as stack:
                if given.binary:
                    home = root / shown
                    gateway = stack.enter_context(served(given.binary.resolve(), home, apis, engine, prices))
                    unit = "dialogue" if gateway.converses else "turn of a dialogue"
                    print(f"a run is a {unit}")
                    rows[shown] = []
                    for one in dialogues:
                        rows[shown].append(drive.with_gateway(gateway, one, shown, given.kill))
                        if len(rows[shown]) % 100 == 0:
                            print(f"    {shown}: {len(rows[shown])} of {len(dialogues)}", flush=True)
                else:
                    loop = stack.enter_context(contextlib.closing(StandIn(apis, engine)))
                    rows[shown] = [drive.with_stand_in(loop, one) for one in dialogues]
            fine &= report(shown, rows[shown], time.monotonic() - started)
    if given.kill is None:
        text = table(rows, prices)
        print(text)
        said = ", ".join(f"{name.replace('_', ' ')} ${price}" for name, price in prices.items())
        if given.write:
            write(given.write, f"A run is a {unit}; a token is {TOKEN} bytes.\nA million tokens: {said}.\n\n{text}")
    if not given.keep and fine:
        shutil.rmtree(root)
    else:
        print(f"the homes: {root}")
    return 0 if fine else 1


if __name__ == "__main__":
    raise SystemExit(main())
