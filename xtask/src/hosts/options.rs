//! The command line of `cargo xtask hosts`.

use std::fmt;
use std::time::Duration;

use super::rig::{DEFAULT_NAME, Rig};

const DEFAULT_NETWORK: &str = "10.77.0";

/// The most hosts. Of a network's 254 addresses, the last two belong to the switch and this
/// machine.
const MOST: usize = 100;

pub(crate) const HELP: &str = "\
Usage: cargo xtask hosts COMMAND [--name duality]

  up        makes hosts duality-1, duality-2 … of network namespaces, and prints
            how to use them
  list      prints the hosts, what runs on each, and how to run a command there
  cut N     pulls the cable of host N
  join N    plugs the cable of host N again
  down      ends every process of the hosts, and removes all that `up` made

Options of `up`:
  --count N            how many hosts (5)
  --ssh                an sshd on each, and an ssh_config that reaches it
  --slurm              Slurm: a slurmd on each, and a slurm.conf for srun
  --delay 20ms         of a round trip between the last host and all others:
                       half each way
  --loss 1%            of packets, each way, between the last host and all
                       others
  --rate 100mbit       each way between the last host and all others; kbit, mbit
                       or gbit
  --network 10.77.0    the hosts are 10.77.0.1, 10.77.0.2 …, and this machine is
                       10.77.0.254

A second set of hosts beside the first needs a `--name` and a `--network` of its
own. Run these commands as root. docs/hosts-rig.md has more.
";

/// The action to take.
#[derive(Debug, PartialEq)]
pub(crate) enum Action {
    Help,
    Up(Rig, Plan),
    Down(Rig),
    Cut(Rig, usize),
    Join(Rig, usize),
    List(Rig),
}

/// The rig that `up` makes.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Plan {
    pub(crate) count: usize,
    /// The first three numbers of all addresses.
    pub(crate) network: String,
    pub(crate) ssh: bool,
    pub(crate) slurm: bool,
    pub(crate) line: Option<Line>,
}

/// The line between the last host and all others.
#[derive(Debug, Default, Clone, Copy, PartialEq)]
pub(crate) struct Line {
    /// The time that the line adds to a round trip.
    pub(crate) delay: Duration,
    /// The loss, in millionths of the packets.
    pub(crate) loss: u32,
    /// The rate in bits per second, if it is limited.
    pub(crate) rate: Option<u64>,
}

impl Default for Plan {
    fn default() -> Self {
        Self { count: 5, network: DEFAULT_NETWORK.into(), ssh: false, slurm: false, line: None }
    }
}

impl Plan {
    pub(crate) fn address(&self, number: usize) -> String {
        format!("{}.{number}", self.network)
    }

    /// The options from which [`read_plan`] reads this plan.
    pub(crate) fn words(&self) -> Vec<String> {
        let mut words = vec!["--count".into(), self.count.to_string()];
        words.extend(["--network".into(), self.network.clone()]);
        words.extend(self.ssh.then(|| "--ssh".into()));
        words.extend(self.slurm.then(|| "--slurm".into()));
        if let Some(line) = self.line {
            words.extend(["--delay".into(), format!("{}us", line.delay.as_micros())]);
            words.extend(["--loss".into(), format!("{}%", line.loss_percent())]);
            if let Some(rate) = line.rate {
                words.extend(["--rate".into(), format!("{}kbit", rate / 1000)]);
            }
        }
        words
    }
}

impl Line {
    pub(crate) fn loss_percent(&self) -> f64 {
        f64::from(self.loss) / 1e4
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let delay = self.delay.as_secs_f64() * 1e3;
        write!(f, "{delay} ms of round trip, {} % of packets lost", self.loss_percent())?;
        match self.rate {
            Some(rate) => write!(f, ", {} Mbit/s each way", rate as f64 / 1e6),
            None => Ok(()),
        }
    }
}

