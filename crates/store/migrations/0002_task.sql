-- Requests that were answered with a task of our own before they were done.
CREATE TABLE task (
    id         TEXT PRIMARY KEY,
    principal  TEXT NOT NULL,
    profile    TEXT NOT NULL,
    target     TEXT NOT NULL,      -- what was asked for
    ended      INTEGER NOT NULL,   -- 0 while it runs
    body       TEXT NOT NULL,      -- as the client reads it, JSON
    created_at INTEGER NOT NULL,   -- milliseconds since 1970
    expires_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
CREATE INDEX task_of_principal ON task (principal, created_at);
