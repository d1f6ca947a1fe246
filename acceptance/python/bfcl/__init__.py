"""The multi-turn dialogues of the Berkeley Function Calling Leaderboard (PyPI `bfcl-eval`) with the gateway's agents.

Eight APIs of 128 tools become MCP servers, a scripted model says the reference calls, the gateway runs the loop, and the
package's own checker judges what came of it. `python -m bfcl --help` runs all 800 dialogues; `test_bfcl.py` runs a few."""
