// Clients and servers of each age: what a client sees through the gateway is what it sees without it, step by step.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { isDeepStrictEqual } from 'node:util';

import { MILLISECONDS, gateway, servers } from './doors.mjs';
import { ages, script, straight, through, twin } from './people.mjs';

// The code for a capability that the client lacks, which only the modern era has.
const MISSING = -32021;
const bounded = { timeout: 4 * MILLISECONDS };
const needsGateway = { ...bounded, skip: gateway ? false : 'no gateway in this run' };

// What each client sees of the server itself, or of its twin.
const seen = new Map();
function expected(age, server) {
    const key = `${age.name} ${server}`;
    if (!seen.has(key)) {
        seen.set(key, straight(age, server, person => person.play(script.families[script.servers[server].family])));
    }
    return seen.get(key);
}

describe('releases', { concurrency: 3 }, () => {
    for (const server of Object.keys(script.servers)) {
        // One after the other: what a server logs while two clients use it over stdio belongs to neither.
        describe(server, { concurrency: 1 }, () => {
            for (const age of ages) {
                for (const door of age.doors.filter(door => door !== 'stdio' || servers[server].command)) {
                    test(`${age.name} over ${door}: ${server}`, needsGateway, () => same(age, door, server));
                }
            }
        });
    }
});

// What a server says to a client of any age, with what that client's revision has a place for. Old servers answer every
// client alike; the gateway leaves out what a client of before 2025-06-18 may choke on. The text says the same.
function fitting({ structuredContent, ...step }, { revision }) {
    if (revision >= '2025-06-18') return structuredContent ? { ...step, structuredContent } : step;
    return step.tools ? { ...step, tools: step.tools.map(({ outputSchema, ...tool }) => tool) } : step;
}

// On a busy machine a step may lose what is said in its course: a difference counts when it is there twice.
async function same(age, door, server) {
    let differences = await differ(age, door, server).catch(error => [{ is: String(error) }]);
    if (differences.length > 0) {
        seen.delete(`${age.name} ${twin(age, server)}`);
        differences = await differ(age, door, server);
    }
    assert.equal(differences.map(each => JSON.stringify(each)).join('\n'), '');
}

async function differ(age, door, server) {
    const before = await expected(age, twin(age, server));
    const after = await through(age, door, server, person => person.play(script.families[script.servers[server].family]));
    const silent = [before, after].find(steps => !steps.some(step => step.tools));
    if (silent) return [{ is: silent, should: 'with a list of tools' }];
    const [there, here] = [before, after].map(steps => steps.find(step => step.tools).tools.map(tool => tool.name));
    if (asks(server)) assert.ok(there.every(name => here.includes(name)), `${here} has all of ${there}`);
    return before.flatMap((expected, index) => {
        // What this client cannot read from the server, it may well read from the gateway.
        if (expected.error === 'ZodError') return [];
        const is = compared(after[index], server, age, expected);
        const should = compared(fitting(expected, age), server, age, after[index]);
        return isDeepStrictEqual(is, should) ? [] : [{ is, should }];
    });
}

// Whether the server lists more to those who can be asked more; the gateway lists all that it has.
const asks = server => server.startsWith('everything');

// What may differ: tasks are of the modern era alone; where the gateway answers an error itself, or one that has no
// place in the client's era, only that it is one counts.
function compared(step, server, age, other) {
    if (step.tools) {
        const named = tool => other.tools.some(({ name }) => name === tool.name);
        const kept = step.tools.filter(tool => !script.tasks.includes(tool.name) && (!asks(server) || named(tool)));
        return { ...step, tools: kept.map(({ execution, ...tool }) => tool) };
    }
    if (script.servers[server].family === 'everything') {
        // It asks for the roots a moment after it was opened, whatever runs by then.
        const heard = step.heard?.filter(({ method }) => method !== 'roots/list') ?? [];
        step = { ...step, heard };
    }
    const failed = ({ error, isError }) => error !== undefined || isError;
    const own = [step, other].some(each => each._meta?.['toolcrib/error']);
    const bridged = script.servers[server].era !== age.era || [step, other].some(each => each.error === MISSING && age.era === 'legacy');
    return failed(step) && failed(other) && (own || bridged) ? { step: step.step, failed: true } : step;
}
