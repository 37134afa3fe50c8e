//! Tests chat and game on several servers. Their clients meet through a real Redis.

use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::thread;

use duality_conformance::{
    Conversation, Redis, ServerProcess, eventually, for_every_architecture_of_straight_line_code,
    runs_here,
};
use rustix::process::Signal;

const LINES: usize = 30;

fn command(service: &str, architecture: &[&str], redis: &Redis) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
    command.args(["serve", service, "--listen=127.0.0.1:0", "--store"]);
    command.arg(format!("redis://{}", redis.address()));
    command.arg("--architecture").args(architecture);
    command
}

fn serve(service: &str, architecture: &[&str], redis: &Redis) -> ServerProcess {
    ServerProcess::start(&mut command(service, architecture, redis))
}

/// Three servers that have little in common.
fn three(service: &str, redis: &Redis) -> Vec<ServerProcess> {
    [&["epoll", "--cores=2"][..], &["threads"], &["uthreads", "--poller=epoll"]]
        .map(|architecture| serve(service, architecture, redis))
        .into()
}

/// A member, and the lines that it has received.
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

    /// Sends the lines `from` to `to`, several at once.
    fn say(&mut self, from: usize, to: usize) {
        let lines: Vec<usize> = (from..to).collect();
        for some in lines.chunks(4) {
            let text: String = some.iter().map(|line| format!("line {line} > é\n")).collect();
            self.conversation.say(&text);
        }
    }

    /// Reads until it has the last line before `line` of each of the others.
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

    /// Leaves, and reads the lines before the end.
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

/// Calls `act` for all members at the same time.
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

/// The lines of each sender, in the order of their arrival.
fn by_sender(heard: &[String]) -> BTreeMap<&str, Vec<&str>> {
    let mut lines = BTreeMap::<_, Vec<_>>::new();
    for line in heard {
        let (number, text) = line.split_once("> ").unwrap();
        lines.entry(number).or_default().push(text);
    }
    lines
}

/// Checks that all members have all lines of `whole` and the same first lines of `cut`. Each line
/// came once, and all members have one order.
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
    let servers = three("chat", &redis);
    let members: Vec<_> = servers.iter().cycle().take(30).map(Member::of).collect();
    let everyone = numbers(&members);
    let members = all(members, |member| member.say(0, LINES));
    let members = all(members, |member| member.hear(&everyone, LINES));
    let left: Vec<_> = members.into_iter().map(Member::leave).collect();
    check(&left, &everyone, &[], LINES);
    // A late member receives no earlier lines, and has its own number.
    let late = Member::of(&servers[1]);
    assert!(!everyone.contains(&late.number));
    assert_eq!(late.leave().1, [""; 0]);
}

#[test]
fn a_server_that_is_killed_takes_its_own_members_only() {
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    for victim in 0..3 {
        let mut servers: Vec<_> = three("chat", &redis).into_iter().map(Some).collect();
        let mut lost = Vec::new();
        let mut members = Vec::new();
        for server in (0..3).cycle().take(30) {
            let member = Member::of(servers[server].as_ref().unwrap());
            if server == victim { lost.push(member) } else { members.push(member) }
        }
        let (staying, gone) = (numbers(&members), numbers(&lost));
        members = all(members, |member| member.say(0, LINES));
        lost = all(lost, |member| member.say(0, LINES));
        // Some members have received some of the lines. Now comes SIGKILL.
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
        mod $name {
            #[test]
            fn chat() {
                super::is_carried(&$architecture, super::members_talk);
            }
            #[test]
            fn game() {
                super::is_carried(&$architecture, super::players_play);
            }
        }
    };
}

for_every_architecture_of_straight_line_code!(carried);

