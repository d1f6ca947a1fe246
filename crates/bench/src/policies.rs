//! What policies cost: where there are none, a decision that was worked out, one that looks at arguments, the first look at
//! many tools, many classes in memory, compiling, and decisions meanwhile.

use std::fmt::Write as _;
use std::hint::black_box;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, anyhow, ensure};
use toolcrib_base::{Glob, Identity, PrincipalId, ProfileName, Proof, Role, Timestamp, ToolId};
use toolcrib_policy::{
    Act, Annotations, Caller, LabelTable, Moment, Policies, PolicyText, PolicyVerdict, Request, Rules, Settings,
    Subject,
};

use crate::process::Process;
use crate::report::{Table, median, number, write_region};
use crate::{machine, say};

/// `toolcrib-bench policies`
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct PolicyBench {
    /// Repetitions; the table shows medians
    #[arg(long, default_value_t = 5)]
    rounds: usize,
    /// How many policies decide
    #[arg(long, default_value_t = 200)]
    policies: usize,
    /// How many tools a class looks at
    #[arg(long, default_value_t = 10_000)]
    tools: usize,
    /// A document whose region `policies` receives the table
    #[arg(long)]
    write: Option<PathBuf>,
}

/// How often what is short is repeated in a round.
const REPEATED: usize = 100_000;
/// How many classes and principals are in memory.
const CLASSES: usize = 50;
const PRINCIPALS: usize = 10_000;
/// How many policies are compiled at once.
const COMPILED: usize = 1_000;
const AT: Timestamp = Timestamp(1_795_608_000_000);

pub(crate) fn run(bench: &PolicyBench) -> anyhow::Result<()> {
    ensure!(bench.rounds > 0 && bench.policies > 0 && bench.tools > 0, "there is nothing to measure");
    let facts = machine::facts();
    say(&format!("{facts}\n\n"));
    let mut table = Table::new(&["measure", "at most", "measured", "met"]);
    say(table.markdown());
    let mut add = |measure: &str, bound: f64, figure: f64| {
        let met = if figure <= bound { "met" } else { "**missed**" };
        let before = table.markdown().len();
        table.row(&[measure.to_owned(), number(bound), number(figure), met.to_owned()]);
        say(&table.markdown()[before..]);
    };
    let policies = compile(bench.policies)?;
    // Before anything else has left room in the memory of the process.
    let in_memory = memory(&policies, bench.tools)?;
    let mut without = Vec::new();
    let mut by_table = Vec::new();
    let mut by_arguments = Vec::new();
    let mut looks = Vec::new();
    let mut compiling = Vec::new();
    let mut meanwhile = Vec::new();
    for _ in 0..bench.rounds {
        without.push(without_policies()?);
        by_table.push(settled(&policies)?);
        by_arguments.extend(with_arguments(&policies)?);
        meanwhile.extend(during_reload(&policies)?);
        looks.push(first_look(&compile(bench.policies)?, bench.tools)?);
        let started = Instant::now();
        black_box(compile(COMPILED)?);
        compiling.push(started.elapsed().as_secs_f64());
    }
    let mid = |values: &[f64]| median(values).context("no rounds");
    add("no policies, beside the profile's rules alone (µs)", 0.1, mid(&without)?);
    add("decision that was worked out (µs)", 1.0, mid(&by_table)?);
    add("decision that looks at arguments, p50 (µs)", 25.0, at(&mut by_arguments, 0.5));
    add("the same, p99 (µs)", 60.0, at(&mut by_arguments, 0.99));
    add(&format!("first look of a class at {} tools (ms)", bench.tools), 150.0, mid(&looks)?);
    add(&format!("{PRINCIPALS} principals in {CLASSES} classes (MiB)"), 10.0, in_memory);
    add(&format!("compiling {COMPILED} policies (s)"), 0.3, mid(&compiling)?);
    add("decision that looks at arguments, p99 while they are compiled (µs)", 60.0, at(&mut meanwhile, 0.99));
    if let Some(document) = &bench.write {
        let head = format!("{facts}; medians of {} rounds.\n\n", bench.rounds);
        write_region(document, "policies", &(head + table.markdown()))?;
    }
    Ok(())
}

