//! Plans of regimes, a TOML format of their own: this module reads and checks them.
//!
//! ```toml
//! title = "…"
//!
//! [regimes]
//! service = "blocks"
//! clients = 2000
//! subjects = ["threads", { name = "pool of 8", architecture = "pool", options = ["--workers=8"] }]
//!
//! [[regime]]
//! wait = "2us..200us"
//! ```

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::Mistake;
use crate::ask::file;
use crate::ask::settings::{Waits, parse_duration};
use crate::ask::variant::Choice;

/// A larger number of entries of one kind is a mistake.
const MOST: usize = 100;
/// The most clients of a regime. Each client has a record of 48 bytes, and a descriptor while the
/// server serves it.
const MOST_CLIENTS: u64 = 10_000_000;

/// How clients reach the server.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// A thread of the server injects them.
    #[default]
    Injected,
    /// The load generator connects over TCP, in an open loop.
    Tcp,
}

/// A regime of load.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Regime {
    /// The regime's name. By default, its waits.
    pub name: String,
    /// The shortest wait between two clients, in seconds.
    pub shortest: f64,
    /// The longest.
    pub longest: f64,
    /// The number of clients.
    pub clients: u64,
}

impl Regime {
    /// The mean number of clients in a second: the mean of 1/w over a swing from a to b is
    /// 1/√(a·b).
    #[must_use]
    pub fn rate(&self) -> f64 {
        1.0 / (self.shortest * self.longest).sqrt()
    }

    /// The length of a swing of the waits that yields this number of clients.
    #[must_use]
    pub fn period(&self, swings: u32) -> Duration {
        Duration::from_secs_f64(self.clients as f64 / self.rate() / f64::from(swings))
    }
}

