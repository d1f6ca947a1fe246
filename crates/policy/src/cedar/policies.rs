//! All policies together: compiled from files, all or nothing, and asked by class of principals.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, LazyLock, PoisonError, RwLock};

use cedar_policy::{ActionConstraint, Authorizer, EntityUid, PolicySet, Schema, ValidationMode, Validator};
use sha2::{Digest as _, Sha256};
use toolcrib_base::Role;

use super::argument::{Arguments, merged};
use super::class::Class;
use super::policy::{CompiledPolicy, PolicyRule};
use super::resource::{HINTS, ResourceWords};
use super::schema::{ACTIONS, GATHERINGS, PRINCIPALS, RESOURCES, schema};
use super::subject::{ClassKey, Subject, SubjectWords};
use super::text::{Fault, PolicyText, SHIPPED, line_at, newlines};

/// The largest file. Ten thousand policies fit in it.
const FILE_MAX: usize = 4 << 20;
/// How many policies there may be.
const POLICIES_MAX: usize = 10_000;
/// How many operators and brackets one policy may have: Cedar recurses over them as it reads, checks and evaluates.
const PARTS_MAX: usize = 1_000;
/// The stack for that, taken from the heap meanwhile. What was measured for [`PARTS_MAX`] is a tenth of it.
const STACK: usize = 64 << 20;
/// How many classes of principals are kept; with more, those that no one uses at the moment are made again.
const CLASSES: usize = 1_024;
/// How much of the digest of all texts names them: enough that no two sets are taken for one.
const REVISION_BYTES: usize = 16;

/// Compiled policies. Clones share them.
#[derive(Clone)]
pub struct Policies {
    compiled: Arc<CompiledSet>,
    classes: Arc<RwLock<HashMap<ClassKey, Arc<Class>>>>,
}

/// The name of someone who asks, or of what it can be in, as policies write it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SubjectName {
    /// `User`, `Group` …
    pub of_type: String,
    /// Such as `acme/ann`.
    pub id: String,
}

/// What is compiled.
pub(super) struct CompiledSet {
    pub(super) policies: Vec<CompiledPolicy>,
    pub(super) subject_words: SubjectWords,
    pub(super) resource_words: ResourceWords,
    /// Whether some policy only records.
    pub(super) records: bool,
    /// What they expect of arguments. Policies that do not agree read them in different ways.
    pub(super) arguments: Vec<Arguments>,
    pub(super) authorizer: Authorizer,
    /// Names the texts.
    pub(super) revision: Arc<str>,
}

impl fmt::Debug for Policies {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Policies").field("policies", &self.compiled.policies.len()).finish_non_exhaustive()
    }
}

// === impl Policies ===

impl Policies {
    /// Compiles files; those that are shipped are added unless one of them replaces them. `operations` are the names of all
    /// operations, which are actions.
    ///
    /// # Errors
    /// All that is wrong with the files, in their order. Nothing counts then.
    pub fn compile(texts: &[PolicyText], operations: &[String]) -> Result<Self, Vec<Fault>> {
        stacker::grow(STACK, || Self::compile_deeply(texts, operations))
    }

