//! How well the search finds, over query sets with known answers, and how fast.
//!
//! Started by `cargo xtask eval-search`. `DIR` is a set (`tools.jsonl`, `queries.jsonl`) or a folder of sets. This is
//! the library alone, without fold and without visibility; the sets lie outside the repository.

#![allow(unreachable_pub, reason = "a binary exports nothing, so `pub` means public to the other modules")]
#![allow(clippy::print_stdout, reason = "a command line program talks to the person who called it")]

mod model;
mod set;
mod speed;

use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::{Context, Result, bail, ensure};
use serde_json::json;
use toolcrib_search::measure::Scores;
use toolcrib_search::{Meaning, Query, Ranker, Ranking};

use model::Vectors;
use set::Set;
use speed::Stopwatch;

const USAGE: &str =
    "usage: cargo xtask eval-search DIR [--by FIELD] [--only FIELD=VALUE] [--run FOLDER] [--tfidf] [--speed] [--model PATH [--keep FILE]]
    --by FIELD    also a line for each value of a field of the queries: style, lang, split
    --only F=V    only the queries that have a value in a field, such as split=tuned
    --run FOLDER  write what was ranked to FOLDER/<set>.jsonl, for other programs to score
    --model PATH  with the vectors of a model as well: a folder with `model.onnx` and `tokenizer.json`
    --keep FILE   keep the vectors of tools there
    --speed       instead: the time and memory of an index of 10,000 tools, taken from all sets together";

/// How many hits are looked at; the reciprocal rank reads up to 100.
const DEPTH: usize = 100;

