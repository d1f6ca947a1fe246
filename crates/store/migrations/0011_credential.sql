-- Whose credential went to the server. The hash of a row covers it where it is there.
ALTER TABLE audit ADD COLUMN credential TEXT;