/// The figure that so large a share of the figures does not exceed.
fn at(figures: &mut [f64], share: f64) -> f64 {
    figures.sort_unstable_by(f64::total_cmp);
    // The share of a number of samples, which is small enough to be exact.
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, clippy::cast_precision_loss, reason = "small")]
    let index = (figures.len() as f64 * share) as usize;
    figures[index.min(figures.len() - 1)]
}

/// So many policies as a team would write them: about servers, groups, labels, hints and arguments.
fn compile(count: usize) -> anyhow::Result<Policies> {
    let mut text = String::new();
    for number in 0..count {
        let _ = match number % 5 {
            0 => writeln!(
                text,
                r#"forbid (principal in Group::"acme/g{number}", action == Action::"call", resource in Server::"s{number}");"#
            ),
            1 => writeln!(
                text,
                r#"forbid (principal, action == Action::"call", resource in Server::"s{}") unless {{ resource.readOnly || principal in Group::"acme/g{}" }};"#,
                number % 20,
                number % 50
            ),
            2 => writeln!(
                text,
                r#"permit (principal in Group::"acme/g{}", action in [Action::"read", Action::"get"], resource in Label::"env=e{number}");"#,
                number % 50
            ),
            3 => writeln!(
                text,
                r#"forbid (principal, action == Action::"call", resource == Tool::"pay/t{number}") when {{ context.arguments has amount && context.arguments.amount > {number} }};"#
            ),
            _ => writeln!(
                text,
                r#"@mode("record") forbid (principal in Group::"acme/g{number}", action, resource) when {{ principal in Role::"viewer" }};"#
            ),
        };
    }
    let texts = [PolicyText { file: "team.cedar".to_owned(), text }];
    Policies::compile(&texts, &[]).map_err(|faults| anyhow!("{}", faults[0]))
}

/// A principal of the class of a number.
struct Person {
    principal: PrincipalId,
    identity: Identity,
    profile: ProfileName,
}

impl Person {
    fn new(number: usize) -> anyhow::Result<Self> {
        let mut identity = Identity::by(Proof::AccessToken);
        identity.issuer = Some("acme".into());
        identity.groups = vec![format!("g{}", number % CLASSES).into(), format!("own{number}").into()];
        let profile = ProfileName::new("work").map_err(|error| anyhow!("{error}"))?;
        Ok(Self { principal: PrincipalId::new(&format!("user:acme/p{number}")), identity, profile })
    }

    fn subject(&self) -> Subject<'_> {
        let Self { principal, identity, profile } = self;
        Subject { principal, role: Role::Member, identity, profile, door: "mcp" }
    }
}

fn tool(server: &str, number: usize) -> anyhow::Result<Act> {
    let annotations = Annotations { read_only: Some(number.is_multiple_of(2)), ..Annotations::default() };
    let tool = ToolId::parse(&format!("{server}/t{number}")).context("an id")?;
    Ok(Act::CallTool { tool, annotations })
}

