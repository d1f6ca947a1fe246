-- By which hands a request came, and what decided it. The hash of a row covers each where it is there.
ALTER TABLE audit ADD COLUMN proof TEXT;
ALTER TABLE audit ADD COLUMN token TEXT;
ALTER TABLE audit ADD COLUMN issuer TEXT;
ALTER TABLE audit ADD COLUMN oauth_client TEXT;
ALTER TABLE audit ADD COLUMN user TEXT;
ALTER TABLE audit ADD COLUMN actor TEXT;
ALTER TABLE audit ADD COLUMN client TEXT;
ALTER TABLE audit ADD COLUMN bridge TEXT;
ALTER TABLE audit ADD COLUMN role TEXT;
ALTER TABLE audit ADD COLUMN policies TEXT;
ALTER TABLE audit ADD COLUMN approval TEXT;
ALTER TABLE audit ADD COLUMN approver TEXT;
ALTER TABLE audit ADD COLUMN halt TEXT;
ALTER TABLE audit ADD COLUMN canary TEXT;