/// Calls `act` with servers under this architecture and another, if this architecture can carry the
/// service.
fn is_carried(architecture: &[&str], act: fn(&[&str], &Redis)) {
    let given =
        duality_architectures::find(architecture[0]).expect("it is in the list").about().gives;
    if !runs_here(architecture) || !given.shared_memory || !given.concurrent_connections {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    act(architecture, &Redis::start(directory.path()));
}

/// Members of two servers talk with each other, and the servers drain.
fn members_talk(architecture: &[&str], redis: &Redis) {
    const MEMBERS: usize = 6;
    let servers = [serve("chat", architecture, redis), serve("chat", &["threads"], redis)];
    let members: Vec<_> = servers.iter().cycle().take(MEMBERS).map(Member::of).collect();
    let everyone = numbers(&members);
    let members = all(members, |member| member.say(0, LINES));
    let mut members = all(members, |member| member.hear(&everyone, LINES));
    let staying = members.split_off(MEMBERS / 2);
    let left: Vec<_> = members.into_iter().map(Member::leave).collect();
    check(&left, &everyone, &[], LINES);
    drain(servers);
    for mut member in staying {
        assert_eq!(member.conversation.hear(), "", "the drain ends all connections");
    }
}

fn drain<const SERVERS: usize>(servers: [ServerProcess; SERVERS]) {
    for server in servers {
        server.signal(Signal::TERM);
        let (status, stderr) = server.wait();
        assert!(status.success() && stderr.is_empty(), "{status}: {stderr}");
    }
}

/// Pairs clients of two servers. The first of the two begins.
fn pair(one: &ServerProcess, other: &ServerProcess) -> [Conversation; 2] {
    let [mut one, mut other] = [one.talk(), other.talk()];
    match [one.hear(), other.hear()].each_ref().map(String::as_str) {
        ["PLAY first", "PLAY second"] => [one, other],
        ["PLAY second", "PLAY first"] => [other, one],
        words => panic!("{words:?}"),
    }
}

/// Players of two servers play, and the servers drain.
fn players_play(architecture: &[&str], redis: &Redis) {
    let servers = [serve("game", architecture, redis), serve("game", &["threads"], redis)];
    for (one, other) in [(0, 1), (1, 0), (0, 0)] {
        let [mut first, mut second] = pair(&servers[one], &servers[other]);
        for ball in 0..20 {
            // Some lines at once, and a line of the greatest length.
            let long = "x".repeat(1024);
            first.say(&format!("BALL {ball}\r\n{long}\n\n"));
            let heard = [second.hear(), second.hear(), second.hear()];
            assert!(heard == [format!("BALL {ball}"), long, String::new()], "{heard:?}");
            second.say(&format!("LLAB {ball}\n"));
            assert_eq!(first.hear(), format!("LLAB {ball}"));
        }
        first.say("good bye\n");
        drop(first);
        assert_eq!(second.hear(), "good bye");
        assert_eq!(second.hear(), "* the other has left");
        assert_eq!(second.hear(), "");
    }
    // A player that leaves early is not paired. A player that speaks early gets a message about it.
    let mut waiting = servers[1].talk();
    waiting.finish();
    assert_eq!(waiting.hear(), "");
    let mut early = servers[0].talk();
    early.say("now?\n");
    assert_eq!([early.hear(), early.hear()], ["ERROR wait for PLAY", ""]);
    let [mut first, mut second] = pair(&servers[0], &servers[1]);
    first.say("still here\n");
    assert_eq!(second.hear(), "still here");
    let waiting = servers[0].talk();
    drain(servers);
    for mut player in [first, second, waiting] {
        let ended = [player.hear(), player.hear()];
        assert!(
            ["", "* the other has left"].contains(&&*ended[0]) && ended[1].is_empty(),
            "{ended:?}"
        );
    }
}

#[test]
fn the_other_players_are_told_that_a_server_is_gone() {
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    for victim in 0..3 {
        let mut servers: Vec<_> = three("game", &redis).into_iter().map(Some).collect();
        let [safe, victim, other] = [victim + 1, victim, victim + 2].map(|number| number % 3);
        let (kept, lost) = {
            let at = |number: usize| servers[number].as_ref().unwrap();
            (pair(at(safe), at(other)), pair(at(safe), at(victim)))
        };
        servers[victim].take();
        let ends = lost.map(|mut player| (player.hear(), player.hear()));
        let notices = ends.iter().filter(|(word, _)| word == "* the other has left").count();
        assert!(notices == 1 && ends.iter().all(|(_, end)| end.is_empty()), "{ends:?}");
        let [mut first, mut second] = kept;
        first.say("still here\n");
        assert_eq!(second.hear(), "still here");
        // Later players skip an offer of a server that is gone.
        drop((first, second));
        let at = |number: usize| servers[number].as_ref().unwrap();
        let [mut first, mut second] = pair(at(safe), at(other));
        second.say("here too\n");
        assert_eq!(first.hear(), "here too");
    }
}

#[test]
fn players_are_told_that_redis_is_away_and_come_back_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(directory.path());
    let servers = three("game", &redis);
    let [first, second] = pair(&servers[0], &servers[1]);
    let waiting = servers[2].talk();
    eventually("it waits", || {
        (redis.ask("EXISTS duality:game:offer").starts_with(b":1")).then_some(())
    });
    redis.restart(directory.path(), || {
        for mut player in [first, second, waiting] {
            assert_eq!(player.hear(), "* the store is unavailable");
            assert_eq!(player.hear(), "");
        }
        assert_eq!(servers[1].talk().hear(), "* the store is unavailable");
    });
    // These two servers have one group of tasks each, so that one client shows the state of all.
    for server in &servers[1..] {
        eventually("a client is let in", || {
            let mut visitor = server.talk();
            visitor.finish();
            visitor.hear().is_empty().then_some(())
        });
    }
    let [mut first, mut second] = pair(&servers[1], &servers[2]);
    first.say("again\n");
    assert_eq!(second.hear(), "again");
}

