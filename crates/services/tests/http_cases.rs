//! The cases of `http_cases.toml`, which says what they are, against our http service.

mod http_client;

use std::{collections::BTreeMap, net::Shutdown};

use duality_services::http::{Config, Http, Limits};
use serde::Deserialize;

use http_client::{Client, serve};

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

#[derive(Debug, Deserialize)]
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
    /// What is sent, each character as a byte.
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

    /// What our service answers, and the end of the last reply.
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
}

/// Whether a sequence of codes is one that is allowed.
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
    let groups: BTreeMap<String, BTreeMap<String, Case>> =
        toml::from_str(include_str!("http_cases.toml")).unwrap();
    let address = serve(Http::new(Config { root: None, limits: Limits::default() }).unwrap());
    let mut wrong = Vec::new();
    for (group, cases) in &groups {
        for (name, case) in cases {
            let ours = case.ours.as_ref().unwrap_or(&case.allows[0]);
            assert!(case.allows.iter().any(|allowed| is_allowed(ours, allowed)), "{group}: {name}");
            let (codes, last) = case.run(&mut Client::connect(address));
            let has = case.has.iter().all(|text| last.contains(&text.to_lowercase()));
            let lacks = !case.lacks.iter().any(|text| last.contains(&text.to_lowercase()));
            if codes != *ours || !has || !lacks {
                wrong.push(format!(
                    "{group}: {name} ({:?}): {codes:?}, not {ours:?}: {last}",
                    case.level
                ));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}
