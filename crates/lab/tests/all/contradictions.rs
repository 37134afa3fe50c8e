//! No two sentences of one screen contradict each other: random experiments, by seeds.
//!
//! A screen says things of loads at five places: the headline, the sentences below it, the map, the
//! whole answer (`--tables`), and the remedies. Each test below holds two of them together.

use std::sync::LazyLock;

use duality_lab::random::SplitMix64;
use duality_lab::record::{Constraints, Measured, Outcome};
use duality_lab::tell::answer::Answer;
use duality_lab::tell::map::Map;
use duality_lab::tell::phrases::Phrase;

use crate::trials::{Trial, busy};

const NAMES: [&str; 5] = ["threads", "fork", "pool", "uthreads", "epoll"];
const LOADS: [usize; 3] = [10, 100, 1000];
/// Of the random experiments. `SCREEN_SEEDS` sets another number.
const SEEDS: u64 = 120;

/// An experiment of random costs, noise, length and faults.
fn experiment(seed: u64) -> Trial {
    let mut dice = SplitMix64::new(seed);
    let mut one_of = |all: &[f64]| all[dice.below(all.len() as u64) as usize];
    // At some loads all are equal, and at some all but one. In some experiments, no load differs.
    let mut costs = Vec::new();
    let is_flat = one_of(&[1.0, 2.0, 3.0, 4.0, 5.0]) == 1.0;
    for _ in LOADS {
        let kind = if is_flat { 1.0 } else { one_of(&[1.0, 2.0, 3.0, 4.0]) };
        let of_load = NAMES.map(|name| match kind {
            1.0 => 10.0,
            2.0 => {
                if name == "epoll" {
                    10.0
                } else {
                    30.0
                }
            }
            _ => one_of(&[10.0, 10.0, 10.2, 11.0, 12.0, 16.0, 40.0]),
        });
        costs.push(of_load);
    }
    let noise = one_of(&[0.01, 0.03, 0.1, 0.2, 0.4]);
    let [sessions, blocks] = [[1.0, 2.0, 3.0, 3.0], [2.0, 4.0, 7.0, 10.0]].map(|all| one_of(&all));
    let faults = one_of(&[0.0, 0.0, 1.0, 4.0, 12.0]);
    let steal = one_of(&[0.0, 0.0, 0.0, 0.4]);
    let [is_race, has_current, is_cut, has_limit] =
        [2, 3, 5, 4].map(|of| one_of(&[1.0, 2.0, 3.0, 4.0, 5.0][..of]) == 1.0);
    let shape = |name: &str, load: usize| {
        let name = NAMES.iter().position(|known| *known == name);
        let load = LOADS.iter().position(|known| *known == load);
        busy(costs[load.unwrap()][name.unwrap()])
    };
    let mut trial =
        Trial::new(&NAMES, &LOADS, sessions as usize, blocks as usize, noise, seed, shape);
    for _ in 0..faults as usize {
        let name = NAMES[dice.below(NAMES.len() as u64) as usize];
        let load = LOADS[dice.below(LOADS.len() as u64) as usize];
        fail(&mut trial, name, load, dice.below(4));
    }
    trial.heading.design.race = is_race;
    if has_current {
        let name = if dice.below(2) == 0 { "epoll" } else { "threads" };
        trial.heading.current = Some(name.to_owned());
    }
    if is_cut {
        let cells = trial.records.cells.len() as u64;
        trial.records.cells.truncate(dice.below(cells) as usize);
    }
    for block in &mut trial.records.blocks {
        block.disturbance.processors[0].stolen = steal;
    }
    if has_limit {
        // Only epoll breaks it.
        trial.heading.constraints = Constraints { slo: vec![], memory: Some(7 << 19) };
    }
    trial
}

/// Gives a subject a fault at a load.
fn fail(trial: &mut Trial, name: &str, load: usize, kind: u64) {
    let own =
        |cell: &&mut duality_lab::record::Cell| cell.subject == name && cell.concurrency == load;
    for cell in trial.records.cells.iter_mut().filter(own) {
        let change = |one: &mut Measured| match kind {
            0 => _ = one.errors.insert("wrong-bytes".to_owned(), 3),
            _ => _ = one.errors.insert("reset".to_owned(), 50_000),
        };
        match (kind, &mut cell.outcome) {
            (0 | 1, Outcome::Measured(measured)) => change(measured),
            (2, outcome) => *outcome = Outcome::lacking("it cannot"),
            (_, outcome) => *outcome = Outcome::Failed { reason: "it ended".to_owned() },
        }
    }
}

fn seeds() -> std::ops::Range<u64> {
    let many = std::env::var("SCREEN_SEEDS").ok().and_then(|many| many.parse().ok());
    0..many.unwrap_or(SEEDS)
}

