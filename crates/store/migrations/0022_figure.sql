-- How many calls there were, how they ended and how long they took: minutes for a week, hours for a year. Made of the
-- audit log, behind it.
CREATE TABLE figure (
    span    INTEGER NOT NULL,                    -- seconds: 60 or 3600
    kind    TEXT NOT NULL,                       -- all, server, tool, profile, client
    start   INTEGER NOT NULL,                    -- milliseconds since 1970
    name    TEXT NOT NULL,
    calls   INTEGER NOT NULL,
    errors  INTEGER NOT NULL,
    denied  INTEGER NOT NULL,
    lists   INTEGER NOT NULL,                    -- lists of tools that clients were given
    saved   INTEGER NOT NULL,                    -- tokens that these lists had less than all tools
    buckets BLOB NOT NULL,                       -- pairs of how long (a byte) and how many (eight bytes)
    PRIMARY KEY (span, kind, start, name)
) STRICT, WITHOUT ROWID;

-- The last event of the audit log that is counted.
CREATE TABLE figure_place (
    id  INTEGER PRIMARY KEY CHECK (id = 1),
    seq INTEGER NOT NULL
) STRICT;
