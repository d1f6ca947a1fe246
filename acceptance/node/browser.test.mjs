// A real browser goes where people go: the link of a login with a certified provider behind it, the page on which a person
// agrees and the owner's command, and the sign-in of our pages. Its name is in `TOOLCRIB_CHROMIUM`; with
// `TOOLCRIB_SCREENSHOTS` it leaves pictures of each page in that folder.

import assert from 'node:assert/strict';
import { createHash, randomBytes } from 'node:crypto';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { after, before, test } from 'node:test';

import { chromium } from 'playwright-core';

import { MILLISECONDS, gateway } from './doors.mjs';
import { until, withGateway } from './one_server.mjs';
import { provider } from './provider.mjs';
import { listening, team } from './team.mjs';

const executablePath = process.env.TOOLCRIB_CHROMIUM;
const why = gateway ? !executablePath && 'no Chromium on this machine' : 'no gateway in this run';
const needsBrowser = { skip: why, timeout: 4 * MILLISECONDS };
const OWNERS = '[identity.server]\n[[identity.server.client]]\nid = "editor"\nname = "Editor"\n'
    + 'redirect_uris = ["http://127.0.0.1/answer", "editor-of-tests://answer"]\n';

let browser;

before(async () => {
    if (why) return;
    const args = ['--no-sandbox', '--disable-gpu', '--disable-background-networking', '--disable-component-update', '--disable-sync'];
    browser = await chromium.launch({ executablePath, args, headless: true });
});

after(() => browser?.close());

// A person with an empty browser. Nothing that a page of ours does may be against its own rules.
async function person(use) {
    const context = await browser.newContext();
    context.setDefaultTimeout(MILLISECONDS);
    const page = await context.newPage();
    const complaints = [];
    page.on('console', message => {
        if (/content security policy|refused to/i.test(message.text())) complaints.push(`${page.url()}: ${message.text()}`);
    });
    try {
        await use(page, context);
        assert.deepEqual(complaints, []);
    } finally {
        await context.close();
    }
}

// A page of ours is readable: it has a title, its style counts, and nothing sticks out on a telephone.
async function readable(page, title, smallest = 16) {
    await page.getByRole('heading', { name: title }).waitFor();
    const seen = await page.evaluate(() => {
        const style = getComputedStyle(document.body);
        const main = document.querySelector('main');
        const isStyled = style.maxWidth !== 'none' || !!main && parseFloat(getComputedStyle(main).paddingTop) > 0;
        return { isStyled, font: parseFloat(style.fontSize), language: document.documentElement.lang };
    });
    assert.equal(seen.language, 'en');
    assert.ok(seen.isStyled && seen.font >= smallest, JSON.stringify(seen));
    const size = page.viewportSize();
    await page.setViewportSize({ width: 360, height: 640 });
    assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= innerWidth), `${title} is too wide`);
    await page.setViewportSize(size);
    if (process.env.TOOLCRIB_SCREENSHOTS) {
        await page.screenshot({ path: join(process.env.TOOLCRIB_SCREENSHOTS, `${title.replaceAll(/\W+/g, '-')}.png`) });
    }
}

// At the provider: a name, a password, and a yes.
async function signIn(page) {
    await page.locator('input[name=login]').fill('someone');
    await page.locator('input[name=password]').fill('anything');
    await page.locator('button[type=submit]').click();
    await page.locator('input[name=prompt][value=consent]').waitFor({ state: 'attached' });
    await page.locator('button[type=submit]').click();
}

// A site of someone else, whose page is `html`.
async function elsewhere(html, use) {
    const server = createServer((_, response) => response.writeHead(200, { 'content-type': 'text/html' }).end(html));
    const origin = await listening(server);
    try {
        await use(origin);
    } finally {
        server.closeAllConnections();
        server.close();
    }
}

// Nothing of ours is shown in a frame of another site.
async function unframed(context, address) {
    await elsewhere(`<!doctype html><title>frame</title><iframe src="${address.replaceAll('&', '&amp;')}"></iframe>`, async origin => {
        const page = await context.newPage();
        await page.goto(origin, { waitUntil: 'load' });
        const [, frame] = page.frames();
        const shown = await frame.evaluate(() => document.body?.innerText ?? '').catch(() => '');
        assert.doesNotMatch(`${shown}`, /Toolcrib|gateway|Allow|Sign in|Log in/, address);
        await page.close();
    });
}

test('a browser logs in at a server by the link of the gateway', needsBrowser, async () => {
    const remote = await provider('opaque');
    try {
        const definition = `name: protected\ntransport: http\nurl: ${remote.url}\nstart: eager\n`;
        await withGateway(definition, async ask => {
            await until(async () => (await ask('GET', '/servers/protected')).value.state === 'needs-login');
            const begun = await ask('POST', '/logins/protected', { force: true });
            await person(async (page, context) => {
                await unframed(context, begun.value.authUrl);
                await page.goto(begun.value.authUrl);
                await readable(page, 'Log in to protected');
                await page.getByRole('button', { name: 'Log in to protected' }).click();
                await signIn(page);
                await readable(page, 'Logged in');
                assert.match(page.url(), /^http:\/\/127\.0\.0\.1:\d+\/oauth\/callback/);
                // The link counts once.
                await page.goto(begun.value.authUrl);
                assert.doesNotMatch(await page.locator('body').innerText(), /Logged in/);
            });
            const call = () => ask('POST', '/tools/protected%2Fwhoami/call', { arguments: {} });
            await until(async () => (await call()).status === 200);
        });
    } finally {
        await remote.end();
    }
});

