//! Compares the subjects of blocks: their means, and the differences that chance alone makes.
//!
//! The model is that of a randomised block design (Fisher 1935). A value is the effect of its
//! subject, plus that of its block, plus chance. Blocks remove the drift of the machine from block
//! to block. The effects are fitted by least squares, so a block need not have every subject (the
//! intra-block analysis, Cochran & Cox 1957, chapter 9). If two subjects never met in a block, they
//! are compared by way of subjects that both met. A disturbed block has less weight, because chance
//! is larger in it.

use std::collections::BTreeMap;

use crate::statistics::dunnett;
use crate::statistics::studentized_range::{critical, student};

/// A subject has noise of its own if its residuals vary by this multiple of the others' residuals.
/// The test of such a subject uses its own noise.
const OWN_NOISE: f64 = 2.0;

/// With fewer blocks, chance alone makes subjects noisy. With enough blocks, a noisy subject is
/// tested by its own noise. The noisy subject's residuals stay in the pooled variance, which would
/// be too small without them.
const FEWEST_FOR_OWN_NOISE: usize = 10;

/// With so many degrees of freedom, the mean square between sessions shows whether processes
/// differ. With fewer, it may be small by chance, and so hide that processes differ.
const ENOUGH_BETWEEN: usize = 8;

/// The values of one block.
#[derive(Clone, Debug, PartialEq)]
pub struct Observed {
    /// The session of the block.
    pub session: usize,
    /// The value of each subject, in one order for all blocks. `None` if the subject was not
    /// measured.
    pub values: Vec<Option<f64>>,
    /// How much the block counts, above 0: 1 if nothing disturbed it. A weight must not depend on
    /// the values.
    pub weight: f64,
}

/// Rows of a square matrix.
type Matrix = Vec<Vec<f64>>;

/// The effects from a set of blocks.
#[derive(Clone, Debug)]
pub struct Fit {
    /// The effect of each subject. `None` if no chain of blocks links the subject with the others.
    effects: Vec<Option<f64>>,
    /// The inverse of the normal equations: variances of effects, in units of the residual one.
    inverse: Matrix,
    /// The mean square that effects are tested against, and its degrees of freedom.
    variance: f64,
    freedom: usize,
    /// Subjects with noise of their own.
    noisy: Vec<bool>,
    blocks: Vec<Observed>,
}

impl Fit {
    /// The fit of `blocks`. `None` if they leave no degree of freedom.
    pub fn of(blocks: &[Observed]) -> Option<Self> {
        let count = blocks.first()?.values.len();
        let linked = linked(blocks, count);
        let mut blocks = blocks.to_vec();
        for block in &mut blocks {
            for (value, linked) in block.values.iter_mut().zip(&linked) {
                *value = value.filter(|_| *linked);
            }
        }
        // A block of one subject compares nothing.
        blocks.retain(|block| block.values.iter().flatten().count() > 1);
        let members: Vec<usize> = (0..count).filter(|&place| linked[place]).collect();
        if members.len() < 2 {
            return None;
        }
        let (solved, inverse) = solve(&blocks, &members, count)?;
        let mut fit = Self {
            effects: solved,
            inverse,
            variance: 0.0,
            freedom: 0,
            noisy: vec![false; count],
            blocks,
        };
        fit.find_noisy(&members);
        // Where few blocks have several calm subjects, the noisy ones count, too.
        fit.find_variance(&members, true).or_else(|| fit.find_variance(&members, false))?;
        Some(fit)
    }

    /// The effect of a subject. `None` if the subject cannot be compared.
    pub fn effect(&self, subject: usize) -> Option<f64> {
        self.effects[subject]
    }

    /// The effect of `one` minus the effect of `other`. `None` if either cannot be compared.
    pub fn gap(&self, one: usize, other: usize) -> Option<f64> {
        Some(self.effects[one]? - self.effects[other]?)
    }

    /// The number of blocks that compare subjects.
    pub fn blocks(&self) -> usize {
        self.blocks.len()
    }

