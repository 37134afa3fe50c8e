//! What a check has found, as text and as JSON.

use std::fmt::Write;

use crate::json::{self, Missing, Note, Told, User};
use crate::patch::{INTERFACE, VERSION};
use crate::tree::Tree;

/// What a check has found.
#[derive(Debug, Default)]
pub(crate) struct Report {
    /// The version of tokio in `Cargo.lock`, and whether its interface is newer than the patch's.
    pub(crate) locked: String,
    pub(crate) is_newer: bool,
    /// The lines for `Cargo.toml`, with this version of bytes.
    pub(crate) lines: String,
    pub(crate) bytes: Option<String>,
    pub(crate) missing: Vec<Missing>,
    /// The reason why cargo cannot put the patch in: a package wants another version.
    pub(crate) refused: Option<String>,
    /// Packages that keep a tokio 1 of crates.io, with its version, and those that have an older
    /// one, such as 0.2.
    pub(crate) pinned: Vec<User>,
    pub(crate) older: Vec<User>,
    /// The workspace's packages that were not compiled, since they use one that did not compile.
    pub(crate) unchecked: Vec<String>,
    /// The number of errors that come without the patch, too.
    pub(crate) known_errors: usize,
    pub(crate) notes: Vec<Note>,
}

impl Report {
    pub(crate) fn works(&self) -> bool {
        self.missing.is_empty() && self.refused.is_none() && self.pinned.is_empty()
    }

    /// Notes the packages that the patch does not reach.
    pub(crate) fn add_other_tokios(&mut self, tree: &Tree) {
        for (user, tokio) in tree.users_of_another_tokio() {
            let user = User { package: user.label(), tokio: tokio.version.clone() };
            match tokio.minor() {
                Some(_) => self.pinned.push(user),
                None => self.older.push(user),
            }
        }
    }

