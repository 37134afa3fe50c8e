//! chat: each line reaches each of the others once, in one order.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};

use super::wire::{Wire, patiently};
use super::{Client, Days, FULL, Simulation, Trouble, UNAVAILABLE, wrong};
use crate::violation::Violation;

pub(super) const SIMULATION: Simulation = Simulation {
    name: "chat",
    checks: "each line reaches each of the others once, and all hear one order without a gap",
    begin: |days| {
        Box::pin(async move {
            let servers = days.servers_joined()?;
            let heard = Heard::default();
            let of_clients = heard.clone();
            days.pass(servers, move |days, number| Member::new(days, number, &of_clients)).await?;
            heard.check()
        })
    },
};

/// A line: the session that said it, and its number there.
type Said = (String, usize);

/// What each session has heard, in its order.
#[derive(Clone, Default)]
struct Heard(Arc<Mutex<BTreeMap<String, Vec<Said>>>>);

impl Heard {
    /// All sessions have heard the lines that they share in one order, and no session has a gap.
    fn check(&self) -> Result<(), Violation> {
        let heard = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let known: Vec<(&String, &Vec<Said>, BTreeSet<&Said>)> =
            heard.iter().map(|(name, lines)| (name, lines, lines.iter().collect())).collect();
        for (index, (one, of_one, one_knows)) in known.iter().enumerate() {
            for (other, of_other, other_knows) in &known[index + 1..] {
                let of_one_in_both = of_one.iter().filter(|line| other_knows.contains(line));
                if !of_one_in_both.eq(of_other.iter().filter(|line| one_knows.contains(line))) {
                    return Err(format!("{one} and {other} have heard different orders").into());
                }
                let of_other_too =
                    || missed(of_other, one, one_knows).map(|line| (one, other, line));
                let gap = missed(of_one, other, other_knows).map(|line| (other, one, line));
                let gap = gap.or_else(of_other_too);
                if let Some((who, heard_by, (tag, line))) = gap {
                    let why =
                        format!("{who} has not heard line {line} of {tag}, as {heard_by} has");
                    return Err(why.into());
                }
            }
        }
        Ok(())
    }
}

/// A line between two that the session `other` knows, and that it should have heard.
fn missed<'l>(lines: &'l [Said], other: &str, known: &BTreeSet<&Said>) -> Option<&'l Said> {
    let first = lines.iter().position(|line| known.contains(line))?;
    let last = lines.iter().rposition(|line| known.contains(line))?;
    lines[first..last].iter().find(|line| line.0 != other && !known.contains(line))
}

/// A client with the session of its last connection.
struct Member {
    days: Days,
    number: usize,
    sessions: usize,
    heard: Heard,
    session: Option<Session>,
}

struct Session {
    wire: Wire,
    tag: String,
    /// The number that the server gave.
    own: u64,
    lines: usize,
    /// The next line of each session that is heard.
    next: BTreeMap<String, usize>,
}

impl Member {
    fn new(days: Days, number: usize, heard: &Heard) -> Self {
        Self { days, number, sessions: 0, heard: heard.clone(), session: None }
    }

    async fn join(&mut self) -> Result<Session, Trouble> {
        self.sessions += 1;
        let mut wire = Wire::connect(&self.days, self.number % self.days.size.servers).await?;
        let greeting = patiently(wire.line()).await?;
        if [FULL, UNAVAILABLE].contains(&greeting.as_str()) {
            return Err(Trouble::Broken(greeting));
        }
        let own = greeting.strip_prefix("* you are ").and_then(|number| number.parse().ok());
        let Some(own) = own else { return wrong(format!("no greeting: {greeting:?}")) };
        let tag = format!("s{}.{}", self.number, self.sessions);
        Ok(Session { wire, tag, own, lines: 0, next: BTreeMap::new() })
    }
}

