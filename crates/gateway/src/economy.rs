//! What a profile's tools cost a model in tokens: everything listed, what the profile lists, and a typical task by find,
//! describe and call. Counted when someone asks, once for each state of the catalogue.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use serde_json::{Map, Value, json};
use toolcrib_protocol::Raw;
use toolcrib_search::{budget, tokens};
use toolcrib_store::ListSavings;
use toolcrib_view::costs::{Costs, given};
use toolcrib_view::{Tool, View};

use crate::gateway::Gateway;
use crate::meta::{describe, find};

/// Over how many tools, spread evenly over the catalogue, the typical task is averaged.
const SAMPLES: usize = 16;
/// How many tools and servers have a share of what is saved under their own name.
const SHARES: usize = 16;

/// What a view's tools cost a model. The first count takes as long as reading all of them.
pub(crate) fn costs(view: &View) -> &Costs {
    view.costs_or_count(count)
}

/// Takes as long as reading all definitions of tools.
fn count(view: &View) -> Costs {
    let listed = view.listed.plain().to_value();
    let listed = listed["tools"].as_array().map(Vec::as_slice).unwrap_or_default();
    let samples: Vec<&Arc<Tool>> = view.tools.iter().step_by(view.tools.len().div_ceil(SAMPLES).max(1)).collect();
    let mean = |cost: fn(&View, &Tool) -> usize| {
        let sum: usize = samples.iter().map(|tool| cost(view, tool)).sum();
        sum.div_ceil(samples.len().max(1))
    };
    let sizes: Vec<usize> = view.tools.iter().map(|tool| given(&tool.exposed().to_value())).collect();
    let (everything, in_list) = (sizes.iter().sum::<usize>(), listed.iter().map(given).sum::<usize>());
    let saved = everything.saturating_sub(in_list);
    let names: HashSet<&str> = listed.iter().filter_map(|tool| tool["name"].as_str()).collect();
    let left_out = view.tools.iter().zip(sizes).filter(|(tool, _)| !names.contains(&*tool.name));
    let left_out: Vec<(&Arc<Tool>, usize)> = left_out.collect();
    Costs {
        tools: view.tools.len(),
        everything,
        saved_by_tool: shares(saved, left_out.iter().map(|(tool, size)| (tool.id.to_string(), *size))),
        saved_by_server: shares(saved, left_out.iter().map(|(tool, size)| (tool.id.server.to_string(), *size))),
        listed_tools: listed.len(),
        listed: in_list,
        find: mean(finding),
        describe: mean(describing),
        call: mean(calling),
    }
}

/// What each name has of the tokens that were saved, by the size of what is left out of it. The largest come first; the
/// rest has one share together.
fn shares(saved: usize, sizes: impl Iterator<Item = (String, usize)>) -> Vec<(String, usize)> {
    let mut by_name: BTreeMap<String, usize> = BTreeMap::new();
    for (name, size) in sizes {
        *by_name.entry(name).or_default() += size;
    }
    let whole = by_name.values().sum::<usize>().max(1);
    let mut shares: Vec<(String, usize)> = by_name.into_iter().collect();
    shares.sort_by(|a, b| b.1.cmp(&a.1).then_with(|| a.0.cmp(&b.0)));
    let rest: usize = shares.iter().skip(SHARES).map(|(_, size)| size).sum();
    shares.truncate(SHARES);
    shares.extend((rest > 0).then(|| (ListSavings::OTHER.to_owned(), rest)));
    shares.into_iter().map(|(name, size)| (name, saved * size / whole)).collect()
}

fn finding(view: &View, tool: &Tool) -> usize {
    let summary = budget::summary(tool.description());
    let query = if summary.is_empty() { &*tool.id.tool } else { &summary };
    asked("find_tools", &json!({ "query": query })) + tokens::count(&find::told(view, query))
}

fn describing(_: &View, tool: &Tool) -> usize {
    asked("describe_tool", &json!({ "name": &*tool.name })) + tokens::count(&describe::told(tool))
}

fn calling(_: &View, tool: &Tool) -> usize {
    let schema = tool.entry.input_schema().map(|schema| schema.to_value()).unwrap_or_default();
    let required = schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str);
    let arguments: Map<String, Value> = required.map(|name| (name.to_owned(), "…".into())).collect();
    asked("call_tool", &json!({ "name": &*tool.name, "arguments": arguments }))
}

fn asked(tool: &str, arguments: &Value) -> usize {
    tokens::count(tool) + tokens::count(&arguments.to_string())
}

/// The costs of a profile as an operation answers them.
pub(crate) fn answer(view: &View, _: &Raw) -> Value {
    let mut value = json!({ "profile": view.profile.name.as_str(), "exposure": view.profile.exposure.as_str() });
    if let (Some(value), Value::Object(costs)) = (value.as_object_mut(), costs(view).to_value()) {
        value.extend(costs);
    }
    value
}

impl Gateway {
    /// Brings the gauges of tokens up to date. What has been counted since the views were built is not counted again.
    pub async fn gauge_tokens(&self) {
        let views = self.views();
        let counted = tokio::task::spawn_blocking(move || {
            let counted = views.values().map(|view| (view.profile.name.to_string(), costs(view).clone()));
            counted.collect::<Vec<_>>()
        });
        match counted.await {
            Ok(counted) => self.metrics.set_tokens(counted.iter().map(|(name, costs)| (name.as_str(), costs))),
            Err(error) => tracing::error!(%error, "counting tokens was interrupted"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_saved_is_shared_by_size_and_the_small_ones_share_one_row() {
        let sizes = |count: usize| (0..count).map(|number| (format!("s/t{number:02}"), 10 * (number + 1)));
        assert_eq!(shares(30, sizes(2)), [("s/t01".to_owned(), 20), ("s/t00".to_owned(), 10)]);
        let many = shares(1_710, sizes(18));
        assert_eq!((many.len(), many[0].clone(), many[16].clone()), (17, ("s/t17".into(), 180), ("…".into(), 30)));
        assert_eq!(many.iter().map(|(_, saved)| saved).sum::<usize>(), 1_710);
        assert!(shares(5, std::iter::empty()).is_empty());
    }
}
