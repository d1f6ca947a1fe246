// What the official TypeScript SDKs see: connect, find, describe, call, lossless results, progress, cancellation,
// many calls at once, errors, resources and prompts.

import assert from 'node:assert/strict';
import { existsSync, readFileSync, rmSync } from 'node:fs';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { MILLISECONDS, callTool, clients, files, gateway, http, plain, repository, stdio, straight, text, url, ways } from './doors.mjs';

const needsGateway = { skip: gateway ? false : 'no gateway in this run', timeout: 2 * MILLISECONDS };
const bounded = { timeout: 2 * MILLISECONDS };

const CASES = [
    ['everything', 'echo', { message: 'Grüße \u2028 " \\ 日本 🦀' }],
    ['everything', 'get-structured-content', { location: 'Chicago' }],
    ['everything', 'get-tiny-image', {}],
    ['everything', 'get-annotated-message', { messageType: 'error', includeImage: true }],
    ['everything', 'get-resource-links', { count: 3 }],
    ['everything', 'get-resource-reference', { resourceType: 'Blob', resourceId: 2 }],
    ['everything-http', 'get-tiny-image', {}],
    ['everything-http', 'get-structured-content', { location: 'New York' }],
    ['files', 'read_text_file', { path: `${files}/hello.txt` }],
    ['files', 'read_media_file', { path: `${files}/sound.wav` }],
    ['memory', 'search_nodes', { query: 'nothing of this kind' }],
    ['time', 'convert_time', { source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' }],
    ['git', 'git_log', { repo_path: repository }],
    ['odd', 'everything_at_once', {}],
    ['odd', 'fails', {}]
];

const cased = [...new Set(CASES.map(([server]) => server))];

// What comes of the cases of a server, one after the other.
async function results(server, call) {
    const seen = [];
    for (const [of, tool, arguments_] of CASES) {
        if (of === server) seen.push({ tool, ...plain(await call(tool, arguments_)) });
    }
    return seen;
}

// What the servers themselves answered, per client.
const answers = new Map();
function expected(kind, server) {
    const key = `${kind.name} ${server}`;
    if (!answers.has(key)) {
        const straightly = client => results(server, (tool, arguments_) => callTool(client, { name: tool, arguments: arguments_ }));
        answers.set(key, straight(kind, server, straightly));
    }
    return answers.get(key);
}

async function until(file, content) {
    for (const end = Date.now() + MILLISECONDS; Date.now() < end; await pause(20)) {
        if (existsSync(file) && readFileSync(file, 'utf8') === content) return;
    }
    assert.fail(`${file} never said ${content}`);
}

for (const kind of clients) {
    for (const way of ways) {
        for (const server of cased) {
            test(`${kind.name}, ${way.name}: ${server} is the same as without the gateway`, bounded, async () => {
                const is = await way.open(kind, call => results(server, (tool, arguments_) => call(server, tool, arguments_)));
                assert.deepEqual(is, await expected(kind, server));
            });
        }

        test(`${kind.name}, ${way.name}: progress arrives`, bounded, async () => {
            let steps = [];
            const onprogress = ({ progress, total }) => steps.push([progress, total]);
            const arguments_ = { duration: 0.4, steps: 4 };
            // This SDK drops the steps that it reads together with the result: the last one often, more on a busy machine.
            for (let attempt = 1; steps.length < 3 && attempt <= 5; attempt++) {
                steps = [];
                await way.open(kind, call => call('everything', 'trigger-long-running-operation', arguments_, { onprogress }));
            }
            assert.deepEqual(steps.slice(0, 3), [[1, 4], [2, 4], [3, 4]]);
        });

        test(`${kind.name}, ${way.name}: cancelling reaches the server and the connection stays`, bounded, async () => {
            const file = `${files}/wait-${kind.name}-${way.name}.txt`.replaceAll(' ', '-');
            rmSync(file, { force: true });
            await way.open(kind, async call => {
                const stop = new AbortController();
                const waiting = call('odd', 'wait', { file }, { signal: stop.signal });
                const refused = assert.rejects(waiting);
                await until(file, 'started');
                stop.abort('not needed any more');
                await refused;
                await until(file, 'cancelled');
                assert.equal(text(await call('everything', 'echo', { message: 'after' })), 'Echo: after');
            });
        });

        test(`${kind.name}, ${way.name}: 32 calls at once get their own answers`, bounded, async () => {
            const results = await way.open(kind, call =>
                Promise.all(Array.from({ length: 32 }, (_, n) => call(n % 2 ? 'everything-http' : 'everything', 'echo', { message: `${n}` })))
            );
            assert.deepEqual(results.map(text), Array.from({ length: 32 }, (_, n) => `Echo: ${n}`));
        });
    }

    test(`${kind.name}: connects in its era over HTTP and over stdio`, needsGateway, async () => {
        const look = async client => {
            assert.ok(client.getServerVersion()?.name);
            const tools = (await client.listTools()).tools.map(tool => tool.name).sort();
            assert.deepEqual(tools, ['call_tool', 'describe_tool', 'find_tools']);
            if (client.getNegotiatedProtocolVersion) assert.equal(client.getNegotiatedProtocolVersion(), kind.revision);
        };
        await http(kind, undefined, look);
        await stdio(kind, look);
    });

    test(`${kind.name}: finds, describes and calls`, needsGateway, async () => {
        await http(kind, undefined, async client => {
            const found = await callTool(client, { name: 'find_tools', arguments: { query: 'convert time between timezones' } });
            assert.equal(found.structuredContent.tools[0].id, 'time/convert_time');
            const described = await callTool(client, { name: 'describe_tool', arguments: { name: 'time/convert_time' } });
            assert.ok(described.structuredContent.inputSchema.properties.source_timezone);
            const arguments_ = { source_timezone: 'UTC', time: '12:00', target_timezone: 'Asia/Tokyo' };
            const result = await callTool(client, { name: 'call_tool', arguments: { name: 'time/convert_time', arguments: arguments_ } });
            assert.match(text(result), /21:00/);
        });
    });

    test(`${kind.name}: an unknown tool names the nearest`, needsGateway, async () => {
        await http(kind, undefined, async client => {
            const result = await callTool(client, { name: 'call_tool', arguments: { name: 'everything/ecko', arguments: {} } });
            assert.equal(result.isError, true);
            assert.match(text(result), /echo/);
        });
        await http(kind, 'direct', async client => {
            await assert.rejects(callTool(client, { name: 'everything_ecko', arguments: {} }), error => {
                assert.equal(error.code, -32602);
                assert.match(error.message, /everything_echo/);
                return true;
            });
        });
    });

    test(`${kind.name}: resources, templates and prompts are the same as without the gateway`, needsGateway, async () => {
        const look = async client => {
            const sorted = list => list.map(plain).sort((a, b) => (a.name < b.name ? -1 : 1));
            // Without what a tool of another test has added to its session.
            const lasting = ({ uri }) => !uri.startsWith('demo://resource/session/');
            const resources = (await client.listResources()).resources.filter(lasting);
            const { resourceTemplates } = await client.listResourceTemplates();
            const { prompts } = await client.listPrompts();
            assert.ok(resources.length && resourceTemplates.length && prompts.length);
            return {
                resources: sorted(resources),
                templates: sorted(resourceTemplates),
                prompts: sorted(prompts),
                first: plain(await client.readResource({ uri: resources[0].uri })),
                dynamic: plain(await client.readResource({ uri: 'demo://resource/dynamic/blob/4' })),
                prompt: plain(await client.getPrompt({ name: 'args-prompt', arguments: { city: 'Ulm' } }))
            };
        };
        assert.deepEqual(await http(kind, 'one', look), await straight(kind, 'everything', look));
    });

    test(`${kind.name}: two clients at once see the same and do not disturb each other`, needsGateway, async () => {
        const names = async client => (await client.listTools()).tools.map(tool => tool.name).sort();
        await http(kind, 'direct', async one => {
            await http(clients[0], 'direct', async other => {
                assert.deepEqual(await names(one), await names(other));
                const echo = message => ({ name: 'everything_echo', arguments: { message } });
                const results = await Promise.all([callTool(one, echo('one')), callTool(other, echo('other'))]);
                assert.deepEqual(results.map(text), ['Echo: one', 'Echo: other']);
            });
            assert.equal(text(await callTool(one, { name: 'everything_echo', arguments: { message: 'still' } })), 'Echo: still');
        });
    });
}

test('a page of another site is refused', needsGateway, async () => {
    const body = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
    const headers = { 'content-type': 'application/json', accept: 'application/json, text/event-stream', origin: 'https://example.com' };
    const response = await fetch(url, { method: 'POST', headers, body });
    assert.equal(response.status, 403);
});