#[test]
fn a_load_of_games_over_three_servers() {
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    let servers = three("game", &redis);
    let places: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    let load = Command::new(env!("CARGO_BIN_EXE_served"))
        .args(["load", "--json", "-c20", "-n2000", &format!("game://{}", places.join(","))])
        .output()
        .unwrap();
    let report: serde_json::Value = serde_json::from_slice(&load.stdout).unwrap();
    assert_eq!(
        (report["requests"].as_u64(), report["errors"].to_string()),
        (Some(2000), "{}".into())
    );
}

#[test]
fn members_are_told_that_redis_is_away_and_come_back_with_it() {
    let directory = tempfile::tempdir().unwrap();
    let mut redis = Redis::start(directory.path());
    let mut servers = three("chat", &redis);
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
        let mut servers =
            [serve("chat", &[architecture], &redis), serve("chat", &["epoll"], &redis)];
        let complaints = servers.each_mut().map(ServerProcess::complaints);
        // The first member to join is the first to subscribe.
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

/// The load generator checks the same properties, while a server is killed.
#[test]
fn a_load_over_three_servers_loses_the_members_of_one() {
    const DELIVERIES: u64 = 600_000;
    let directory = tempfile::tempdir().unwrap();
    let redis = Redis::start(directory.path());
    let mut servers = three("chat", &redis);
    let places: Vec<_> = servers.iter().map(|server| server.address().to_string()).collect();
    let mut load = Command::new(env!("CARGO_BIN_EXE_served"));
    load.args(["load", "--json", "-c30", "-n", &DELIVERIES.to_string()]);
    load.arg(format!("chat://{}", places.join(",")));
    let load = load.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    eventually("the members talk", || {
        // Each member joins by one message, and sends its lines of a round in another message.
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

/// The number of published messages.
fn published(redis: &Redis) -> u64 {
    let statistics = String::from_utf8(redis.ask("INFO commandstats")).unwrap();
    let calls =
        statistics.split_once("cmdstat_publish:calls=").and_then(|(_, rest)| rest.split_once(','));
    calls.map_or(0, |(calls, _)| calls.parse().unwrap())
}

#[test]
fn a_file_joins_no_servers() {
    for service in ["chat", "game"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_served"));
        let refused = command.args(["serve", service, "--store=sqlite:x"]).output().unwrap();
        let stderr = String::from_utf8(refused.stderr).unwrap();
        assert_eq!((refused.status.code(), stderr.lines().count()), (Some(2), 1), "{stderr}");
        assert!(stderr.contains("--store") && stderr.contains("redis://HOST:PORT"), "{stderr}");
    }
}