// A client that waits for its answer at a port of this machine.
async function client(origin, use) {
    let heard;
    const answer = new Promise(resolve => (heard = resolve));
    const server = createServer((request, response) => {
        if (request.url.startsWith('/answer')) heard(new URL(request.url, origin).searchParams);
        response.writeHead(200, { 'content-type': 'text/html' }).end('<title>Editor</title><h1>Back in the editor</h1>');
    });
    const own = await listening(server);
    const verifier = randomBytes(32).toString('base64url');
    const asked = {
        response_type: 'code', client_id: 'editor', state: 'a-state', resource: `${origin}/mcp/p/work`,
        code_challenge: createHash('sha256').update(verifier).digest('base64url'), code_challenge_method: 'S256'
    };
    const page = redirect => `${origin}/oauth/authorize?${new URLSearchParams({ ...asked, redirect_uri: redirect })}`;
    const redeem = async code => {
        const fields = { grant_type: 'authorization_code', client_id: 'editor', code, code_verifier: verifier, redirect_uri: `${own}/answer` };
        const response = await fetch(`${origin}/oauth/token`, { method: 'POST', body: new URLSearchParams(fields) });
        return response.json();
    };
    try {
        await use({ answer, page, redeem, redirect: `${own}/answer` });
    } finally {
        server.closeAllConnections();
        server.close();
    }
}

test('a person agrees in a browser and the owner approves by a command', needsBrowser, async () => {
    await team('jwt', async ({ origin, ask, command }) => {
        await client(origin, async ({ answer, page: at, redeem, redirect }) => {
            await person(async (page, context) => {
                await unframed(context, at(redirect));
                await page.goto(at(redirect));
                await readable(page, 'Allow access?');
                const text = await page.locator('body').innerText();
                for (const part of ['Editor', redirect, `${origin}/mcp/p/work`, 'Allow', 'Deny']) assert.ok(text.includes(part), text);
                await page.getByRole('button', { name: 'Allow' }).click();
                await readable(page, 'Waiting for approval');
                const [, code] = /toolcrib auth approve ([A-Z-]{9})/.exec(await page.locator('body').innerText());
                assert.match(await command(['auth', 'approve', code, '--yes']), /^Approved /);
                // The page goes on by itself.
                await page.getByRole('heading', { name: 'Back in the editor' }).waitFor();
                const heard = await answer;
                assert.deepEqual([heard.get('state'), heard.get('iss')], ['a-state', origin]);
                const { access_token } = await redeem(heard.get('code'));
                assert.equal((await ask('work', `Bearer ${access_token}`)).status, 200);

                // A program's address is shown as one, and a no is one.
                await page.goto(at('editor-of-tests://answer'));
                assert.match(await page.locator('body').innerText(), /whichever program of your machine opens editor-of-tests:/);
                await page.getByRole('button', { name: 'Deny' }).click();
                await readable(page, 'Done');
                const back = await page.getByRole('link').getAttribute('href');
                assert.match(back, /^editor-of-tests:\/\/answer\?error=access_denied/);
            });
        });
        // A form of another site is not ours, whatever cookies the browser has.
        const forged = `<form method="post" action="${origin}/oauth/consent"><input name="request" value="x.y"><input name="choice" value="allow"></form>`
            + '<script>document.forms[0].submit()</script>';
        await elsewhere(forged, async other => {
            await person(async page => {
                const refused = page.waitForResponse(response => response.url() === `${origin}/oauth/consent`);
                await page.goto(other);
                assert.equal((await refused).status(), 403);
            });
        });
    }, { identity: OWNERS });
});

test('a person signs in to our pages in a browser', needsBrowser, async () => {
    await team('jwt', async ({ origin }) => {
        await person(async (page, context) => {
            await elsewhere('<p>Sign in', other => assert.rejects(unframed(context, other), 'what does not refuse it is shown'));
            await unframed(context, `${origin}/ui`);
            await page.goto(`${origin}/ui`);
            await readable(page, 'Sign in', 14);
            await page.getByText('Sign in with acme').click();
            await signIn(page);
            await page.getByText('Sign out').waitFor();
            await readable(page, 'Start', 14);
            const text = await page.locator('body').innerText();
            assert.ok(text.includes('user:acme/someone') && text.includes(`${origin}/mcp/p/work`), text);
            const [cookie] = (await context.cookies()).filter(({ name }) => name.startsWith('toolcrib-page'));
            assert.deepEqual([cookie.httpOnly, cookie.sameSite], [true, 'Lax']);
            await unframed(context, `${origin}/ui`);
            await page.getByText('Sign out').click();
            await page.getByText('Sign in with acme').waitFor();
        });
    });
});
