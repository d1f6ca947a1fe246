//! The operations on secrets, over a vault that lives in memory.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use serde_json::{Value, json};
use toolcrib_base::{Kind, Problem, Secret};
use toolcrib_gateway::{KeepSecrets, KeptSecret};
use toolcrib_testgateway::{Setup, TestGateway, audited, stopped};

/// A vault that lives in memory.
#[derive(Debug, Default)]
pub(crate) struct Memory(Mutex<BTreeMap<String, (KeptSecret, Secret)>>);

impl KeepSecrets for Memory {
    fn list(&self) -> Result<Vec<KeptSecret>, Problem> {
        Ok(self.0.lock().unwrap().values().map(|(secret, _)| secret.clone()).collect())
    }

    fn set(&self, secret: &KeptSecret, value: &Secret) -> Result<bool, Problem> {
        let before = self.0.lock().unwrap().insert(secret.name.clone(), (secret.clone(), value.clone()));
        Ok(before.is_some())
    }

    fn values(&self) -> Result<Vec<(String, Secret)>, Problem> {
        let entries = self.0.lock().unwrap();
        Ok(entries.iter().map(|(name, (_, value))| (format!("vault:{name}"), value.clone())).collect())
    }

    fn seal(&self, row: &[&str], value: &Secret) -> Result<Vec<u8>, Problem> {
        Ok(format!("{}:{}", row.join("/"), value.expose()).bytes().map(|byte| !byte).collect())
    }

    fn open(&self, row: &[&str], sealed: &[u8]) -> Result<Secret, Problem> {
        let plain = String::from_utf8(sealed.iter().map(|byte| !byte).collect()).unwrap();
        let value = plain.strip_prefix(&format!("{}:", row.join("/")));
        value.map(Secret::new).ok_or_else(|| Problem::new(Kind::Unavailable, "sealed for another row"))
    }

    fn remove(&self, name: &str) -> Result<(), Problem> {
        let gone = self.0.lock().unwrap().remove(name);
        gone.map(|_| ()).ok_or_else(|| Problem::new(Kind::NotFound, format!("no secret `{name}`")))
    }
}

#[tokio::test]
async fn secrets_are_set_and_listed_without_their_values_and_leave_no_trace() {
    let vault = Arc::new(Memory::default());
    let ground = Setup { vault: Some(Arc::clone(&vault) as Arc<dyn KeepSecrets>), ..Setup::default() };
    let house = TestGateway::open(&[stopped("alpha", &["read"], "")], ground);
    let ann = house.modern_of("ann", "default").admin();
    let value = "hunter2-hunter2";
    let set = json!({"name": "mail", "value": value, "servers": ["alpha"]});
    for replaced in [false, true] {
        let answer = ann.call("core_secret_set", &set).await;
        let expected = json!({"name": "mail", "reference": "vault:mail", "replaced": replaced});
        assert_eq!(answer["structuredContent"], expected, "{answer}");
    }
    assert_eq!(vault.0.lock().unwrap()["mail"].1.expose(), value);
    let listed = ann.call("core_secret_list", &json!({})).await;
    assert_eq!(listed["structuredContent"]["secrets"][0]["servers"], json!(["alpha"]));
    assert!(!listed.to_string().contains(value));
    // By the other door, too.
    let by = json!({"name": "core_secret_set", "arguments": set});
    assert_ne!(ann.call("call_tool", &by).await["isError"], true);

    for (arguments, why) in [
        (json!({"name": "mail", "value": value, "servers": []}), "`servers`: expected names"),
        (json!({"name": "mail", "value": value, "servers": ["../x"]}), "/servers/0"),
        (json!({"name": "mail"}), "value"),
    ] {
        let refused = ann.call("core_secret_set", &arguments).await;
        assert!(refused["isError"] == true && refused.to_string().contains(why), "{arguments}: {refused}");
    }
    let bob = house.modern("default").ask("tools/call", &json!({"name": "core_secret_list", "arguments": {}})).await;
    assert!(bob.is_err() || bob.unwrap()["isError"] == true, "only who administers may see their names");
    assert_ne!(ann.call("core_secret_delete", &json!({"name": "mail"})).await["isError"], true);
    let gone = ann.call("core_secret_delete", &json!({"name": "mail"})).await;
    assert!(gone.to_string().contains("no secret `mail`"), "{gone}");

    let events = audited(&house.close().await).await;
    let set: Vec<_> = events.iter().filter(|event| &*event.target == "core_secret_set").collect();
    assert!(
        set.len() >= 3 && set.iter().all(|event| event.args_hash.is_none() && event.arguments.is_none()),
        "{set:?}"
    );
}

#[tokio::test]
async fn a_gateway_without_a_vault_says_so() {
    let house = TestGateway::settled(&[]).await;
    let answer: Value = house.modern_of("ann", "default").admin().call("core_secret_list", &json!({})).await;
    assert!(answer["isError"] == true && answer.to_string().contains("has no vault"), "{answer}");
}