impl Session {
    /// Checks a line of another member.
    fn hear(&mut self, line: &str, heard: &Heard) -> Result<(), Trouble> {
        if ["* too slow", UNAVAILABLE].contains(&line) {
            return Err(Trouble::Broken(line.to_owned()));
        }
        let parts = line.split_once("> ").and_then(|(from, text)| {
            let mut words = text.split(' ');
            let (tag, number) = (words.next()?, words.next()?.parse::<usize>().ok()?);
            Some((from.parse::<u64>().ok()?, tag.to_owned(), number, words.next()?))
        });
        let Some((from, tag, number, rest)) = parts else {
            return wrong(format!("no line of a member: {line:?}"));
        };
        if from == self.own || tag == self.tag {
            return wrong(format!("its own line: {line:?}"));
        }
        if rest != "x".repeat(number * 37 % 300) + "." {
            return wrong(format!("a line that was not said so: {line:?}"));
        }
        let next = self.next.entry(tag.clone()).or_insert(number);
        if number != *next {
            return wrong(format!("line {number} of {tag} instead of line {next}"));
        }
        *next += 1;
        let mut heard = heard.0.lock().unwrap_or_else(PoisonError::into_inner);
        heard.entry(self.tag.clone()).or_default().push((tag, number));
        Ok(())
    }
}

impl Client for Member {
    async fn request(&mut self) -> Result<(), Trouble> {
        let mut session = match self.session.take() {
            Some(session) => session,
            None => self.join().await?,
        };
        let number = session.lines;
        session.lines += 1;
        let line = format!("{} {number} {}.\n", session.tag, "x".repeat(number * 37 % 300));
        patiently(session.wire.send(line.as_bytes())).await?;
        // Listens for a while, to as many lines as come.
        let end = duality_runtime::time::now() + self.days.net.draw_time(super::PATIENCE / 10);
        loop {
            let left = end.saturating_duration_since(duality_runtime::time::now());
            match duality_runtime::time::timeout(left, session.wire.next_line()).await {
                Err(_) => break,
                Ok(line) => match line? {
                    Some(line) => session.hear(&line, &self.heard)?,
                    None => return Err(Trouble::Broken("the server closes".to_owned())),
                },
            }
        }
        self.session = Some(session);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use duality_runtime::time::{sleep, timeout};

    use super::super::Size;
    use super::*;
    use crate::{Faults, Net, seeds};

    const MOMENT: Duration = Duration::from_millis(100);

    fn well<T>(outcome: Result<T, Trouble>) -> Result<T, Violation> {
        outcome.map_err(|trouble| match trouble {
            Trouble::Broken(why) | Trouble::Wrong(why) => why.into(),
        })
    }

    /// Joins at a server. Returns the connection and the number.
    async fn join(days: &Days, server: usize) -> Result<(Wire, u64), Violation> {
        let mut wire = well(Wire::connect(days, server).await)?;
        let greeting = well(patiently(wire.line()).await)?;
        let number = greeting.strip_prefix("* you are ").and_then(|number| number.parse().ok());
        Ok((wire, number.ok_or(greeting)?))
    }

    /// Redis starts again while a server has members, and the server has not noticed it yet.
    /// Returns whether a newcomer at another server has gotten a number again.
    async fn a_number_comes_again(net: Net) -> Result<bool, Violation> {
        let days = Days::new(net.clone(), "chat", Size { servers: 2, ..Size::default() });
        let _servers = days.servers(&days.redis()?);
        sleep(10 * MOMENT).await;
        let (mut first, mut second) = (join(&days, 0).await?, join(&days, 0).await?);
        net.named("redis").crash().restart_after(MOMENT);
        sleep(2 * MOMENT).await;
        let (mut one, other) = (join(&days, 1).await?, join(&days, 1).await?);
        // The first line finds that the server's connection to Redis is broken.
        for old in [&mut first, &mut second] {
            well(old.0.send(b"hello\n").await)?;
            sleep(MOMENT).await;
        }
        let heard = timeout(50 * MOMENT, one.0.line()).await;
        let comes_again = second.1 == other.1;
        match heard {
            Ok(line) if comes_again => {
                let line = well(line)?;
                Err(format!("two members are number {}, and one says {line:?}", other.1).into())
            }
            _ => Ok(comes_again),
        }
    }

    /// Once, lines of a member of before reached a room in which its number was another member's.
    #[test]
    fn no_line_is_of_a_number_that_redis_has_given_again() {
        let count = Arc::new(AtomicUsize::new(0));
        let counted = count.clone();
        seeds(0..20).faults(Faults::NONE).once().run(move |net| {
            let counted = counted.clone();
            async move {
                let comes_again = a_number_comes_again(net).await?;
                counted.fetch_add(usize::from(comes_again), Ordering::Relaxed);
                Ok::<(), Violation>(())
            }
        });
        assert!(count.load(Ordering::Relaxed) > 0, "some seed loses the data");
    }
}
