-- How services that outlive the process were when that was last written down.
CREATE TABLE service (
    name       TEXT PRIMARY KEY,
    principal  TEXT NOT NULL,      -- who created it
    administers INTEGER NOT NULL,  -- 1 if that principal might administer then
    profile    TEXT NOT NULL,
    state      TEXT NOT NULL,
    body       TEXT NOT NULL,      -- the rest of what is known, JSON
    created_at INTEGER NOT NULL,   -- milliseconds since 1970
    updated_at INTEGER NOT NULL
) STRICT, WITHOUT ROWID;