/// How much longer a decision takes in a gateway without policies than the profile's rules and what a permit carries.
fn without_policies() -> anyhow::Result<f64> {
    let person = Person::new(1)?;
    let everything = vec![Glob::new("*").map_err(|error| anyhow!("{error:?}"))?];
    let settings = Settings {
        profile: person.profile.clone(),
        servers: everything.clone(),
        registry: Vec::new(),
        allow: everything,
        deny: Vec::new(),
        read_only: false,
        held: std::sync::Arc::default(),
    };
    let rules = Rules::new(settings);
    let caller = Caller { principal: &person.principal, role: Role::Member };
    let acts: Vec<Act> = (0..100).map(|number| tool("files", number)).collect::<Result<_, _>>()?;
    let requests: Vec<Request<'_>> = acts.iter().map(|act| Request { caller, act }).collect();
    let started = Instant::now();
    for number in 0..REPEATED {
        let request = black_box(&requests[number % requests.len()]);
        ensure!(black_box(rules.visible(request)), "it is shown");
        black_box((person.principal.clone(), person.profile.clone(), request.act.clone()));
    }
    let alone = micros(started.elapsed(), REPEATED);
    let started = Instant::now();
    for number in 0..REPEATED {
        let request = black_box(&requests[number % requests.len()]);
        let moment = Moment { arguments: Some(br#"{"path": "/data/a"}"#), ..Moment::at(AT) };
        ensure!(black_box(rules.decide(request, &moment)).is_ok(), "it is permitted");
    }
    Ok((micros(started.elapsed(), REPEATED) - alone).max(0.0))
}

/// Decisions by the policies in force while others are compiled.
fn during_reload(policies: &Policies) -> anyhow::Result<Vec<f64>> {
    std::thread::scope(|scope| {
        let compiling = scope.spawn(|| compile(COMPILED).map(drop));
        let mut found = with_arguments(policies)?;
        while !compiling.is_finished() {
            found.extend(with_arguments(policies)?);
        }
        compiling.join().map_err(|_| anyhow!("compiling panicked"))??;
        Ok(found)
    })
}

fn settled(policies: &Policies) -> anyhow::Result<f64> {
    let (person, labels) = (Person::new(1)?, LabelTable::new());
    let class = policies.class(&person.subject());
    let acts: Vec<Act> = (0..100).map(|number| tool("files", number)).collect::<Result<_, _>>()?;
    let moment = Moment { arguments: Some(br#"{"path": "/data/a", "amount": 1}"#), ..Moment::at(AT) };
    acts.iter().for_each(|act| _ = black_box(class.decide(act, &labels, &moment)));
    let started = Instant::now();
    for number in 0..REPEATED {
        let ruling = class.decide(black_box(&acts[number % acts.len()]), &labels, &moment);
        ensure!(matches!(black_box(ruling), PolicyVerdict::Permit(_)), "it is permitted");
    }
    Ok(micros(started.elapsed(), REPEATED))
}

fn with_arguments(policies: &Policies) -> anyhow::Result<Vec<f64>> {
    let (person, labels) = (Person::new(1)?, LabelTable::new());
    let class = policies.class(&person.subject());
    let act = tool("pay", 3)?;
    let mut found = Vec::new();
    for number in 0..REPEATED / 20 {
        let arguments = format!(r#"{{"amount": {}, "to": "account {number}", "note": "for the month"}}"#, number % 3);
        let moment = Moment { arguments: Some(arguments.as_bytes()), ..Moment::at(AT) };
        let started = Instant::now();
        let ruling = class.decide(black_box(&act), &labels, &moment);
        found.push(micros(started.elapsed(), 1));
        ensure!(matches!(ruling, PolicyVerdict::Permit(_)), "small amounts are permitted");
    }
    Ok(found)
}

fn first_look(policies: &Policies, tools: usize) -> anyhow::Result<f64> {
    let (person, labels) = (Person::new(1)?, LabelTable::new());
    let acts: Vec<Act> =
        (0..tools).map(|number| tool(&format!("s{}", number % 100), number)).collect::<Result<_, _>>()?;
    let started = Instant::now();
    let class = policies.class(&person.subject());
    black_box(acts.iter().filter(|act| class.shows(act, &labels)).count());
    Ok(started.elapsed().as_secs_f64() * 1e3)
}

fn memory(policies: &Policies, tools: usize) -> anyhow::Result<f64> {
    let labels = LabelTable::new();
    let acts: Vec<Act> =
        (0..tools).map(|number| tool(&format!("s{}", number % 100), number)).collect::<Result<_, _>>()?;
    let before = resident_mib()?;
    let mut classes = Vec::new();
    for number in 0..PRINCIPALS {
        let person = Person::new(number)?;
        let class = policies.class(&person.subject());
        if number < CLASSES {
            black_box(acts.iter().filter(|act| class.shows(act, &labels)).count());
        }
        classes.push(class);
    }
    let after = resident_mib()?;
    black_box(classes);
    Ok(after - before)
}

fn resident_mib() -> anyhow::Result<f64> {
    let sizes = Process(std::process::id()).sizes().context("cannot read the size of this process")?;
    Ok(sizes.resident_mib())
}

fn micros(elapsed: Duration, count: usize) -> f64 {
    #[expect(clippy::cast_precision_loss, reason = "far below 2^53")]
    let count = count as f64;
    elapsed.as_secs_f64() * 1e6 / count
}
