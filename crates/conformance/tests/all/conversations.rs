//! Tests quote, game and chat under every architecture that can carry them. Other architectures
//! refuse in one line.

use std::process::Command;
use std::thread;

use duality_conformance::{
    Conversation, ServerProcess, for_every_architecture_of_straight_line_code, runs_here,
};

fn serve(service: &str, architecture: &[&str]) -> ServerProcess {
    ServerProcess::start(&mut command(service, architecture))
}

fn command(service: &str, architecture: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", service, "--listen=127.0.0.1:0", "--architecture"]).args(architecture);
    command
}

macro_rules! conversations {
    ($name:ident $architecture:expr) => {
        mod $name {
            const ARCHITECTURE: &[&str] = &$architecture;
            #[test]
            fn quotes_are_exact() {
                if super::runs_here(ARCHITECTURE) {
                    super::quotes_are_exact(&super::serve("quote", ARCHITECTURE));
                }
            }
            #[test]
            fn players_play() {
                super::where_it_can_be_carried("game", ARCHITECTURE, super::players_play);
            }
            #[test]
            fn every_line_reaches_everyone_else() {
                super::where_it_can_be_carried("chat", ARCHITECTURE, super::everyone_hears);
            }
        }
    };
}

for_every_architecture_of_straight_line_code!(conversations);

/// Runs `body` if connections share memory. Otherwise checks that the service is refused.
fn where_it_can_be_carried(service: &str, architecture: &[&str], body: fn(&ServerProcess)) {
    if !runs_here(architecture) {
        return;
    }
    let given =
        duality_architectures::find(architecture[0]).expect("it is in the list").about().gives;
    if given.shared_memory && given.concurrent_connections {
        return body(&serve(service, architecture));
    }
    let refused = command(service, architecture).output().unwrap();
    let lack = if given.shared_memory { "concurrent connections" } else { "shared memory" };
    assert_eq!(refused.status.code(), Some(1));
    let expected = format!(
        "duality: {service} under {}: needs {lack}; choose another architecture\n",
        architecture[0]
    );
    assert_eq!(String::from_utf8(refused.stderr).unwrap(), expected);
}

#[test]
fn what_is_not_written_by_hand_is_refused_by_handwritten() {
    for service in ["time", "guestbook", "quote", "phone", "game", "chat"] {
        // Services with data may make their store in this folder.
        let directory = tempfile::tempdir().unwrap();
        let mut command = command(service, &["handwritten"]);
        let refused = command.current_dir(directory.path()).output().unwrap();
        assert_eq!(refused.status.code(), Some(1));
        let expected = format!(
            "duality: {service} under handwritten: needs straight-line code to be run: its state machine is \
             not written by hand; choose another architecture\n"
        );
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert!(stderr.ends_with(&expected), "{stderr}");
    }
}

/// The price of a symbol by the protocol, from FNV-1a with 32 bits.
fn price(symbol: &str) -> String {
    let hash = symbol
        .bytes()
        .fold(0x811c_9dc5_u32, |hash, byte| (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193));
    let cents = 100 + hash % 99_900;
    format!("{}.{:02}", cents / 100, cents % 100)
}

fn quotes_are_exact(server: &ServerProcess) {
    let mut client = server.talk();
    for symbol in ["A", "IBM", "ABCDEFGH"] {
        assert_eq!(client.ask(symbol), format!("{symbol} {}", price(symbol)));
    }
    assert!(client.ask("no such thing").starts_with("ERROR "));
    client.say("SUN\r\nDEC\nlower\nHP\n");
    assert_eq!(client.hear(), format!("SUN {}", price("SUN")));
    assert_eq!(client.hear(), format!("DEC {}", price("DEC")));
    assert!(client.hear().starts_with("ERROR "));
    assert_eq!(client.hear(), format!("HP {}", price("HP")));
    client.say(&"X".repeat(1000));
    assert!(client.hear().starts_with("ERROR "));
    assert_eq!(client.hear(), "", "a line without an end ends the connection");
}

fn players_play(server: &ServerProcess) {
    for _ in 0..5 {
        let (mut one, mut other) = (server.talk(), server.talk());
        // The server decides which player came first.
        let roles = [one.hear(), other.hear()];
        assert!(roles == ["PLAY first", "PLAY second"] || roles == ["PLAY second", "PLAY first"]);
        for ball in 0..100 {
            one.say(&format!("BALL {ball}\n"));
            assert_eq!(other.hear(), format!("BALL {ball}"));
            other.say(&format!("LLAB {ball}\n"));
            assert_eq!(one.hear(), format!("LLAB {ball}"));
        }
        drop(one);
        assert_eq!(other.hear(), "* the other has left");
        assert_eq!(other.hear(), "");
    }
}

/// Members of the chat: fewer than the workers of the pools.
const MEMBERS: usize = 6;
const LINES: usize = 50;

fn everyone_hears(server: &ServerProcess) {
    let mut members: Vec<(String, Conversation)> = Vec::new();
    for _ in 0..MEMBERS {
        let mut member = server.talk();
        let greeting = member.hear();
        let number = greeting.strip_prefix("* you are ").expect("a greeting").to_owned();
        members.push((number, member));
    }
    let everyone: Vec<String> = members.iter().map(|(number, _)| number.clone()).collect();
    let talking: Vec<_> = members
        .into_iter()
        .map(|(own, mut member)| {
            let others: Vec<String> =
                everyone.iter().filter(|number| **number != own).cloned().collect();
            thread::spawn(move || {
                for line in 0..LINES {
                    member.say(&format!("line {line} of {own}\n"));
                }
                let heard: Vec<String> = (0..others.len() * LINES).map(|_| member.hear()).collect();
                for other in others {
                    let expected: Vec<String> =
                        (0..LINES).map(|line| format!("{other}> line {line} of {other}")).collect();
                    let from = format!("{other}> ");
                    let of_other: Vec<&String> =
                        heard.iter().filter(|line| line.starts_with(&from)).collect();
                    assert!(of_other.into_iter().eq(&expected), "{own} of {other}: {heard:?}");
                }
                member
            })
        })
        .collect();
    // No member leaves before all members have received all lines.
    let members: Vec<_> = talking.into_iter().map(|member| member.join().unwrap()).collect();
    assert_eq!(members.len(), MEMBERS);
}
