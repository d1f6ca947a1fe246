// Clients of each age with somebody behind them who answers questions, and what they do with a server: the steps of
// `../scripts.json`, each with everything that came of it.

import { readFileSync } from 'node:fs';
import { setTimeout as pause } from 'node:timers/promises';

import * as second from '@modelcontextprotocol/client';
import { StdioClientTransport as SecondStdio } from '@modelcontextprotocol/client/stdio';
import { Client as NewFirst } from '@modelcontextprotocol/sdk/client/index.js';
import { SSEClientTransport as NewFirstSse } from '@modelcontextprotocol/sdk/client/sse.js';
import { StdioClientTransport as NewFirstStdio } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport as NewFirstHttp } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import * as newFirstTypes from '@modelcontextprotocol/sdk/types.js';
import { Client as Client12 } from 'sdk-1.12/client/index.js';
import { SSEClientTransport as Sse12 } from 'sdk-1.12/client/sse.js';
import { StdioClientTransport as Stdio12 } from 'sdk-1.12/client/stdio.js';
import { StreamableHTTPClientTransport as Http12 } from 'sdk-1.12/client/streamableHttp.js';
import * as types12 from 'sdk-1.12/types.js';
import { Client as Client8 } from 'sdk-1.8/client/index.js';
import { SSEClientTransport as Sse8 } from 'sdk-1.8/client/sse.js';
import { StdioClientTransport as Stdio8 } from 'sdk-1.8/client/stdio.js';
import * as types8 from 'sdk-1.8/types.js';

import { MILLISECONDS, gateway, plain, process_, servers, setting, url } from './doors.mjs';

export const script = JSON.parse(readFileSync(setting.scripts, 'utf8'));

const LOG_LEVEL = 'io.modelcontextprotocol/logLevel';
const ATTEMPTS = 5;
// How long a log message may come after the result, in milliseconds.
const LATE = 5_000;
const first = { era: 'legacy', schemas: true };

// One row per client: which questions it can be asked depends on how old it is. Each door is used by some of them.
export const ages = [
    { ...first, name: 'sdk 1.8', doors: ['sse', 'stdio'], revision: '2024-11-05', Client: Client8, sse: Sse8, stdio: Stdio8, types: types8, asked: ['sampling', 'roots'] },
    { ...first, name: 'sdk 1.12', doors: ['http', 'sse'], revision: '2025-03-26', Client: Client12, http: Http12, sse: Sse12, stdio: Stdio12, types: types12, asked: ['sampling', 'roots'] },
    { ...first, name: 'sdk 1', doors: ['http', 'stdio'], revision: '2025-11-25', Client: NewFirst, http: NewFirstHttp, sse: NewFirstSse, stdio: NewFirstStdio, types: newFirstTypes, asked: ['sampling', 'roots', 'elicitation'] },
    { name: 'sdk 2 legacy', doors: ['http'], era: 'legacy', revision: '2025-11-25', Client: second.Client, http: second.StreamableHTTPClientTransport, stdio: SecondStdio, options: { versionNegotiation: { mode: 'legacy' } }, asked: ['sampling', 'roots', 'elicitation'] },
    { name: 'sdk 2 modern', doors: ['http', 'stdio'], era: 'modern', revision: '2026-07-28', Client: second.Client, http: second.StreamableHTTPClientTransport, stdio: SecondStdio, options: { versionNegotiation: { mode: 'auto' } }, asked: ['sampling', 'roots', 'elicitation'] }
];

// Somebody who answers what a server asks and notes what was asked.
class Person {
    constructor(age, name) {
        this.age = age;
        this.name = name;
        this.heard = [];
        this.logs = [];
        const capabilities = Object.fromEntries(age.asked.map(what => [what, {}]));
        this.client = new age.Client({ name: 'toolcrib-acceptance', version: '1.0.0' }, { ...age.options, capabilities });
        if (age.asked.includes('elicitation')) this.on('elicitation/create', 'ElicitRequestSchema', params => this.fill(params));
        if (age.asked.includes('sampling')) this.on('sampling/createMessage', 'CreateMessageRequestSchema', params => this.say(params));
        if (age.asked.includes('roots')) this.on('roots/list', 'ListRootsRequestSchema', () => this.roots());
        const log = ({ params }) => void this.logs.push(params);
        if (age.schemas) this.client.setNotificationHandler(age.types.LoggingMessageNotificationSchema, log);
        else this.client.setNotificationHandler('notifications/message', log);
    }