    /// The command after the lines. A lock keeps tokio in its place, against a patch.
    fn command(&self) -> String {
        format!("cargo update -p tokio@{} --precise {VERSION}", self.locked)
    }

    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        for Missing { package, file, line, column, item, message, remedy } in &self.missing {
            let item = item
                .as_ref()
                .map_or_else(|| message.clone(), |item| format!("`{item}` is missing"));
            let _ = writeln!(text, "{file}:{line}:{column}: {item} [{package}]");
            if item != *message {
                let _ = writeln!(text, "    {message}");
            }
            match remedy {
                Some(remedy) if remedy == "none" => text += "    nothing replaces it\n",
                Some(remedy) => {
                    let _ = writeln!(text, "    instead: {remedy}");
                }
                None => text += "    docs/tokio-patch.md names nothing to use instead\n",
            }
        }
        if let Some(refusal) = &self.refused {
            let _ = writeln!(text, "a package wants another version than {VERSION}: {refusal}");
        }
        for User { package: user, tokio: version } in &self.pinned {
            let _ =
                writeln!(text, "{user} keeps tokio {version}, which the patch does not replace");
        }
        for package in &self.unchecked {
            let _ = writeln!(text, "{package} was not checked: it uses a crate that failed");
        }
        if self.known_errors > 0 {
            let count = self.known_errors;
            let _ = writeln!(text, "{count} errors come without the patch, too, and are left out");
        }
        self.add_notes(&mut text);
        if !text.is_empty() {
            text.push('\n');
        }
        text += self.verdict();
        let _ = write!(text, "\n\n{}\nThen run `{}`.", self.lines, self.command());
        text
    }

    fn add_notes(&self, text: &mut String) {
        let (version, _) = INTERFACE;
        for Note { file, line, text: note } in &self.notes {
            let _ = writeln!(text, "{file}:{line}: note: {note}");
        }
        for User { package: user, tokio } in &self.older {
            let _ = writeln!(text, "note: {user} uses tokio {tokio}, which stays the genuine one");
        }
        if self.is_newer {
            let locked = &self.locked;
            let _ = writeln!(
                text,
                "note: Cargo.lock has tokio {locked}; the patch has the interface of {version}"
            );
        }
    }

    fn verdict(&self) -> &'static str {
        match self.works() {
            true => "This workspace compiles with the patch. The lines for its Cargo.toml:",
            false => "This workspace does not work with the patch. Its lines, for later:",
        }
    }

    pub(crate) fn json(&self) -> String {
        let told = Told {
            bytes: self.bytes.as_deref(),
            command: self.command(),
            is_newer_than_patch: self.is_newer,
            known_errors: self.known_errors,
            lines: &self.lines,
            locked_tokio: &self.locked,
            missing: &self.missing,
            notes: &self.notes,
            older: &self.older,
            patch: VERSION,
            pinned: &self.pinned,
            refused: self.refused.as_deref(),
            unchecked: &self.unchecked,
            version: json::VERSION,
            works: self.works(),
        };
        serde_json::to_string(&told).expect("it is plain data")
    }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::schema::{check, schema};

    fn report() -> Report {
        Report {
            locked: "1.56.0".into(),
            is_newer: true,
            lines: "[patch.crates-io]\n".into(),
            missing: vec![Missing {
                package: "shop 0.1.0".into(),
                file: "src/main.rs".into(),
                line: 4,
                column: 11,
                item: Some("tokio::time::pause".into()),
                message: "cannot find function `pause` in module `tokio::time`".into(),
                remedy: Some("none".into()),
            }],
            older: vec![User { package: "old 0.3.0".into(), tokio: "0.2.25".into() }],
            ..Report::default()
        }
    }

    #[test]
    fn a_missing_item_is_told_with_its_place_and_remedy() {
        let text = report().text();
        for line in [
            "src/main.rs:4:11: `tokio::time::pause` is missing [shop 0.1.0]\n",
            "    nothing replaces it\n",
            "note: Cargo.lock has tokio 1.56.0; the patch has the interface of 1.54\n",
            "note: old 0.3.0 uses tokio 0.2.25, which stays the genuine one\n",
            "cargo update -p tokio@1.56.0 --precise 1.54.99",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        let json: Value = serde_json::from_str(&report().json()).unwrap();
        assert_eq!((&json["works"], &json["missing"][0]["line"]), (&false.into(), &4.into()));
    }

    #[test]
    fn the_json_of_every_report_fits_the_schema() {
        let user = || User { package: "shop 0.1.0".into(), tokio: "1.40.0".into() };
        let unknown = Missing { item: None, remedy: None, ..report().missing.remove(0) };
        let note = Note { file: "src/main.rs".into(), line: 1, text: "no effect".into() };
        let full = Report {
            bytes: Some("1.12.2".into()),
            refused: Some("shop 0.1.0".into()),
            pinned: vec![user()],
            unchecked: vec!["shop 0.1.0".into()],
            known_errors: 2,
            missing: vec![unknown],
            notes: vec![note],
            ..report()
        };
        let schema = schema("check-tokio");
        for report in [Report::default(), report(), full] {
            let mut json: Value = serde_json::from_str(&report.json()).unwrap();
            assert_eq!(json.to_string(), report.json(), "keys are in the order of their names");
            assert_eq!(check(&schema, &json), Ok(()));
            // So that the schema names every key.
            let keys = json.as_object().unwrap().keys().cloned();
            let unnamed: Vec<_> =
                keys.filter(|key| schema["properties"].get(key).is_none()).collect();
            assert!(unnamed.is_empty(), "{unnamed:?}");
            json["missing"] = "many".into();
            assert!(check(&schema, &json).unwrap_err().to_string().starts_with("/missing: "));
        }
    }

    #[test]
    fn only_what_is_missing_or_pinned_keeps_it_from_working() {
        let mut report = Report { missing: Vec::new(), ..report() };
        assert!(report.works() && report.text().contains("compiles with the patch"));
        report.pinned.push(User { package: "old 0.3.0".into(), tokio: "1.40.0".into() });
        assert!(!report.works(), "{}", report.text());
    }
}
