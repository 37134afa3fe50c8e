//! The errors of `cargo check`, from its messages in JSON.

use serde_json::Value;

/// An error of the compiler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Error {
    /// The identity of the package that does not compile.
    pub(crate) package: String,
    /// The file, as the compiler knows it, and the place in it. Empty without a place.
    pub(crate) file: String,
    pub(crate) line: u64,
    pub(crate) column: u64,
    /// The path of the item that the error is about, such as `tokio::task::Builder`, if the error
    /// names an item.
    pub(crate) item: Option<String>,
    /// What the compiler says.
    pub(crate) message: String,
}

/// The errors in the messages, each once: `--all-targets` compiles a source more than once.
pub(crate) fn errors(messages: &str) -> Vec<Error> {
    let mut errors: Vec<Error> = Vec::new();
    for line in messages.lines() {
        let Ok(message) = serde_json::from_str::<Value>(line) else { continue };
        if message["reason"] != "compiler-message" || message["message"]["level"] != "error" {
            continue;
        }
        for error in of_message(&message) {
            if !errors.contains(&error) {
                errors.push(error);
            }
        }
    }
    errors
}

/// An error for each place of a message. An import may name several items that are missing.
fn of_message(message: &Value) -> Vec<Error> {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let number = |value: &Value| value.as_u64().unwrap_or_default();
    let diagnostic = &message["message"];
    let spans = diagnostic["spans"].as_array().cloned().unwrap_or_default();
    let places: Vec<&Value> = spans.iter().filter(|span| span["is_primary"] == true).collect();
    let what = text(&diagnostic["message"]);
    let error = |span: &Value, item: Option<String>| Error {
        package: text(&message["package_id"]),
        file: text(&span["file_name"]),
        line: number(&span["line_start"]),
        column: number(&span["column_start"]),
        item,
        message: what.clone(),
    };
    let named = quoted(&what);
    match &places[..] {
        [] => vec![error(&Value::Null, item(&named))],
        places if what.starts_with("unresolved import") && places.len() == named.len() => {
            let items = named.iter().map(|name| Some((*name).to_owned()));
            places.iter().zip(items).map(|(span, item)| error(span, item)).collect()
        }
        places => vec![error(places[0], item(&named))],
    }
}

/// The code in a message: what stands between backticks.
fn quoted(message: &str) -> Vec<&str> {
    message.split('`').skip(1).step_by(2).collect()
}

/// The path of the item that a message names: "cannot find `pause` in `tokio::time`", "no method
/// `x` found for `&mut Command`", "the trait bound `TcpStream: FromRawFd`".
fn item(named: &[&str]) -> Option<String> {
    let bare = |name: &str| {
        let name = name.trim_start_matches('&').trim_start_matches("mut ");
        name.split('<').next().unwrap_or(name).trim().to_owned()
    };
    let first = named.first()?;
    if let Some((owner, item)) = first.split_once(": ") {
        return Some(format!("{}::{}", bare(owner), bare(item)));
    }
    let is_path =
        |name: &str| name.chars().all(|letter| letter.is_alphanumeric() || "_:".contains(letter));
    let item = bare(first);
    match named.get(1).map(|owner| bare(owner)) {
        Some(owner) if is_path(&owner) => Some(format!("{owner}::{item}")),
        _ => Some(item),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn span(file: &str, line: u64) -> Value {
        json!({"file_name": file, "line_start": line, "column_start": 9, "is_primary": true})
    }

    fn message(level: &str, text: &str, spans: &[Value]) -> String {
        let message = json!({
            "reason": "compiler-message", "package_id": "shop@0.1.0",
            "message": {"level": level, "message": text, "spans": spans},
        });
        format!("{message}\n")
    }

    fn items(text: &str) -> Option<String> {
        let errors = errors(&message("error", text, &[span("src/main.rs", 4)]));
        errors.into_iter().next().unwrap().item
    }

    #[test]
    fn items_are_named_by_their_paths() {
        for (text, expected) in [
            ("cannot find function `pause` in module `tokio::time`", "tokio::time::pause"),
            ("unresolved import `tokio::time::pause`", "tokio::time::pause"),
            (
                "no method named `pre_exec` found for mutable reference `&mut tokio::process::Command` in the current scope",
                "tokio::process::Command::pre_exec",
            ),
            (
                "the trait bound `tokio::net::TcpStream: FromRawFd` is not satisfied",
                "tokio::net::TcpStream::FromRawFd",
            ),
            (
                "no method named `a` found for struct `Receiver<u8>` in the current scope",
                "Receiver::a",
            ),
        ] {
            assert_eq!(items(text).as_deref(), Some(expected));
        }
        assert_eq!(items("mismatched types"), None);
    }

    #[test]
    fn an_import_of_two_items_is_two_errors() {
        let text = "unresolved imports `tokio::time::pause`, `tokio::time::advance`";
        let line = message("error", text, &[span("src/a.rs", 1), span("src/a.rs", 2)]);
        let found: Vec<_> =
            errors(&line).into_iter().map(|error| (error.line, error.item)).collect();
        let item = |name: &str| Some(format!("tokio::time::{name}"));
        assert_eq!(found, [(1, item("pause")), (2, item("advance"))]);
    }

    #[test]
    fn warnings_are_left_out_and_repeated_errors_are_told_once() {
        let error = message("error", "cannot find `a` in `b`", &[span("src/main.rs", 4)]);
        let lines = message("warning", "unused", &[]) + &error + &error + "not JSON\n";
        let errors = errors(&lines);
        let [Error { file, line: 4, column: 9, package, .. }] = &errors[..] else {
            panic!("{errors:?}")
        };
        assert_eq!((file.as_str(), package.as_str()), ("src/main.rs", "shop@0.1.0"));
    }
}
