// Agents as tools of the official TypeScript SDKs, in both eras, and by AG-UI's own client. The model is a script.

import assert from 'node:assert/strict';
import { spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { after, before, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { HttpAgent, buildResumeArray } from '@ag-ui/client';

import { MILLISECONDS, callTool, clients, files, gateway, servers, text } from './doors.mjs';

const bounded = { skip: gateway ? false : 'no gateway in this run', timeout: 2 * MILLISECONDS };
const home = gateway && mkdtempSync(join(tmpdir(), 'toolcrib-agents-'));
const environment = { ...process.env, ...gateway?.stdio.env, TOOLCRIB_HOME: home, NO_COLOR: '1' };
// The agents: what each one's model says, call by call, then in words.
const WAITING = `${files}/agent-of-node.txt`;
const HEARD = [1, 2].map(step => `${files}/heard-by-node-${step}.txt`);
const AGENTS = {
    teller: HEARD.map(file => [['odd_await_file', { file }]]),
    talker: [[['odd_everything_at_once', {}]], [['odd_fails', {}]]],
    waiter: [[['odd_wait', { file: WAITING }]]],
    held: [[['odd_fails', {}]]]
};
let program;
let url;
let key;

function write(kind, name, keys) {
    mkdirSync(join(home, kind), { recursive: true });
    const lines = Object.entries(keys).map(([name, value]) => `${name}: ${JSON.stringify(value)}\n`);
    writeFileSync(join(home, kind, `${name}.yaml`), `name: ${name}\n${lines.join('')}`);
}

function toolcrib(...words) {
    const ran = spawnSync(gateway.stdio.command, words, { env: environment, encoding: 'utf8', timeout: MILLISECONDS });
    assert.equal(ran.status, 0, `${words.join(' ')}: ${ran.stderr}`);
    return ran.stdout;
}

const runs = agent => JSON.parse(toolcrib('run', 'list', '--agent', agent, '-o', 'json')).runs;

async function until(done, what) {
    for (const end = Date.now() + MILLISECONDS; Date.now() < end; await pause(20)) if (done()) return;
    assert.fail(`expected ${what}`);
}

before(async () => {
    if (!gateway) return;
    write('servers', 'odd', { ...servers.odd, start: 'eager' });
    write('profiles', 'default', { exposure: 'direct' });
    write('profiles', 'careful', { exposure: 'direct', tools: { approve: ['odd/fails'] } });
    for (const [name, turns] of Object.entries(AGENTS)) {
        const said = turns.map(calls => ({ calls: calls.map(([name, given]) => ({ name, arguments: given })) }));
        write('models', name, { wire: 'script', script: { turns: [...said, { say: `${name} is done.` }] } });
        write('agents', name, { model: name, tools_shown: 'all' });
    }
    key = toolcrib('profile', 'key', 'add', 'careful', 'page').trim();
    const log = openSync(join(home, 'gateway.log'), 'w');
    const ready = join(home, 'ready.json');
    const words = ['serve', '--listen', '127.0.0.1:0', '--ready-file', ready];
    program = spawn(gateway.stdio.command, words, { env: environment, stdio: ['ignore', log, log] });
    await until(() => existsSync(ready) || program.exitCode !== null, 'the gateway to serve');
    url = JSON.parse(readFileSync(ready, 'utf8')).url;
});

after(async () => {
    if (!program) return;
    program.kill();
    if (program.exitCode === null) await once(program, 'exit');
    rmSync(home, { recursive: true, force: true });
});

async function through(kind, use) {
    const client = kind.make();
    await client.connect(kind.http(url), { timeout: MILLISECONDS });
    try {
        return await use(client);
    } finally {
        await client.close();
    }
}

for (const kind of clients) {
    test(`${kind.name}: an agent is a tool with progress`, bounded, async () => {
        await through(kind, async client => {
            assert.ok((await client.listTools()).tools.some(({ name }) => name === 'agent_teller'));
            const steps = [];
            // Each of two steps lets the run go on: a client drops those that it reads together with the result.
            for (const file of HEARD) rmSync(file, { force: true });
            const onprogress = ({ progress }) => {
                const file = HEARD[steps.push(progress) - 1];
                if (file) writeFileSync(file, '');
            };
            const result = await callTool(client, { name: 'agent_teller', arguments: { task: 'look' } }, { onprogress });
            assert.equal(text(result), 'teller is done.');
            assert.ok(steps.length >= 2, `${steps}`);
            assert.deepEqual(steps, [...new Set(steps)].sort((a, b) => a - b));
        });
    });

    test(`${kind.name}: cancelling the call of an agent cancels its run`, bounded, async () => {
        rmSync(WAITING, { force: true });
        const said = word => existsSync(WAITING) && readFileSync(WAITING, 'utf8') === word;
        await through(kind, async client => {
            const stop = new AbortController();
            const refused = assert.rejects(
                callTool(client, { name: 'agent_waiter', arguments: { task: 'wait' } }, { signal: stop.signal })
            );
            await until(() => said('started'), 'the tool to start');
            stop.abort('not needed any more');
            await refused;
            await until(() => said('cancelled'), 'the tool to be cancelled');
        });
        await until(() => runs('waiter')[0].status === 'ended', 'the run to end');
        assert.equal(runs('waiter')[0].end, 'cancelled');
    });
}

// A client of AG-UI with a task, and the types of what it gets.
function page(agent, profile, headers = {}) {
    const address = url.replace(/\/mcp$/, `/api/v1/agents/${agent}/ag-ui?profile=${profile}`);
    const client = new HttpAgent({ url: address, headers, initialMessages: [{ id: 'm1', role: 'user', content: 'look' }] });
    const events = [];
    const watch = { onEvent: ({ event }) => void events.push(event) };
    return { client, events, run: more => client.runAgent(more, watch) };
}

test('AG-UI: a run with its messages, calls and results', bounded, async () => {
    const { client, events, run } = page('talker', 'default');
    const { newMessages } = await run();
    const count = type => events.filter(event => event.type === type).length;
    assert.deepEqual(['TOOL_CALL_START', 'TOOL_CALL_RESULT'].map(count), [2, 2]);
    assert.equal(events.at(-1).type, 'RUN_FINISHED');
    assert.deepEqual(newMessages.filter(({ role }) => role === 'tool').length, 2);
    assert.equal(client.messages.at(-1).content, 'talker is done.');
    assert.deepEqual(client.pendingInterrupts, []);
});

test('AG-UI: an approval is an interrupt, and the next run goes on after the yes of another', bounded, async () => {
    const { client, events, run } = page('held', 'careful', { Authorization: `Bearer ${key}` });
    await run();
    assert.equal(events.at(-1).outcome.type, 'interrupt');
    const [interrupt] = client.pendingInterrupts;
    assert.equal(client.pendingInterrupts.length, 1);
    assert.equal(interrupt.toolCallId, events.find(event => event.type === 'TOOL_CALL_START').toolCallId);
    const [waiting] = JSON.parse(toolcrib('approval', 'list', '--state', 'open', '-o', 'json')).approvals;
    toolcrib('approval', 'approve', waiting.id);
    const answer = { [interrupt.id]: { status: 'resolved', payload: { approved: true } } };
    await run({ resume: buildResumeArray(client.pendingInterrupts, answer) });
    assert.equal(events.at(-1).outcome.type, 'success');
    assert.equal(client.messages.at(-1).content, 'held is done.');
    assert.deepEqual(client.pendingInterrupts, []);
    assert.equal(runs('held').length, 1);
});

test('AG-UI: aborting cancels the run', bounded, async () => {
    rmSync(WAITING, { force: true });
    const { client, run } = page('waiter', 'default');
    const before = runs('waiter').length;
    const ran = run().catch(() => {});
    await until(() => existsSync(WAITING) && readFileSync(WAITING, 'utf8') === 'started', 'the tool to start');
    client.abortRun();
    await ran;
    await until(() => runs('waiter').length > before && runs('waiter')[0].status === 'ended', 'the run to end');
    assert.equal(runs('waiter')[0].end, 'cancelled');
});
