//! The runs that are kept in `runs/`, judged by the method of today. Each answer says what is sure,
//! or why nothing is sure.

use std::path::Path;

use duality_lab::judge::summary::Summary;
use duality_lab::judge::verdict::{Cause, Finding, Verdict};
use duality_lab::record::results;
use duality_lab::tell::recommendation::{Recommendation, recommend};

use crate::fixtures::kept_results;

fn said(path: &Path) -> Recommendation {
    let (heading, records) = results::read(&[path.to_owned()]).unwrap();
    recommend(&Summary::of(&heading, &records), &heading, &records)
}

/// Whether a verdict has more findings than its answer says.
fn hides_something(verdict: &Verdict) -> bool {
    let Finding::Withheld { cause } = &verdict.finding else { return false };
    let one_round = verdict.evidence.sessions < 2;
    verdict.standings.iter().any(|standing| !standing.level)
        && !matches!(cause, Cause::Control | Cause::Partial)
        && !one_round
}

#[test]
fn kept_runs_say_what_is_sure() {
    let found = kept_results();
    let mut silent = Vec::new();
    for path in &found {
        let said = said(path);
        let hidden: Vec<&Verdict> = said.loads.iter().filter(|one| hides_something(one)).collect();
        assert!(hidden.is_empty(), "{}: {hidden:?}", path.display());
        if said.sentences[0].starts_with("No recommendation") {
            // Each number of connections has its reason.
            let told = said.unsaid.join("\n");
            assert!(said.loads.iter().all(Verdict::is_withheld), "{}: {told}", path.display());
            silent.push(format!("{}: {}", path.display(), said.sentences[0]));
        }
    }
    assert!(2 * silent.len() < found.len(), "{} of {}: {silent:#?}", silent.len(), found.len());
}
