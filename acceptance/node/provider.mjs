// A certified OpenID provider and an MCP server that takes its tokens, both on free ports of this machine, and a browser
// without a screen for the person who logs in. What was asked of the provider is counted.

import { createHash, createPublicKey, randomBytes, verify } from 'node:crypto';
import { once } from 'node:events';
import { createServer } from 'node:http';

import Provider, { errors } from 'oidc-provider';

export const SCOPE = 'tools:call';

async function listening(handle) {
    const server = createServer(handle).listen(0, '127.0.0.1');
    await once(server, 'listening');
    return { server, origin: `http://127.0.0.1:${server.address().port}` };
}

async function body(request) {
    const parts = [];
    for await (const part of request) parts.push(part);
    return Buffer.concat(parts).toString();
}

// What the proof of a request says (RFC 9449), with the thumbprint of its key; nothing for one that is none.
function proof(request) {
    const [header, claims, signature] = (request.headers.dpop ?? '').split('.');
    if (!signature) return undefined;
    const read = part => JSON.parse(Buffer.from(part, 'base64url').toString());
    const { alg, jwk, typ } = read(header);
    const key = { key: createPublicKey({ key: jwk, format: 'jwk' }), dsaEncoding: 'ieee-p1363' };
    const isSigned = verify('sha256', Buffer.from(`${header}.${claims}`), key, Buffer.from(signature, 'base64url'));
    if (alg !== 'ES256' || typ !== 'dpop+jwt' || !isSigned || 'd' in jwk) return undefined;
    const { crv, kty, x, y } = jwk;
    const jkt = createHash('sha256').update(JSON.stringify({ crv, kty, x, y })).digest('base64url');
    return { ...read(claims), jkt };
}

