//! chat on several servers: their members are in one room, through a real Redis.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::thread;

use duality_conformance::{
    Conversation, Redis, ServerProcess, eventually, for_every_architecture_of_straight_line_code,
    runs_here,
};
use rustix::process::Signal;

const LINES: usize = 30;

fn command(architecture: &[&str], redis: &Redis) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", "chat", "--listen=127.0.0.1:0", "--store"]);
    command.arg(format!("redis://{}", redis.address()));
    command.arg("--architecture").args(architecture);
    command
}

fn serve(architecture: &[&str], redis: &Redis) -> ServerProcess {
    ServerProcess::start(&mut command(architecture, redis))
}

/// Three servers that have little in common.
fn three(redis: &Redis) -> Vec<ServerProcess> {
    [&["epoll", "--cores=2"][..], &["threads"], &["uthreads", "--poller=epoll"]]
        .map(|architecture| serve(architecture, redis))
        .into()
}

/// A member, and what it has heard.
struct Member {
    number: String,
    conversation: Conversation,
    heard: Vec<String>,
}

impl Member {
    fn of(server: &ServerProcess) -> Self {
        let mut conversation = server.talk();
        let welcome = conversation.hear();
        let number = welcome.strip_prefix("* you are ").unwrap_or_else(|| panic!("{welcome}"));
        Self { number: number.to_owned(), conversation, heard: Vec::new() }
    }

    /// Says lines `from` to `to`, some of them at once.
    fn say(&mut self, from: usize, to: usize) {
        let lines: Vec<usize> = (from..to).collect();
        for some in lines.chunks(4) {
            let text: String = some.iter().map(|line| format!("line {line} > é\n")).collect();
            self.conversation.say(&text);
        }
    }

    /// Hears until it has heard the last line before `line` of all of these.
    fn hear(&mut self, others: &[String], line: usize) {
        let own = self.number.clone();
        let mut missing: Vec<String> = others
            .iter()
            .filter(|number| **number != own)
            .map(|number| format!("{number}> line {} > é", line - 1))
            .collect();
        while !missing.is_empty() {
            let heard = self.conversation.hear();
            assert!(!heard.is_empty() && !heard.starts_with('*'), "{own}: {heard:?}");
            missing.retain(|missing| *missing != heard);
            self.heard.push(heard);
        }
    }

    /// Leaves, and hears what comes before the end.
    fn leave(mut self) -> (String, Vec<String>) {
        self.conversation.finish();
        loop {
            match self.conversation.hear() {
                end if end.is_empty() => return (self.number, self.heard),
                line => self.heard.push(line),
            }
        }
    }
}

/// Has all members do something at the same time.
fn all(members: Vec<Member>, act: impl Fn(&mut Member) + Sync) -> Vec<Member> {
    thread::scope(|scope| {
        let acting: Vec<_> = members
            .into_iter()
            .map(|mut member| {
                let act = &act;
                scope.spawn(move || {
                    act(&mut member);
                    member
                })
            })
            .collect();
        acting.into_iter().map(|member| member.join().unwrap()).collect()
    })
}

fn numbers(members: &[Member]) -> Vec<String> {
    members.iter().map(|member| member.number.clone()).collect()
}

/// The lines of each sender, in the order in which they were heard.
fn by_sender(heard: &[String]) -> BTreeMap<&str, Vec<&str>> {
    let mut lines = BTreeMap::<_, Vec<_>>::new();
    for line in heard {
        let (number, text) = line.split_once("> ").unwrap();
        lines.entry(number).or_default().push(text);
    }
    lines
}

/// Checks that all have heard all lines of `whole`, the same first lines of `cut`, each once, and
/// in one order.
fn check(left: &[(String, Vec<String>)], whole: &[String], cut: &[String], lines: usize) {
    let said: Vec<String> = (0..lines).map(|line| format!("line {line} > é")).collect();
    for (own, heard) in left {
        let lines = by_sender(heard);
        for number in whole.iter().filter(|number| *number != own) {
            assert!(lines[number.as_str()] == said, "{own} of {number}: {heard:#?}");
        }
        for number in cut {
            let some = lines.get(number.as_str()).cloned().unwrap_or_default();
            assert!(some == said[..some.len().min(said.len())], "{own} of {number}: {heard:#?}");
        }
        let known =
            |number: &&str| [whole, cut].iter().any(|some| some.iter().any(|one| one == number));
        assert!(lines.keys().all(|number| known(number) && number != own), "{own}: {heard:#?}");
    }
    for (one, heard_by_one) in left {
        for (other, heard_by_other) in left {
            let without = |heard: &[String]| -> Vec<String> {
                let of = |line: &str, number: &str| line.starts_with(&format!("{number}> "));
                let theirs = |line: &&String| !of(line, one) && !of(line, other);
                heard.iter().filter(theirs).cloned().collect()
            };
            assert_eq!(without(heard_by_one), without(heard_by_other), "{one} and {other}");
        }
    }
}

