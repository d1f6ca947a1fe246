-- Runs of agents: a row for each, its journal as lines, what it waits for, and what agents spent on each day.
CREATE TABLE agent_run (
    id TEXT PRIMARY KEY,
    agent TEXT NOT NULL,
    task TEXT NOT NULL,
    principal TEXT NOT NULL,
    role TEXT NOT NULL,
    profile TEXT NOT NULL,
    parent TEXT,
    fork_of TEXT,
    started_at INTEGER NOT NULL,
    model TEXT NOT NULL,
    status TEXT NOT NULL,
    "end" TEXT,
    output TEXT,
    rounds INTEGER NOT NULL,
    calls INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    money INTEGER NOT NULL,
    changed_at INTEGER NOT NULL,
    ended_at INTEGER,
    next_due INTEGER,
    entries INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX agent_run_by_time ON agent_run (started_at DESC);
CREATE INDEX agent_run_by_agent ON agent_run (agent, started_at DESC);
CREATE INDEX agent_run_under_way ON agent_run (status) WHERE status = 'running';
CREATE INDEX agent_run_due ON agent_run (next_due) WHERE next_due IS NOT NULL;

CREATE TABLE agent_run_entry (
    run TEXT NOT NULL,
    number INTEGER NOT NULL,
    line TEXT NOT NULL,
    PRIMARY KEY (run, number)
) STRICT, WITHOUT ROWID;

CREATE TABLE agent_run_wait (
    wait TEXT NOT NULL,
    run TEXT NOT NULL,
    PRIMARY KEY (wait, run)
) STRICT, WITHOUT ROWID;

CREATE INDEX agent_run_wait_by_run ON agent_run_wait (run);

CREATE TABLE agent_day (
    agent TEXT NOT NULL,
    day INTEGER NOT NULL,
    runs INTEGER NOT NULL,
    tokens INTEGER NOT NULL,
    money INTEGER NOT NULL,
    PRIMARY KEY (agent, day)
) STRICT, WITHOUT ROWID;