/// Reads the arguments after `cargo xtask hosts`.
pub(crate) fn read(arguments: &[&str]) -> Result<Action, String> {
    let Some((&command, mut rest)) = arguments.split_first() else {
        return Err("after `hosts` stands up, down, cut, join or list".into());
    };
    if arguments.iter().any(|argument| ["-h", "--help"].contains(argument)) {
        return Ok(Action::Help);
    }
    let mut host = 0;
    if ["cut", "join"].contains(&command) {
        let Some((&number, after)) = rest.split_first() else {
            return Err(format!("after `{command}` stands the number of a host"));
        };
        host = whole(number, 1, MOST)
            .ok_or_else(|| format!("`{number}` is not the number of a host, such as 1"))?;
        rest = after;
    }
    let (name, plan) = read_options(rest)?;
    let rig = Rig { name: name.unwrap_or_else(|| DEFAULT_NAME.into()) };
    if command != "up" && plan != Plan::default() {
        return Err(format!("`{command}` takes no option but `--name`; the others are of `up`"));
    }
    match command {
        "up" => Ok(Action::Up(rig, plan)),
        "down" => Ok(Action::Down(rig)),
        "cut" => Ok(Action::Cut(rig, host)),
        "join" => Ok(Action::Join(rig, host)),
        "list" => Ok(Action::List(rig)),
        other => Err(format!("`hosts {other}` does not exist: use up, down, cut, join or list")),
    }
}

/// Reads the output of [`Plan::words`].
pub(crate) fn read_plan(words: &[&str]) -> Result<Plan, String> {
    read_options(words).map(|(_, plan)| plan)
}

fn read_options(words: &[&str]) -> Result<(Option<String>, Plan), String> {
    let (mut name, mut plan) = (None, Plan::default());
    let mut rest = words.iter();
    while let Some(&option) = rest.next() {
        match option {
            "--ssh" => plan.ssh = true,
            "--slurm" => plan.slurm = true,
            _ => {
                let value = rest.next().copied();
                read_value(option, value, &mut name, &mut plan)?;
            }
        }
    }
    Ok((name, plan))
}

/// Reads an option that has a value.
fn read_value(
    option: &str,
    value: Option<&str>,
    name: &mut Option<String>,
    plan: &mut Plan,
) -> Result<(), String> {
    let wanted = match option {
        "--name" => "a name of 1 to 12 small letters, digits and hyphens that begins with a letter",
        "--count" => "a number of hosts from 1 to 100",
        "--network" => "the first three numbers of an address, such as 10.77.0",
        "--delay" => "a time up to 10s, such as 20ms",
        "--loss" => "a share up to 100%, such as 1%",
        "--rate" => "a rate from 1kbit to 100gbit, such as 100mbit",
        _ => return Err(format!("`{option}` is not understood")),
    };
    let value = value.ok_or_else(|| format!("after `{option}` stands {wanted}"))?;
    let wrong = || format!("`{option} {value}` is not understood: it takes {wanted}");
    let line = plan.line.unwrap_or_default();
    match option {
        "--name" => *name = Some(read_name(value).ok_or_else(wrong)?),
        "--count" => plan.count = whole(value, 1, MOST).ok_or_else(wrong)?,
        "--network" => plan.network = network(value).ok_or_else(wrong)?,
        "--delay" => plan.line = Some(Line { delay: delay(value).ok_or_else(wrong)?, ..line }),
        "--loss" => plan.line = Some(Line { loss: loss(value).ok_or_else(wrong)?, ..line }),
        _ => plan.line = Some(Line { rate: Some(rate(value).ok_or_else(wrong)?), ..line }),
    }
    Ok(())
}

fn whole(text: &str, least: usize, most: usize) -> Option<usize> {
    text.parse().ok().filter(|number| (least..=most).contains(number))
}

/// The name is also the name of an interface, and an interface's name has at most 15 bytes.
fn read_name(text: &str) -> Option<String> {
    let fits = text.len() <= 12
        && text.starts_with(|first: char| first.is_ascii_lowercase())
        && text.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    fits.then(|| text.to_owned())
}

