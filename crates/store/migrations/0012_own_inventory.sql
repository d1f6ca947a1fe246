-- What servers showed principals that have credentials of their own there. Many are shown the same, which is kept once.
CREATE TABLE inventory (
    digest  TEXT PRIMARY KEY,      -- SHA-256 of the text
    content TEXT NOT NULL          -- JSON, kept as it is
) STRICT, WITHOUT ROWID;
CREATE TABLE own_snapshot (
    tenant          TEXT NOT NULL, -- '' as long as there is one
    server          TEXT NOT NULL,
    principal       TEXT NOT NULL,
    taken_at        INTEGER NOT NULL, -- milliseconds since 1970
    definition_hash TEXT NOT NULL,
    digest          TEXT NOT NULL REFERENCES inventory (digest),
    PRIMARY KEY (tenant, server, principal)
) STRICT, WITHOUT ROWID;
CREATE INDEX own_snapshot_digest ON own_snapshot (digest);
