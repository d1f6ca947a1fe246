-- From which address a client came. The hash of a row covers it where it is there.
ALTER TABLE audit ADD COLUMN address TEXT;
