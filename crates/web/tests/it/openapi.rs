//! The OpenAPI document: sound in itself, and true.

use std::collections::BTreeSet;

use http::Method;
use serde_json::{Value, json};

use crate::served::{Ask, ServedGateway, stopped};

const METHODS: [&str; 5] = ["get", "post", "put", "patch", "delete"];

async fn document(house: &ServedGateway) -> Value {
    house.ask(Ask::get("/api/v1/openapi.json")).await.json()
}

/// Every operation as (path, method, description).
fn operations(document: &Value) -> Vec<(String, String, Value)> {
    let paths = document["paths"].as_object().unwrap();
    let all = paths.iter().flat_map(|(path, methods)| {
        methods.as_object().unwrap().iter().map(move |(method, entry)| (path.clone(), method.clone(), entry.clone()))
    });
    all.collect()
}

#[tokio::test]
async fn the_document_is_whole_and_its_schemas_compile() {
    let house = ServedGateway::settled(&[]).await;
    let document = document(&house).await;
    assert_eq!(document["openapi"], "3.1.0");
    let mut ids = BTreeSet::new();
    for (path, method, entry) in operations(&document) {
        let place = format!("{method} {path}");
        assert!(METHODS.contains(&method.as_str()), "{place}");
        assert!(ids.insert(entry["operationId"].as_str().unwrap().to_owned()), "{place}");
        assert!(entry["security"].as_array().is_some_and(|all| !all.is_empty()), "{place}");
        let templated: BTreeSet<&str> =
            path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}')).collect();
        let parameters = entry["parameters"].as_array().unwrap();
        let in_path = parameters.iter().filter(|it| it["in"] == "path").map(|it| it["name"].as_str().unwrap());
        assert_eq!(in_path.collect::<BTreeSet<_>>(), templated, "{place}");
        let mut schemas: Vec<&Value> = parameters.iter().map(|it| &it["schema"]).collect();
        schemas.extend(entry.pointer("/requestBody/content/application~1json/schema"));
        for (status, response) in entry["responses"].as_object().unwrap() {
            match response["$ref"].as_str() {
                Some(reference) => assert!(document.pointer(reference.trim_start_matches('#')).is_some(), "{place}"),
                None => assert!(status.starts_with('2') && response["description"].is_string(), "{place} {status}"),
            }
            schemas.extend(response.pointer("/content/application~1json/schema"));
        }
        for schema in schemas {
            jsonschema::draft202012::new(schema).unwrap_or_else(|error| panic!("{place}: {error}"));
        }
    }
    assert!(ids.len() > 20, "{ids:?}");
    jsonschema::draft202012::new(&document["components"]["schemas"]["Problem"]).unwrap();
}

#[tokio::test]
async fn every_route_answers_as_the_document_says() {
    let house = ServedGateway::settled(&[stopped("x", &["one"])]).await;
    let document = document(&house).await;
    let problem = jsonschema::draft202012::new(&document["components"]["schemas"]["Problem"]).unwrap();
    for (path, method, entry) in operations(&document).into_iter().filter(|(path, ..)| path != "/events") {
        let place = format!("{method} {path}");
        let sample = format!("/api/v1{}", path.replace("{name}", "x"));
        let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
        let ask = Ask::new(method, &sample, if entry.get("requestBody").is_some() { "{}" } else { "" });
        let needs_token = entry["security"] == json!([{ "token": [] }]);
        if needs_token {
            house.ask(ask.clone()).await.problem(401);
        }
        let reply = house.ask(ask.admin()).await;
        let status = reply.status.as_u16().to_string();
        let described = entry["responses"].get(&status).unwrap_or_else(|| panic!("{place} answers {status}"));
        match described.pointer("/content/application~1json/schema") {
            Some(schema) => {
                assert_eq!(reply.headers["content-type"], "application/json", "{place}");
                let check = jsonschema::draft202012::new(schema).unwrap();
                assert!(check.is_valid(&reply.json()), "{place}: {} does not fit {schema}", reply.json());
            }
            None => assert!(problem.is_valid(&reply.problem(reply.status.as_u16())), "{place}"),
        }
    }
}
