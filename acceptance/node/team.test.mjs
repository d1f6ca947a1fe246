// A team with a certified provider (`oidc-provider`): the official SDK finds its way from our 401 to a token and in; opaque
// tokens, proofs of possession, services, new keys under load, and people who sign in to our pages.

import assert from 'node:assert/strict';
import { createHash, randomUUID, webcrypto } from 'node:crypto';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, createServer as createProxy } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import Provider, { errors } from 'oidc-provider';

import { MILLISECONDS, gateway } from './doors.mjs';
import { browse } from './provider.mjs';

const needsGateway = { skip: gateway ? false : 'no gateway in this run', timeout: 4 * MILLISECONDS };
const SCOPE = 'tools:use';
const SECRET = 's3cret-of-the-gateway-at-the-provider';
const REDIRECT = 'http://127.0.0.1:9/answer';

const url64 = bytes => Buffer.from(bytes).toString('base64url');
const sha256 = text => createHash('sha256').update(text).digest();

async function listening(server) {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${server.address().port}`;
}

async function signingKey(kid) {
    const { privateKey } = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
    return { ...(await webcrypto.subtle.exportKey('jwk', privateKey)), kid, use: 'sig', alg: 'ES256', key_ops: undefined, ext: undefined };
}

// A provider, a gateway behind a proxy whose address is known first, and a way to get tokens.
async function team(format, use) {
    let oidc;
    const issuerServer = createServer((request, response) => oidc.callback()(request, response));
    const issuer = await listening(issuerServer);
    let port;
    const pipes = new Set();
    const proxy = createProxy(client => {
        const server = connect(port, '127.0.0.1');
        for (const [from, to] of [[client, server], [server, client]]) {
            pipes.add(from);
            from.on('error', () => to.destroy()).on('close', () => to.destroy());
            from.pipe(to);
        }
    });
    const origin = await listening(proxy);

    const keys = [await signingKey('first')];
    const build = () => {
        oidc = new Provider(issuer, {
            clients: [
                { client_id: 'person', redirect_uris: [REDIRECT], token_endpoint_auth_method: 'none', grant_types: ['authorization_code'], application_type: 'native' },
                { client_id: 'nightly', client_secret: SECRET, redirect_uris: [], response_types: [], grant_types: ['client_credentials'] },
                { client_id: 'toolcrib', client_secret: SECRET, redirect_uris: [`${origin}/ui/callback`] }
            ],
            clientDefaults: { id_token_signed_response_alg: 'ES256' },
            enabledJWA: { idTokenSigningAlgValues: ['ES256'] },
            features: {
                clientCredentials: { enabled: true },
                devInteractions: { enabled: true },
                dPoP: { enabled: true },
                introspection: { enabled: true, allowedPolicy: () => true },
                registration: { enabled: true },
                resourceIndicators: {
                    enabled: true,
                    useGrantedResource: () => false,
                    getResourceServerInfo(_, wanted) {
                        if (!wanted.startsWith(origin)) throw new errors.InvalidTarget();
                        return { scope: SCOPE, audience: wanted, accessTokenFormat: format, accessTokenTTL: 3600, jwt: { sign: { alg: 'ES256' } } };
                    }
                }
            },
            jwks: { keys },
            pkce: { required: () => true },
            scopes: ['openid', SCOPE]
        });
    };
    build();

    const home = mkdtempSync(join(tmpdir(), 'toolcrib-team-'));
    const files = {
        'config.toml': `[identity]\nurl = "${origin}"\nscopes = ["${SCOPE}"]\n[[identity.issuer]]\nname = "acme"\nissuer = "${issuer}"\n`
            + 'grants = [{user = "someone", role = "member", profiles = ["work"]}, {client = "nightly", role = "viewer", profiles = ["work"]}]\n'
            + `introspect = {client_id = "toolcrib", client_secret = "env:OURS"}\nsign_in = {client_id = "toolcrib", client_secret = "env:OURS"}\n`,
        'profiles/work.yaml': 'name: work\nexposure: meta\n',
        'profiles/home.yaml': 'name: home\nexposure: meta\n'
    };
    for (const [path, text] of Object.entries(files)) {
        mkdirSync(join(home, path, '..'), { recursive: true });
        writeFileSync(join(home, path), text);
    }
    const ready = join(home, 'ready.json');
    const log = join(home, 'gateway.log');
    const file = openSync(log, 'w');
    const args = ['serve', '--listen', '127.0.0.1:0', '--home', home, '--ready-file', ready];
    const env = { ...process.env, ...gateway.stdio.env, OURS: SECRET, TOOLCRIB_LOG: 'trace' };
    const child = spawn(gateway.stdio.command, args, { env, stdio: ['ignore', file, file] });
    closeSync(file);
    const ended = new Promise(resolve => child.once('exit', resolve));
    const secrets = [SECRET];
    try {
        for (const end = Date.now() + MILLISECONDS; !existsSync(ready) && Date.now() < end; await pause(20));
        port = Number(new URL(JSON.parse(readFileSync(ready, 'utf8')).url).port);

        const redeem = async (fields, headers = {}) => {
            const response = await fetch(`${issuer}/token`, { method: 'POST', body: new URLSearchParams(fields), headers });
            const answer = await response.json();
            assert.equal(response.status, 200, JSON.stringify(answer));
            secrets.push(answer.access_token);
            return answer.access_token;
        };
        // A token for a person, as a client of theirs gets it; `headers` of the token request may bind it to a key.
        const personToken = async (profile, headers) => {
            const verifier = url64(webcrypto.getRandomValues(new Uint8Array(32)));
            const page = new URL(`${issuer}/auth`);
            const asked = {
                client_id: 'person', response_type: 'code', redirect_uri: REDIRECT, scope: `openid ${SCOPE}`, resource: `${origin}/mcp/p/${profile}`,
                code_challenge: url64(sha256(verifier)), code_challenge_method: 'S256', state: 'state'
            };
            for (const [name, value] of Object.entries(asked)) page.searchParams.set(name, value);
            const code = new URL(await browse(page.href, REDIRECT)).searchParams.get('code');
            const { client_id, redirect_uri, resource } = asked;
            return redeem({ grant_type: 'authorization_code', code, code_verifier: verifier, client_id, redirect_uri, resource }, headers);
        };
        const ask = async (profile, authorization, headers = {}) => {
            const body = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'team', version: '1' } } };
            const accept = 'application/json, text/event-stream';
            const response = await fetch(`${origin}/mcp/p/${profile}`, {
                method: 'POST', body: JSON.stringify(body), headers: { accept, authorization, 'content-type': 'application/json', ...headers }
            });
            await response.text();
            return response;
        };
        const newKey = async () => {
            keys.unshift(await signingKey(`key-${keys.length}`));
            build();
        };
        await use({ origin, issuer, redeem, personToken, ask, newKey });
        child.kill('SIGTERM');
        await ended;
        const logged = readFileSync(log, 'utf8');
        for (const secret of secrets) assert.ok(!logged.includes(secret), 'a secret was logged');
    } finally {
        child.kill('SIGKILL');
        await ended;
        for (const pipe of pipes) pipe.destroy();
        proxy.close();
        issuerServer.closeAllConnections();
        issuerServer.close();
        rmSync(home, { recursive: true, force: true });
    }
}

// What the official SDK asks of its host: here a person who logs in at once.
class Host {
    redirectUrl = REDIRECT;
    clientMetadata = { redirect_uris: [REDIRECT], client_name: 'acceptance', token_endpoint_auth_method: 'none', application_type: 'native' };
    clientInformation() { return this.client; }
    saveClientInformation(client) { this.client = client; }
    tokens() { return this.given; }
    saveTokens(given) { this.given = given; }
    async redirectToAuthorization(page) { this.code = new URL(await browse(page.href, REDIRECT)).searchParams.get('code'); }
    saveCodeVerifier(verifier) { this.verifier = verifier; }
    codeVerifier() { return this.verifier; }
}

for (const format of ['jwt', 'opaque']) {
    test(`the official SDK logs in at a certified provider, ${format} tokens`, needsGateway, async () => {
        await team(format, async ({ origin }) => {
            const host = new Host();
            const url = new URL(`${origin}/mcp/p/work`);
            const first = new StreamableHTTPClientTransport(url, { authProvider: host });
            await assert.rejects(new Client({ name: 'team', version: '1' }).connect(first), /unauthorized/i);
            await first.finishAuth(host.code);
            const client = new Client({ name: 'team', version: '1' });
            await client.connect(new StreamableHTTPClientTransport(url, { authProvider: host }));
            const names = (await client.listTools()).tools.map(({ name }) => name);
            assert.ok(names.includes('find_tools'), names.join());
            await client.close();
        });
    });
}

test('tokens count where they are for, and services are no people', needsGateway, async () => {
    await team('jwt', async ({ origin, redeem, personToken, ask }) => {
        const work = await personToken('work');
        assert.equal((await ask('work', `Bearer ${work}`)).status, 200);
        // For another profile it is no token; one for that profile finds nothing there, as in one that does not exist.
        assert.equal((await ask('home', `Bearer ${work}`)).status, 401);
        for (const profile of ['home', 'nope']) {
            const answer = await ask(profile, `Bearer ${await personToken(profile)}`);
            assert.equal(answer.status, 404, profile);
        }
        const basic = `Basic ${Buffer.from(`nightly:${SECRET}`).toString('base64')}`;
        const service = await redeem(
            { grant_type: 'client_credentials', scope: SCOPE, resource: `${origin}/mcp/p/work` }, { authorization: basic }
        );
        assert.equal((await ask('work', `Bearer ${service}`)).status, 200);
        const [head, claims, signature] = work.split('.');
        const forged = url64(JSON.stringify({ ...JSON.parse(Buffer.from(claims, 'base64url')), sub: 'root' }));
        assert.equal((await ask('work', `Bearer ${head}.${forged}.${signature}`)).status, 401);
    });
});

test('new keys of the provider break no one', needsGateway, async () => {
    await team('jwt', async ({ personToken, ask, newKey }) => {
        const old = await personToken('work');
        assert.equal((await ask('work', `Bearer ${old}`)).status, 200);
        let running = true;
        const load = Promise.all(Array.from({ length: 4 }, async () => {
            let count = 0;
            for (; running; count += 1) assert.equal((await ask('work', `Bearer ${old}`)).status, 200);
            return count;
        }));
        await newKey();
        const young = await personToken('work');
        assert.notEqual(young.split('.')[0], old.split('.')[0], 'another key signs');
        assert.equal((await ask('work', `Bearer ${young}`)).status, 200);
        running = false;
        assert.ok((await load).every(count => count > 0));
    });
});

test('a token that is bound to a key needs its proof', needsGateway, async () => {
    await team('jwt', async ({ origin, issuer, personToken, ask }) => {
        const pair = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
        const { kty, crv, x, y } = await webcrypto.subtle.exportKey('jwk', pair.publicKey);
        const proof = async (htu, more) => {
            const header = { alg: 'ES256', typ: 'dpop+jwt', jwk: { kty, crv, x, y } };
            const claims = { jti: randomUUID(), htm: 'POST', htu, iat: Math.floor(Date.now() / 1000), ...more };
            const message = [header, claims].map(part => url64(JSON.stringify(part))).join('.');
            const signature = await webcrypto.subtle.sign({ name: 'ECDSA', hash: 'SHA-256' }, pair.privateKey, Buffer.from(message));
            return `${message}.${url64(signature)}`;
        };
        const token = await personToken('work', { dpop: await proof(`${issuer}/token`) });
        const url = `${origin}/mcp/p/work`;
        const ath = url64(sha256(token));
        assert.equal((await ask('work', `Bearer ${token}`)).status, 401);
        assert.equal((await ask('work', `DPoP ${token}`)).status, 401);
        const told = await ask('work', `DPoP ${token}`, { dpop: await proof(url, { ath }) });
        assert.match(told.headers.get('www-authenticate'), /use_dpop_nonce/);
        const nonce = told.headers.get('dpop-nonce');
        const good = await proof(url, { ath, nonce });
        assert.equal((await ask('work', `DPoP ${token}`, { dpop: good })).status, 200);
        assert.equal((await ask('work', `DPoP ${token}`, { dpop: good })).status, 401, 'a proof counts once');
        assert.equal((await ask('work', `DPoP ${token}`, { dpop: await proof(`${origin}/mcp`, { ath, nonce }) })).status, 401);
    });
});

test('a person signs in to our pages', needsGateway, async () => {
    await team('jwt', async ({ origin }) => {
        assert.match(await (await fetch(`${origin}/ui`)).text(), /Sign in with acme/);
        const page = await browse(`${origin}/ui/sign-in/acme`, undefined, 'Sign out');
        assert.match(page, /user:acme\/someone/);
        assert.match(page, new RegExp(`${origin}/mcp/p/work`));
    });
});
