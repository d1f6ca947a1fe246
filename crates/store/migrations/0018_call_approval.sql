-- Calls that wait for somebody's yes, and what became of them.
CREATE TABLE call_approval (
    tenant      TEXT NOT NULL,
    id          TEXT NOT NULL,
    kind        TEXT NOT NULL,      -- confirm, approve
    state       TEXT NOT NULL,      -- open, approved, running, done, denied, expired, unknown
    principal   TEXT NOT NULL,      -- who called
    profile     TEXT NOT NULL,
    chain       TEXT NOT NULL,      -- the program that called, and who acts in whose name; empty where nothing is proven
    tool        TEXT NOT NULL,
    digest      TEXT NOT NULL,      -- of the tool's definition
    arguments   TEXT NOT NULL,      -- their keyed hash
    revision    TEXT NOT NULL,      -- of the policies; empty without policies
    created_at  INTEGER NOT NULL,   -- milliseconds since 1970
    expires_at  INTEGER NOT NULL,   -- until when it can be decided and begun
    decided_at  INTEGER,
    approver    TEXT,
    reason      TEXT,
    ended_at    INTEGER,
    forget_at   INTEGER NOT NULL,
    collected   INTEGER NOT NULL,   -- 1 once the caller has read how it ended
    sealed      BLOB NOT NULL,      -- the call
    result      BLOB,               -- sealed
    PRIMARY KEY (tenant, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX call_approval_of_call ON call_approval (tenant, principal, profile, tool, arguments);
CREATE INDEX call_approval_by_state ON call_approval (tenant, state, created_at);
