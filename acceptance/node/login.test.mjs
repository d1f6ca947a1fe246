// Logins at a certified provider (`oidc-provider`): registration, `resource`, opaque tokens and JWTs, rotation, a grant
// that was ended, revocation. The gateway is one of its own, with a home that lasts for the test.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { MILLISECONDS, gateway } from './doors.mjs';
import { SCOPE, browse, provider } from './provider.mjs';

const needsGateway = { skip: gateway ? false : 'no gateway in this run', timeout: 4 * MILLISECONDS };
const BROWSER = 'a-browser-of-the-acceptance-tests-0123456789';

// Runs a gateway with one server, gives `use` a way to ask it for operations, and ends it whatever happens.
async function withGateway(definition, use) {
    const home = mkdtempSync(join(tmpdir(), 'toolcrib-login-'));
    const ready = join(home, 'ready.json');
    const files = { 'servers/protected.yaml': definition, 'profiles/default.yaml': 'name: default\nexposure: direct\n' };
    for (const [path, text] of Object.entries(files)) {
        mkdirSync(join(home, path, '..'), { recursive: true });
        writeFileSync(join(home, path), text);
    }
    const { command, env } = gateway.stdio;
    const args = ['serve', '--listen', '127.0.0.1:0', '--home', home, '--ready-file', ready];
    const child = spawn(command, args, { env: { ...process.env, ...env }, stdio: 'ignore' });
    const ended = new Promise(resolve => child.once('exit', resolve));
    try {
        const origin = new URL(await until(() => existsSync(ready) && JSON.parse(readFileSync(ready, 'utf8')).url)).origin;
        const token = readFileSync(join(home, 'state/token'), 'utf8').trim();
        const headers = { authorization: `Bearer ${token}`, 'content-type': 'application/json' };
        await use(async (method, path, arguments_) => {
            const options = { method, headers, body: arguments_ && JSON.stringify(arguments_) };
            const response = await fetch(`${origin}/api/v1${path}`, options);
            const text = await response.text();
            return { status: response.status, text, value: text ? JSON.parse(text) : undefined };
        });
    } finally {
        child.kill('SIGTERM');
        await ended;
        rmSync(home, { recursive: true, force: true });
    }
}

async function until(look) {
    for (const end = Date.now() + MILLISECONDS; Date.now() < end; await pause(20)) {
        const found = await look();
        if (found) return found;
    }
    return assert.fail(`never: ${look}`);
}

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

for (const format of ['opaque', 'jwt']) {
    test(`a login at a certified provider, ${format} tokens`, needsGateway, async () => {
        const remote = await provider(format);
        const { asked } = remote;
        try {
            const definition = `name: protected\ntransport: http\nurl: ${remote.url}\nstart: eager\n`;
            await withGateway(definition, async ask => {
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

                assert.equal((await ask('DELETE', '/logins/protected')).value.status, 'logged_out');
                assert.equal(asked.revocations, 1);
                await until(async () => (await state(ask)) === 'needs-login');
                assert.notEqual((await call(ask)).status, 200);

                // The client that was registered is used again.
                await login(ask);
                await until(async () => (await call(ask)).status === 200);
                assert.equal(asked.registrations, 1);
            });
        } finally {
            await remote.end();
        }
    });
}