    on(method, schema, answer) {
        const handle = async ({ params }) => {
            const { _meta, mode, ...question } = params ?? {};
            this.heard.push({ method, ...question });
            return answer(question);
        };
        this.client.setRequestHandler(this.age.schemas ? this.age.types[schema] : method, handle);
    }

    fill({ message, requestedSchema }) {
        for (const action of ['decline', 'cancel']) if (message.includes(action)) return { action };
        const content = {};
        for (const [key, field] of Object.entries(requestedSchema.properties)) content[key] = this.value(key, field);
        return { action: 'accept', content };
    }

    value(key, field) {
        const choices = of => of.enum ?? (of.oneOf ?? of.anyOf)?.map(choice => choice.const);
        if (field.type === 'boolean') return true;
        if (field.type === 'array') return choices(field.items).slice(0, 2);
        if (field.type === 'number' || field.type === 'integer') return field.minimum ?? 7;
        if (choices(field)) return choices(field)[1];
        if (field.format) return { email: 'ada@example.com', uri: 'https://example.com/', date: '2026-01-02', 'date-time': '2026-01-02T03:04:05Z' }[field.format];
        return `${key} of ${this.name}`;
    }

    say({ messages }) {
        const heard = [messages.at(-1).content].flat()[0].text;
        if (heard.includes('refuse')) throw Object.assign(new Error('the person said no'), { code: -1 });
        return { model: `model of ${this.name}`, role: 'assistant', content: { type: 'text', text: `${this.name} heard ${heard}` }, stopReason: 'endTurn' };
    }

    roots() {
        return { roots: [{ uri: `file:///home/${encodeURIComponent(this.name)}`, name: this.name }] };
    }

    // === what a client does ===

    async ask(method, params, options = {}) {
        const { client, age } = this;
        if (age.era === 'modern' && options.level) params = { ...params, _meta: { ...params._meta, [LOG_LEVEL]: options.level } };
        const { level, ...rest } = options;
        return method === 'callTool' && age.schemas ? client.callTool(params, undefined, rest) : client[method](params, rest);
    }

    async list(method, key) {
        const items = [];
        for (let cursor; ; ) {
            const page = await this.ask(method, cursor === undefined ? {} : { cursor });
            items.push(...page[key]);
            // The second generation reads all pages itself.
            if ((cursor = page.nextCursor) === undefined) return { [key]: items.map(settled).sort((a, b) => (a.name < b.name ? -1 : 1)) };
        }
    }