fn network(text: &str) -> Option<String> {
    let numbers: Vec<u8> =
        text.split('.').map(str::parse).collect::<Result<_, _>>().ok().filter(|n: &Vec<u8>| {
            // The address is neither "this network", nor loopback, nor multicast.
            n.len() == 3 && (1..224).contains(&n[0]) && n[0] != 127
        })?;
    Some(format!("{}.{}.{}", numbers[0], numbers[1], numbers[2]))
}

/// A number and the factor of its unit.
fn quantity(text: &str, units: &[(&str, f64)]) -> Option<f64> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_lowercase() || c == '%');
    let unit = &text[digits.len()..];
    let (_, factor) = units.iter().find(|(name, _)| *name == unit)?;
    // Refuses a sign, "inf" and an exponent.
    if !digits.chars().all(|c| c.is_ascii_digit() || c == '.') {
        return None;
    }
    digits.parse::<f64>().ok().map(|number| number * factor)
}

fn delay(text: &str) -> Option<Duration> {
    let micros = quantity(text, &[("us", 1.0), ("ms", 1e3), ("s", 1e6)])?;
    (micros <= 1e7).then(|| Duration::from_micros(micros.round() as u64))
}

fn loss(text: &str) -> Option<u32> {
    let millionths = quantity(text, &[("%", 1e4)])?;
    (millionths <= 1e6).then(|| millionths.round() as u32)
}

fn rate(text: &str) -> Option<u64> {
    let bits = quantity(text, &[("kbit", 1e3), ("mbit", 1e6), ("gbit", 1e9)])?;
    (1e3..=1e11).contains(&bits).then(|| bits.round() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn duality() -> Rig {
        Rig { name: "duality".into() }
    }

    #[test]
    fn commands_are_read() {
        assert_eq!(read(&["up"]), Ok(Action::Up(duality(), Plan::default())));
        assert_eq!(read(&["down", "--name", "x-1"]), Ok(Action::Down(Rig { name: "x-1".into() })));
        assert_eq!(read(&["cut", "3"]), Ok(Action::Cut(duality(), 3)));
        assert_eq!(read(&["join", "3"]), Ok(Action::Join(duality(), 3)));
        assert_eq!(read(&["up", "--help"]), Ok(Action::Help));
        assert_eq!(read(&["--help"]), Ok(Action::Help));
    }

    #[test]
    fn a_plan_is_read_as_it_was_written() {
        let words =
            "--count 3 --network 10.1.2 --ssh --slurm --delay 1.5ms --loss 0.1% --rate 10mbit";
        let plan = read_plan(&words.split(' ').collect::<Vec<_>>()).expect("it is understood");
        let line = Line { delay: Duration::from_micros(1500), loss: 1000, rate: Some(10_000_000) };
        let network = "10.1.2".to_owned();
        assert_eq!(plan, Plan { count: 3, network, ssh: true, slurm: true, line: Some(line) });
        for plan in [plan, Plan::default()] {
            let words = plan.words();
            let words: Vec<&str> = words.iter().map(String::as_str).collect();
            assert_eq!(read_plan(&words), Ok(plan));
        }
        assert_eq!(
            line.to_string(),
            "1.5 ms of round trip, 0.1 % of packets lost, 10 Mbit/s each way"
        );
    }

    #[test]
    fn what_is_not_understood_is_named() {
        for line in [
            "",
            "over",
            "cut",
            "cut x",
            "cut 0",
            "cut 1 2",
            "down --ssh",
            "up 3",
            "up --count",
            "up --count 0",
            "up --count 101",
            "up --name Duality",
            "up --name a-name-of-15-bytes",
            "up --network 10.77",
            "up --network 10.77.0.1",
            "up --network 127.0.0",
            "up --network 10.77.256",
            "up --delay 20",
            "up --delay -1ms",
            "up --delay 1e3ms",
            "up --delay infs",
            "up --delay 11s",
            "up --loss 1",
            "up --loss 101%",
            "up --rate 100",
            "up --rate 0mbit",
        ] {
            let words: Vec<&str> = line.split_terminator(' ').collect();
            let problem = read(&words).expect_err(line);
            assert!(!problem.contains('\n') && problem.len() > 10, "{line}: {problem}");
        }
    }
}
