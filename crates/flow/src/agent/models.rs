//! The models that runs may ask: those of the definitions, and `demo`, which needs nothing.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::Semaphore;
use toolcrib_agent::{ModelSpec, Price};
use toolcrib_base::nearest::similar;
use toolcrib_base::{Kind, Problem};
use toolcrib_catalog::{Catalog, ModelDefinition, ModelWire};
use toolcrib_model::{Prices, Script, Target, Wire};

use super::breaker::Breaker;

/// The model that needs no key and no network.
pub(super) const DEMO: &str = "demo";
/// What it takes and gives at most, in tokens.
const DEMO_WINDOW: u64 = 128_000;
const DEMO_OUTPUT: u64 = 4_096;
/// How many may ask a script at once.
const SCRIPTED: usize = 64;
/// How long a script may take.
const SCRIPT_TIME: Duration = Duration::from_secs(60);

/// A model that can be asked.
pub(super) struct ModelEntry {
    pub(super) name: String,
    pub(super) target: Target,
    pub(super) place: Place,
    pub(super) window: Option<u64>,
    pub(super) max_output: u64,
    pub(super) prices: Option<Prices>,
    pub(super) timeout: Duration,
    /// Requests that may be under way at once.
    pub(super) places: Semaphore,
    pub(super) breaker: Breaker,
    definition: Option<Arc<ModelDefinition>>,
}

/// Where a model is.
pub(super) enum Place {
    /// Within this process.
    Script(Result<Script, String>),
    /// At an address.
    Server(Arc<ModelDefinition>),
}

impl fmt::Debug for ModelEntry {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ModelEntry").field("name", &self.name).finish_non_exhaustive()
    }
}

impl ModelEntry {
    fn demo() -> Self {
        Self {
            name: DEMO.to_owned(),
            target: Target::new(Wire::Chat, DEMO),
            place: Place::Script(Ok(Script::demo())),
            window: Some(DEMO_WINDOW),
            max_output: DEMO_OUTPUT,
            prices: Some(Prices::flat(0, 0)),
            timeout: SCRIPT_TIME,
            places: Semaphore::new(SCRIPTED),
            breaker: Breaker::default(),
            definition: None,
        }
    }

    /// A model of a definition.
    fn of(definition: &Arc<ModelDefinition>) -> Self {
        let wire = wire(definition.wire);
        let plain = Target::new(wire, definition.model.clone());
        let differs = definition.differs;
        let address = definition.base().unwrap_or_default();
        let target = Target {
            // Two models of one name at two addresses do not take each other's opaque items.
            origin: format!("{}@{address}", plain.origin),
            max_completion_tokens: differs.max_completion_tokens.unwrap_or(plain.max_completion_tokens),
            strict: differs.strict.unwrap_or(plain.strict),
            stream_usage: differs.stream_usage.unwrap_or(plain.stream_usage),
            encrypted_reasoning: differs.encrypted_reasoning.unwrap_or(plain.encrypted_reasoning),
            ..plain
        };
        let place = match &definition.script {
            None => Place::Server(Arc::clone(definition)),
            Some(script) => Place::Script(Script::from_value(script).map_err(|error| error.to_string())),
        };
        let prices = definition.prices.map(|prices| Prices {
            input: prices.input.picodollars(),
            cached: prices.cached.picodollars(),
            cache_write: prices.cache_write.picodollars(),
            cache_write_hour: prices.cache_write_hour.picodollars(),
            output: prices.output.picodollars(),
        });
        Self {
            name: definition.name.to_string(),
            target,
            place,
            window: definition.window.map(u64::from),
            max_output: u64::from(definition.max_output),
            prices,
            timeout: definition.timeout.duration(),
            places: Semaphore::new(definition.parallel as usize),
            breaker: Breaker::default(),
            definition: Some(Arc::clone(definition)),
        }
    }

    fn is_of(&self, definition: &ModelDefinition) -> bool {
        self.definition.as_deref() == Some(definition)
    }

    /// What a run keeps of it.
    pub(super) fn spec(&self) -> ModelSpec {
        let price = self.prices.map(|prices| Price { input: prices.at_most(1, 0).0, output: prices.output });
        ModelSpec { name: self.name.clone(), window: self.window, max_output: self.max_output, price }
    }
}

fn wire(wire: ModelWire) -> Wire {
    match wire {
        ModelWire::Chat | ModelWire::Script => Wire::Chat,
        ModelWire::Responses => Wire::Responses,
        ModelWire::Messages => Wire::Messages,
    }
}

/// All models, by name.
#[derive(Debug)]
pub(super) struct Models {
    table: RwLock<BTreeMap<String, Arc<ModelEntry>>>,
}

impl Models {
    pub(super) fn new() -> Self {
        let demo = Arc::new(ModelEntry::demo());
        Self { table: RwLock::new(BTreeMap::from([(DEMO.to_owned(), demo)])) }
    }

    /// Takes the definitions in. A model whose definition is as before keeps its breaker and who waits for it.
    pub(super) fn apply(&self, loaded: &Catalog) {
        let before = self.all();
        let mut table = BTreeMap::new();
        for (name, definition) in &loaded.models {
            let same = before.get(name.as_str()).filter(|entry| entry.is_of(definition));
            let entry = same.cloned().unwrap_or_else(|| Arc::new(ModelEntry::of(definition)));
            table.insert(name.to_string(), entry);
        }
        table.insert(DEMO.to_owned(), Arc::clone(&before[DEMO]));
        *self.table.write().unwrap_or_else(PoisonError::into_inner) = table;
    }

    fn all(&self) -> BTreeMap<String, Arc<ModelEntry>> {
        self.table.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// A model that a run is to ask.
    ///
    /// # Errors
    /// There is none of this name.
    pub(super) fn wanted(&self, name: &str) -> Result<Arc<ModelEntry>, Problem> {
        let all = self.all();
        all.get(name).cloned().ok_or_else(|| {
            let problem =
                Problem::new(Kind::NotFound, format!("model `{}` not found", toolcrib_base::nearest::prefix(name, 64)));
            match similar(name, all.keys().map(String::as_str)).first() {
                Some(close) => problem.hint(format!("Did you mean `{close}`?")),
                None => problem.hint("Add it with `toolcrib model add`, or use `demo`, which needs no key."),
            }
        })
    }

    /// The model of a run that names none: the only one that there is beside `demo`.
    ///
    /// # Errors
    /// There are several, or none.
    pub(super) fn only(&self) -> Result<Arc<ModelEntry>, Problem> {
        let mut all = self.all();
        all.remove(DEMO);
        let names: Vec<String> = all.keys().map(|name| format!("`{name}`")).collect();
        let mut entries = all.into_values();
        match (entries.next(), entries.next()) {
            (Some(entry), None) => Ok(entry),
            (None, _) => Err(Problem::new(Kind::InvalidParams, "no model is defined")
                .hint("Add one with `toolcrib model add`, or use the model `demo`, which needs no key.")),
            (Some(_), Some(_)) => {
                Err(Problem::new(Kind::InvalidParams, "which model is not said, and there are several")
                    .hint(format!("Name one of {}.", names.join(", "))))
            }
        }
    }
}