#[test]
fn members_of_three_servers_hear_all_lines_once_and_in_one_order() {
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    let servers = three(&redis);
    let members: Vec<_> = servers.iter().cycle().take(30).map(Member::of).collect();
    let everyone = numbers(&members);
    let members = all(members, |member| member.say(0, LINES));
    let members = all(members, |member| member.hear(&everyone, LINES));
    let left: Vec<_> = members.into_iter().map(Member::leave).collect();
    check(&left, &everyone, &[], LINES);
    // A late member hears nothing of that, and has a number of its own.
    let late = Member::of(&servers[1]);
    assert!(!everyone.contains(&late.number));
    assert_eq!(late.leave().1, [""; 0]);
}

#[test]
fn a_server_that_is_killed_takes_its_own_members_only() {
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    for victim in 0..3 {
        let mut servers: Vec<_> = three(&redis).into_iter().map(Some).collect();
        let mut lost = Vec::new();
        let mut members = Vec::new();
        for server in (0..3).cycle().take(30) {
            let member = Member::of(servers[server].as_ref().unwrap());
            if server == victim { lost.push(member) } else { members.push(member) }
        }
        let (staying, gone) = (numbers(&members), numbers(&lost));
        members = all(members, |member| member.say(0, LINES));
        lost = all(lost, |member| member.say(0, LINES));
        // Some of the lines have come to some members. SIGKILL.
        members[0].hear(&gone[..1], LINES / 2);
        servers[victim].take();
        members = all(members, |member| member.say(LINES, 2 * LINES));
        members = all(members, |member| member.hear(&staying, 2 * LINES));
        let left: Vec<_> = members.into_iter().map(Member::leave).collect();
        check(&left, &staying, &gone, 2 * LINES);
        drop(lost);
    }
}

macro_rules! carried {
    ($name:ident $architecture:expr) => {
        #[test]
        fn $name() {
            is_carried(&$architecture);
        }
    };
}

for_every_architecture_of_straight_line_code!(carried);

/// Members under this architecture talk with members under another, and the server drains.
fn is_carried(architecture: &[&str]) {
    const MEMBERS: usize = 6;
    let given = duality_architectures::find(architecture[0]).expect("it is in the list").gives();
    if !runs_here(architecture) || !given.shared_memory || !given.concurrent_connections {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    let servers = [serve(architecture, &redis), serve(&["threads"], &redis)];
    let members: Vec<_> = servers.iter().cycle().take(MEMBERS).map(Member::of).collect();
    let everyone = numbers(&members);
    let members = all(members, |member| member.say(0, LINES));
    let mut members = all(members, |member| member.hear(&everyone, LINES));
    let staying = members.split_off(MEMBERS / 2);
    let left: Vec<_> = members.into_iter().map(Member::leave).collect();
    check(&left, &everyone, &[], LINES);
    for server in servers {
        server.signal(Signal::TERM);
        let (status, said) = server.wait();
        assert!(status.success() && said.is_empty(), "{status}: {said}");
    }
    for mut member in staying {
        assert_eq!(member.conversation.hear(), "", "the drain ends all connections");
    }
}

#[test]
fn members_are_told_that_redis_is_away_and_come_back_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(directory.path());
    let mut servers = three(&redis);
    let complaints: Vec<_> = servers.iter_mut().map(ServerProcess::complaints).collect();
    let mut members: Vec<_> = servers.iter().map(Member::of).collect();
    let everyone = numbers(&members);
    members[0].say(0, 1);
    for member in &mut members[1..] {
        member.hear(&everyone[..1], 1);
    }
    redis.restart(directory.path(), || {
        for member in &mut members {
            assert_eq!(member.conversation.hear(), "* the store is unavailable");
            assert_eq!(member.conversation.hear(), "");
        }
        for server in &servers {
            assert_eq!(server.talk().hear(), "* the store is unavailable");
        }
    });
    let members = servers.iter().map(|server| {
        eventually("a client is let in", || {
            let mut conversation = server.talk();
            let welcome = conversation.hear();
            let number = welcome.strip_prefix("* you are ")?.to_owned();
            Some(Member { number, conversation, heard: Vec::new() })
        })
    });
    let members: Vec<_> = members.collect();
    let new = numbers(&members);
    assert!(new.iter().all(|number| !everyone.contains(number)), "no number is given twice");
    let members = all(members, |member| member.say(0, LINES));
    let members = all(members, |member| member.hear(&new, LINES));
    check(&members.into_iter().map(Member::leave).collect::<Vec<_>>(), &new, &[], LINES);
    for complaints in complaints {
        assert!(complaints.next("that Redis is away").contains("is unavailable"));
        assert!(complaints.next("that Redis is back").contains("is back"));
    }
}

