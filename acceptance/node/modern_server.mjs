// A server on the newest official TypeScript SDK, of the modern era for everyone who can speak it:
//
//     modern_server.mjs stdio | http
//
// Over HTTP it listens on the port in `PORT`, at `/mcp`. The same file serves the legacy era to clients of that era, so
// that what they see through the gateway can be compared with what they see without it.

import { createServer } from 'node:http';
import { setTimeout as pause } from 'node:timers/promises';

import { toNodeHandler } from '@modelcontextprotocol/node';
import { Server, createMcpHandler, inputRequired } from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';

const nothing = { type: 'object', properties: {} };
const one = (name, more) => ({ type: 'object', properties: { [name]: { type: 'string', ...more } }, required: [name] });
const PICTURE = Buffer.from(Array.from({ length: 64 }, (_, n) => n)).toString('base64');

const TOOLS = [
    { name: 'ask_all', description: 'Asks three things at once', inputSchema: nothing },
    { name: 'ask_form', description: 'Asks with a form', inputSchema: one('message') },
    { name: 'ask_model', description: 'Asks a model', inputSchema: one('prompt') },
    { name: 'ask_roots', description: 'Asks where the client works', inputSchema: nothing },
    { name: 'ask_twice', description: 'Asks twice and keeps what it heard in the state', inputSchema: nothing },
    { name: 'echo', title: 'Echo', description: 'Says what it hears', inputSchema: one('message', { minLength: 1 }) },
    { name: 'everything', description: 'Answers with every kind of content', inputSchema: nothing, _meta: { 'example.com/kept': 1 } },
    { name: 'fails', description: 'Fails', inputSchema: nothing, annotations: { readOnlyHint: true } },
    { name: 'logs', description: 'Tells what it does', inputSchema: nothing },
    { name: 'mirrored', description: 'Has an argument that travels in a header', inputSchema: one('region', { 'x-mcp-header': 'Region' }) },
    { name: 'steps', description: 'Tells how far it is', inputSchema: nothing }
];

const text = text => ({ content: [{ type: 'text', text }] });
const form = (message, field) =>
    inputRequired.elicit({ message, requestedSchema: { type: 'object', properties: { [field]: { type: 'string', title: field } }, required: [field] } });
const model = prompt =>
    inputRequired.createMessage({ messages: [{ role: 'user', content: { type: 'text', text: prompt } }], maxTokens: 10, systemPrompt: 'Be short' });

// The answers if there is one for each question, and else the questions.
function ask(questions, answers, then) {
    if (answers && Object.keys(questions).every(key => key in answers)) {
        return then(Object.fromEntries(Object.keys(questions).map(key => [key, answers[key]])));
    }
    return inputRequired({ inputRequests: questions });
}
const told = answers => text(JSON.stringify(answers));

const CALLS = {
    echo: ({ message }) => text(`heard ${message}`),
    mirrored: ({ region }) => text(`in ${region}`),
    fails: () => ({ ...text('it failed as it should'), isError: true, _meta: { 'example.com/why': 'always' } }),
    everything: () => ({
        content: [
            { type: 'text', text: 'über 日本 \u2028 "quoted" \\ /', annotations: { audience: ['user'], priority: 0.25 } },
            { type: 'image', data: PICTURE, mimeType: 'image/png', _meta: { 'example.com/pixel': [1, null] } },
            { type: 'audio', data: PICTURE, mimeType: 'audio/wav' },
            { type: 'resource', resource: { uri: 'modern://text', mimeType: 'text/plain', text: 'inside' } },
            { type: 'resource_link', uri: 'modern://text', name: 'link', size: 12345678901 }
        ],
        structuredContent: { large: 9007199254740991, list: [], nothing: null },
        _meta: { 'example.com/result': { order: ['z', 'a'] } }
    }),
    ask_form: ({ message }, { inputResponses }) => ask({ form: form(message, 'name') }, inputResponses, told),
    ask_model: ({ prompt }, { inputResponses }) => ask({ model: model(prompt) }, inputResponses, told),
    ask_roots: (_, { inputResponses }) => ask({ roots: inputRequired.listRoots() }, inputResponses, told),
    ask_all: (_, { inputResponses }) =>
        ask({ a: form('all: name?', 'name'), b: model('all'), c: inputRequired.listRoots() }, inputResponses, told),
    ask_twice: (_, { inputResponses, requestState }) => {
        const first = requestState() && JSON.parse(requestState()).first;
        if (first && inputResponses?.second) return told({ first, second: inputResponses.second });
        if (inputResponses?.first) {
            return inputRequired({
                inputRequests: { second: form('second: colour?', 'colour') },
                requestState: JSON.stringify({ first: inputResponses.first })
            });
        }
        return inputRequired({ inputRequests: { first: form('first: name?', 'name') } });
    },
    logs: async (_, { log }) => {
        for (const level of ['debug', 'info', 'error']) await log(level, { level, say: `this is ${level}` }, 'modern');
        return text('told three times');
    },
    steps: async (_, { notify, _meta }) => {
        for (let progress = 1; progress <= 3; progress++) {
            const params = { progressToken: _meta?.progressToken, progress, total: 3, message: `step ${progress}` };
            if (params.progressToken !== undefined) await notify({ method: 'notifications/progress', params });
            await pause(20);
        }
        return text('three steps');
    }
};

