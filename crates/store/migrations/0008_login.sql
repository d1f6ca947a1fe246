-- Logins at servers. Every key leads with a tenant, which is '' as long as there is one. Each `sealed` is encrypted with a
-- key of the vault and bound to the columns beside it. Digests are SHA-256.
CREATE TABLE credential (
    tenant     TEXT NOT NULL,
    owner      TEXT NOT NULL,      -- `owner` for the person of this installation, else a principal
    server     TEXT NOT NULL,
    issuer     TEXT NOT NULL,
    client_id  TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    scopes     TEXT NOT NULL,      -- granted ones, separated by spaces
    state      TEXT NOT NULL,      -- active, needs_login
    expires_at INTEGER,            -- of the access token, milliseconds since 1970; NULL where the issuer gave none
    updated_at INTEGER NOT NULL,
    generation INTEGER NOT NULL,   -- another one with each write, never used again
    PRIMARY KEY (tenant, owner, server)
) STRICT;
CREATE INDEX credential_of_server ON credential (tenant, server);

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
    ticket     BLOB NOT NULL UNIQUE,   -- digest of what its page is asked for with
    state      BLOB UNIQUE,            -- digest of what the issuer sends back; NULL until a browser came
    browser    BLOB,                   -- digest of that browser's cookie; NULL until it came
    sealed     BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, owner, server)
) STRICT;
CREATE INDEX pending_login_expiry ON pending_login (tenant, expires_at);

-- What this installation is called at issuers, for each of its redirect addresses.
CREATE TABLE client_registration (
    tenant     TEXT NOT NULL,
    issuer     TEXT NOT NULL,
    redirect   TEXT NOT NULL,
    client_id  TEXT NOT NULL,
    sealed     BLOB NOT NULL,
    expires_at INTEGER,            -- of the secret; NULL where it does not expire
    updated_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, issuer, redirect)
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