    /// A family of comparisons among `count` subjects. With probability `alpha`, chance separates
    /// at least two equal subjects.
    pub fn family(&self, count: usize, alpha: f64) -> Family<'_> {
        let count = count.max(2);
        Family {
            fit: self,
            errors: critical(alpha, count, self.freedom) / 2_f64.sqrt(),
            alpha_of_one: alpha / (count * (count - 1) / 2) as f64,
        }
    }

    /// A family of comparisons of `count` subjects with one of them. With probability `alpha`,
    /// chance separates an equal subject from this one.
    pub fn family_of_one(&self, count: usize, alpha: f64) -> Family<'_> {
        let others = count.saturating_sub(1).max(1);
        Family {
            fit: self,
            errors: dunnett::critical(alpha, others, self.freedom),
            alpha_of_one: alpha / others as f64,
        }
    }

    /// The critical difference of two subjects by their own differences alone. `None` if the two
    /// subjects met in fewer than three blocks.
    fn paired(&self, one: usize, other: usize, alpha: f64) -> Option<f64> {
        let differences: Vec<(f64, f64)> = self
            .blocks
            .iter()
            .filter_map(|block| Some((block.values[one]? - block.values[other]?, block.weight)))
            .collect();
        let count = differences.len() as f64;
        if differences.len() < 3 {
            return None;
        }
        let weights: f64 = differences.iter().map(|(_, weight)| weight).sum();
        let mean = differences.iter().map(|(value, weight)| weight * value).sum::<f64>() / weights;
        let squares: f64 =
            differences.iter().map(|(value, weight)| weight * (value - mean).powi(2)).sum();
        let error = (squares / (count - 1.0) / weights).sqrt();
        Some(student(alpha, differences.len() - 1) * error)
    }

    /// The residual of each value: session, subject, residual, weight.
    fn residuals(&self) -> impl Iterator<Item = (usize, usize, f64, f64)> {
        self.blocks.iter().flat_map(move |block| {
            let present: Vec<(usize, f64)> = block
                .values
                .iter()
                .enumerate()
                .filter_map(|(subject, value)| Some((subject, (*value)? - self.effects[subject]?)))
                .collect();
            let mean = present.iter().map(|(_, value)| value).sum::<f64>() / present.len() as f64;
            present
                .into_iter()
                .map(move |(subject, value)| (block.session, subject, value - mean, block.weight))
        })
    }

    fn find_noisy(&mut self, members: &[usize]) {
        let mut sums = vec![(0.0, 0_usize); self.noisy.len()];
        for (_, subject, residual, weight) in self.residuals() {
            sums[subject].0 += weight * residual * residual;
            sums[subject].1 += 1;
        }
        let deviation = |(squares, count): (f64, usize)| (squares / count.max(1) as f64).sqrt();
        let mut all: Vec<f64> = members.iter().map(|&subject| deviation(sums[subject])).collect();
        all.sort_by(f64::total_cmp);
        // Take the median, because a noisy subject also makes its blocks' means noisy, and so all
        // residuals.
        let usual = all[all.len() / 2];
        for &subject in members.iter().filter(|_| members.len() > 2) {
            self.noisy[subject] = deviation(sums[subject]) > OWN_NOISE * usual;
        }
    }

    /// The pooled residual variance, or the mean square of subjects within sessions if the latter
    /// is larger. In the second case, a server process has a bias of its own. More blocks of the
    /// same process would not reduce this bias. Few sessions of few subjects do not show the bias
    /// well, so there are no more degrees of freedom than theirs.
    fn find_variance(&mut self, members: &[usize], only_calm: bool) -> Option<()> {
        // Of each cell: the sum of its weighted residuals, that of its weights, and its values.
        let mut cells: BTreeMap<(usize, usize), (f64, f64, usize)> = BTreeMap::new();
        let (mut squares, mut values) = (0.0, 0_usize);
        let are_many = only_calm && self.blocks.len() >= FEWEST_FOR_OWN_NOISE;
        let is_usual = |subject: usize| !(are_many && self.noisy[subject]);
        for (session, subject, residual, weight) in self.residuals() {
            if is_usual(subject) {
                squares += weight * residual * residual;
                values += 1;
                let cell = cells.entry((session, subject)).or_default();
                cell.0 += weight * residual;
                cell.1 += weight;
                cell.2 += 1;
            }
        }
        let calm = members.iter().filter(|&&subject| is_usual(subject)).count();
        self.freedom = values.checked_sub(self.blocks.len() + calm.checked_sub(1)?)?;
        if self.freedom == 0 {
            return None;
        }
        self.variance = squares / self.freedom as f64;
        let sessions: std::collections::BTreeSet<usize> =
            cells.keys().map(|(session, _)| *session).collect();
        // A subject that is out of a race is in the first sessions only.
        let freedom = cells.len().saturating_sub(sessions.len() + calm - 1);
        let repeated = cells.values().any(|(.., count)| *count > 1);
        if freedom > 0 && repeated {
            let squares: f64 = cells.values().map(|(sum, weight, _)| sum * sum / weight).sum();
            let between = squares / freedom as f64;
            if between > self.variance {
                let (of_process, in_mean) = self.balance();
                self.variance += (between - self.variance) * in_mean / of_process;
                self.freedom = freedom;
            } else if freedom < ENOUGH_BETWEEN {
                self.freedom = self.freedom.min(freedom);
            }
        }
        Some(())
    }

    /// How many times the variance of processes is in the mean square between sessions, and in the
    /// variance of a mean times its blocks. With sessions of one length, both are that length. With
    /// a long session among short ones, the mean is almost that of the long session's process.
    fn balance(&self) -> (f64, f64) {
        let mut sessions: BTreeMap<usize, f64> = BTreeMap::new();
        for block in &self.blocks {
            *sessions.entry(block.session).or_default() += block.weight;
        }
        let all: f64 = sessions.values().sum();
        let in_mean = sessions.values().map(|own| own * own).sum::<f64>() / all;
        ((all - in_mean) / (sessions.len() - 1).max(1) as f64, in_mean)
    }
}