    fn compile_deeply(texts: &[PolicyText], operations: &[String]) -> Result<Self, Vec<Fault>> {
        let is_replaced = |file: &str| texts.iter().any(|it| it.file == file);
        let shipped: Vec<&(PolicyText, Vec<CompiledPolicy>)> =
            shipped().iter().filter(|(text, _)| !is_replaced(&text.file)).collect();
        let all = texts.iter().chain(shipped.iter().map(|(text, _)| text));
        // Before they are read: what is far too much is not worth the time.
        let count: usize = all.clone().map(|text| extent(&text.text).policies).sum();
        if count > POLICIES_MAX {
            let message = format!("there are {count} policies, and at most {POLICIES_MAX} are allowed");
            return Err(vec![Fault::new("policies", None, message)]);
        }
        let (mut policies, mut faults) = (Vec::new(), Vec::new());
        for text in texts {
            match read(text) {
                Ok(found) => policies.extend(found),
                Err(found) => faults.extend(found),
            }
        }
        policies.extend(shipped.iter().flat_map(|(_, policies)| policies.iter().cloned()));
        faults.extend(names_given_twice(&policies));
        let arguments = readings(&mut policies);
        if faults.is_empty() {
            faults = wrong_names(&policies);
            // What is shipped is checked by a test, and takes longer than most files of a team.
            let is_own = |it: &CompiledPolicy| !shipped.iter().any(|(text, _)| text.file == *it.rule.file);
            faults.extend(wrong_types(
                &policies.iter().filter(|it| is_own(it)).collect::<Vec<_>>(),
                &arguments,
                operations,
            ));
            faults.sort_by(|a, b| (&a.file, a.line).cmp(&(&b.file, b.line)));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let (subject_words, resource_words) = (subject_words(&policies), resource_words(&policies));
        let records = policies.iter().any(|it| it.rule.records_only);
        let authorizer = Authorizer::new();
        let revision = revision(all);
        let compiled =
            CompiledSet { policies, subject_words, resource_words, records, arguments, authorizer, revision };
        Ok(Self { compiled: Arc::new(compiled), classes: Arc::default() })
    }

    /// What all policies together make of principals like this one. Its first use works out nothing yet.
    pub fn class(&self, subject: &Subject<'_>) -> Arc<Class> {
        let key = subject.class(&self.compiled.subject_words);
        if let Some(known) = self.classes.read().unwrap_or_else(PoisonError::into_inner).get(&key) {
            return Arc::clone(known);
        }
        let mut classes = self.classes.write().unwrap_or_else(PoisonError::into_inner);
        if classes.len() >= CLASSES {
            classes.retain(|_, class| Arc::strong_count(class) > 1);
        }
        if classes.len() >= CLASSES {
            classes.clear();
        }
        let class = classes.entry(key.clone()).or_insert_with(|| Arc::new(Class::new(Arc::clone(&self.compiled), key)));
        Arc::clone(class)
    }

    /// Names the texts of all files: other texts, another revision.
    pub fn revision(&self) -> &Arc<str> {
        &self.compiled.revision
    }

    /// Every policy, in the order of the files.
    pub fn rules(&self) -> impl Iterator<Item = &PolicyRule> {
        self.compiled.policies.iter().map(|it| &it.rule)
    }

    /// Whether some policy looks at digests of tools.
    pub fn look_at_digests(&self) -> bool {
        self.compiled.resource_words.digests
    }

    /// Those who ask, or what they are in, whom some policy names: the type and the id of each.
    pub fn subjects_named(&self) -> BTreeSet<SubjectName> {
        let is_subject = |of_type: &str| PRINCIPALS.contains(&of_type) || GATHERINGS.contains(&of_type);
        let named = self.compiled.subject_words.named.iter().map(|uid| SubjectName {
            of_type: uid.type_name().basename().to_owned(),
            id: uid.id().unescaped().to_owned(),
        });
        named.filter(|name| is_subject(&name.of_type)).collect()
    }

    /// The actions in the head of each policy that has any there.
    pub(super) fn actions(&self) -> impl Iterator<Item = (&PolicyRule, Vec<EntityUid>)> {
        self.compiled.policies.iter().map(|it| {
            let actions = match it.policy.action_constraint() {
                ActionConstraint::Any => Vec::new(),
                ActionConstraint::In(of) => of,
                ActionConstraint::Eq(action) => vec![action],
            };
            (&it.rule, actions)
        })
    }

    /// Every entity that a policy names, with the policy.
    pub(super) fn named(&self) -> impl Iterator<Item = (&PolicyRule, EntityUid)> {
        self.compiled.policies.iter().flat_map(|it| it.policy.entity_literals().into_iter().map(|uid| (&it.rule, uid)))
    }
}

/// What is part of the program, read once.
fn shipped() -> &'static [(PolicyText, Vec<CompiledPolicy>)] {
    static READ: LazyLock<Vec<(PolicyText, Vec<CompiledPolicy>)>> = LazyLock::new(|| {
        let texts = SHIPPED.map(|(file, text)| PolicyText { file: file.to_owned(), text: text.to_owned() });
        let policies = |text: PolicyText| {
            let policies = read(&text).expect("what is shipped is good, as a test checks");
            (text, policies)
        };
        texts.map(policies).into()
    });
    &READ
}

/// Names all texts by their content, with the names of their files.
fn revision<'a>(texts: impl Iterator<Item = &'a PolicyText>) -> Arc<str> {
    let mut hasher = Sha256::new();
    for text in texts {
        for part in [&text.file, &text.text] {
            // The length keeps a name from looking like a part of its neighbour.
            hasher.update((part.len() as u64).to_be_bytes());
            hasher.update(part);
        }
    }
    let digest = hasher.finalize();
    digest[..REVISION_BYTES].iter().map(|byte| format!("{byte:02x}")).collect::<String>().into()
}

