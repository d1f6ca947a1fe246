-- What guards found in a call. The hash of a row covers it where it is there.
ALTER TABLE audit ADD COLUMN guard TEXT;