const RESOURCES = [
    { uri: 'modern://text', name: 'text', mimeType: 'text/plain', annotations: { priority: 1 } },
    { uri: 'modern://bytes', name: 'bytes', mimeType: 'application/octet-stream', size: 64 }
];

function read(uri) {
    if (uri === 'modern://text') return { contents: [{ uri, mimeType: 'text/plain', text: 'a modern text' }] };
    if (uri === 'modern://bytes') return { contents: [{ uri, mimeType: 'application/octet-stream', blob: PICTURE }] };
    const number = /^modern:\/\/item\/(.+)$/.exec(uri)?.[1];
    if (number) return { contents: [{ uri, text: `item ${number}` }] };
    throw Object.assign(new Error(`no resource ${uri}`), { code: -32602, data: { uri } });
}

const PROMPTS = [
    { name: 'greeting', description: 'Greets', arguments: [{ name: 'name', description: 'Whom', required: true }] },
    { name: 'asking', description: 'Asks before it greets' }
];

function prompt({ name, arguments: given }, { inputResponses }) {
    const says = text => ({ description: 'A greeting', messages: [{ role: 'user', content: { type: 'text', text } }] });
    if (name === 'greeting') return says(`Say hello to ${given?.name}`);
    return ask({ form: form('prompt: name?', 'name') }, inputResponses, answers => says(JSON.stringify(answers)));
}

// Two at a time, so that whoever reads only the first page misses most.
function page(items, key, cursor) {
    const from = Number(cursor ?? 0);
    const next = from + 2 < items.length ? { nextCursor: String(from + 2) } : {};
    return { [key]: items.slice(from, from + 2), ...next };
}

function make() {
    const capabilities = { tools: {}, resources: {}, prompts: {}, completions: {}, logging: {} };
    const server = new Server({ name: 'modern', title: 'Modern', version: '2.0.0' }, { capabilities, instructions: 'Ask and you will be asked.' });
    server.setRequestHandler('tools/list', ({ params }) => page(TOOLS, 'tools', params?.cursor));
    server.setRequestHandler('resources/list', ({ params }) => page(RESOURCES, 'resources', params?.cursor));
    server.setRequestHandler('resources/templates/list', () => ({ resourceTemplates: [{ uriTemplate: 'modern://item/{number}', name: 'item' }] }));
    server.setRequestHandler('prompts/list', ({ params }) => page(PROMPTS, 'prompts', params?.cursor));
    server.setRequestHandler('tools/call', ({ params }, { mcpReq }) => CALLS[params.name](params.arguments ?? {}, mcpReq));
    server.setRequestHandler('resources/read', ({ params }) => read(params.uri));
    server.setRequestHandler('prompts/get', ({ params }, { mcpReq }) => prompt(params, mcpReq));
    server.setRequestHandler('completion/complete', ({ params }) => {
        const values = ['Ada', 'Alan', 'Grace'].filter(name => name.startsWith(params.argument.value));
        return { completion: { values, total: values.length, hasMore: false } };
    });
    return server;
}

if (process.argv[2] === 'http') {
    const handle = toNodeHandler(createMcpHandler(make));
    createServer((request, response) => handle(request, response)).listen(Number(process.env.PORT), '127.0.0.1');
} else {
    serveStdio(make);
}
