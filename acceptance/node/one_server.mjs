// A gateway of its own with one server, in a home that lasts for the test.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { closeSync, existsSync, mkdirSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as pause } from 'node:timers/promises';

import { MILLISECONDS, gateway } from './doors.mjs';

// Runs a gateway with one server, gives `use` a way to ask it for operations, and ends it whatever happens.
export async function withGateway(definition, use) {
    const home = mkdtempSync(join(tmpdir(), 'toolcrib-login-'));
    const ready = join(home, 'ready.json');
    const files = { 'servers/protected.yaml': definition, 'profiles/default.yaml': 'name: default\nexposure: direct\n' };
    for (const [path, text] of Object.entries(files)) {
        mkdirSync(join(home, path, '..'), { recursive: true });
        writeFileSync(join(home, path), text);
    }
    const { command, env } = gateway.stdio;
    const args = ['serve', '--listen', '127.0.0.1:0', '--home', home, '--ready-file', ready];
    // Everything is logged, and none of it may hold a secret.
    const log = join(home, 'gateway.log');
    const file = openSync(log, 'w');
    const child = spawn(command, args, { env: { ...process.env, ...env, TOOLCRIB_LOG: 'trace' }, stdio: ['ignore', file, file] });
    closeSync(file);
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
        child.kill('SIGTERM');
        await ended;
        return readFileSync(log, 'utf8');
    } finally {
        child.kill('SIGKILL');
        await ended;
        rmSync(home, { recursive: true, force: true });
    }
}

export async function until(look) {
    for (const end = Date.now() + MILLISECONDS; Date.now() < end; await pause(20)) {
        const found = await look();
        if (found) return found;
    }
    return assert.fail(`never: ${look}`);
}