/// The loads that a text names: ` at 10 and 100 connections`, ` from 100 connections on`. Without a
/// number, all loads.
fn loads_of(place: &str) -> Vec<usize> {
    let words =
        place.split([' ', ';', '.']).map(|word| word.trim_end_matches(',').replace(',', ""));
    let named: Vec<usize> = words.filter_map(|word| word.parse().ok()).collect();
    let is_meant = |load: &usize| match named.as_slice() {
        [] => true,
        [first] if place.contains("from ") => load >= first,
        [last] if place.contains("up to ") => load <= last,
        some => some.contains(load),
    };
    LOADS.into_iter().filter(is_meant).collect()
}

/// What the headline recommends: a name, the loads, and whether it is the best there.
#[derive(Debug)]
struct Claim<'t> {
    name: &'t str,
    loads: Vec<usize>,
    is_best: bool,
}

/// What the headline says is to be used.
fn claims(headline: &str) -> Vec<Claim<'_>> {
    // Each sentence ends with a full stop, and a figure has no space after its own.
    let first = headline.split_once(". ").map_or(headline, |(first, _)| first);
    for (words, is_best) in [(" is best", true), (" is unbeaten", false)] {
        let Some((before, place)) = first.split_once(words) else { continue };
        let name = before.rsplit(' ').next().unwrap();
        if first.starts_with("Use ") && NAMES.contains(&name) {
            return vec![Claim { name, loads: loads_of(place), is_best }];
        }
    }
    let Some((one, other)) = first.split_once("; ").filter(|_| first.starts_with("Use ")) else {
        return Vec::new();
    };
    let name = one.split_once('(').unwrap().1.split_once(')').unwrap().0;
    let mut all = vec![Claim { name, loads: loads_of(one), is_best: false }];
    let other_name = other.split(' ').next().unwrap();
    if NAMES.contains(&other_name) {
        all.push(Claim { name: other_name, loads: loads_of(other), is_best: false });
    }
    all
}

/// What is not known at a load, without the loads.
fn unsaid(answer: &Answer<'_>, load: usize) -> Option<String> {
    answer.recommendation.unsaid.iter().find_map(|sentence| {
        let (place, rest) = sentence.split_once(" connections ")?;
        loads_of(place).contains(&load).then(|| rest.to_owned())
    })
}

/// Whether some of these sentences is `text`.
fn is_one(text: &str, phrases: &[Phrase]) -> bool {
    phrases.iter().any(|phrase| phrase.is_in(text))
}

/// The cell of the map.
fn cell(answer: &Answer<'_>, name: &str, load: usize) -> String {
    let table = Map::of(&answer.summary).table(usize::MAX);
    let row = table.rows.iter().find(|row| row[0].text == name).unwrap();
    let place = answer.summary.concurrency.iter().position(|known| *known == load).unwrap();
    row[1 + place].text.clone()
}

/// The experiments, made once for all tests.
static EXPERIMENTS: LazyLock<Vec<Trial>> = LazyLock::new(|| seeds().map(experiment).collect());
/// Their answers.
static ANSWERS: LazyLock<Vec<Answer<'static>>> = LazyLock::new(|| {
    EXPERIMENTS.iter().map(|trial| Answer::of(&trial.heading, &trial.records)).collect()
});

