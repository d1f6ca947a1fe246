//! Users of the gateway: who calls, how they log in at the gateway's provider, and what each of them sees.

use serde_json::{Value, json};

use super::{Arguments, Caller};
use crate::expect::Answer;
use crate::harness::ROLES;
use crate::run::people::DEFAULT;
use crate::run::{SessionKey, World};

/// The resource that says how a caller is connected to servers.
const STATUS: &str = "auth://status";
/// How many tools of a user are listed at a time.
const PAGE: u64 = 200;

/// How the caller is connected to one server, or to all.
pub(super) async fn auth_status(world: &mut World, args: &Arguments<'_>, caller: &Caller) -> Result<Answer, String> {
    let session = match world.session(&caller.key).await {
        Ok(session) => session,
        Err(refused) => return Ok(Answer::failed(refused)),
    };
    let read = Answer::of_request(session.send("resources/read", json!({ "uri": STATUS }), caller.deadline).await);
    if !read.success {
        return Ok(read);
    }
    let text = read.value["contents"][0]["text"].as_str().unwrap_or_default();
    let all: Value = serde_json::from_str(text).map_err(|error| format!("`{STATUS}` is no JSON: {error}"))?;
    let Some(name) = args.text("server") else { return Ok(Answer::done(all)) };
    let one = all["servers"].as_array().into_iter().flatten().find(|server| server["name"] == name);
    Ok(one.map_or_else(
        || Answer::failed(format!("server not found: `{STATUS}` has no `{name}`")),
        |one| Answer::done(one.clone()),
    ))
}

/// Makes a user, who is logged in from the start.
pub(super) async fn create(world: &mut World, args: &Arguments<'_>) -> Result<Answer, String> {
    let name = args.needed("name")?;
    let wanted = args.text("role").unwrap_or(ROLES[0]);
    let Some(role) = ROLES.into_iter().find(|role| *role == wanted) else {
        return Err(format!("`test_create_user`: `role` is one of {}, not `{wanted}`", ROLES.join(", ")));
    };
    let bearer = match world.people.create(name, role) {
        Ok(user) => user.bearer.clone(),
        Err(why) => return Ok(Answer::failed(why)),
    };
    let front = world.front().ok_or("no provider is the gateway's")?;
    world.send_token(&Some(name.to_owned()), &front.sign_in(&bearer)).await?;
    let message = format!("Created user `{name}`");
    Ok(Answer::done(
        json!({ "success": true, "name": name, "subject": bearer.subject, "role": role, "message": message }),
    ))
}

pub(super) fn switch(world: &mut World, args: &Arguments<'_>) -> Result<Value, String> {
    let name = args.needed("name")?;
    world.people.switch(name)?;
    Ok(json!({ "success": true, "current_user": name, "message": format!("Switched to user `{name}`") }))
}

pub(super) fn current(world: &World) -> Value {
    let name = world.people.current();
    let user = world.people.user(&name.map(str::to_owned));
    let subject = user.token_file.as_ref().map(|_| user.bearer.subject.as_str());
    json!({ "success": true, "current_user": name.unwrap_or(DEFAULT), "subject": subject })
}

/// Everything that a user may call.
pub(super) async fn list_tools(world: &mut World, args: &Arguments<'_>, caller: &Caller) -> Result<Answer, String> {
    let name = args.needed("name")?;
    let key =
        SessionKey { user: world.people.meant(Some(name).filter(|name| *name != DEFAULT))?, ..caller.key.clone() };
    let session = match world.session(&key).await {
        Ok(session) => session,
        Err(refused) => return Ok(Answer::failed(refused)),
    };
    let menu = session.list().await?;
    let is_muster = menu.iter().any(|tool| tool["name"] == "list_tools");
    if !is_muster {
        return Ok(listed(name, &menu));
    }
    let (mut tools, mut offset) = (Vec::new(), json!(0));
    loop {
        let args = json!({ "limit": PAGE, "offset": offset });
        let page = Answer::of_call(session.call("list_tools", args, caller.deadline).await);
        let Some(more) = page.value["tools"].as_array().filter(|_| page.success) else { return Ok(page) };
        tools.extend(more.iter().cloned());
        match page.value["next_offset"].as_u64().filter(|_| !more.is_empty()) {
            Some(next) => offset = next.into(),
            None => return Ok(listed(name, &tools)),
        }
    }
}

fn listed(user: &str, tools: &[Value]) -> Answer {
    let names: Vec<&Value> = tools.iter().map(|tool| &tool["name"]).collect();
    Answer::done(json!({ "success": true, "user": user, "tools": names, "total": names.len() }))
}

/// The caller logs in at the gateway's provider, as `subject` where that is said.
pub(super) async fn log_in(world: &mut World, args: &Arguments<'_>, caller: &Caller) -> Result<Answer, String> {
    let Some(front) = world.front() else {
        return Ok(Answer::failed("no mock provider has `use_as_muster_oauth_server`".to_owned()));
    };
    let user = &caller.key.user;
    world.people.log_in(user, args.text("subject"));
    let bearer = world.people.user(user).bearer.clone();
    world.send_token(user, &front.sign_in(&bearer)).await?;
    opened(world, caller, &format!("logged in at `{}`: ID token stored", front.name())).await
}

/// The caller logs in again, as who it was.
pub(super) async fn log_in_again(world: &mut World, caller: &Caller) -> Result<Answer, String> {
    let Some(front) = world.front() else {
        return Ok(Answer::failed("no mock provider has `use_as_muster_oauth_server`".to_owned()));
    };
    let bearer = world.people.user(&caller.key.user).bearer.clone();
    world.send_token(&caller.key.user, &front.sign_in(&bearer)).await?;
    opened(world, caller, "logged in again with a new token").await
}

/// Opens the caller's session with its new token.
pub(super) async fn opened(world: &mut World, caller: &Caller, message: &str) -> Result<Answer, String> {
    if let Err(refused) = world.session(&caller.key).await {
        return Ok(Answer::failed(refused));
    }
    let subject = &world.people.user(&caller.key.user).bearer.subject;
    Ok(Answer::done(json!({ "success": true, "subject": subject, "session": "open", "message": message })))
}