/// Comparisons that are made together.
#[derive(Clone, Copy, Debug)]
pub struct Family<'a> {
    fit: &'a Fit,
    /// The critical number of standard errors of a difference.
    errors: f64,
    /// The error of each comparison, when comparisons are tested alone.
    alpha_of_one: f64,
}

impl Family<'_> {
    /// The critical difference of two subjects. Both subjects must have effects.
    pub fn critical(&self, one: usize, other: usize) -> f64 {
        let Fit { noisy, inverse, variance, .. } = self.fit;
        let spread = inverse[one][one] + inverse[other][other] - 2.0 * inverse[one][other];
        let pooled = self.errors * (variance * spread).sqrt();
        if (noisy[one] || noisy[other])
            && let Some(own) = self.fit.paired(one, other, self.alpha_of_one)
        {
            // The differences within blocks do not show what differs between processes.
            return own.max(pooled);
        }
        pooled
    }
}

/// The subjects that blocks link with the subject of most blocks.
fn linked(blocks: &[Observed], count: usize) -> Vec<bool> {
    let meets =
        |subject: usize| blocks.iter().filter(|block| block.values[subject].is_some()).count();
    let mut linked = vec![false; count];
    let Some(first) = (0..count).max_by_key(|&subject| (meets(subject), count - subject)) else {
        return linked;
    };
    linked[first] = meets(first) > 0;
    loop {
        let before = linked.clone();
        for block in blocks {
            let present = || (0..count).filter(|&subject| block.values[subject].is_some());
            if present().any(|subject| linked[subject]) {
                present().for_each(|subject| linked[subject] = true);
            }
        }
        if linked == before {
            return linked;
        }
    }
}

