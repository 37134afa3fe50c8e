//! Predicts a number of connections that was not measured.
//!
//! Between two measured numbers of connections, counts and t_independent change in a straight line
//! over the logarithm of the number. Beyond the measured numbers, they follow the line through the
//! last two. For any number, the unit cost of a poller's round is known.

use super::costs::Missing;
use super::counts::Counts;
use super::{Modelled, Workload};
use crate::record::UnitCosts;

/// The prediction for an architecture, and the later measurement.
#[derive(Clone, Debug, PartialEq)]
pub struct Check {
    /// The workload.
    pub workload: String,
    /// The architecture.
    pub architecture: String,
    /// The predicted number of connections.
    pub connections: usize,
    /// The server's processor time for a request, in microseconds. `None` if the line leads below
    /// zero.
    pub predicted: Option<f64>,
    /// The measured time. `None` without a measurement.
    pub measured: Option<f64>,
}

impl Check {
    /// The share by which the prediction is too high. The share is negative if the prediction is
    /// too low.
    pub fn error(&self) -> Option<f64> {
        let measured = self.measured.filter(|measured| *measured > 0.0)?;
        Some(self.predicted? / measured - 1.0)
    }

    /// The most requests a second that one processor can answer, according to the prediction.
    pub fn most_per_second(&self) -> Option<f64> {
        self.predicted.map(|predicted| 1e6 / predicted)
    }
}

/// The time that each architecture takes for a request with so many connections, in microseconds.
/// The `workloads` are of one service and differ in their numbers of connections.
///
/// # Errors
///
/// [`Missing`] if a unit cost is unknown.
pub fn predict(
    workloads: &[Workload],
    connections: usize,
    costs: &UnitCosts,
) -> Result<Vec<Check>, Missing> {
    let mut names: Vec<&str> = Vec::new();
    for subject in workloads.iter().flat_map(|workload| &workload.subjects) {
        if !names.contains(&subject.architecture.as_str()) {
            names.push(&subject.architecture);
        }
    }
    let predict = |architecture: &str| {
        let mut points: Vec<(f64, &Modelled)> = workloads
            .iter()
            .filter_map(|workload| {
                let found = |subject: &&Modelled| subject.architecture == architecture;
                Some((workload.connections as f64, workload.subjects.iter().find(found)?))
            })
            .collect();
        points.sort_by(|(one, _), (other, _)| one.total_cmp(other));
        let at = connections as f64;
        let between = |of: &dyn Fn(&Modelled) -> f64| {
            let points: Vec<(f64, f64)> =
                points.iter().map(|(many, subject)| (*many, of(subject))).collect();
            on_the_line(&points, at)
        };
        let counts =
            Counts::from(|operation| between(&|subject| subject.counts[operation]).max(0.0));
        let independent = between(&Modelled::independent);
        let carrier = points[0].1.carrier;
        let parts = Modelled::new(architecture, carrier, 0.0, counts, costs)?;
        Ok(Check {
            workload: workloads[0].name.clone(),
            architecture: architecture.to_owned(),
            connections,
            predicted: Some(independent + parts.dependent()).filter(|predicted| *predicted > 0.0),
            measured: None,
        })
    };
    names.into_iter().map(predict).collect()
}

/// Compares predictions with later measurements.
pub fn check(predictions: &mut [Check], measured: &[Workload]) {
    for check in predictions {
        let found = measured
            .iter()
            .filter(|workload| {
                workload.name == check.workload && workload.connections == check.connections
            })
            .flat_map(|workload| &workload.subjects)
            .find(|subject| subject.architecture == check.architecture);
        check.measured = found.map(|subject| subject.total);
    }
}

/// Interpolates the value at `at` between the sorted `points`, in straight lines over the
/// logarithm.
fn on_the_line(points: &[(f64, f64)], at: f64) -> f64 {
    let [first, .., _] = points else { return points.first().map_or(0.0, |(_, value)| *value) };
    let inside =
        points.windows(2).find(|pair| at <= pair[1].0).unwrap_or(&points[points.len() - 2..]);
    let ((from, low), (to, high)) = (inside[0], inside[1]);
    if to <= from {
        return first.1;
    }
    low + (high - low) * (at / from).ln() / (to / from).ln()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_goes_through_its_points_and_on() {
        let points = [(10.0, 1.0), (100.0, 2.0), (1000.0, 6.0)];
        for (at, value) in [(10.0, 1.0), (100.0, 2.0), (1000.0, 6.0), (1.0, 0.0), (10_000.0, 10.0)]
        {
            assert!((on_the_line(&points, at) - value).abs() < 1e-9, "{at}");
        }
        assert_eq!(on_the_line(&points[..1], 7.0), 1.0);
        assert_eq!(on_the_line(&[], 7.0), 0.0);
    }
}
