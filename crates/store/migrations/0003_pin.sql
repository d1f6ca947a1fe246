-- What of each server was approved, one row for each tool, prompt and template. Kept when the server goes: what comes back
-- under its name is compared with it.
CREATE TABLE pin (
    server     TEXT NOT NULL,
    part       TEXT NOT NULL,      -- tool, prompt, template, instructions
    name       TEXT NOT NULL,
    definition TEXT NOT NULL,      -- JSON, as the server wrote it
    decided_at INTEGER NOT NULL,   -- milliseconds since 1970
    decided_by TEXT NOT NULL,
    PRIMARY KEY (server, part, name)
) STRICT;

-- What was turned down, by its digest: the next one of that name is a new question.
CREATE TABLE rejection (
    server     TEXT NOT NULL,
    part       TEXT NOT NULL,
    name       TEXT NOT NULL,
    digest     TEXT NOT NULL,
    decided_at INTEGER NOT NULL,
    decided_by TEXT NOT NULL,
    PRIMARY KEY (server, part, name)
) STRICT;

-- When each server was last verified, and what it offered then.
CREATE TABLE verification (
    server      TEXT PRIMARY KEY,
    verified_at INTEGER NOT NULL,
    digest      TEXT NOT NULL
) STRICT;
