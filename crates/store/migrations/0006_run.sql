-- Runs of workflows, and their steps in the order in which they began.
CREATE TABLE run (
    id           TEXT PRIMARY KEY,
    workflow     TEXT NOT NULL,
    status       TEXT NOT NULL,     -- inprogress, completed, failed
    principal    TEXT NOT NULL,     -- who started it
    administers  INTEGER NOT NULL,  -- 1 if that principal might administer then
    profile      TEXT NOT NULL,
    definition   TEXT NOT NULL,     -- the workflow as it was, JSON
    input        TEXT NOT NULL,     -- JSON
    result       TEXT,              -- JSON
    error        TEXT,
    truncated    INTEGER NOT NULL,  -- 1 if something was too long to keep
    step_count   INTEGER NOT NULL,
    started_at   INTEGER NOT NULL,  -- milliseconds since 1970
    completed_at INTEGER
) STRICT, WITHOUT ROWID;

CREATE INDEX run_by_start ON run (started_at DESC, id);
CREATE INDEX run_by_workflow ON run (workflow, started_at DESC, id);

CREATE TABLE run_step (
    run          TEXT NOT NULL,
    place        INTEGER NOT NULL,
    step         TEXT NOT NULL,
    tool         TEXT NOT NULL,
    status       TEXT NOT NULL,     -- inprogress, completed, failed, skipped
    input        TEXT,              -- JSON
    result       TEXT,              -- JSON
    error        TEXT,
    extra        TEXT,              -- the rest of what is known, JSON
    stored_as    TEXT,
    started_at   INTEGER NOT NULL,
    completed_at INTEGER,
    PRIMARY KEY (run, place)
) STRICT, WITHOUT ROWID;
