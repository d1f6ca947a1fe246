//! What one audit event says, and the bounds on what a caller may make it say.

use std::borrow::Cow;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use sha2::{Digest, Sha256};
use toolcrib_base::{Identity, Kind, PrincipalId, ProfileName, Role, Timestamp};

use super::hash::{ArgsHash, push_hex};

/// The longest text of a field, in bytes. A longer one is cut and ends in a digest of the whole.
pub const TEXT_MAX: usize = 512;

/// The longest redacted arguments, in bytes; cut like the other texts.
pub const ARGUMENTS_MAX: usize = 4 * 1024;

/// How a cut text ends: `…#` and 16 hexadecimal digits.
const CUT_MARK: &str = "…#";
const CUT_DIGEST_BYTES: usize = 8;

/// Who did what to which tool, with what outcome. Texts that a client chose may be of any length: they are cut.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuditEvent {
    /// When it happened (not when it was written).
    pub at: Timestamp,
    /// Who.
    pub principal: PrincipalId,
    /// In which profile; `None` where none applies.
    pub profile: Option<ProfileName>,
    /// By which door.
    pub door: Door,
    /// The method, such as `tools/call`.
    pub method: Cow<'static, str>,
    /// The tool's id, the URI, the prompt; the name as asked when it is unknown.
    pub target: Arc<str>,
    /// From [`hash_arguments`](super::AuditLog::hash_arguments).
    pub args_hash: Option<ArgsHash>,
    /// The arguments without their secrets, where the profile asks for them. The caller redacts.
    pub arguments: Option<String>,
    /// What policy said.
    pub decision: Decision,
    /// How it ended.
    pub outcome: Outcome,
    /// How long it took; kept in microseconds.
    pub duration: Duration,
    /// The request's id as text.
    pub request_id: String,
    /// Names the session. Where a session's id is a credential, give a digest of it.
    pub session: Option<Arc<str>>,
    /// Whose credential went to the server and how it was got, as a word such as `owner` or `forwarded`; `None` where
    /// none did.
    pub credential: Option<&'static str>,
    /// From which address the client came; `None` where none did, as for a call of a workflow that goes on by itself.
    pub address: Option<IpAddr>,
    /// What guards found in it, by names and numbers, and what became of that; never a secret itself.
    pub guard: Option<String>,
    /// By which hands it came.
    pub custody: Custody,
    /// The policies that decided, by their names, with `, ` in between.
    pub policies: Option<String>,
    /// The approval that it needed.
    pub approval: Option<String>,
    /// Who said yes.
    pub approver: Option<PrincipalId>,
    /// The halt that refused or ended it.
    pub halt: Option<String>,
    /// The canary that was found in it, by its id; never its text.
    pub canary: Option<String>,
}

/// By which hands a request came, as far as it is known. What a client says of itself is not proven.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Custody {
    /// What was proven: how, by which key or token, of which issuer and client, and who acts for whom.
    pub identity: Option<Arc<Identity>>,
    /// What the principal might do in the profile.
    pub role: Option<Role>,
    /// The client's name and version, as it says.
    pub client: Option<Arc<str>>,
    /// The program of ours between the client and the gateway, as that one says.
    pub bridge: Option<Arc<str>>,
}

/// By which way a request came in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Door(&'static str);

impl Door {
    /// An MCP client, by name or by meta-tool.
    pub const MCP: Self = Self("mcp");
    /// The REST routes.
    pub const REST: Self = Self("rest");
    /// A command.
    pub const CLI: Self = Self("cli");

    /// The pages of the web user interface.
    pub const UI: Self = Self("ui");

    /// A further door; `name` is one lower-case word.
    pub const fn new(name: &'static str) -> Self {
        Self(name)
    }

    /// The door's name in records.
    pub const fn as_str(self) -> &'static str {
        self.0
    }
}

/// What policy said. Kept as `permit:<rule>` or `deny:<reason>`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// The rule that allowed it.
    Permit(Cow<'static, str>),
    /// The reason why not.
    Deny(Cow<'static, str>),
}

impl Decision {
    /// Writes the text of the record.
    pub(crate) fn write(&self, out: &mut String) {
        let (word, text) = match self {
            Self::Permit(rule) => ("permit:", rule),
            Self::Deny(reason) => ("deny:", reason),
        };
        out.push_str(word);
        out.push_str(text);
    }
}

/// How the request ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    /// With a result.
    Ok,
    /// With a result that the tool marked as an error.
    ToolError,
    /// With an error; kept as `error:<kind's name>`.
    Error(Kind),
    /// The client took it back or went away.
    Cancelled,
    /// It was not allowed.
    Denied,
}

impl Outcome {
    /// Writes the text of the record.
    pub(crate) fn write(self, out: &mut String) {
        let text = match self {
            Self::Ok => "ok",
            Self::ToolError => "tool_error",
            Self::Cancelled => "cancelled",
            Self::Denied => "denied",
            Self::Error(kind) => {
                out.push_str("error:");
                kind.name()
            }
        };
        out.push_str(text);
    }
}

