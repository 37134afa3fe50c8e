//! How often a race is wrong, and what it saves. Experiments are simulated with seeds, on the noise
//! of recorded runs, and on noise as a shared machine has it.
//!
//! The recorded runs are in two halves. Nothing of the rule comes from either of them, and the
//! second half judges.

use duality_lab::judge::blocks::{Fit, Observed};
use duality_lab::judge::race::{
    BLOCKS_OF_A_SESSION, BLOCKS_OF_A_TOLD_SESSION, Race, SHARE_OF_RACE, looks, sessions,
};
use duality_lab::judge::verdict::FAMILY_ERROR;
use duality_lab::random::SplitMix64;
use duality_lab::record::MARGIN;

use crate::noise::{Noise, described, recorded};

/// Experiments of each kind. `RACE_SEEDS` sets another number, for the table in docs/method.md.
fn seeds() -> u64 {
    std::env::var("RACE_SEEDS").ok().and_then(|many| many.parse().ok()).unwrap_or(40)
}

/// The error of one load of four, as in a default run.
const ALPHA: f64 = FAMILY_ERROR / 4.0;

/// The result of a simulated load.
struct Ended {
    /// Subjects that are out, by the race or at the end.
    out: Vec<bool>,
    /// The seconds of slices that were spent.
    seconds: f64,
    /// The blocks after which each subject went out.
    since: Vec<Option<usize>>,
    /// The largest critical difference among the contenders at the end.
    critical: f64,
    blocks: usize,
}

/// Seconds of a slice, and of a window of a fresh server.
const SLICE: f64 = 0.036;
const WINDOW: f64 = 0.32;

/// A load of three sessions or more, in `seconds`. With `races`, the subjects race.
fn load(noise: &dyn Noise, effects: &[f64], seconds: f64, races: bool, seed: u64) -> Ended {
    load_of(noise, effects, seconds, races.then_some(ALPHA), seed)
}

/// A load that has an error of `alpha` if it is a race, else one of [`ALPHA`].
fn load_of(
    noise: &dyn Noise,
    effects: &[f64],
    seconds: f64,
    alpha: Option<f64>,
    seed: u64,
) -> Ended {
    let (races, alpha) = (alpha.is_some(), alpha.unwrap_or(ALPHA));
    let mut dice = SplitMix64::new(seed);
    let count = effects.len();
    let mut race = Race::new(count, count, SHARE_OF_RACE * alpha, MARGIN);
    let mut blocks: Vec<Observed> = Vec::new();
    let (mut spent, mut session) = (0.0, 0);
    let many = |goes_on: &[bool]| goes_on.iter().filter(|goes_on| **goes_on).count() as f64;
    loop {
        let goes_on = race.goes_on(session);
        let needs = many(&goes_on) * (WINDOW + 10.0 * SLICE);
        if session >= 3 && (!races || race.is_told() || spent + needs > seconds) {
            break;
        }
        let process: Vec<f64> = (0..count).map(|_| noise.process(&mut dice)).collect();
        let until = spent + (seconds - spent) / (3.0 - session as f64).max(1.0);
        spent += WINDOW * many(&goes_on);
        let begun = blocks.len();
        while spent < until || blocks.len() == begun {
            let most = match (races, race.is_told()) {
                (false, _) => 1000,
                (true, false) => BLOCKS_OF_A_SESSION,
                (true, true) => BLOCKS_OF_A_TOLD_SESSION,
            };
            if blocks.len() >= begun + most {
                break;
            }
            let goes_on = race.goes_on(session);
            spent += 2.0 * SLICE * many(&goes_on);
            let (weight, chance) = noise.block(&mut dice, count);
            let value = |place: usize| effects[place] + process[place] + chance[place];
            let values = (0..count).map(|place| goes_on[place].then(|| value(place))).collect();
            blocks.push(Observed { session, values, weight });
            if races
                && looks(blocks.len()).last() == Some(blocks.len())
                && let Some(fit) = Fit::of(&blocks)
            {
                let sessions = sessions(blocks.iter().map(|block| block.session));
                race.look(&fit, blocks.len(), sessions, &|_| false);
            }
        }
        session += 1;
    }
    let alpha = if races { (1.0 - SHARE_OF_RACE) * alpha } else { alpha };
    let mut out: Vec<bool> = race.out().iter().map(Option::is_some).collect();
    let since: Vec<Option<usize>> =
        race.out().iter().map(|out| out.map(|out| out.blocks)).collect();
    let fit = Fit::of(&blocks).unwrap();
    let racing = out.iter().filter(|out| !**out).count();
    let family = fit.family(racing, alpha);
    let effect = |place: &usize| fit.effect(*place).unwrap();
    let here = (0..count).filter(|place| !out[*place]);
    let best = here.min_by(|one, other| effect(one).total_cmp(&effect(other))).unwrap();
    let mut critical: f64 = 0.0;
    for place in (0..count).filter(|place| *place != best) {
        let own = family.critical(place, best);
        out[place] |= fit.gap(place, best).unwrap() > own;
        if !out[place] {
            critical = critical.max(own.exp_m1());
        }
    }
    Ended { out, seconds: spent, since, critical, blocks: blocks.len() }
}

/// What came of many experiments.
#[derive(Default)]
struct Counts {
    runs: usize,
    put_out: usize,
    more_than_two: usize,
    sole: usize,
}

fn of_equals(noise: &dyn Noise, names: usize, seconds: f64, races: bool) -> Counts {
    let mut counts = Counts::default();
    for seed in 0..seeds() {
        let ended = load(noise, &vec![0.0; names], seconds, races, seed);
        let out = ended.out.iter().filter(|out| **out).count();
        counts.runs += 1;
        counts.put_out += usize::from(out > 0);
        counts.more_than_two += usize::from(out > 2);
        counts.sole += usize::from(out + 1 == names);
    }
    counts
}

