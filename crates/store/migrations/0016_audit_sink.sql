-- How far each receiver of the audit log has taken it. Rows of receivers that the settings no longer name are kept for
-- a while, so that one that comes back continues where it was.
CREATE TABLE audit_sink (
    name       TEXT PRIMARY KEY,
    seq        INTEGER NOT NULL,   -- the last row that it has for certain; 0 for none
    checkpoint INTEGER NOT NULL,   -- the last checkpoint that it has, by its number; 0 for none
    at         INTEGER NOT NULL,   -- when that was noted, in milliseconds since 1970
    is_wanted  INTEGER NOT NULL    -- whether the settings name it: only such a one is waited for
) STRICT, WITHOUT ROWID;
