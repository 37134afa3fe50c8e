//! The reason why a subject serves more requests/s than the best one, if one does. In plots,
//! readers see rates first.

use crate::format::{duration, grouped, percent};
use crate::judge::summary::Summary;
use crate::judge::verdict::{Evidence, Metric, Standing, Verdict};

/// A load generator's time that is longer by this share shows that it does more of the work.
const MORE: f64 = 0.10;

/// One sentence for each number of connections where processor time decides, but the rates have
/// another order.
pub(super) fn sentences(summary: &Summary, chosen: Option<&str>) -> Vec<String> {
    let phrase = |verdict: &Verdict| {
        let own = match chosen {
            Some(chosen) => verdict.leaders().find(|standing| standing.subject == chosen)?,
            None => verdict.leaders().next()?,
        };
        let quicker = verdict.standings.iter().filter(|other| other.rate_low > own.rate_high);
        let other = quicker.max_by(|one, other| one.rate.total_cmp(&other.rate))?;
        Some(tell(verdict, own, other))
    };
    let by_time = summary.verdicts.iter().filter(|verdict| verdict.metric == Metric::ServerCpu);
    by_time.filter(|verdict| verdict.tells_apart()).filter_map(phrase).collect()
}

fn tell(verdict: &Verdict, own: &Standing, other: &Standing) -> String {
    let more = other.server_cpu_us / own.server_cpu_us - 1.0;
    let takes = match more > 0.0 {
        true => format!(", and takes {} more processor time for each", percent(more)),
        false => String::new(),
    };
    format!(
        "At {} {} serves more requests/s, {} beside {} of {}{takes}. Processor time decides \
         there, because {}.",
        verdict.at(),
        other.subject,
        grouped(other.rate),
        grouped(own.rate),
        own.subject,
        why(&verdict.evidence, own, other)
    )
}

/// The causes, other than the server, that keep its rate down.
fn why(evidence: &Evidence, own: &Standing, other: &Standing) -> String {
    let name = &own.subject;
    if 2 * evidence.with_strangers > evidence.measured {
        return "other processes used its processors meanwhile, which disturbs rates more than processor times"
            .to_owned();
    }
    if own.at_least {
        return format!("the load generator was the limit of {name}: its rate may be higher");
    }
    if own.client_cpu_us > (1.0 + MORE) * other.client_cpu_us {
        return format!(
            "the load generator does more of the work with {name}: {} of its own time for a request beside {}",
            duration(own.client_cpu_us),
            duration(other.client_cpu_us)
        );
    }
    let [own, other] = [own, other].map(|one| (one.rate * one.server_cpu_us / 1e6, &one.subject));
    format!(
        "{} used {} of a processor and {} {}: the rest could serve more",
        own.1,
        percent(own.0),
        other.1,
        percent(other.0)
    )
}