/// Runs `check` on each experiment.
fn each(check: impl Fn(&Answer<'_>, &str)) {
    for (seed, answer) in ANSWERS.iter().enumerate() {
        let said = &answer.recommendation;
        check(answer, &format!("seed {seed}: {}\n{:#?}", said.headline, said.unsaid));
    }
}

/// Where the headline says what to use, no sentence below it says that nothing is recommended.
#[test]
fn what_is_recommended_is_not_taken_back() {
    each(|answer, context| {
        for Claim { loads, is_best, .. } in claims(&answer.recommendation.headline) {
            for below in loads.into_iter().filter_map(|load| unsaid(answer, load)) {
                let takes_back = [Phrase::NoVerdict, Phrase::NoneRecommended];
                assert!(!is_best && !is_one(&below, &takes_back), "{context}");
            }
        }
    });
}

/// The map agrees with the headline: what is best is best there, and what is recommended is neither
/// out nor worse for sure.
#[test]
fn the_map_shows_what_the_headline_says() {
    each(|answer, context| {
        for Claim { name, loads, is_best } in claims(&answer.recommendation.headline) {
            for load in loads {
                let shown = cell(answer, name, load);
                let is_unbeaten = shown == "best" || shown.ends_with(['?', '=', '~']);
                assert!(shown != "limit?", "{context}");
                assert!(if is_best { shown == "best" } else { is_unbeaten }, "{shown}: {context}");
            }
        }
    });
}

/// An answer about a change is not taken back below it, and the map agrees.
#[test]
fn a_change_is_not_taken_back() {
    each(|answer, context| {
        let headline = &answer.recommendation.headline;
        let is_yes = headline.starts_with("Yes: change");
        // A change is `from` a subject, and what follows has figures.
        let place = match headline.split_once(" to ").filter(|_| is_yes) {
            Some((_, rest)) => rest.split_once(". ").map_or(rest, |(place, _)| place),
            None => headline,
        };
        let loads = loads_of(place);
        let is_sure = |shown: &str| !shown.ends_with(['?', '=', '~']);
        let below = || loads.iter().filter_map(|load| unsaid(answer, *load));
        if is_yes {
            let name = place.split([' ', '.']).next().unwrap();
            for &load in &loads {
                let shown = cell(answer, name, load);
                assert!(shown.starts_with('-') && is_sure(&shown), "{shown}: {context}");
            }
        }
        if headline.contains("Every alternative is worse") {
            for &load in &loads {
                assert_eq!(unsaid(answer, load), None, "{context}");
            }
        }
        if is_yes || headline.starts_with("No:") {
            assert!(below().all(|told| !is_one(&told, &[Phrase::NoVerdict])), "{context}");
        }
    });
}

/// Where no difference was found, nothing else is said of the load.
#[test]
fn no_difference_is_all_there_is_to_say() {
    each(|answer, context| {
        let headline = &answer.recommendation.headline;
        let Some((_, rest)) = headline.split_once("none is better for sure") else { return };
        let place = rest.split_once(". ").map_or(rest, |(place, _)| place);
        for load in loads_of(place) {
            assert_eq!(unsaid(answer, load), None, "{context}");
            let all = NAMES.iter().map(|name| cell(answer, name, load));
            let is_worse = |shown: &String| shown == "best" || shown.ends_with(char::is_numeric);
            assert!(!all.into_iter().any(|shown| is_worse(&shown)), "{load}: {context}");
        }
    });
}

/// One experiment has one remedy: time in a race, and else repeats.
#[test]
fn a_screen_names_one_remedy() {
    each(|answer, context| {
        let said = &answer.recommendation;
        let all: Vec<&str> = [&*said.headline].into_iter().chain(said.all_sentences()).collect();
        let other = if answer.heading.design.race { "--repeats" } else { "--budget" };
        let wrong: Vec<&&str> = all.iter().filter(|text| text.contains(other)).collect();
        assert!(wrong.is_empty(), "{wrong:#?}: {context}");
    });
}

/// The whole answer begins with what the headline says.
#[test]
fn the_whole_answer_begins_with_the_headline() {
    each(|answer, context| {
        let said = &answer.recommendation;
        let (headline, whole) = (&*said.headline, &*said.sentences[0]);
        let agrees = |one: &str, other: &str| {
            assert!(!headline.starts_with(one) || whole.starts_with(other), "{whole}\n{context}");
        };
        agrees("Yes: change", "Yes, a change");
        agrees("No: keep", "No, a change");
        let claims = claims(headline);
        assert_eq!(
            claims.first().map(|claim| claim.name),
            said.architecture.as_deref().filter(|_| answer.summary.current.is_none()),
            "{context}"
        );
    });
}

/// The experiments reach the sentences that the tests above are about.
#[test]
fn the_experiments_say_all_that_is_compared() {
    let mut left = vec![
        Phrase::Best,
        Phrase::Unbeaten,
        Phrase::OneSide,
        Phrase::Change,
        Phrase::KeepTheBest,
        Phrase::KeepForGain,
        Phrase::Below,
        Phrase::NoneBetter,
        Phrase::NoVerdict,
        Phrase::NoneRecommended,
        Phrase::OneOfSet,
        Phrase::NoOrder,
        Phrase::NotToldFromToday,
        Phrase::NoDifference,
        Phrase::Longer,
        Phrase::Oftener,
    ];
    for answer in ANSWERS.iter() {
        let said = &answer.recommendation;
        let below = LOADS.into_iter().filter_map(|load| unsaid(answer, load));
        let all: Vec<String> = [said.headline.clone()].into_iter().chain(below).collect();
        left.retain(|phrase| !all.iter().any(|text| is_part(*phrase, text)));
    }
    assert!(left.is_empty(), "{left:?}");
}

/// Whether a text has this sentence somewhere.
fn is_part(phrase: Phrase, text: &str) -> bool {
    text.match_indices(' ')
        .map(|(place, _)| &text[place + 1..])
        .chain([text])
        .any(|rest| phrase.is_in(rest))
}