/// Seconds of a load of a default run.
const SECONDS: f64 = 32.0;

#[test]
fn of_ten_equals_none_wins_and_at_most_two_are_put_out() {
    let (mut halves, recorded) = ([Counts::default(), Counts::default()], recorded());
    assert!(recorded.len() >= 10, "{} loads are kept", recorded.len());
    for (place, noise) in recorded.iter().enumerate() {
        let found = of_equals(noise, 10, SECONDS, true);
        let even = of_equals(noise, 10, SECONDS, false);
        println!(
            "{:28} {} runs: {} put one out (even shares {}), {} more than two, {} one winner",
            noise.name, found.runs, found.put_out, even.put_out, found.more_than_two, found.sole
        );
        let half = &mut halves[place % 2];
        half.runs += found.runs;
        half.put_out += found.put_out;
        half.more_than_two += found.more_than_two;
        half.sole += found.sole;
    }
    for (name, noise) in described() {
        let found = of_equals(&noise, 10, SECONDS, true);
        let even = of_equals(&noise, 10, SECONDS, false);
        println!(
            "{name:32} {} runs: {} put one out (even shares {}), {} more than two, {} one winner",
            found.runs, found.put_out, even.put_out, found.more_than_two, found.sole
        );
        assert!(20 * found.sole <= found.runs && 20 * found.more_than_two <= found.runs, "{name}");
    }
    for (half, counts) in ["first", "judging"].iter().zip(&halves) {
        let Counts { runs, put_out, more_than_two, sole } = counts;
        println!("{half} half: {runs} runs, {put_out} put one out, {more_than_two} more, {sole}");
    }
    let judged = &halves[1];
    assert!(20 * judged.sole <= judged.runs && 20 * judged.more_than_two <= judged.runs);
    assert!(20 * judged.put_out <= judged.runs, "{} of {}", judged.put_out, judged.runs);
}

/// Sixteen architectures as a default run has them, as logarithms. Five lie within 5 %, three are
/// up to 28 % worse, and eight take 1.6 to 5 times as long.
const SIXTEEN: [f64; 16] =
    [0.0, 0.02, 0.03, 0.05, 0.05, 0.10, 0.15, 0.25, 0.47, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.6];

fn middle(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

#[test]
fn a_race_sees_smaller_differences_than_even_shares_in_the_same_time() {
    let recorded = recorded();
    let described = described();
    let judging = recorded.iter().enumerate().filter(|(place, _)| place % 2 == 1);
    let all = judging.map(|(_, noise)| (noise.name.as_str(), noise as &dyn Noise));
    let all = all.chain(described.iter().map(|(name, noise)| (*name, noise as &dyn Noise)));
    let mut ratios = Vec::new();
    for (name, noise) in all {
        let mut told = [const { Vec::new() }; 2];
        for (races, told) in [false, true].into_iter().zip(&mut told) {
            let ended =
                (0..seeds().div_ceil(3)).map(|seed| load(noise, &SIXTEEN, SECONDS, races, seed));
            told.extend(ended);
        }
        let critical = |one: &[Ended]| middle(one.iter().map(|ended| ended.critical).collect());
        // A subject that is worse by 25 % or more, and is not out.
        let left = |ended: &Ended| (7..16).any(|place| !ended.out[place]);
        let lefts = |one: &[Ended]| one.iter().filter(|ended| left(ended)).count();
        let wrong = |one: &[Ended]| one.iter().filter(|ended| ended.out[0]).count();
        let since = |place: usize| {
            let all = told[1].iter().map(|ended| ended.since[place].map_or(999.0, |at| at as f64));
            middle(all.collect())
        };
        let blocks = |one: &[Ended]| middle(one.iter().map(|ended| ended.blocks as f64).collect());
        println!(
            "{name:32} critical {:5.1} -> {:5.1} %, blocks {} -> {}, one worse by 25 % left in {} -> {} of {}, \
             out after: +82 % {}, +60 % {}, +28 % {}; best is out {} -> {}",
            100.0 * critical(&told[0]),
            100.0 * critical(&told[1]),
            blocks(&told[0]),
            blocks(&told[1]),
            lefts(&told[0]),
            lefts(&told[1]),
            told[1].len(),
            since(9),
            since(8),
            since(7),
            wrong(&told[0]),
            wrong(&told[1]),
        );
        ratios.push(critical(&told[1]) / critical(&told[0]));
        assert!(told[1].iter().all(|ended| ended.seconds < SECONDS + 3.0));
        assert!(20 * wrong(&told[1]) <= told[1].len().max(20), "{name}");
    }
    println!("critical difference of a race / of even shares: {:.2}", middle(ratios.clone()));
    assert!(middle(ratios.clone()) < 0.9, "{ratios:?}");
}

#[test]
fn an_easy_question_is_answered_in_seconds() {
    for noise in recorded().iter().skip(1).step_by(2) {
        // Two architectures, one of them twice as slow, and the control.
        let easy = |seed| load_of(noise, &[0.0, 0.0, 0.7], 120.0, Some(FAMILY_ERROR), seed);
        let ended: Vec<Ended> = (0..seeds()).map(easy).collect();
        let since: Vec<f64> =
            ended.iter().map(|ended| ended.since[2].map_or(999.0, |at| at as f64)).collect();
        let right = ended.iter().filter(|one| one.out[2] && !one.out[0] && !one.out[1]).count();
        println!("{:32} out after {} blocks; right {right}", noise.name, middle(since));
        assert!(20 * right >= 18 * ended.len(), "{}", noise.name);
    }
}