/// The policies of a file.
fn read(text: &PolicyText) -> Result<Vec<CompiledPolicy>, Vec<Fault>> {
    let file: Arc<str> = text.file.as_str().into();
    if text.text.len() > FILE_MAX {
        let message = format!("the file has {} bytes, and at most {FILE_MAX} are allowed", text.text.len());
        return Err(vec![Fault::new(&file, None, message)]);
    }
    if let Some(offset) = extent(&text.text).too_many_parts {
        let message = format!("the policy has more than {PARTS_MAX} parts");
        let fault = Fault::new(&file, Some(line_at(&text.text, offset)), message);
        return Err(vec![fault.hint("Cut it into several policies, or give the resources a label.")]);
    }
    let set = PolicySet::from_str(&text.text).map_err(|errors| {
        let fault = |error: &cedar_policy::ParseError| {
            use miette::Diagnostic as _;
            let offset = error.labels().and_then(|mut labels| labels.next()).map(|label| label.offset());
            let mut fault = Fault::new(&file, offset.map(|offset| line_at(&text.text, offset)), error.to_string());
            fault.hint = error.help().map(|help| help.to_string());
            fault
        };
        errors.iter().map(fault).collect::<Vec<_>>()
    })?;
    if let Some(template) = set.templates().next() {
        let line = template.as_ref().loc().map(|loc| line_at(&text.text, loc.start()));
        let fault = Fault::new(&file, line, "templates (`?principal`, `?resource`) are not supported");
        return Err(vec![fault.hint("Name the principal or the resource in the policy.")]);
    }
    let mut placed: Vec<_> = set.policies().map(|it| (offset_of(it), it)).collect();
    placed.sort_by_key(|(offset, _)| *offset);
    let (mut policies, mut faults) = (Vec::new(), Vec::new());
    // Counted on from the policy before: from the beginning for each, it takes a minute for all that may be in a file.
    let (mut line, mut counted) = (1, 0);
    for (index, (offset, policy)) in placed.into_iter().enumerate() {
        line += newlines(&text.text.as_bytes()[counted..offset]);
        counted = offset;
        match CompiledPolicy::new(policy, &file, line, index + 1) {
            Ok(compiled) => policies.push(compiled),
            Err(fault) => faults.push(fault),
        }
    }
    if faults.is_empty() { Ok(policies) } else { Err(faults) }
}

/// Where a policy begins in its text.
fn offset_of(policy: &cedar_policy::Policy) -> usize {
    match policy.as_ref().loc() {
        Some(loc) => loc.start(),
        None => 0,
    }
}

/// How much a text holds.
#[derive(Debug, Default)]
struct Extent {
    policies: usize,
    /// Where the first policy begins that has too many operators and brackets.
    too_many_parts: Option<usize>,
}

/// Counted in the text, before anything recurses or takes long.
fn extent(text: &str) -> Extent {
    let mut extent = Extent::default();
    let (mut begin, mut parts) = (None, 0);
    let mut chars = text.char_indices().peekable();
    while let Some((offset, next)) = chars.next() {
        match next {
            '/' if chars.peek().is_some_and(|(_, it)| *it == '/') => {
                while chars.next_if(|(_, it)| *it != '\n').is_some() {}
            }
            '"' => {
                while let Some((_, it)) = chars.next() {
                    match it {
                        '\\' => _ = chars.next(),
                        '"' => break,
                        _ => {}
                    }
                }
            }
            ';' => {
                (begin, parts) = (None, 0);
                extent.policies += 1;
            }
            it if it.is_whitespace() => {}
            it => {
                let begin = *begin.get_or_insert(offset);
                // `==`, `&&` and `||` are one operator each.
                chars.next_if(|(_, next)| *next == it && "=&|".contains(it));
                parts += usize::from("|&!-+*<>=.([{?".contains(it));
                if parts > PARTS_MAX {
                    extent.too_many_parts.get_or_insert(begin);
                }
            }
        }
    }
    extent
}

fn names_given_twice(policies: &[CompiledPolicy]) -> Vec<Fault> {
    let mut known: HashMap<&str, &PolicyRule> = HashMap::new();
    let mut faults = Vec::new();
    for policy in policies {
        let rule = &policy.rule;
        if let Some(first) = known.insert(&rule.id, rule) {
            let message =
                format!("the `@id` `{}` is also that of the policy at {}:{}", rule.id, first.file, first.line);
            faults.push(Fault::new(&rule.file, Some(rule.line), message).hint("Give it another `@id`."));
        }
    }
    faults
}

