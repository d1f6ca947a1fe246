#!/bin/sh
# Makes a home with the program of an earlier commit and uses it: ./make.sh PROGRAM NAME leaves NAME.tar.gz here.
#
# To build that program: `git worktree add ../earlier COMMIT`, and there `cargo build --bin toolcrib`.
# What a program does not know yet is left out.
set -eu

program=$(realpath "$1")
archive=$(dirname "$(realpath "$0")")/$2.tar.gz
work=$(mktemp -d)
trap 'kill "$gateway" 2>/dev/null || true; rm -rf "$work"' EXIT
gateway=

mkdir -p "$work/bin" "$work/person"
ln -s "$program" "$work/bin/toolcrib"
export PATH="$work/bin:$PATH" HOME="$work/person" TOOLCRIB_HOME="$work/home" TZ=UTC
unset XDG_CONFIG_HOME XDG_DATA_HOME XDG_STATE_HOME DBUS_SESSION_BUS_ADDRESS

knows() { toolcrib "$1" --help >"$work/help" 2>&1; }

folder() { mkdir -p "$TOOLCRIB_HOME/$1"; }

folder servers
cat >"$TOOLCRIB_HOME/servers/units.yaml" <<'EOF'
# The server of the examples.
name: units
command: toolcrib
args: [example, units]
start: eager
EOF
cat >"$TOOLCRIB_HOME/servers/notes.yaml" <<'EOF'
name: notes
command: toolcrib
args: [example, notes]
start: eager
EOF
folder profiles
cat >"$TOOLCRIB_HOME/profiles/careful.yaml" <<'EOF'
name: careful
read_only: true
tools: {deny: ["units/linear_fit"]}
exposure: direct
EOF
cat >"$TOOLCRIB_HOME/profiles/loads.yaml" <<'EOF'
name: loads
exposure: dynamic
active_set: durable
EOF

if knows workflow || knows create; then
  folder workflows
  cat >"$TOOLCRIB_HOME/workflows/miles.yaml" <<'EOF'
name: miles
description: Miles as kilometres
args:
  miles: {type: number, required: true}
steps:
  - id: convert
    tool: units/convert_length
    args: {value: "{{ .input.miles }}", from: mile, to: kilometre}
    store: true
EOF
  folder service-classes
  cat >"$TOOLCRIB_HOME/service-classes/note.yaml" <<'EOF'
name: note
args:
  title: {type: string, required: true}
serviceConfig:
  lifecycleTools:
    start: {tool: notes/add_note, args: {title: "{{ .title }}", text: "made by a service"}}
    stop: {tool: notes/list_notes}
    status: {tool: notes/list_notes}
EOF
fi

if knows run; then
  folder agents
  cat >"$TOOLCRIB_HOME/agents/converter.yaml" <<'EOF'
name: converter
model: demo
tools: ["units/*"]
EOF
fi

if knows policy; then
  folder policies
  cat >"$TOOLCRIB_HOME/policies/team.cedar" <<'EOF'
@id("no-fits")
forbid (principal, action == Action::"call", resource == Tool::"units/linear_fit");
EOF
fi

if knows secret; then
  printf 'a secret of an earlier program' | toolcrib secret set greeting --server units
  printf 'env:\n  GREETING: "vault:greeting"\n' >>"$TOOLCRIB_HOME/servers/units.yaml"
fi

toolcrib serve --listen 127.0.0.1:0 >"$work/out" 2>"$work/log" &
gateway=$!
until [ "$(toolcrib list servers 2>/dev/null | grep -c ready)" = 2 ]; do
  kill -0 "$gateway" || { cat "$work/log" >&2; exit 1; }
  sleep 0.2
done

toolcrib call units_convert_length value=26.2 from=mile to=kilometre
toolcrib call notes_add_note title=Hello text=there
toolcrib call --profile careful notes/add_note title=Hello text=there || true
if knows api; then
  toolcrib call workflow_miles miles=3
  toolcrib call workflow_miles miles=many || true
  toolcrib api core_service_create serviceClassName=note name=kept args='{"title": "Kept"}' \
    persist=true
fi
if knows run; then
  toolcrib run --agent converter "convert the length of 3 mile to metre"
fi
if knows profile; then
  folder profiles
  printf 'name: team\n' >"$TOOLCRIB_HOME/profiles/team.yaml"
  toolcrib profile key add team ci >"$work/home/key-of-team"
fi
if knows verify; then
  toolcrib verify units
fi

# A session that loads a tool, by the wire: the commands have none.
url=$(sed -n 's/.*\(http:[^ ]*\)\/mcp.*/\1/p' "$work/out" "$work/log" | head -n 1)/mcp/p/loads
ask() {
  curl -s -D "$work/heads" -H 'Content-Type: application/json' -H 'Accept: application/json, text/event-stream' \
    ${session:+-H "Mcp-Session-Id: $session"} -d "$1" "$url"
}
session=
ask '{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": {"protocolVersion": "2025-06-18",
  "capabilities": {}, "clientInfo": {"name": "earlier", "version": "1"}}}'
session=$(tr -d '\r' <"$work/heads" | sed -n 's/^mcp-session-id: //Ip')
ask '{"jsonrpc": "2.0", "method": "notifications/initialized"}'
ask '{"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "tool_load",
  "arguments": {"names": ["units/statistics"]}}}'
echo

toolcrib audit list --limit 20
kill -TERM "$gateway"
wait "$gateway" || true
gateway=
rm -f "$TOOLCRIB_HOME"/state/*.sock
tar -C "$work" --sort=name --owner=0 --group=0 -czf "$archive" home
tar -tvzf "$archive"
ls -l "$archive"