/// The effects of `members`, which add up to 0, and the inverse of their normal equations. The
/// effects and the inverse are in places of all subjects.
fn solve(
    blocks: &[Observed],
    members: &[usize],
    count: usize,
) -> Option<(Vec<Option<f64>>, Matrix)> {
    let size = members.len();
    // Adding ones to all entries makes the equations regular, and the sum of the effects 0.
    let mut matrix = vec![vec![1.0 / size as f64; size]; size];
    let mut right = vec![0.0; size];
    for block in blocks {
        let present: Vec<(usize, f64)> = members
            .iter()
            .enumerate()
            .filter_map(|(row, &subject)| Some((row, block.values[subject]?)))
            .collect();
        let many = present.len() as f64;
        let mean = present.iter().map(|(_, value)| value).sum::<f64>() / many;
        for &(row, value) in &present {
            right[row] += block.weight * (value - mean);
            matrix[row][row] += block.weight;
            for &(column, _) in &present {
                matrix[row][column] -= block.weight / many;
            }
        }
    }
    let inverted = invert(matrix)?;
    let (mut effects, mut inverse) = (vec![None; count], vec![vec![0.0; count]; count]);
    for row in 0..size {
        let effect = (0..size).map(|column| inverted[row][column] * right[column]).sum::<f64>();
        effects[members[row]] = Some(effect);
        for column in 0..size {
            inverse[members[row]][members[column]] = inverted[row][column];
        }
    }
    Some((effects, inverse))
}

