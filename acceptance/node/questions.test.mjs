// Several clients of all ages at one server at the same time: each is asked its own questions and hears its own news.

import assert from 'node:assert/strict';
import { describe, test } from 'node:test';
import { setTimeout as pause } from 'node:timers/promises';

import { MILLISECONDS, gateway } from './doors.mjs';
import { ages, through } from './people.mjs';

const needsGateway = { timeout: 4 * MILLISECONDS, skip: gateway ? false : 'no gateway in this run' };
const WATCHED = 'test://watched-resource';

// The tool of each server that puts its argument to the client's model.
const ASKING = [
    ['rust-legacy', 'test_sampling', {}],
    ['rust-legacy-http', 'test_sampling', {}],
    ['rust-modern', 'test_sampling', {}],
    ['rust-modern-http', 'test_sampling', {}],
    ['typescript', 'ask_model', {}],
    ['python-http', 'ask_model', {}],
    ['everything-asks', 'trigger-sampling-request', { maxTokens: 10 }],
    ['everything-asks-http', 'trigger-sampling-request', { maxTokens: 10 }],
    ['everything-2025-08-sse', 'sampleLLM', { maxTokens: 10 }],
    ['python-old', 'ask_model', {}],
    ['python-old-http', 'ask_model', {}],
    ['python-old-sse', 'ask_model', {}]
];
const said = result => result.content.map(block => block.text).join('\n');

// Each of `people` behind a client of its own at the same time, then `use` with all of them.
async function together(people, server, use, met = []) {
    if (people.length === 0) return use(met);
    const [[age, name], ...others] = people;
    return through(age, age.doors[0], server, person => together(others, server, use, [...met, person]), name);
}

for (const [server, tool, more] of ASKING) {
    test(`nobody is asked another's question: ${server}`, needsGateway, async () => {
        const people = ages.flatMap(age => [1, 2].map(number => [age, `${age.name}, ${number}`]));
        // A server that is seen to ask gets a connection for each call from then on; before that, of several calls at the
        // same time none is asked.
        await together(people.slice(-1), server, ([first]) => first.step(['call', tool, { ...more, prompt: 'the first' }]));
        await together(people, server, async met => {
            const asked = met.flatMap(person => [1, 2, 3].map(number => ({ person, prompt: `question ${number} of ${person.name}` })));
            const results = await Promise.all(
                asked.map(({ person, prompt }) => person.step(['call', tool, { ...more, prompt }]))
            );
            for (const [index, { person, prompt }] of asked.entries()) {
                const text = said(results[index]);
                assert.ok(text.includes(`${person.name} heard `) && text.includes(prompt), text);
            }
            for (const person of met) {
                const questions = person.heard.filter(({ method }) => method === 'sampling/createMessage');
                assert.equal(questions.length, 3);
                assert.ok(questions.every(question => JSON.stringify(question).includes(` of ${person.name}`)));
            }
        });
    });
}

const methods = { ToolListChanged: 'notifications/tools/list_changed', ResourceUpdated: 'notifications/resources/updated' };

// What the client is told of `kind` from now on.
function news(person, kind) {
    const heard = [];
    const { age, client } = person;
    client.setNotificationHandler(age.schemas ? age.types[`${kind}NotificationSchema`] : methods[kind], ({ params }) => void heard.push(params));
    return heard;
}

async function until(what, holds) {
    for (const end = Date.now() + MILLISECONDS; Date.now() < end; await pause(50)) if (await holds()) return;
    assert.fail(`it never happened: ${what}`);
}

// In either era: to be told of the resource and of the list of tools.
async function subscribe(person) {
    if (person.age.era !== 'modern') {
        await person.client.subscribeResource({ uri: WATCHED });
        return () => person.client.unsubscribeResource({ uri: WATCHED });
    }
    const listening = await person.client.listen({ toolsListChanged: true, resourceSubscriptions: [WATCHED] });
    assert.deepEqual(listening.honoredFilter.resourceSubscriptions, [WATCHED]);
    return () => listening.close();
}

// FIXME: who can be asked gets a program of its own at a legacy server over stdio, while what is subscribed to is heard
// from the first one. What such a client changes by its own calls, it is not told of; so nobody here can be asked.
const of = (age, server) => (server === 'rust-legacy' ? { ...age, asked: [] } : age);

describe('news', { concurrency: 1 }, () => {
    for (const server of ['rust-legacy', 'rust-legacy-http', 'rust-modern', 'rust-modern-http']) {
        for (const age of ages) {
            for (const door of age.doors.filter(door => door !== 'stdio' || !server.endsWith('http'))) {
                test(`${age.name} over ${door}: changes of ${server} are heard`, needsGateway, () =>
                    through(of(age, server), door, server, async person => {
                        const [updates, changes] = [news(person, 'ResourceUpdated'), news(person, 'ToolListChanged')];
                        const end = await subscribe(person);
                        // The fixture's SDK acknowledges a subscription a moment before it is one, hence more than one change.
                        const after = (tool, heard) => async () => {
                            if (heard.length === 0) await person.step(['call', tool]);
                            return heard.length > 0;
                        };
                        await until('the update', after('test_trigger_resource_change', updates));
                        assert.equal(updates[0].uri, WATCHED);

                        await until('the change of the list', after('test_trigger_tool_change', changes));
                        await end();
                    })
                );
            }
        }
    }
});
