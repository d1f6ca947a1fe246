-- The built-in authorization server. Every key leads with a tenant, which is '' as long as there is one. Secrets are SHA-256
-- of 256 random bits, or sealed with a key of the vault; `details` is JSON without secrets.

-- Clients that registered themselves.
CREATE TABLE authorization_client (
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    details    TEXT NOT NULL,
    expires_at INTEGER NOT NULL,   -- milliseconds since 1970
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX authorization_client_expiry ON authorization_client (tenant, expires_at);

-- What a person agreed to and that waits until the person is proven.
CREATE TABLE authorization_request (
    tenant     TEXT NOT NULL,
    id         BLOB NOT NULL,      -- hash of the secret in the browser's address
    code       BLOB NOT NULL,      -- hash of the code that the owner approves
    address    TEXT NOT NULL,      -- from where it came
    details    TEXT NOT NULL,
    decision   TEXT,               -- what the owner said; NULL until then
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE UNIQUE INDEX authorization_request_code ON authorization_request (tenant, code);
CREATE INDEX authorization_request_expiry ON authorization_request (tenant, expires_at);

-- Authorization codes, those that were used too: a second use ends what the first gave.
CREATE TABLE authorization_code (
    tenant     TEXT NOT NULL,
    hash       BLOB NOT NULL,
    details    TEXT NOT NULL,
    session    TEXT,               -- what it gave; NULL until it is used
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, hash)
) STRICT;
CREATE INDEX authorization_code_expiry ON authorization_code (tenant, expires_at);

-- What was granted to a client in a principal's name.
CREATE TABLE authorization_session (
    tenant     TEXT NOT NULL,
    id         TEXT NOT NULL,
    principal  TEXT NOT NULL,
    client     TEXT NOT NULL,
    details    TEXT NOT NULL,
    sealed     BLOB,               -- tokens of the provider at which the person signed in
    refresh    BLOB,               -- hash of the refresh token that counts
    previous   BLOB,               -- hash of the one before
    answer     BLOB,               -- what the last renewal answered, sealed, for those who did not hear it
    used_at    INTEGER NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, id)
) STRICT;
CREATE INDEX authorization_session_principal ON authorization_session (tenant, principal, used_at);
CREATE INDEX authorization_session_client ON authorization_session (tenant, client);
CREATE INDEX authorization_session_expiry ON authorization_session (tenant, expires_at);
CREATE INDEX authorization_session_use ON authorization_session (tenant, used_at);

-- The keys that sign: the next, the current and the old one.
CREATE TABLE authorization_key (
    tenant TEXT NOT NULL,
    phase  TEXT NOT NULL CHECK (phase IN ('next', 'current', 'old')),
    id     TEXT NOT NULL,
    sealed BLOB NOT NULL,
    since  INTEGER NOT NULL,
    PRIMARY KEY (tenant, phase)
) STRICT;

-- Signed statements of clients that were used: each counts once.
CREATE TABLE authorization_assertion (
    tenant     TEXT NOT NULL,
    hash       BLOB NOT NULL,
    expires_at INTEGER NOT NULL,
    PRIMARY KEY (tenant, hash)
) STRICT;
CREATE INDEX authorization_assertion_expiry ON authorization_assertion (tenant, expires_at);
