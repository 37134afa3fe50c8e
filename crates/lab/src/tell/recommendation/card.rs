//! The choice on a card: the subject, its certainty, its costs, and the conditions that would
//! change it.

use schemars::JsonSchema;
use serde::Serialize;

use super::{Crossover, confidence, cost, idle_ones, lost};
use crate::format::{Counted, listed};
use crate::judge::summary::Summary;
use crate::judge::verdict::{Finding, Verdict};

/// The choice in four answers. Each answer is some sentences. Empty if there is nothing to say.
#[derive(Clone, Debug, Default, PartialEq, Serialize, JsonSchema)]
pub struct Card {
    /// The chosen subject, or the best set.
    pub which: String,
    /// The subject that `costs` are of.
    #[serde(skip)]
    pub subject: String,
    /// The certainty of the choice.
    pub sure: Vec<String>,
    /// The tail latency and memory of the choice.
    pub costs: Vec<String>,
    /// The conditions that would change the choice.
    pub changes: Vec<String>,
}

impl Card {
    /// The card of the choice. `None` if no subjects are told apart.
    pub(super) fn of(
        summary: &Summary,
        chosen: Option<&str>,
        crossovers: &[Crossover],
    ) -> Option<Self> {
        let known = || summary.verdicts.iter().filter(|verdict| verdict.tells_apart());
        let busiest = known().max_by_key(|verdict| verdict.concurrency)?;
        let leaders: Vec<&str> = busiest.leaders().map(|one| one.subject.as_str()).collect();
        let name = chosen.or(leaders.first().copied())?;
        let which = match chosen {
            Some(chosen) => chosen.to_owned(),
            None => format!("any of {}", listed(&leaders)),
        };
        let verdicts: Vec<&Verdict> =
            summary.verdicts.iter().filter(|verdict| !verdict.is_withheld()).collect();
        let sure = confidence::found(&verdicts).into_iter().chain(confidence::controls(&verdicts));
        let mut changes: Vec<String> =
            crossovers.iter().map(|crossover| crossover.tell(summary)).collect();
        if crossovers.is_empty() {
            changes.extend(chosen.and_then(|chosen| lost(summary, chosen)));
        }
        changes.extend(idle_ones(summary, name));
        changes.extend(longer(busiest));
        let others = match summary.counted {
            Counted::Connections => {
                "with your own numbers of connections, your pages, and idle or slow clients"
            }
            Counted::Users => "other recordings, or this one with --what-ifs",
        };
        changes.push(format!("Another load may have another answer: measure {others}."));
        let place = format!("At {}", busiest.at());
        Some(Self {
            which,
            subject: name.to_owned(),
            sure: sure.collect(),
            costs: cost(summary, &place, busiest.concurrency, name).into_iter().collect(),
            changes,
        })
    }
}

/// Says that more time may tell the members of a best set apart.
fn longer(verdict: &Verdict) -> Option<String> {
    let is_set = matches!(verdict.finding, Finding::Level { .. });
    is_set.then(|| {
        "A longer run may tell some of the best set apart: --budget makes it longer.".to_owned()
    })
}