impl AuditEvent {
    /// An event of which no more is known yet: permitted by no rule, and well ended.
    pub fn new(at: Timestamp, principal: PrincipalId, door: Door, method: Cow<'static, str>, target: Arc<str>) -> Self {
        Self {
            at,
            principal,
            profile: None,
            door,
            method,
            target,
            args_hash: None,
            arguments: None,
            decision: Decision::Permit(Cow::Borrowed("")),
            outcome: Outcome::Ok,
            duration: Duration::ZERO,
            request_id: String::new(),
            session: None,
            credential: None,
            address: None,
            guard: None,
            custody: Custody::default(),
            policies: None,
            approval: None,
            approver: None,
            halt: None,
            canary: None,
        }
    }

    /// Cuts what is too long, so that an event has a bounded size while it waits and on the disk.
    pub(crate) fn cut(&mut self) {
        if self.principal.as_str().len() > TEXT_MAX {
            self.principal = PrincipalId::new(&cut(self.principal.as_str(), TEXT_MAX));
        }
        if self.method.len() > TEXT_MAX {
            self.method = cut(&self.method, TEXT_MAX).into();
        }
        if self.target.len() > TEXT_MAX {
            self.target = cut(&self.target, TEXT_MAX).into();
        }
        if let Some(arguments) = self.arguments.as_mut().filter(|text| text.len() > ARGUMENTS_MAX) {
            *arguments = cut(arguments, ARGUMENTS_MAX);
        }
        let (Decision::Permit(text) | Decision::Deny(text)) = &mut self.decision;
        if text.len() > TEXT_MAX {
            *text = cut(text, TEXT_MAX).into();
        }
        if self.request_id.len() > TEXT_MAX {
            self.request_id = cut(&self.request_id, TEXT_MAX);
        }
        let texts = [&mut self.guard, &mut self.policies, &mut self.approval, &mut self.halt, &mut self.canary];
        for text in texts.into_iter().flatten().filter(|text| text.len() > TEXT_MAX) {
            *text = cut(text, TEXT_MAX);
        }
        let texts = [&mut self.session, &mut self.custody.client, &mut self.custody.bridge];
        for text in texts.into_iter().flatten().filter(|text| text.len() > TEXT_MAX) {
            *text = cut(text, TEXT_MAX).into();
        }
        if let Some(approver) = self.approver.as_mut().filter(|id| id.as_str().len() > TEXT_MAX) {
            *approver = PrincipalId::new(&cut(approver.as_str(), TEXT_MAX));
        }
    }
}

/// A text as it is kept. What an identity says is shared with the request, so it is cut where it is written.
pub(super) fn kept(text: &str) -> Cow<'_, str> {
    if text.len() > TEXT_MAX { Cow::Owned(cut(text, TEXT_MAX)) } else { Cow::Borrowed(text) }
}

/// The beginning of `text` and a digest of the whole, `most` bytes at most: two long names stay two names.
fn cut(text: &str, most: usize) -> String {
    let mut end = most.saturating_sub(CUT_MARK.len() + 2 * CUT_DIGEST_BYTES);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    let mut short = String::with_capacity(most);
    short.push_str(&text[..end]);
    short.push_str(CUT_MARK);
    push_hex(&mut short, &Sha256::digest(text.as_bytes())[..CUT_DIGEST_BYTES]);
    short
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_texts_are_cut_and_stay_apart() {
        let (one, other) = ("ä".repeat(400) + "1", "ä".repeat(400) + "2");
        assert!(cut(&one, TEXT_MAX).len() <= TEXT_MAX);
        assert!(cut(&one, TEXT_MAX).starts_with("ää"));
        assert_ne!(cut(&one, TEXT_MAX), cut(&other, TEXT_MAX));
    }

    #[test]
    fn every_text_of_an_event_is_bounded() {
        let long = "x".repeat(100_000);
        let (shared, id) = (Arc::<str>::from(long.as_str()), PrincipalId::new(&long));
        let texts = || Some(long.clone());
        let mut event = AuditEvent {
            arguments: texts(),
            decision: Decision::Deny(long.clone().into()),
            request_id: long.clone(),
            session: Some(Arc::clone(&shared)),
            guard: texts(),
            custody: Custody {
                client: Some(Arc::clone(&shared)),
                bridge: Some(Arc::clone(&shared)),
                ..Custody::default()
            },
            policies: texts(),
            approval: texts(),
            approver: Some(id.clone()),
            halt: texts(),
            canary: texts(),
            ..AuditEvent::new(Timestamp(0), id, Door::MCP, long.clone().into(), shared)
        };
        event.cut();
        assert!(format!("{event:?}").len() < 14 * TEXT_MAX + ARGUMENTS_MAX + 700);
        assert!(kept(&long).len() <= TEXT_MAX && matches!(kept("x"), Cow::Borrowed("x")));
    }

    #[test]
    fn decisions_and_outcomes_have_fixed_texts() {
        let mut text = String::new();
        Decision::Permit("profile".into()).write(&mut text);
        text.push(' ');
        Decision::Deny("read_only".into()).write(&mut text);
        assert_eq!(text, "permit:profile deny:read_only");
        for (outcome, expect) in [
            (Outcome::Ok, "ok"),
            (Outcome::ToolError, "tool_error"),
            (Outcome::Cancelled, "cancelled"),
            (Outcome::Denied, "denied"),
            (Outcome::Error(Kind::Timeout), "error:server-timeout"),
        ] {
            let mut text = String::new();
            outcome.write(&mut text);
            assert_eq!(text, expect);
        }
    }
}
