-- What happened to servers, services, workflows and runs. Unlike the audit log it is not chained and is forgotten with time.
CREATE TABLE event (
    seq     INTEGER PRIMARY KEY AUTOINCREMENT,   -- never used again, so that whoever turns pages misses nothing
    at      INTEGER NOT NULL,                    -- milliseconds since 1970
    kind    TEXT NOT NULL,                       -- MCPServer, Workflow …
    name    TEXT NOT NULL,
    reason  TEXT NOT NULL,                       -- MCPServerStarted …
    message TEXT NOT NULL,
    warning INTEGER NOT NULL
) STRICT;
CREATE INDEX event_at ON event (at);
CREATE INDEX event_object ON event (kind, name, seq);
