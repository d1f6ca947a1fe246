// A team with a certified provider (`oidc-provider`): the official SDK finds its way from our 401 to a token and in; opaque
// tokens, proofs of possession, services, new keys under load, tokens that are taken back, refresh tokens that follow each
// other, and people who sign in to our pages.

import assert from 'node:assert/strict';
import { randomUUID, webcrypto } from 'node:crypto';
import { test } from 'node:test';

import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';

import { MILLISECONDS, gateway } from './doors.mjs';
import { browse } from './provider.mjs';
import { REDIRECT, sha256, team, url64 } from './team.mjs';

const needsGateway = { skip: gateway ? false : 'no gateway in this run', timeout: 4 * MILLISECONDS };

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
    await team('jwt', async ({ personToken, serviceToken, ask }) => {
        const work = await personToken('work');
        assert.equal((await ask('work', `Bearer ${work}`)).status, 200);
        // For another profile it is no token; one for that profile finds nothing there, as in one that does not exist.
        assert.equal((await ask('home', `Bearer ${work}`)).status, 401);
        for (const profile of ['home', 'nope']) {
            const answer = await ask(profile, `Bearer ${await personToken(profile)}`);
            assert.equal(answer.status, 404, profile);
        }
        assert.equal((await ask('work', `Bearer ${await serviceToken()}`)).status, 200);
        const [head, claims, signature] = work.split('.');
        const forged = url64(JSON.stringify({ ...JSON.parse(Buffer.from(claims, 'base64url')), sub: 'root' }));
        assert.equal((await ask('work', `Bearer ${head}.${forged}.${signature}`)).status, 401);
    });
});

// The name of the key that signed a token.
const keyOf = token => JSON.parse(Buffer.from(token.split('.')[0], 'base64url')).kid;

test('new keys of the provider break no one', needsGateway, async () => {
    await team('jwt', async ({ personToken, serviceToken, ask, newKey }) => {
        const old = await personToken('work');
        // Each worker comes with a new token each time, before, during and after the change, until it has had enough of both.
        const [accepted, enough] = [{ first: 0, 'key-1': 0 }, 8];
        let before;
        const known = new Promise(resolve => (before = resolve));
        const workers = Array.from({ length: 4 }, async () => {
            while (accepted['key-1'] < enough) {
                const token = await serviceToken();
                assert.equal((await ask('work', `Bearer ${token}`)).status, 200, keyOf(token));
                assert.equal((await ask('work', `Bearer ${old}`)).status, 200, 'an older token');
                accepted[keyOf(token)] += 1;
                if (accepted.first >= enough) before();
            }
        });
        await Promise.race([known, ...workers]);
        await newKey();
        await Promise.all(workers);
        const young = await personToken('work');
        assert.equal(keyOf(young), 'key-1');
        assert.equal((await ask('work', `Bearer ${young}`)).status, 200);
    });
});

test('tokens of a key that the provider withdrew count no longer once its keys were read again', needsGateway, async () => {
    await team('jwt', async ({ serviceToken, ask, newKey }) => {
        const [seen, kept] = [await serviceToken(), await serviceToken()];
        assert.equal((await ask('work', `Bearer ${seen}`)).status, 200);
        await newKey({ withdraws: true });
        const young = await serviceToken();
        assert.notEqual(keyOf(young), keyOf(kept));
        // The key is not known: it has the keys read again, without the one before.
        assert.equal((await ask('work', `Bearer ${young}`)).status, 200);
        assert.equal((await ask('work', `Bearer ${kept}`)).status, 401);
        assert.equal((await ask('work', `Bearer ${await serviceToken()}`)).status, 200);
    });
});

for (const format of ['jwt', 'opaque']) test(`a token that is bound to a key needs its proof, ${format}`, needsGateway, async () => {
    await team(format, async ({ origin, issuer, personToken, ask }) => {
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

test('a token that is taken back ends at once where the provider is asked each time', needsGateway, async () => {
    await team('opaque', async ({ issuer, personToken, ask }) => {
        const [first, second] = [await personToken('work'), await personToken('work')];
        for (const token of [first, second]) assert.equal((await ask('work', `Bearer ${token}`)).status, 200);
        const body = new URLSearchParams({ token: first, client_id: 'person' });
        assert.equal((await fetch(`${issuer}/token/revocation`, { method: 'POST', body })).status, 200);
        assert.equal((await ask('work', `Bearer ${first}`)).status, 401);
        assert.equal((await ask('work', `Bearer ${second}`)).status, 200);
    }, { introspect: ', each_request = true' });
});

test('a client goes on with refresh tokens that follow each other', needsGateway, async () => {
    await team('jwt', async ({ origin, tokens, personTokens, ask }) => {
        let given = await personTokens('work');
        const used = new Set();
        for (let round = 0; round < 3; round += 1) {
            assert.equal((await ask('work', `Bearer ${given.access_token}`)).status, 200);
            used.add(given.refresh_token);
            const { refresh_token } = given;
            given = await tokens({ grant_type: 'refresh_token', client_id: 'person', refresh_token, resource: `${origin}/mcp/p/work` });
        }
        assert.equal(used.add(given.refresh_token).size, 4);
        assert.equal((await ask('work', `Bearer ${given.access_token}`)).status, 200);
        // A refresh token opens nothing here.
        assert.equal((await ask('work', `Bearer ${given.refresh_token}`)).status, 401);
    });
});

test('an ID token opens nothing', needsGateway, async () => {
    await team('jwt', async ({ personTokens, ask }) => {
        const { id_token } = await personTokens('work');
        assert.equal(id_token.split('.').length, 3);
        assert.equal((await ask('work', `Bearer ${id_token}`)).status, 401);
    });
});
