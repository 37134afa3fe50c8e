//! The schemas of the types that are written as JSON.

use duality_lab::{capacity, model, record, tell, traffic, trial};
use schemars::JsonSchema;
use schemars::generate::SchemaSettings;
use serde_json::Value;

/// The command is a package of its own, which does not depend on this one.
#[path = "../../../../cargo-duality/src/json.rs"]
mod check_tokio;

/// The name of each schema, and the text of its file.
pub(crate) fn schemas() -> Vec<(&'static str, String)> {
    let written = || SchemaSettings::draft2020_12().for_serialize();
    // Earlier versions left out what this version reads as a default.
    let read = || SchemaSettings::draft2020_12().for_deserialize();
    let all = vec![
        of::<duality::cli::list::Architectures>(
            written(),
            "architectures",
            "duality architectures --json",
            "architectures/README",
        ),
        of::<duality::cli::list::Services>(
            written(),
            "services",
            "duality services --json",
            "protocols",
        ),
        of::<record::Record>(read(), "results", "a line of results.jsonl", "plans"),
        of::<tell::data::Data<'_>>(
            written(),
            "summary",
            "summary.json, and duality report RUN --json",
            "choosing",
        ),
        of::<tell::comparison::data::Runs<'_>>(
            written(),
            "comparison",
            "duality report BEFORE AFTER --json",
            "choosing",
        ),
        of::<duality_load::Report>(written(), "load", "duality load TARGET --json", "load"),
        of::<capacity::Predictions<'_>>(
            written(),
            "capacity",
            "duality capacity RESULTS --json",
            "capacity",
        ),
        of::<capacity::Checks<'_>>(
            written(),
            "capacity-check",
            "duality capacity RESULTS --check --json",
            "capacity",
        ),
        of::<traffic::Summary>(written(), "trace", "duality trace show TRACE --json", "trace"),
        of::<model::Told<'_>>(written(), "model", "duality model --json, and model.json", "model"),
        of::<duality_costs::json::Told<'_>>(
            written(),
            "costs",
            "duality model --costs --json",
            "model",
        ),
        of::<duality::cli::on_paper::Told>(
            written(),
            "scale",
            "duality simulate --costs RUN --json",
            "scale",
        ),
        of::<trial::event::Told>(
            written(),
            "trial",
            "a line of trial.jsonl, and of duality trial --json",
            "trial",
        ),
        of::<check_tokio::Told<'_>>(
            written(),
            "check-tokio",
            "cargo duality check-tokio --json",
            "tokio-patch",
        ),
    ];
    all.into_iter().map(|(name, schema)| (name, file(&schema))).collect()
}

/// The schema of a type, with the page of the guide that explains it.
fn of<T: JsonSchema>(
    settings: SchemaSettings,
    name: &'static str,
    title: &str,
    page: &str,
) -> (&'static str, Value) {
    let mut schema = settings.into_generator().into_root_schema_for::<T>().to_value();
    plain(&mut schema);
    schema["$id"] = format!("https://duality.invalid/schemas/{name}.json").into();
    schema["title"] = title.into();
    schema["description"] = format!("docs/{page}.md explains the keys.").into();
    (name, schema)
}

/// Makes descriptions of doc comments: without links, and in one line. Defaults are left out,
/// because they say how this program reads a file, and not what is in it.
fn plain(schema: &mut Value) {
    match schema {
        Value::Object(keys) => {
            // A property may have the name of a keyword.
            keys.retain(|name, value| name != "default" || value.get("type").is_some());
            for (name, value) in keys {
                match value {
                    Value::String(text) if name == "description" => *text = without_links(text),
                    value => plain(value),
                }
            }
        }
        Value::Array(all) => all.iter_mut().for_each(plain),
        _ => {}
    }
}

/// Leaves `` `text` `` of `` [`text`] `` and `` [`text`](path) ``.
fn without_links(text: &str) -> String {
    let text = text.split_whitespace().collect::<Vec<_>>().join(" ");
    let (mut plain, mut rest) = (String::new(), text.as_str());
    while let Some((before, link)) = rest.split_once("[`") {
        let (name, after) = link.split_once("`]").expect("a link ends");
        plain += &format!("{before}`{name}`");
        let path = after.strip_prefix('(').and_then(|path| path.split_once(')'));
        rest = path.map_or(after, |(_, after)| after);
    }
    plain + rest
}

/// The text of a file: each key on a line of its own, indented by one column.
fn file(schema: &Value) -> String {
    let text = serde_json::to_string_pretty(schema).unwrap();
    let line = |line: &str| {
        let words = line.trim_start_matches(' ');
        " ".repeat((line.len() - words.len()) / 2) + words + "\n"
    };
    text.lines().map(line).collect()
}