// `format` of access tokens: opaque or jwt. With `dpop` the server takes tokens that are bound to a key, and no others;
// both it and the provider want a nonce in each proof.
export async function provider(format, { dpop = false } = {}) {
    let oidc;
    const asked = { registrations: 0, tokens: [], revocations: 0, refused: 0, calls: 0, bearers: new Set(), keys: new Set() };
    const nonce = randomBytes(12).toString('base64url');
    const used = new Set();
    const login = await listening((request, response) => {
        const path = request.url.split('?')[0];
        if (path === '/reg') asked.registrations += 1;
        if (path === '/token/revocation') asked.revocations += 1;
        return oidc.callback()(request, response);
    });
    const resource = await listening((request, response) => serve(request, response));
    const url = `${resource.origin}/mcp`;

    oidc = new Provider(login.origin, {
        features: {
            devInteractions: { enabled: true },
            dPoP: { enabled: dpop, nonceSecret: randomBytes(32), requireNonce: () => true },
            introspection: { enabled: true },
            registration: { enabled: true },
            resourceIndicators: {
                enabled: true,
                useGrantedResource: () => false,
                getResourceServerInfo(_, wanted) {
                    if (wanted !== url) throw new errors.InvalidTarget();
                    return { scope: SCOPE, audience: url, accessTokenFormat: format, accessTokenTTL: 3600 };
                }
            },
            revocation: { enabled: true }
        },
        issueRefreshToken: (_, client) => client.grantTypeAllowed('refresh_token'),
        pkce: { required: () => true },
        rotateRefreshToken: true,
        scopes: ['openid', 'offline_access', SCOPE]
    });
    oidc.on('grant.success', context => asked.tokens.push({ ...context.oidc.params }));
    oidc.on('grant.error', (context, error) => asked.tokens.push({ ...context.oidc.params, error: error.error }));

    // Whether a token was given by this provider for this server and is still valid.
    async function accepts(token) {
        if (format === 'opaque') return (await oidc.AccessToken.find(token))?.aud === url;
        const [, claims] = token.split('.');
        const read = JSON.parse(Buffer.from(claims ?? '', 'base64url').toString() || '{}');
        return read.iss === login.origin && read.aud === url && read.exp > Date.now() / 1000 && !revoked.has(token);
    }
    const revoked = new Set();

    async function serve(request, response) {
        const answer = (status, headers, value) => {
            response.writeHead(status, { 'content-type': 'application/json', ...headers });
            response.end(value === undefined ? '' : JSON.stringify(value));
        };
        const metadata = '/.well-known/oauth-protected-resource/mcp';
        if (request.url === metadata) {
            return answer(200, {}, { resource: url, authorization_servers: [login.origin], scopes_supported: [SCOPE] });
        }
        if (request.url !== '/mcp') return answer(404, {});
        if (request.method !== 'POST') return answer(405, {});
        const message = JSON.parse(await body(request));
        const scheme = dpop ? 'DPoP' : 'Bearer';
        const token = new RegExp(`^${scheme} (.+)$`).exec(request.headers.authorization ?? '')?.[1];
        if (token) asked.bearers.add(token);
        const proven = token && dpop ? proof(request) : undefined;
        if (proven && proven.nonce !== nonce) {
            asked.refused += 1;
            const said = { 'www-authenticate': 'DPoP error="use_dpop_nonce"', 'dpop-nonce': nonce };
            return answer(401, said, { error: 'use_dpop_nonce' });
        }
        const isProven = async () => {
            const ath = createHash('sha256').update(token).digest('base64url');
            const isFresh = !used.has(proven?.jti) && Math.abs(proven?.iat - Date.now() / 1000) < 60;
            used.add(proven?.jti);
            asked.keys.add(proven?.jkt);
            const isForThis = proven?.htm === request.method && proven.htu === url && proven.ath === ath;
            return isFresh && isForThis && proven.jkt === (await oidc.AccessToken.find(token))?.jkt;
        };
        if (!token || !(await accepts(token)) || (dpop && !(await isProven()))) {
            asked.refused += 1;
            const said = `${scheme} resource_metadata="${resource.origin}${metadata}", scope="${SCOPE}"`;
            return answer(401, { 'www-authenticate': said }, { error: 'invalid_token' });
        }
        if (message.id === undefined) return answer(202, {});
        const results = {
            initialize: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 'protected', version: '1' } },
            ping: {},
            'tools/list': { tools: [{ name: 'whoami', description: 'Says who asks.', inputSchema: { type: 'object' } }] },
            'tools/call': { content: [{ type: 'text', text: 'someone' }] }
        };
        const result = results[message.method];
        if (message.method === 'tools/call') asked.calls += 1;
        const error = { code: -32601, message: 'not known' };
        return answer(200, {}, { jsonrpc: '2.0', id: message.id, ...(result ? { result } : { error }) });
    }

    return {
        asked,
        issuer: login.origin,
        oidc,
        refuse: token => revoked.add(token),
        url,
        async end() {
            for (const { server } of [login, resource]) {
                server.closeAllConnections();
                server.close();
            }
        }
    };
}

// Opens a page, fills in whatever form it is shown, and gives the address below `callback` that it is sent to; without
// `callback` the page at which it ends, which has no form or has the text `end`.
export async function browse(page, callback, end) {
    const cookies = new Map();
    let next = { address: page };
    for (let step = 0; step < 20; step += 1) {
        if (callback && next.address.startsWith(callback)) return next.address;
        const cookie = [...cookies].map(([name, value]) => `${name}=${value}`).join('; ');
        const response = await fetch(next.address, {
            method: next.form ? 'POST' : 'GET',
            body: next.form,
            headers: { accept: 'text/html', cookie },
            redirect: 'manual'
        });
        for (const line of response.headers.getSetCookie()) {
            const [name, ...value] = line.split(';')[0].split('=');
            cookies.set(name, value.join('='));
        }
        const location = response.headers.get('location');
        const text = await response.text();
        if (location) {
            next = { address: new URL(location, next.address).href };
            continue;
        }
        if (end && text.includes(end)) return text;
        const action = /<form[^>]*action="([^"]*)"/.exec(text)?.[1];
        if (action === undefined && response.ok && !callback) return text;
        if (action === undefined) throw new Error(`${response.status} at ${next.address}: ${text.slice(0, 500)}`);
        const form = new URLSearchParams();
        for (const [input] of text.matchAll(/<input[^>]*>/g)) {
            const name = /name="([^"]+)"/.exec(input)?.[1];
            if (name) form.append(name, /value="([^"]*)"/.exec(input)?.[1] ?? 'someone');
        }
        next = { address: new URL(action, next.address).href, form };
    }
    throw new Error(`${page} leads on and on`);
}
