//! Tests our http service against the cases of `http_cases.toml`, which describes them.

use std::{collections::BTreeMap, net::Shutdown};

use duality_services::http::Http;
use serde::Deserialize;

use crate::http_client::{Client, World, serve_in};

#[derive(Deserialize)]
struct Group {
    section: String,
    #[serde(flatten)]
    cases: BTreeMap<String, Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    level: Level,
    send: String,
    #[serde(default)]
    fill: usize,
    #[serde(default = "letter")]
    fill_with: String,
    allows: Vec<String>,
    ours: Option<String>,
    #[serde(default)]
    has: Vec<String>,
    #[serde(default)]
    lacks: Vec<String>,
    #[serde(default)]
    head: bool,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum Level {
    Must,
    Should,
    Strict,
}

fn letter() -> String {
    "a".to_owned()
}

impl Case {
    /// The request, each character as a byte.
    fn bytes(&self) -> Vec<u8> {
        let next = "GET /next HTTP/1.1\r\nHost: h\r\n\r\n";
        let mut text = self
            .send
            .replace("$NEXT", next)
            .replace("$GET", "GET / HTTP/1.1\r\n$HOST")
            .replace("$POST", "POST / HTTP/1.1\r\n$HOST")
            .replace("$HOST", "Host: h\r\n");
        if self.fill > 0 {
            text = text.replace('@', &self.fill_with.repeat(self.fill));
        }
        text.chars().map(|character| u8::try_from(character).expect("a byte")).collect()
    }

    /// The replies of our service: their codes, and the last reply in small letters.
    fn run(&self, client: &mut Client) -> (String, String) {
        client.send(self.bytes());
        client.stream.shutdown(Shutdown::Write).unwrap();
        let (mut codes, mut last) = (Vec::new(), String::new());
        while client.has_more() {
            let reply = client.receive(self.head && codes.is_empty());
            codes.push(reply.code.to_string());
            last = reply.head + &String::from_utf8_lossy(&reply.body);
        }
        (codes.join(" "), last.to_lowercase())
    }

    /// The mistake in an answer, if there is one.
    fn judge(&self, codes: &str, last: &str) -> Option<String> {
        let ours = self.ours.as_ref().unwrap_or(&self.allows[0]);
        if codes != ours {
            return Some(format!("answered by {codes:?}, not {ours:?}"));
        }
        if let Some(text) = self.has.iter().find(|text| !last.contains(&text.to_lowercase())) {
            return Some(format!("does not say {text:?}"));
        }
        if let Some(text) = self.lacks.iter().find(|text| last.contains(&text.to_lowercase())) {
            return Some(format!("says {text:?}"));
        }
        let next_is_left = self.send.ends_with("$NEXT") && !codes.ends_with("404");
        let ends = codes.is_empty() || last.contains("\r\nconnection: close\r\n");
        (next_is_left && !ends).then(|| "does not say that the connection ends".to_owned())
    }
}

/// Whether a sequence of codes is allowed.
fn is_allowed(codes: &str, allowed: &str) -> bool {
    let (codes, allowed): (Vec<_>, Vec<_>) =
        (codes.split(' ').collect(), allowed.split(' ').collect());
    let alike = |code: &str, allowed: &str| match allowed.strip_suffix("xx") {
        Some(class) => code.len() == 3 && code.starts_with(class),
        None => code == allowed,
    };
    codes.len() == allowed.len()
        && codes.iter().zip(allowed).all(|(code, allowed)| alike(code, allowed))
}

#[test]
fn every_case_is_answered_as_it_should_be() {
    let groups: BTreeMap<String, Group> = toml::from_str(include_str!("http_cases.toml")).unwrap();
    for world in World::all() {
        let address = serve_in(world, Http::demo());
        let mut wrong = Vec::new();
        for (group, Group { section, cases }) in &groups {
            for (name, case) in cases {
                let (codes, last) = case.run(&mut Client::connect(address));
                if let Some(fault) = case.judge(&codes, &last) {
                    let level = case.level;
                    wrong.push(format!("{group}: {name} ({level:?}, {section}): {fault}: {last}"));
                }
            }
        }
        assert!(wrong.is_empty(), "in the world {world:?}\n{}", wrong.join("\n"));
    }
}

#[test]
fn what_we_answer_is_among_what_is_allowed() {
    let groups: BTreeMap<String, Group> = toml::from_str(include_str!("http_cases.toml")).unwrap();
    for (group, Group { cases, .. }) in &groups {
        for (name, case) in cases {
            let ours = case.ours.as_ref().unwrap_or(&case.allows[0]);
            let allowed = case.allows.iter().any(|allowed| is_allowed(ours, allowed));
            assert!(allowed, "{group}: {name}");
        }
    }
}
