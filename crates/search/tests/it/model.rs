//! Vectors from outside: a model that is made up answers where it knows all that is visible, and nowhere else.

use toolcrib_base::{ServerName, ToolId};
use toolcrib_search::{
    Document, Hits, Index, Meaning, Query, QueryVectors, Ranker, Ranking, ServerText, TextKey, ToolVectors, tool_texts,
};

use crate::world::ids;

const SERVER: &str = "shop";
const TOOLS: [(&str, &str); 3] =
    [("alpha", "Counts parcels"), ("beta", "Lists invoices"), ("gamma", "Weighs parcels on a scale")];

fn server() -> ServerText<'static> {
    ServerText::new(ServerName::new(SERVER).unwrap())
}

fn documents() -> Vec<Document<'static>> {
    TOOLS
        .iter()
        .map(|(tool, description)| Document { tool: (*tool).into(), description, ..Document::default() })
        .collect()
}

fn index() -> Index {
    let mut index = Index::new();
    index.replace(&server(), &documents());
    index
}

/// To this model the nth tool means the nth direction.
fn model(known: &[usize]) -> ToolVectors {
    let mut vectors = ToolVectors::new(3);
    for (at, (key, _)) in tool_texts(&server(), &documents()).iter().enumerate() {
        if known.contains(&at) {
            assert!(vectors.insert(*key, &direction(at)));
        }
    }
    vectors
}

fn direction(at: usize) -> [f32; 3] {
    std::array::from_fn(|n| f32::from(u8::from(n == at)))
}

fn search(index: &Index, tools: &ToolVectors, wanted: usize, query: &Query<'_>) -> Hits {
    let vectors = QueryVectors::new([&direction(wanted)[..]]);
    index.search(&Query { meaning: Some(Meaning { tools, query: &vectors }), ..*query })
}

#[test]
fn what_the_model_means_comes_first() {
    let (index, tools, query) = (index(), model(&[0, 1, 2]), Query::new("something for the office"));
    for (wanted, (name, _)) in TOOLS.iter().enumerate() {
        let hits = search(&index, &tools, wanted, &query);
        assert_eq!(ids(&hits)[0], format!("{SERVER}/{name}"));
    }
    let id = ToolId::new(ServerName::new(SERVER).unwrap(), "beta");
    let vectors = QueryVectors::new([&direction(1)[..]]);
    let asked = Query { meaning: Some(Meaning { tools: &tools, query: &vectors }), ..query };
    let explanation = index.explain(&asked, &id).unwrap();
    let model = explanation.model.unwrap();
    assert!((model.raw - 1.0).abs() < 0.02 && model.weight > 0.0, "{model:?}");
    let hit = index.search(&asked).hits.into_iter().find(|hit| hit.id == id).unwrap();
    assert_eq!(explanation.score, hit.score);
    assert!(index.explain(&query, &id).unwrap().model.is_none());
}

#[test]
fn the_table_answers_until_all_that_is_visible_has_a_vector() {
    let (index, query) = (index(), Query::new("something for the office"));
    let table = index.search(&query);
    assert_eq!(search(&index, &model(&[0, 1]), 1, &query), table);
    let visible = |id: &ToolId| &*id.tool != "gamma";
    let narrow = Query { visible: Some(&visible), ..query };
    let hits = search(&index, &model(&[0, 1]), 1, &narrow);
    assert_eq!(ids(&hits)[0], "shop/beta");
    assert_ne!(hits, index.search(&narrow));
    // What is hidden changes nothing, known or not.
    assert_eq!(search(&index, &model(&[0, 1, 2]), 1, &narrow), hits);
}

#[test]
fn odd_vectors_are_as_none() {
    let (index, tools, query) = (index(), model(&[0, 1, 2]), Query::new("something for the office"));
    let table = index.search(&query);
    let odd: [&[f32]; 4] = [&[0.0; 3], &[f32::NAN; 3], &[1.0; 40], &[]];
    for vector in odd {
        let vectors = QueryVectors::new([vector]);
        let meaning = Some(Meaning { tools: &tools, query: &vectors });
        assert_eq!(index.search(&Query { meaning, ..query }), table, "{vector:?}");
    }
    // A tool whose vector is none counts as read.
    let mut tools = model(&[0, 1]);
    let (key, _) = tool_texts(&server(), &documents())[2].clone();
    assert!(!tools.insert(key, &[0.0; 3]));
    assert_eq!(ids(&search(&index, &tools, 0, &query))[0], "shop/alpha");
}

#[test]
fn a_key_is_the_content() {
    let texts = tool_texts(&server(), &documents());
    assert_eq!(texts.len(), 3);
    assert!(texts.iter().all(|(key, text)| *key == TextKey::of(text)));
    let changed = Document { tool: "alpha".into(), description: "Counts parcel", ..Document::default() };
    assert_ne!(tool_texts(&server(), &[changed])[0].0, texts[0].0);
}

#[test]
fn a_model_reads_the_corrected_query_and_its_clauses() {
    let index = index();
    assert_eq!(index.meaning_texts(&Query::new("weihgs parcels")), ["weighs parcels"]);
    let long = "weigh the parcels of today on a scale, then list the invoices of the week";
    let texts = index.meaning_texts(&Query::new(long));
    assert_eq!(texts, [long, "weigh the parcels of today on a scale", "list the invoices of the week"]);
    assert!(index.meaning_texts(&Query::new(" ")).is_empty());
    assert!(index.meaning_texts(&Query { ranking: Ranking::TfIdf, ..Query::new("parcels") }).is_empty());
}
