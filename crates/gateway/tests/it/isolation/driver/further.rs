//! What they do beside calls and lists: runs of workflows, questions and their answers, streams that are taken up again,
//! what the gateway counts.

use serde_json::{Value, json};
use toolcrib_protocol::{Answer, Id, Raw};
use toolcrib_testgateway::Client;

use super::{Person, Random, Run};
use crate::isolation::world::{SERVERS, secrets_of};

/// The answer that a person gives to whatever is asked: it says whose it is.
pub(super) fn answer_of(person: &Person) -> Value {
    json!({"action": "accept", "content": {"who": secrets_of(person.name)[0]}})
}

impl Run {
    pub(super) async fn further_step(&self, person: &Person, client: &Client, random: &mut Random) {
        match random.below(9) {
            0 => {
                let ran = self.call(person, client, "workflow_peek", json!({})).await.unwrap_or_default();
                let text = ran["content"][0]["text"].as_str().unwrap_or_default();
                let run: Value = serde_json::from_str(text).unwrap_or_default();
                self.loot.keep("run", &run["execution_id"]);
            }
            1 => {
                let listed = self.call(person, client, "core_workflow_execution_list", json!({})).await;
                drop(listed);
                let arguments = match random.below(3) {
                    0 => json!({"execution_id": self.loot.any("run", random)}),
                    1 => json!({"execution_id": self.loot.any("run", random), "include_steps": false}),
                    _ => json!({"execution_id": self.loot.any("run", random), "step_id": "one"}),
                };
                drop(self.call(person, client, "core_workflow_execution_get", arguments).await);
            }
            2 => {
                let arguments = json!({"execution_id": self.loot.any("run", random)});
                drop(self.call(person, client, "core_workflow_execution_cancel", arguments).await);
            }
            3 | 4 => self.ask_and_answer(person, random).await,
            5 => {
                // The answer to another one's question: it counts for that one's session alone.
                let question = self.loot.any("question", random);
                answer(person, &question);
            }
            6 => self.take_up(person, random),
            7 => {
                let server = *random.pick(&SERVERS);
                let given = self.call(person, &person.modern, &format!("{server}/ask"), json!({})).await;
                self.keep_asked(server, &given.unwrap_or_default());
            }
            _ => {
                // What the door of the counters shows to those who do not administer.
                let counted = self.world.gateway.gateway.metrics.render_totals();
                self.check(person, &Value::Null, &counted);
            }
        }
    }

    /// A call during which a legacy client is asked something; it answers, or does not and takes the call back.
    async fn ask_and_answer(&self, person: &Person, random: &mut Random) {
        // One at a time: the other one of an interleaving may be the same person.
        let Ok(mut questions) = person.questions.try_lock() else { return };
        let server = *random.pick(&SERVERS);
        let name = format!("{server}/ask");
        let called = self.call(person, &person.asked, &name, json!({}));
        let answered = async {
            while let Some(message) = questions.recv().await {
                let text = String::from_utf8_lossy(&message).into_owned();
                self.check(person, &Value::Null, &text);
                let asked: Value = serde_json::from_str(&text).unwrap_or_default();
                if asked["method"] == "elicitation/create" {
                    self.loot.keep("question", &asked["id"]);
                    if random.below(4) == 0 {
                        return;
                    }
                    tokio::task::yield_now().await;
                    answer(person, &asked["id"]);
                }
            }
        };
        tokio::select! {
            _ = called => {}
            () = answered => {}
        }
    }

    /// Takes up a stream after an event of anyone, as a client does by `Last-Event-ID`.
    fn take_up(&self, person: &Person, random: &mut Random) {
        self.hear(person);
        let event = self.loot.any("event", random);
        let Some(session) = &person.legacy.caller.session else { return };
        let resumed = session.resume_stream(event[1].as_str().unwrap_or_default());
        if let Ok(reader) = resumed {
            assert_eq!(event[0], person.number, "seed {}: {} has {event}", self.seed, person.name);
            *person.news.lock().unwrap() = reader;
            self.hear(person);
        }
    }
}

/// Answers a question of this id in the session of a person.
fn answer(person: &Person, id: &Value) {
    let Some(session) = &person.asked.caller.session else { return };
    if let Some(id) = Id::from_raw(Raw::from_value(id)) {
        session.answer(Answer::ok(id, Raw::from_value(&answer_of(person))));
    }
}
