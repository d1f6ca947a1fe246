// A team with a certified provider (`oidc-provider`) and a gateway of its own, whose log holds no secret.

import assert from 'node:assert/strict';
import { createHash, webcrypto } from 'node:crypto';
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { connect, createServer as createProxy } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import Provider, { errors } from 'oidc-provider';

import { MILLISECONDS, gateway } from './doors.mjs';
import { browse } from './provider.mjs';

export const SCOPE = 'tools:use';
export const SECRET = 's3cret-of-the-gateway-at-the-provider';
export const REDIRECT = 'http://127.0.0.1:9/answer';

export const url64 = bytes => Buffer.from(bytes).toString('base64url');
export const sha256 = text => createHash('sha256').update(text).digest();

export async function listening(server) {
    server.listen(0, '127.0.0.1');
    await once(server, 'listening');
    return `http://127.0.0.1:${server.address().port}`;
}

async function signingKey(kid) {
    const { privateKey } = await webcrypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign', 'verify']);
    return { ...(await webcrypto.subtle.exportKey('jwk', privateKey)), kid, use: 'sig', alg: 'ES256', key_ops: undefined, ext: undefined };
}

// A provider, a gateway behind a proxy whose address is known first, and a way to get tokens. Of
// `settings`, `identity` replaces what the gateway knows of the provider, `introspect` is added to how it asks about tokens.
export async function team(format, use, settings = {}) {
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
                { client_id: 'person', redirect_uris: [REDIRECT], token_endpoint_auth_method: 'none', grant_types: ['authorization_code', 'refresh_token'], application_type: 'native' },
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
                revocation: { enabled: true },
                resourceIndicators: {
                    enabled: true,
                    useGrantedResource: () => false,
                    getResourceServerInfo(_, wanted) {
                        if (!wanted.startsWith(origin)) throw new errors.InvalidTarget();
                        return { scope: SCOPE, audience: wanted, accessTokenFormat: format, accessTokenTTL: 3600, jwt: { sign: { alg: 'ES256' } } };
                    }
                }
            },
            issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
            jwks: { keys },
            pkce: { required: () => true },
            rotateRefreshToken: true,
            scopes: ['openid', SCOPE]
        });
    };
    build();

    const home = mkdtempSync(join(tmpdir(), 'toolcrib-team-'));
    const acme = `scopes = ["${SCOPE}"]\n[[identity.issuer]]\nname = "acme"\nissuer = "${issuer}"\n`
        + 'grants = [{user = "someone", role = "member", profiles = ["work"]}, {client = "nightly", role = "viewer", profiles = ["work"]}]\n'
        + `introspect = {client_id = "toolcrib", client_secret = "env:OURS"${settings.introspect ?? ''}}\n`
        + 'sign_in = {client_id = "toolcrib", client_secret = "env:OURS"}\n';
    const files = {
        'config.toml': `[identity]\nurl = "${origin}"\n${settings.identity ?? acme}`,
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

        const tokens = async (fields, headers = {}) => {
            const response = await fetch(`${issuer}/token`, { method: 'POST', body: new URLSearchParams(fields), headers });
            const answer = await response.json();
            assert.equal(response.status, 200, JSON.stringify(answer));
            secrets.push(answer.access_token);
            if (answer.refresh_token) secrets.push(answer.refresh_token);
            return answer;
        };
        const redeem = async (fields, headers) => (await tokens(fields, headers)).access_token;
        // Tokens for a person, as a client of theirs gets them; `headers` of the token request may bind them to a key.
        const personTokens = async (profile, headers) => {
            const verifier = url64(webcrypto.getRandomValues(new Uint8Array(32)));
            const page = new URL(`${issuer}/auth`);
            const asked = {
                client_id: 'person', response_type: 'code', redirect_uri: REDIRECT, scope: `openid ${SCOPE}`, resource: `${origin}/mcp/p/${profile}`,
                code_challenge: url64(sha256(verifier)), code_challenge_method: 'S256', state: 'state'
            };
            for (const [name, value] of Object.entries(asked)) page.searchParams.set(name, value);
            const code = new URL(await browse(page.href, REDIRECT)).searchParams.get('code');
            const { client_id, redirect_uri, resource } = asked;
            return tokens({ grant_type: 'authorization_code', code, code_verifier: verifier, client_id, redirect_uri, resource }, headers);
        };
        const personToken = async (profile, headers) => (await personTokens(profile, headers)).access_token;
        const ask = async (profile, authorization, headers = {}) => {
            const body = { jsonrpc: '2.0', id: 1, method: 'initialize', params: { protocolVersion: '2025-11-25', capabilities: {}, clientInfo: { name: 'team', version: '1' } } };
            const accept = 'application/json, text/event-stream';
            const response = await fetch(`${origin}/mcp/p/${profile}`, {
                method: 'POST', body: JSON.stringify(body), headers: { accept, authorization, 'content-type': 'application/json', ...headers }
            });
            await response.text();
            return response;
        };
        // Another key signs from now on; with `withdraws` those before are published no longer.
        const newKey = async ({ withdraws = false } = {}) => {
            keys.splice(0, withdraws ? keys.length : 0, await signingKey(`key-${keys.length}`));
            build();
        };
        // A token of the service `nightly`, in one request.
        const serviceToken = () => redeem(
            { grant_type: 'client_credentials', scope: SCOPE, resource: `${origin}/mcp/p/work` },
            { authorization: `Basic ${Buffer.from(`nightly:${SECRET}`).toString('base64')}` }
        );
        // A command of the owner.
        const command = async arguments_ => {
            const ran = spawn(gateway.stdio.command, [...arguments_, '--home', home], { env, stdio: ['ignore', 'pipe', 'pipe'] });
            let said = '';
            for (const stream of [ran.stdout, ran.stderr]) stream.on('data', text => (said += text));
            const [code] = await once(ran, 'close');
            assert.equal(code, 0, said);
            return said;
        };
        await use({ origin, issuer, tokens, redeem, personToken, personTokens, serviceToken, ask, newKey, command });
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