/// The inverse of a symmetric and positive definite matrix, by elimination (Gauss & Jordan). `None`
/// for any other matrix.
fn invert(mut matrix: Matrix) -> Option<Matrix> {
    let size = matrix.len();
    for (row, line) in matrix.iter_mut().enumerate() {
        line.extend((0..size).map(|column| f64::from(u8::from(row == column))));
    }
    for pivot in 0..size {
        let by = matrix[pivot][pivot];
        if by <= 1e-9 {
            return None;
        }
        matrix[pivot].iter_mut().for_each(|value| *value /= by);
        let eliminated = matrix[pivot].clone();
        for (row, line) in matrix.iter_mut().enumerate().filter(|(row, _)| *row != pivot) {
            debug_assert_ne!(row, pivot);
            let by = line[pivot];
            line.iter_mut().zip(&eliminated).for_each(|(value, pivot)| *value -= by * pivot);
        }
    }
    Some(matrix.into_iter().map(|line| line[size..].to_vec()).collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::random::SplitMix64;

    /// Blocks of three sessions in which subject `i` is larger by `effects[i]`.
    fn blocks(
        random: &mut SplitMix64,
        effects: &[f64],
        each: usize,
        deviation: f64,
    ) -> Vec<Observed> {
        let block = |number: usize, random: &mut SplitMix64| {
            let drift = 3.0 * random.normal();
            let values =
                effects.iter().map(|effect| Some(effect + drift + deviation * random.normal()));
            Observed { session: number / each, values: values.collect(), weight: 1.0 }
        };
        (0..3 * each).map(|number| block(number, random)).collect()
    }

    #[test]
    fn what_drifts_from_block_to_block_does_not_matter() {
        let mut random = SplitMix64::new(1);
        let fit = Fit::of(&blocks(&mut random, &[0.0, 0.1, 0.2], 10, 0.001)).unwrap();
        let gap = fit.effect(2).unwrap() - fit.effect(0).unwrap();
        assert!((gap - 0.2).abs() < 0.002, "{gap}");
        assert!(fit.family(3, 0.025).critical(0, 2) < 0.003);
    }

    #[test]
    fn who_never_met_is_compared_by_way_of_whom_both_met() {
        let mut random = SplitMix64::new(2);
        let mut all = blocks(&mut random, &[0.0, 0.3, 0.5, 9.0], 20, 0.001);
        for (number, block) in all.iter_mut().enumerate() {
            block.values[if number % 2 == 0 { 1 } else { 2 }] = None;
            // No other subject has met this one in a block.
            block.values[3] = None;
        }
        let fit = Fit::of(&all).unwrap();
        let gap = fit.effect(2).unwrap() - fit.effect(1).unwrap();
        assert!((gap - 0.2).abs() < 0.002, "{gap}");
        assert_eq!(fit.effect(3), None);
        // A comparison by way of the middle subject is less precise than a comparison with the
        // middle subject.
        assert!(fit.family(3, 0.025).critical(1, 2) > 1.3 * fit.family(3, 0.025).critical(0, 1));
    }

    #[test]
    fn of_ten_equal_ones_some_two_are_put_apart_as_often_as_allowed() {
        let mut random = SplitMix64::new(3);
        let wrong = (0..400).filter(|_| {
            let fit = Fit::of(&blocks(&mut random, &[0.0; 10], 5, 0.1)).unwrap();
            let effects: Vec<f64> = (0..10).filter_map(|subject| fit.effect(subject)).collect();
            let range = effects.iter().copied().fold(f64::MIN, f64::max)
                - effects.iter().copied().fold(f64::MAX, f64::min);
            range > fit.family(10, 0.05).critical(0, 1)
        });
        let wrong = wrong.count();
        // Without the caution about sessions, 20 of 400 are expected. The caution reduces this
        // number.
        assert!((1..=30).contains(&wrong), "{wrong}");
    }

    #[test]
    fn a_server_process_with_a_bias_of_its_own_makes_all_less_sure() {
        let mut random = SplitMix64::new(4);
        let calm = Fit::of(&blocks(&mut random, &[0.0; 5], 20, 0.01)).unwrap();
        let mut biased = blocks(&mut random, &[0.0; 5], 20, 0.01);
        for block in &mut biased {
            let session = block.session;
            for (subject, value) in block.values.iter_mut().enumerate() {
                *value = value.map(|value| value + 0.05 * ((session + subject) % 3) as f64);
            }
        }
        let biased = Fit::of(&biased).unwrap();
        assert!(
            biased.family(5, 0.025).critical(0, 1) > 5.0 * calm.family(5, 0.025).critical(0, 1)
        );
    }

    #[test]
    fn a_noisy_one_of_two_that_are_left_does_not_end_the_comparison() {
        let mut random = SplitMix64::new(8);
        let mut all = blocks(&mut random, &[0.0, 0.0, 0.5, 0.5], 10, 0.02);
        for block in all.iter_mut().skip(3) {
            // The others are out of the race.
            block.values[2..].fill(None);
            block.values[1] = block.values[1].map(|value| value + 0.5 * random.normal());
        }
        let fit = Fit::of(&all).expect("thirty blocks");
        assert!(fit.family(4, 0.01).critical(0, 1) > 0.1);
    }

    #[test]
    fn few_sessions_of_few_subjects_have_few_degrees_of_freedom() {
        let mut random = SplitMix64::new(7);
        let few = Fit::of(&blocks(&mut random, &[0.0; 2], 10, 0.1)).unwrap();
        assert_eq!(few.freedom, 2);
        let many = Fit::of(&blocks(&mut random, &[0.0; 10], 10, 0.1)).unwrap();
        assert!(many.freedom >= 18, "{many:?}");
    }

    #[test]
    fn one_that_is_noisier_is_tested_by_its_own_noise() {
        let mut random = SplitMix64::new(5);
        let mut all = blocks(&mut random, &[0.0; 8], 10, 0.01);
        for block in &mut all {
            block.values[7] = block.values[7].map(|value| value + 0.3 * random.normal());
        }
        let fit = Fit::of(&all).unwrap();
        assert!(fit.family(8, 0.025).critical(0, 7) > 4.0 * fit.family(8, 0.025).critical(0, 1));
    }

    #[test]
    fn of_ten_equal_ones_some_other_is_put_apart_from_one_as_often_as_allowed() {
        let mut random = SplitMix64::new(6);
        let wrong = (0..400).filter(|_| {
            let fit = Fit::of(&blocks(&mut random, &[0.0; 10], 5, 0.1)).unwrap();
            let family = fit.family_of_one(10, 0.05);
            let gap = |other: usize| fit.effect(other).unwrap() - fit.effect(0).unwrap();
            (1..10).any(|other| gap(other).abs() > family.critical(other, 0))
        });
        // Without the caution about sessions, 20 of 400 are expected. The caution reduces this
        // number.
        let wrong = wrong.count();
        assert!((1..=30).contains(&wrong), "{wrong}");
    }

    #[test]
    fn too_little_says_nothing() {
        let block = |values: &[f64]| Observed {
            session: 0,
            values: values.iter().copied().map(Some).collect(),
            weight: 1.0,
        };
        assert!(Fit::of(&[]).is_none());
        assert!(Fit::of(&[block(&[1.0, 2.0])]).is_none());
        assert!(Fit::of(&[block(&[1.0]), block(&[2.0])]).is_none());
    }
}
