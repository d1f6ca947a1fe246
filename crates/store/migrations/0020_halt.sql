-- Who was halted, by whom and why. A row stays after its halt was lifted.
CREATE TABLE halt (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    subject TEXT NOT NULL,
    reason TEXT NOT NULL,
    canary TEXT,
    added_by TEXT NOT NULL,
    added_at INTEGER NOT NULL,
    lifted_by TEXT,
    lifted_at INTEGER
) STRICT;
CREATE INDEX halt_in_force ON halt (added_at) WHERE lifted_at IS NULL;

-- Tokens that no one has reason to send anywhere, sealed with a key of the vault.
CREATE TABLE canary (
    id TEXT PRIMARY KEY,
    kind TEXT NOT NULL,
    profile TEXT,
    sealed BLOB NOT NULL,
    minted_by TEXT NOT NULL,
    minted_at INTEGER NOT NULL
) STRICT;
