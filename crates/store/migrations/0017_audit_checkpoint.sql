-- What the log was at some moments, signed. Nothing of it is secret.
CREATE TABLE audit_checkpoint (
    number    INTEGER PRIMARY KEY,
    first     INTEGER NOT NULL,
    seq       INTEGER NOT NULL,
    hash      BLOB NOT NULL,
    root      BLOB NOT NULL,
    at        INTEGER NOT NULL,
    previous  BLOB NOT NULL,
    key       TEXT NOT NULL,
    next      TEXT,
    signature TEXT NOT NULL
) STRICT;
CREATE TRIGGER audit_checkpoint_keeps_rows BEFORE DELETE ON audit_checkpoint
BEGIN SELECT RAISE(ABORT, 'the checkpoints of the audit log are append-only'); END;
CREATE TRIGGER audit_checkpoint_keeps_fields BEFORE UPDATE ON audit_checkpoint
BEGIN SELECT RAISE(ABORT, 'the checkpoints of the audit log are append-only'); END;

-- The key that signs them, sealed with a key of the vault.
CREATE TABLE audit_key (
    only   INTEGER PRIMARY KEY CHECK (only = 1),
    sealed BLOB NOT NULL
) STRICT;

-- Up to where the log was cut: a row that a checkpoint ends with. What is newer stays.
CREATE TABLE audit_floor (
    only INTEGER PRIMARY KEY CHECK (only = 1),
    seq  INTEGER NOT NULL,
    hash BLOB NOT NULL
) STRICT;
INSERT INTO audit_floor (only, seq, hash) VALUES (1, 0, zeroblob(32));
DROP TRIGGER audit_keeps_rows;
CREATE TRIGGER audit_keeps_rows BEFORE DELETE ON audit WHEN OLD.seq > (SELECT seq FROM audit_floor)
BEGIN SELECT RAISE(ABORT, 'the audit log is append-only'); END;
