// An MCP server as people write them, for the unit of the shared gateway: node compiles what is hot, asks for the
// machine's processors, keeps files, and starts python, which listens and makes a temporary file.
const { spawnSync } = require("child_process");
const fs = require("fs");
const lines = require("readline").createInterface({ input: process.stdin });

const PYTHON = "import os, socket, tempfile; tempfile.NamedTemporaryFile(); os.nice(1); " +
  "socket.create_server(('127.0.0.1', 0)); print('python works' if os.cpu_count() else '')";

function work() {
  let hot = 0;
  for (let turn = 0; turn < 3e6; turn++) hot += turn % 7;
  const kept = "/var/lib/toolcrib/kept";
  fs.writeFileSync(kept, `${hot} ${require("os").cpus().length}`);
  fs.chownSync(kept, process.getuid(), process.getgid());
  const python = spawnSync("python3", ["-c", PYTHON]);
  let system = "can be written";
  try {
    fs.writeFileSync("/etc/written", "");
  } catch (error) {
    system = error.code;
  }
  return `node works, ${python.stdout}${python.stderr}, the system: ${system}`;
}

function result(method, params) {
  if (method === "initialize") {
    const serverInfo = { name: "worker", version: "1" };
    return { protocolVersion: params.protocolVersion, capabilities: { tools: {} }, serverInfo };
  }
  if (method === "tools/list") return { tools: [{ name: "work", inputSchema: { type: "object" } }] };
  if (method === "tools/call") return { content: [{ type: "text", text: work() }] };
  return {};
}

lines.on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (id !== undefined) console.log(JSON.stringify({ jsonrpc: "2.0", id, result: result(method, params) }));
});
