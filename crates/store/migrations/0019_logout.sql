-- Who has logged out of a server that callers are signed on to, until they log in or come with another token.
CREATE TABLE logout (
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,      -- `owner` for the person of this installation, else a principal
    server     TEXT NOT NULL,
    tokens     BLOB NOT NULL,      -- SHA-256 of each token that does not count any more; empty where none is needed
    expires_at INTEGER,            -- milliseconds since 1970, long after the last of these tokens; NULL without tokens
    PRIMARY KEY (tenant, owner, server)
) STRICT;
CREATE INDEX logout_expiry ON logout (tenant, expires_at);
