-- What goes on after its principal has gone does so with the role that it had, not only with whether it administered.
ALTER TABLE service ADD COLUMN role TEXT NOT NULL DEFAULT 'member';
UPDATE service SET role = 'admin' WHERE administers;
ALTER TABLE service DROP COLUMN administers;
ALTER TABLE run ADD COLUMN role TEXT NOT NULL DEFAULT 'member';
UPDATE run SET role = 'admin' WHERE administers;
ALTER TABLE run DROP COLUMN administers;
