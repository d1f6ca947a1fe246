// Logins at a certified provider (`oidc-provider`): registration, `resource`, opaque tokens and JWTs, rotation, a grant
// that ends because its token was stolen, revocation. The gateway is one of its own, with a home that lasts for the test.

import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MILLISECONDS, gateway } from './doors.mjs';
import { until, withGateway } from './one_server.mjs';
import { SCOPE, browse, provider } from './provider.mjs';

const needsGateway = { skip: gateway ? false : 'no gateway in this run', timeout: 4 * MILLISECONDS };
const BROWSER = 'a-browser-of-the-acceptance-tests-0123456789';

const state = async ask => (await ask('GET', '/servers/protected')).value.state;
const call = ask => ask('POST', '/tools/protected%2Fwhoami/call', { arguments: {} });

async function login(ask) {
    const begun = await ask('POST', '/logins/protected', { browser: BROWSER, force: true });
    assert.equal(begun.value.status, 'auth_required', begun.text);
    const redirect = new URL(begun.value.authUrl).searchParams.get('redirect_uri');
    const answer = await browse(begun.value.authUrl, redirect);
    const done = await ask('POST', '/logins', { answer, browser: BROWSER });
    assert.equal(done.value.status, 'connected', done.text);
}

// The same by the page of the gateway, as a person does it: the provider sends the browser back to the gateway.
async function loginByPage(ask) {
    const begun = await ask('POST', '/logins/protected', { force: true });
    assert.match(begun.value.authUrl, /^http:\/\/127\.0\.0\.1:\d+\/connect\/[0-9a-f]{64}$/);
    const page = await browse(begun.value.authUrl);
    assert.match(page, /Logged in/);
    await assert.rejects(browse(begun.value.authUrl), 'a link counts once');
}

for (const format of ['opaque', 'jwt']) {
    test(`a login at a certified provider, ${format} tokens`, needsGateway, async () => {
        const remote = await provider(format);
        const { asked } = remote;
        try {
            const definition = `name: protected\ntransport: http\nurl: ${remote.url}\nstart: eager\n`;
            const logged = await withGateway(definition, async ask => {
                await until(async () => (await state(ask)) === 'needs-login');
                await login(ask);
                await until(async () => (await call(ask)).status === 200);
                assert.deepEqual([asked.registrations, asked.calls], [1, 1]);
                assert.equal(asked.tokens[0].resource, remote.url, 'the code is redeemed for this server');

                // Each refresh gives another refresh token, and the old one is never sent again.
                for (let round = 0; round < 3; round += 1) {
                    const renewed = await ask('POST', '/logins/protected/refresh', {});
                    assert.equal(renewed.status, 200, renewed.text + JSON.stringify(asked));
                    assert.equal((await call(ask)).status, 200);
                }
                const sent = asked.tokens.filter(({ grant_type }) => grant_type === 'refresh_token');
                assert.equal(new Set(sent.map(({ refresh_token }) => refresh_token)).size, 3);
                assert.ok(sent.every(({ error, resource }) => !error && resource === remote.url));

                const [own] = (await ask('GET', '/logins')).value.logins;
                assert.deepEqual([own.state, own.issuer, own.renewed], ['logged-in', remote.issuer, true]);
                assert.ok(own.scopes.includes(SCOPE));

                // A thief sends a refresh token that was used before: the provider ends the grant, and a person is asked.
                const { client_id, refresh_token, resource } = sent[0];
                const stolen = new URLSearchParams({ grant_type: 'refresh_token', client_id, refresh_token, resource });
                assert.equal((await fetch(`${remote.issuer}/token`, { method: 'POST', body: stolen })).status, 400);
                assert.equal((await ask('POST', '/logins/protected/refresh', {})).status, 401);
                const [lapsed] = (await ask('GET', '/logins')).value.logins;
                assert.equal(lapsed.state, 'needs-login');
                assert.match(lapsed.reason, /invalid_grant/);
                await login(ask);
                await until(async () => (await call(ask)).status === 200);

                assert.equal((await ask('DELETE', '/logins/protected')).value.status, 'logged_out');
                assert.equal(asked.revocations, 1);
                await until(async () => (await state(ask)) === 'needs-login');
                assert.notEqual((await call(ask)).status, 200);

                // The client that was registered is used again.
                await loginByPage(ask);
                await until(async () => (await call(ask)).status === 200);
                assert.equal(asked.registrations, 1);
            });
            assert.match(logged, / TRACE | DEBUG /);
            const secrets = asked.tokens.flatMap(({ code, code_verifier, refresh_token }) => [code, code_verifier, refresh_token]);
            for (const secret of [BROWSER, ...asked.bearers, ...secrets.filter(Boolean)]) {
                assert.ok(!logged.includes(secret), 'a secret was logged');
            }
        } finally {
            await remote.end();
        }
    });
}

test('a login with tokens that are bound to a key at a certified provider', needsGateway, async () => {
    const remote = await provider('opaque', { dpop: true });
    const { asked } = remote;
    try {
        const definition = `name: protected\ntransport: http\nurl: ${remote.url}\nstart: eager\n`;
        await withGateway(definition, async ask => {
            await until(async () => (await state(ask)) === 'needs-login');
            await login(ask);
            await until(async () => (await call(ask)).status === 200);
            for (let round = 0; round < 2; round += 1) {
                assert.equal((await ask('POST', '/logins/protected/refresh', {})).status, 200, JSON.stringify(asked));
                assert.equal((await call(ask)).status, 200);
            }
            assert.equal(asked.calls, 3);
            assert.deepEqual([asked.bearers.size, asked.keys.size], [3, 1], 'three tokens, all of one key');
            // Who has copied a token has not copied its key.
            const [token] = [...asked.bearers].slice(-1);
            const headers = { 'content-type': 'application/json', authorization: `DPoP ${token}` };
            const ping = JSON.stringify({ jsonrpc: '2.0', id: 1, method: 'ping' });
            assert.equal((await fetch(remote.url, { method: 'POST', headers, body: ping })).status, 401);
        });
    } finally {
        await remote.end();
    }
});