struct Options {
    folder: PathBuf,
    by: Option<String>,
    only: Option<(String, String)>,
    run: Option<PathBuf>,
    ranking: Ranking,
    speed: bool,
    model: Option<PathBuf>,
    keep: Option<PathBuf>,
}

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match run(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("eval-search failed: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run(arguments: &[String]) -> Result<()> {
    let options = Options::read(arguments)?;
    let sets = sets(&options.folder)?;
    if options.speed {
        return speed::report(&sets);
    }
    let mut model = match &options.model {
        None => None,
        Some(path) => Some(Vectors::open(path, options.keep.as_deref())?),
    };
    let mut all = Vec::new();
    println!("{:<34} {:>6} {:>7}  {}   p50 ms  p95 ms", "set", "tools", "queries", Scores::HEAD);
    for folder in &sets {
        let mut set = Set::read(folder)?;
        if let Some((field, value)) = &options.only {
            set.queries.retain(|query| query.field(field) == *value);
        }
        all.push(one(&set, &options, model.as_mut())?);
    }
    if all.len() > 1 {
        println!("{:<34} {:>6} {:>7}  {}", format!("mean of {} sets", all.len()), "", "", Scores::mean(&all));
    }
    Ok(())
}

/// The folders that hold a set, sorted by name.
fn sets(folder: &Path) -> Result<Vec<PathBuf>> {
    let is_set = |folder: &Path| folder.join("tools.jsonl").is_file() && folder.join("queries.jsonl").is_file();
    if is_set(folder) {
        return Ok(vec![folder.to_owned()]);
    }
    let entries = fs::read_dir(folder).with_context(|| format!("failed to read `{}`", folder.display()))?;
    let mut sets: Vec<PathBuf> = entries.filter_map(|entry| Some(entry.ok()?.path())).filter(|it| is_set(it)).collect();
    ensure!(!sets.is_empty(), "`{}` holds no set: no `tools.jsonl` beside a `queries.jsonl`", folder.display());
    sets.sort();
    Ok(sets)
}

fn one(set: &Set, options: &Options, mut model: Option<&mut Vectors>) -> Result<Scores> {
    let index = set.index();
    if let Some(model) = &mut model {
        model.learn(&set.texts())?;
    }
    let (model, mut embedded) = (model.as_deref(), Vec::new());
    let mut run = match &options.run {
        None => None,
        Some(folder) => {
            fs::create_dir_all(folder)?;
            Some(fs::File::create(folder.join(format!("{}.jsonl", set.name)))?)
        }
    };
    let mut scored: Vec<(String, Scores)> = Vec::new();
    let mut times = Vec::new();
    index.search(&Query::new("warm the caches"));
    for query in &set.queries {
        let asked = Query { limit: DEPTH, fold: false, ranking: options.ranking, ..Query::new(&query.text) };
        let meant = match model {
            None => None,
            Some(model) => {
                let (vectors, took) = model.query(&index, &asked)?;
                embedded.push(took);
                Some((model.tools(), vectors))
            }
        };
        let meaning = meant.as_ref().map(|(tools, query)| Meaning { tools, query });
        let start = Stopwatch::start();
        let hits = index.search(&Query { meaning, ..asked });
        times.push(start.millis());
        let ranked: Vec<&str> = hits.hits.iter().map(|hit| set.id(&hit.id)).collect();
        if let Some(run) = &mut run {
            writeln!(run, "{}", json!({ "id": query.id, "ranked": ranked }))?;
        }
        let group = options.by.as_ref().map_or_else(String::new, |field| query.field(field));
        scored.push((group, Scores::of(&query.relevant, &ranked)));
    }
    let everything: Vec<Scores> = scored.iter().map(|(_, scores)| *scores).collect();
    let mean = Scores::mean(&everything);
    let (p50, p95) = (speed::percentile(&mut times, 0.5), speed::percentile(&mut times, 0.95));
    println!("{:<34} {:>6} {:>7}  {mean}   {p50:>6.3}  {p95:>6.3}", set.name, index.len(), set.queries.len());
    if model.is_some() {
        let (p50, p95) = (speed::percentile(&mut embedded, 0.5), speed::percentile(&mut embedded, 0.95));
        println!("  {:<83} {p50:>6.3}  {p95:>6.3}", "the query's vectors, before");
    }
    if options.by.is_some() {
        let mut groups: Vec<&str> = scored.iter().map(|(group, _)| group.as_str()).collect();
        groups.sort_unstable();
        groups.dedup();
        for group in groups {
            let of: Vec<Scores> = scored.iter().filter(|(other, _)| other == group).map(|(_, it)| *it).collect();
            println!("  {group:<32} {:>6} {:>7}  {}", "", of.len(), Scores::mean(&of));
        }
    }
    Ok(mean)
}

// === impl Options ===

impl Options {
    fn read(arguments: &[String]) -> Result<Self> {
        let mut folder = None;
        let mut options = Self {
            folder: PathBuf::new(),
            by: None,
            only: None,
            run: None,
            ranking: Ranking::Blend,
            speed: false,
            model: None,
            keep: None,
        };
        let mut rest = arguments.iter();
        while let Some(argument) = rest.next() {
            match argument.as_str() {
                "--by" => options.by = Some(rest.next().context(USAGE)?.clone()),
                "--only" => {
                    let (field, value) = rest.next().and_then(|it| it.split_once('=')).context(USAGE)?;
                    options.only = Some((field.to_owned(), value.to_owned()));
                }
                "--run" => options.run = Some(rest.next().context(USAGE)?.into()),
                "--model" => options.model = Some(rest.next().context(USAGE)?.into()),
                "--keep" => options.keep = Some(rest.next().context(USAGE)?.into()),
                "--tfidf" => options.ranking = Ranking::TfIdf,
                "--speed" => options.speed = true,
                flag if flag.starts_with('-') => bail!("`{flag}` is no option\n{USAGE}"),
                path if folder.is_none() => folder = Some(PathBuf::from(path)),
                more => bail!("`{more}` is one folder too many\n{USAGE}"),
            }
        }
        options.folder = folder.context(USAGE)?;
        Ok(options)
    }
}
