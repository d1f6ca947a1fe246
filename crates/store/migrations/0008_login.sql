-- Logins at servers. Every key leads with a tenant, which is '' as long as there is one. Each `sealed` is encrypted with a
-- key of the vault and bound to the columns beside it.
CREATE TABLE credential (
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,      -- `owner` for the person of this installation, else a principal
    server     TEXT NOT NULL,
    issuer     TEXT NOT NULL,
    client_id  TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    updated_at INTEGER NOT NULL,   -- milliseconds since 1970
    generation INTEGER NOT NULL,   -- another one with each write, never used again
    PRIMARY KEY (tenant, owner, server)
) STRICT;

-- The generation that was given last.
CREATE TABLE credential_generation (
    id   INTEGER PRIMARY KEY CHECK (id = 1),
    last INTEGER NOT NULL
) STRICT;
INSERT INTO credential_generation VALUES (1, 0);

-- Logins that were begun and not completed: one of an owner at a server.
CREATE TABLE pending_login (
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    server     TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, owner, server)
) STRICT;
CREATE INDEX pending_login_expiry ON pending_login (tenant, expires_at);

-- Clients that this installation registered for servers at their issuers, one for each redirect address.
CREATE TABLE client_registration (
    tenant     TEXT NOT NULL,
    server     TEXT NOT NULL,
    issuer     TEXT NOT NULL,
    redirect   TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, server, issuer, redirect)
) STRICT;

-- Values that each owner has of its own: `user:name` in a header.
CREATE TABLE user_value (
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,
    name       TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, owner, name)
) STRICT;