/// A plan.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    /// The heading of the plan's report.
    pub title: String,
    /// The document with the original experiment.
    pub source: Option<String>,
    /// The service.
    pub service: String,
    /// How clients reach the server.
    pub mode: Mode,
    /// The servers.
    pub subjects: Vec<Choice>,
    /// The loads.
    pub regimes: Vec<Regime>,
    /// The number of repeats of each cell.
    pub repeats: usize,
    /// The number of swings of the waits in a cell.
    pub swings: u32,
    /// The time after which a cell is given up.
    pub limit: Duration,
    /// Decides the order of the cells.
    pub seed: u64,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Written {
    title: Option<String>,
    source: Option<String>,
    regimes: Table,
    #[serde(default)]
    regime: Vec<WrittenRegime>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct Table {
    #[serde(default = "blocks")]
    service: String,
    #[serde(default)]
    mode: Mode,
    subjects: Vec<Choice>,
    clients: Option<u64>,
    repeats: Option<usize>,
    swings: Option<u32>,
    limit: Option<String>,
    seed: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
struct WrittenRegime {
    name: Option<String>,
    wait: String,
    clients: Option<u64>,
}

fn blocks() -> String {
    "blocks".to_owned()
}

/// Whether the text is a plan of regimes and no other.
#[must_use]
pub fn is_of_regimes(text: &str) -> bool {
    text.parse::<toml::Table>().is_ok_and(|table| table.contains_key("regimes"))
}

impl Plan {
    /// Reads a plan.
    ///
    /// # Errors
    ///
    /// One line that names the place and the remedy.
    pub fn read(text: &str) -> Result<Self, Mistake> {
        let Written { title, source, regimes: table, regime } =
            toml::from_str(text).map_err(|error| file::refused(text, &error).to_string())?;
        let clients = table.clients.unwrap_or(2000);
        let regimes: Vec<Regime> =
            regime.into_iter().map(|written| written.read(clients)).collect::<Result<_, _>>()?;
        let limit = table.limit.as_deref().map_or(Ok(Duration::from_secs(60)), parse_duration);
        let plan = Self {
            title: title.unwrap_or_else(|| "Regimes of load".to_owned()),
            source,
            service: table.service,
            mode: table.mode,
            subjects: table.subjects,
            regimes,
            repeats: table.repeats.unwrap_or(3),
            swings: table.swings.unwrap_or(2),
            limit: limit.map_err(|problem| format!("limit: {problem}"))?,
            seed: table.seed.unwrap_or(1),
        };
        plan.check()?;
        Ok(plan)
    }

    fn check(&self) -> Result<(), Mistake> {
        for (key, count) in [
            ("subjects", self.subjects.len()),
            ("regime", self.regimes.len()),
            ("repeats", self.repeats),
            ("swings", self.swings as usize),
        ] {
            if !(1..=MOST).contains(&count) {
                return Err(format!("{key}: {count} of them: give 1 to {MOST}").into());
            }
        }
        let names = |names: Vec<&str>, key| {
            let mut sorted = names.clone();
            sorted.sort_unstable();
            match sorted.windows(2).find(|pair| pair[0] == pair[1]) {
                Some(twice) => {
                    Err(format!("{key}: two are called `{}`: give each a name", twice[0]).into())
                }
                None => Ok(()),
            }
        };
        names(self.subjects.iter().map(|one| one.name.as_str()).collect(), "subjects")?;
        names(self.regimes.iter().map(|one| one.name.as_str()).collect(), "regime")
    }

    /// The number of cells.
    #[must_use]
    pub fn cells(&self) -> usize {
        self.subjects.len() * self.regimes.len() * self.repeats
    }

    /// The length of the whole run if all servers keep up.
    #[must_use]
    pub fn length(&self) -> Duration {
        let regimes = self.regimes.iter().map(|one| one.clients as f64 / one.rate() + 0.05);
        let seconds: f64 = regimes.sum();
        Duration::from_secs_f64(seconds * (self.subjects.len() * self.repeats) as f64)
    }
}

impl WrittenRegime {
    fn read(self, clients: u64) -> Result<Regime, Mistake> {
        let waits: Waits = match self.wait.contains("..") {
            true => self.wait.parse()?,
            false => {
                let wait = parse_duration(&self.wait)?;
                Waits { shortest: wait, longest: wait }
            }
        };
        let clients = self.clients.unwrap_or(clients);
        if waits.shortest.is_zero() || waits.shortest > waits.longest {
            return Err(format!(
                "wait: {}: give the shortest first, and more than nothing",
                self.wait
            )
            .into());
        }
        if !(1..=MOST_CLIENTS).contains(&clients) {
            return Err(format!("clients: {clients}: give 1 to {MOST_CLIENTS}").into());
        }
        Ok(Regime {
            name: self.name.unwrap_or(self.wait),
            shortest: waits.shortest.as_secs_f64(),
            longest: waits.longest.as_secs_f64(),
            clients,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEAST: &str = "[regimes]\nsubjects = ['threads']\n[[regime]]\nwait = '10us..1ms'\n";

    #[test]
    fn what_is_left_out_has_a_default() {
        let plan = Plan::read(LEAST).unwrap();
        assert!(is_of_regimes(LEAST) && !is_of_regimes("[defaults]\n"));
        assert_eq!((plan.service.as_str(), plan.repeats, plan.mode), ("blocks", 3, Mode::Injected));
        let regime = &plan.regimes[0];
        assert_eq!((regime.name.as_str(), regime.clients), ("10us..1ms", 2000));
        assert!((regime.rate() - 10_000.0).abs() < 1e-6);
        assert!((regime.period(2).as_secs_f64() - 0.1).abs() < 1e-9);
    }

    #[test]
    fn mistakes_are_told_in_one_line_with_their_place() {
        for (text, message) in [
            ("[regimes]\nsubjects = []\n[[regime]]\nwait = '1us'\n", "subjects: 0 of them"),
            ("[regimes]\nsubjects = ['a']\n", "regime: 0 of them"),
            ("[regimes]\nsubjects = ['a', 'a']\n[[regime]]\nwait = '1us'\n", "two are called `a`"),
            ("[regimes]\nsubjects = ['a']\nfast = 1\n", "3:1: unknown field `fast`"),
            ("[regimes]\nsubjects = ['a']\n[[regime]]\nwait = '0us'\n", "wait: 0us"),
            ("[regimes]\nsubjects = ['a']\n[[regime]]\nwait = '2us'\nclients = 0\n", "clients: 0"),
        ] {
            let problem = Plan::read(text).unwrap_err().to_string();
            assert!(problem.contains(message) && !problem.contains('\n'), "{text}: {problem}");
        }
    }
}
