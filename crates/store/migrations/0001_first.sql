-- The first form of the database. A released migration is never edited: a change is a new file.

-- What belongs to this installation alone, such as the key of the argument hashes.
CREATE TABLE installation (
    name  TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT, WITHOUT ROWID;

-- The audit log. `hash` covers every other column and, by `prev_hash`, every row before it.
-- No further index: listings walk along `seq` (some 50 ns a row), and every index costs each call.
CREATE TABLE audit (
    seq         INTEGER PRIMARY KEY,
    at          INTEGER NOT NULL,   -- milliseconds since 1970
    principal   TEXT NOT NULL,
    profile     TEXT,
    door        TEXT NOT NULL,
    method      TEXT NOT NULL,
    target      TEXT NOT NULL,
    args_hash   BLOB,               -- HMAC-SHA256 under the installation's key
    arguments   TEXT,               -- redacted
    decision    TEXT NOT NULL,
    outcome     TEXT NOT NULL,
    duration_us INTEGER NOT NULL,
    request_id  TEXT NOT NULL,
    session     TEXT,
    prev_hash   BLOB NOT NULL,
    hash        BLOB NOT NULL
) STRICT;

-- Against mistakes of our own; whoever owns the file can drop these, and `verify` then tells.
CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
CREATE TRIGGER audit_keeps_fields BEFORE UPDATE ON audit
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;

-- The newest row of the log, kept apart so that deleting the newest rows is noticed.
CREATE TABLE audit_head (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
INSERT INTO audit_head (only, seq, hash) VALUES (1, 0, zeroblob(32));

-- The last good inventory of each server.
CREATE TABLE snapshot (
    server          TEXT PRIMARY KEY,
    taken_at        INTEGER NOT NULL,
    definition_hash TEXT NOT NULL,
    inventory       TEXT NOT NULL
) STRICT;

-- Which tool was the first to own an exposed name in a profile.
CREATE TABLE name (
    profile       TEXT NOT NULL,
    exposed       TEXT NOT NULL,
    server        TEXT NOT NULL,
    tool          TEXT NOT NULL,
    remembered_at INTEGER NOT NULL,
    PRIMARY KEY (profile, exposed)
) STRICT, WITHOUT ROWID;
CREATE INDEX name_server ON name (profile, server);

-- Small things worth remembering, such as the era that a server spoke last.
CREATE TABLE fact (
    scope      TEXT NOT NULL,
    key        TEXT NOT NULL,
    value      TEXT NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (scope, key)
) STRICT, WITHOUT ROWID;

-- The tools that a principal has loaded in a profile.
CREATE TABLE active_tool (
    principal TEXT NOT NULL,
    profile   TEXT NOT NULL,
    server    TEXT NOT NULL,
    tool      TEXT NOT NULL,
    last_used INTEGER NOT NULL,
    PRIMARY KEY (principal, profile, server, tool)
) STRICT, WITHOUT ROWID;
