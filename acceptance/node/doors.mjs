// The ways in, for both generations of the official SDK. `TOOLCRIB_ACCEPTANCE` names the JSON file that
// `cargo xtask real` writes; its shape is described in ../python/doors.py.

import { readFileSync } from 'node:fs';

import * as second from '@modelcontextprotocol/client';
import { StdioClientTransport as SecondStdio } from '@modelcontextprotocol/client/stdio';
import { Client as FirstClient } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport as FirstStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as FirstHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

export const setting = JSON.parse(readFileSync(process.env.TOOLCRIB_ACCEPTANCE, 'utf8'));

export const gateway = setting.gateway;
export const url = process.env.TOOLCRIB_URL || gateway?.url;
export const { servers, files, repository } = setting;

export const LEGACY = '2025-11-25';
export const MODERN = '2026-07-28';

const NAME = { name: 'toolcrib-acceptance', version: '1.0.0' };
// A call that takes longer than this has been lost.
export const MILLISECONDS = 30_000;

// Each client of the SDKs that people use: the first generation, the second in either era.
export const clients = [
    {
        name: 'sdk 1',
        revision: LEGACY,
        make: () => new FirstClient(NAME),
        http: target => new FirstHttp(new URL(target)),
        stdio: target => new FirstStdio(target)
    },
    {
        name: 'sdk 2 legacy',
        revision: LEGACY,
        make: () => new second.Client(NAME, { versionNegotiation: { mode: 'legacy' } }),
        http: target => new second.StreamableHTTPClientTransport(new URL(target)),
        stdio: target => new SecondStdio(target)
    },
    {
        name: 'sdk 2 modern',
        revision: MODERN,
        make: () => new second.Client(NAME, { versionNegotiation: { mode: 'auto' } }),
        http: target => new second.StreamableHTTPClientTransport(new URL(target)),
        stdio: target => new SecondStdio(target)
    }
];

// Connects, hands the connection to `use` and closes it whatever happens.
async function connected(kind, transport, use) {
    const client = kind.make();
    await client.connect(transport, { timeout: MILLISECONDS });
    try {
        return await use(client);
    } finally {
        await client.close();
    }
}

export function process_(target) {
    const env = { ...process.env, ...target.env };
    return { command: target.command, args: target.args ?? [], env, cwd: target.cwd, stderr: 'ignore' };
}

export function http(kind, profile, use) {
    return connected(kind, kind.http(profile ? `${url}/p/${profile}` : url), use);
}

export function stdio(kind, use) {
    return connected(kind, kind.stdio(process_(gateway.stdio)), use);
}

export function straight(kind, server, use) {
    const target = servers[server];
    return connected(kind, target.url ? kind.http(target.url) : kind.stdio(process_(target)), use);
}

// The same call through each way: `call(server, tool, arguments, options)`.
const meta = client => (server, tool, arguments_, options) =>
    client.callTool(...request({ name: 'call_tool', arguments: { name: `${server}/${tool}`, arguments: arguments_ } }, client, options));
const listed = client => (server, tool, arguments_, options) =>
    client.callTool(...request({ name: `${server}_${tool}`, arguments: arguments_ }, client, options));

// The first generation takes a result schema as its second argument, the second does not.
function request(params, client, options) {
    return client instanceof FirstClient ? [params, undefined, options] : [params, options];
}

export function callTool(client, params, options) {
    return client.callTool(...request(params, client, options));
}

export const ways = gateway
    ? [
          { name: 'meta-tools', open: (kind, use) => http(kind, undefined, client => use(meta(client))) },
          { name: 'listed names', open: (kind, use) => http(kind, 'direct', client => use(listed(client))) },
          { name: 'stdio', open: (kind, use) => stdio(kind, client => use(meta(client))) }
      ]
    : [
          {
              name: 'straight',
              open: (kind, use) =>
                  use((server, tool, arguments_, options) =>
                      straight(kind, server, client => callTool(client, { name: tool, arguments: arguments_ }, options))
                  )
          }
      ];

// === comparing ===

const CLOCK = /\d{1,2}:\d{2}:\d{2}(\s?[AP]M)?/g;
// Two servers of one program offer the same URIs; the gateway tells them apart by their names.
const OWNER = /\beverything(-http)?\+(?=demo:\/\/)/g;
const ENVELOPE = ['resultType', 'ttlMs', 'cacheScope', 'nextCursor'];

// The result without the time of day and without what each hop stamps anew.
export function plain(result) {
    const rest = { ...result };
    for (const key of ENVELOPE) delete rest[key];
    if (rest.isError === false) delete rest.isError; // what an absent one means
    return settle(rest);
}

function settle(value, key) {
    if (Array.isArray(value)) return value.map(inner => settle(inner));
    if (typeof value === 'string') {
        return (key === 'blob' ? Buffer.from(value, 'base64').toString('latin1') : value).replace(CLOCK, '<clock>').replace(OWNER, '');
    }
    if (value === null || typeof value !== 'object') return value;
    const settled = {};
    for (const [name, inner] of Object.entries(value)) {
        if (name.startsWith('io.modelcontextprotocol/') || inner === undefined) continue;
        settled[name] = settle(inner, name);
    }
    if (settled._meta && Object.keys(settled._meta).length === 0) delete settled._meta;
    return settled;
}

export function text(result) {
    return result.content.filter(block => block.type === 'text').map(block => block.text).join('\n');
}