    async step([what, name, more]) {
        const quick = { timeout: MILLISECONDS };
        switch (what) {
            case 'list':
                return {
                    tools: () => this.list('listTools', 'tools'),
                    resources: () => this.list('listResources', 'resources'),
                    templates: () => this.list('listResourceTemplates', 'resourceTemplates'),
                    prompts: () => this.list('listPrompts', 'prompts')
                }[name]();
            case 'ping':
                return this.age.era === 'modern' ? {} : this.client.ping();
            case 'call':
                return this.ask('callTool', { name, arguments: more ?? {} }, quick);
            case 'progress': {
                // A client drops the steps that it reads together with the result: the last one often, more on a busy machine.
                // And a modern one hears none between a question and its answer.
                for (let attempt = 1; ; attempt++) {
                    const progress = [];
                    const asked = this.heard.length;
                    const onprogress = ({ progress: step, total, message }) => {
                        // The second generation says itself that it answers a question, which may be asked at any moment.
                        if (!message?.startsWith('Fulfilling input required')) progress.push([step, total, message]);
                    };
                    const result = await this.ask('callTool', { name, arguments: more ?? {} }, { ...quick, onprogress });
                    const whole = progress.length >= 2 && this.heard.length === asked;
                    if (whole || attempt === ATTEMPTS) return { ...result, progress: progress.slice(0, 2) };
                }
            }
            case 'logs': {
                // Not every server that logs lets itself be told how much.
                if (this.age.era !== 'modern') await this.client.setLoggingLevel('info').catch(() => {});
                this.logs = [];
                const result = await this.ask('callTool', { name, arguments: more ?? {} }, { ...quick, level: 'info' });
                // They may come on another stream than the result, and after it.
                const told = () => this.logs.filter(log => log.level !== 'debug').slice(0, 2);
                for (const end = Date.now() + LATE; told().length < 2 && Date.now() < end; ) await pause(10);
                return { ...result, logs: told() };
            }
            case 'read':
                return this.ask('readResource', { uri: name }, quick);
            case 'prompt':
                return this.ask('getPrompt', { name, arguments: more ?? {} }, quick);
            case 'complete':
                return this.ask('complete', { ref: { type: 'ref/prompt', name }, argument: more }, quick);
        }
        throw new Error(`unknown step ${what}`);
    }

    // All steps, each with what came of it and what was asked on the way.
    async play(steps) {
        const seen = [];
        for (const step of steps) {
            this.heard = [];
            let came;
            try {
                came = settled(plain(await this.step(step)));
            } catch (error) {
                came = { error: error.code ?? error.name };
            }
            const heard = this.heard.map(question => settled(plain(question)));
            // Questions that are asked at the same time have no order.
            heard.sort((a, b) => (JSON.stringify(a) < JSON.stringify(b) ? -1 : 1));
            seen.push({ step: step.slice(0, 2).join(' '), ...came, ...(heard.length && { heard }) });
        }
        return seen;
    }
}

// Without what other tests change, and with one order of keys where a server put an answer into a text.
function settled(value) {
    const text = (key, inner) => (typeof inner === 'string' ? inner.replace(/changed \d+ times/, 'changed often').replace(/\{.*\}/s, sorted) : inner);
    return JSON.parse(JSON.stringify(value, text));
}

function sorted(text) {
    const order = (key, inner) => (inner?.constructor === Object ? Object.fromEntries(Object.entries(inner).sort()) : inner);
    try {
        return JSON.stringify(JSON.parse(text), order);
    } catch {
        return text;
    }
}

async function connected(age, name, transport, use) {
    const person = new Person(age, name);
    try {
        await person.client.connect(transport, { timeout: MILLISECONDS });
        return await use(person);
    } finally {
        await person.client.close();
    }
}

export function straight(age, server, use, name = 'Ada') {
    const target = servers[server];
    if (target.command) return connected(age, name, new age.stdio(process_(target)), use);
    return connected(age, name, new age[target.transport](new URL(target.url)), use);
}

export function through(age, door, server, use, name = 'Ada') {
    if (door === 'http') return connected(age, name, new age.http(new URL(`${url}/p/${server}`)), use);
    if (door === 'sse') return connected(age, name, new age.sse(new URL(`${url.replace(/\/mcp$/, '/sse')}/p/${server}`)), use);
    const target = { ...gateway.stdio, args: ['stdio', '--home', `${setting.single_homes}/${server}`] };
    return connected(age, name, new age.stdio(process_(target)), use);
}

// The server itself if this client can speak to it without a bridge, else one of its family that it can speak to.
export function twin(age, server) {
    const { family, era } = script.servers[server];
    if (family === 'rust') return `rust-${age.era}`;
    const { transport } = servers[server];
    // The legacy side of a modern server over HTTP has no sessions, so it cannot ask.
    const direct = !transport || (age[transport] && !(era === 'both' && age.era === 'legacy'));
    return direct ? server : server.replace(/-(http|sse)$/, '');
}