#[test]
fn a_server_that_is_cut_off_tells_its_own_members_only() {
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    for architecture in ["epoll", "threads", "uthreads"] {
        let mut servers = [serve(&[architecture], &redis), serve(&["epoll"], &redis)];
        let complaints = servers.each_mut().map(ServerProcess::complaints);
        // The first to join is the first to subscribe.
        let [mut one, mut other] = servers.each_ref().map(Member::of);
        let subscribers = String::from_utf8(redis.ask("CLIENT LIST TYPE pubsub")).unwrap();
        let (_, first) = subscribers.split_once("id=").unwrap();
        let (first, _) = first.split_once(' ').unwrap();
        assert!(redis.ask(&format!("CLIENT KILL ID {first}")).starts_with(b":1"));
        assert_eq!(one.conversation.hear(), "* the store is unavailable");
        assert_eq!(one.conversation.hear(), "");
        let mut new = Member::of(&servers[0]);
        new.say(0, 1);
        other.hear(&[new.number.clone()], 1);
        other.say(0, 1);
        new.hear(&[other.number.clone()], 1);
        assert_eq!((new.leave().1.len(), other.leave().1.len()), (1, 1));
        let [of_one, of_other] = complaints;
        assert!(of_one.next("that it is cut off").contains("it broke the connection"));
        assert!(of_one.next("that it is back").contains("is back"));
        for server in servers {
            server.signal(Signal::TERM);
            assert!(server.wait().0.success());
        }
        assert_eq!(of_other.rest().collect::<Vec<_>>(), [""; 0]);
    }
}

/// The load generator checks the same, while a server is killed.
#[test]
fn a_load_over_three_servers_loses_the_members_of_one() {
    const DELIVERIES: u64 = 600_000;
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    let mut servers = three(&redis);
    let places: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    let mut load = Command::new(env!("CARGO_BIN_EXE_served"));
    load.args(["load", "--json", "-c30", "-n", &DELIVERIES.to_string()]);
    load.arg(format!("chat://{}", places.join(",")));
    let load = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the members talk", || {
        // Each member joins by one message, and says its lines of a round in another.
        (published(&redis) > 4 * 30).then_some(())
    });
    drop(servers.remove(1));
    let ended = load.wait_with_output().unwrap();
    let report: serde_json::Value = serde_json::from_slice(&ended.stdout).unwrap();
    let errors = report["errors"].as_object().unwrap();
    let lost: u64 = errors.values().map(|count| count.as_u64().unwrap()).sum();
    assert!(
        errors.keys().all(|kind| ["reset", "closed-early"].contains(&kind.as_str())),
        "{report}"
    );
    assert_eq!((lost, report["requests"].as_u64()), (10, Some(DELIVERIES - 10)), "{report}");
    assert_eq!(ended.status.code(), Some(1), "a load with failures says so");
}

/// How many messages were published.
fn published(redis: &Redis) -> u64 {
    let told = String::from_utf8(redis.ask("INFO commandstats")).unwrap();
    let calls =
        told.split_once("cmdstat_publish:calls=").and_then(|(_, rest)| rest.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse().unwrap())
}

#[test]
fn a_file_joins_no_servers() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    let refused = command.args(["serve", "chat", "--store=sqlite:x"]).output().unwrap();
    let said = String::from_utf8(refused.stderr).unwrap();
    assert_eq!((refused.status.code(), said.lines().count()), (Some(2), 1), "{said}");
    assert!(said.contains("--store") && said.contains("redis://HOST:PORT"), "{said}");
}