/// The ways to read arguments: as few as there can be without two policies that disagree about one.
fn readings(policies: &mut [CompiledPolicy]) -> Vec<Arguments> {
    let mut readings = vec![Arguments::new()];
    for policy in policies {
        let fitting = readings.iter().enumerate().find_map(|(at, known)| Some((at, merged(known, &policy.arguments)?)));
        match fitting {
            Some((at, all)) => {
                policy.reading = at;
                readings[at] = all;
            }
            None => {
                policy.reading = readings.len();
                readings.push(policy.arguments.clone());
            }
        }
    }
    readings
}

/// Roles are few and fixed: a wrong one would never count.
fn wrong_names(policies: &[CompiledPolicy]) -> Vec<Fault> {
    let mut faults = Vec::new();
    for CompiledPolicy { rule, policy, .. } in policies {
        for uid in policy.entity_literals() {
            let name = uid.id().unescaped();
            if uid.type_name().basename() == "Role" && name.parse::<Role>().is_err() {
                let message = format!("policy `{}`: role `{name}` does not exist", rule.id);
                let hint = format!("Roles are: {}.", Role::ALL.map(Role::as_str).join(", "));
                faults.push(Fault::new(&rule.file, Some(rule.line), message).hint(hint));
            }
        }
    }
    faults
}

/// What the strict check of types finds.
fn wrong_types(policies: &[&CompiledPolicy], readings: &[Arguments], operations: &[String]) -> Vec<Fault> {
    let by_id: BTreeMap<&str, &PolicyRule> = policies.iter().map(|it| (&*it.rule.id, &it.rule)).collect();
    let operations = told_apart(policies, operations);
    let mut faults = Vec::new();
    for (reading, arguments) in readings.iter().enumerate() {
        if !policies.iter().any(|it| it.reading == reading) {
            continue;
        }
        let (schema, _) = Schema::from_cedarschema_str(&schema(arguments, &operations))
            .expect("a schema of our own words is one of Cedar's");
        let members = policies.iter().filter(|it| it.reading == reading).map(|it| it.policy.clone());
        let set = PolicySet::from_policies(members).expect("no name is given twice");
        let result = Validator::new(schema).validate(&set, ValidationMode::Strict);
        for error in result.validation_errors() {
            use miette::Diagnostic as _;
            let id: &str = error.policy_id().as_ref();
            let (file, line) = by_id.get(id).map_or(("policies", None), |rule| (&*rule.file, Some(rule.line)));
            let text = error.to_string();
            let prefix = format!("for policy `{id}`, ");
            let message = format!("policy `{id}`: {}", text.strip_prefix(&prefix).unwrap_or(&text));
            let mut fault = Fault::new(file, line, message);
            fault.hint = error.help().map(|help| help.to_string());
            faults.push(fault);
        }
    }
    faults
}

/// The operations that the check of types needs: those that policies name, and one for all others, as these have the
/// same types. With all of them each check takes ten times as long. A name that nothing has is answered with the nearest
/// of all.
fn told_apart(policies: &[&CompiledPolicy], operations: &[String]) -> Vec<String> {
    let actions = policies.iter().flat_map(|it| it.policy.entity_literals());
    let actions = actions.filter(|uid| uid.type_name().basename() == "Action");
    let named: BTreeSet<String> = actions.map(|uid| uid.id().unescaped().to_owned()).collect();
    let is_known = |name: &String| operations.contains(name) || ACTIONS.contains(&name.as_str());
    if !named.iter().all(is_known) {
        return operations.to_vec();
    }
    let (mut needed, others): (Vec<String>, Vec<String>) =
        operations.iter().cloned().partition(|it| named.contains(it));
    needed.extend(others.into_iter().next());
    needed
}

fn subject_words(policies: &[CompiledPolicy]) -> SubjectWords {
    let mut words = SubjectWords::default();
    for it in policies {
        words.named.extend(it.policy.entity_literals());
        words.itself |= it.look.principal_itself;
        words.door |= it.look.context.contains("door") || it.look.everything;
        words.proof |= it.look.context.contains("proof") || it.look.everything;
        words.client |= it.look.context.contains("client") || it.look.everything;
    }
    words
}

fn resource_words(policies: &[CompiledPolicy]) -> ResourceWords {
    let mut words = ResourceWords::default();
    for it in policies {
        words.itself |= it.look.at_names();
        HINTS.iter().zip(&mut words.hints).for_each(|(name, looks)| *looks |= it.look.resource.contains(*name));
        words.digests |= it.look.resource.contains("digest");
        for uid in it.policy.entity_literals() {
            let of_type = uid.type_name().basename();
            if let Some(of_type) = RESOURCES.iter().find(|it| **it == of_type) {
                words.named.entry(of_type).or_default().insert(uid.id().unescaped().to_owned());
            }
        }
    }
    words
}
