-- The bearer of a key is `key:<profile>/<name>`, where it was `key:<name>`: two profiles may have keys of one name. Whatever
-- such a principal has was made in the profile whose key it came with. The audit log stays as it was written.
UPDATE active_tool SET principal = 'key:' || profile || '/' || substr(principal, 5)
    WHERE principal LIKE 'key:%' AND instr(principal, '/') = 0;
UPDATE task SET principal = 'key:' || profile || '/' || substr(principal, 5)
    WHERE principal LIKE 'key:%' AND instr(principal, '/') = 0;
UPDATE service SET principal = 'key:' || profile || '/' || substr(principal, 5)
    WHERE principal LIKE 'key:%' AND instr(principal, '/') = 0;
UPDATE run SET principal = 'key:' || profile || '/' || substr(principal, 5)
    WHERE principal LIKE 'key:%' AND instr(principal, '/') = 0;
