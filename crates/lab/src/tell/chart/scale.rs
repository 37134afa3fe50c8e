//! Maps values to places on an axis.

/// A straight or a logarithmic scale between two places.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    low: f64,
    high: f64,
    from: f64,
    to: f64,
    is_logarithmic: bool,
}

impl Scale {
    /// A straight scale: `low` is at `from`, `high` at `to`.
    pub fn straight([low, high]: [f64; 2], [from, to]: [f64; 2]) -> Self {
        let high = if high > low { high } else { low + 1.0 };
        Self { low, high, from, to, is_logarithmic: false }
    }

    /// A logarithmic scale of values above zero.
    pub fn logarithmic([low, high]: [f64; 2], [from, to]: [f64; 2]) -> Self {
        let low = low.max(f64::MIN_POSITIVE);
        let high = if high > low { high } else { 2.0 * low };
        Self { low, high, from, to, is_logarithmic: true }
    }

    /// The value at the lower end.
    pub fn low(&self) -> f64 {
        self.low
    }

    /// The value at the upper end.
    pub fn high(&self) -> f64 {
        self.high
    }

    /// The place of a value. A value beyond an end is placed at this end.
    pub fn place(&self, value: f64) -> f64 {
        let share = if self.is_logarithmic {
            (value.max(f64::MIN_POSITIVE) / self.low).ln() / (self.high / self.low).ln()
        } else {
            (value - self.low) / (self.high - self.low)
        };
        self.from + (self.to - self.from) * share.clamp(0.0, 1.0)
    }

    /// Values to mark.
    pub fn marks(&self) -> Vec<f64> {
        if self.is_logarithmic { marks(self.low, self.high) } else { steps(self.low, self.high) }
    }
}

/// Four or five round values from `low` to `high`.
fn steps(low: f64, high: f64) -> Vec<f64> {
    let rough = (high - low) / 4.0;
    if !rough.is_normal() {
        return vec![low];
    }
    let power = 10_f64.powf(rough.log10().floor());
    let step =
        [1.0, 2.0, 2.5, 5.0, 10.0].map(|step| step * power).into_iter().find(|step| *step >= rough);
    let step = step.unwrap_or(10.0 * power);
    let first = (low / step).ceil() as i64;
    let last = (high / step + 1e-9).floor() as i64;
    (first..=last).map(|number| number as f64 * step).collect()
}

/// The values to mark from `low` to `high` on a logarithmic scale. If the ends are near each other,
/// the scale is almost straight, and the marks are round steps. Otherwise the marks are powers of
/// ten, if there are several. If not, the marks are round numbers, at least three.
fn marks(low: f64, high: f64) -> Vec<f64> {
    const NEARLY_STRAIGHT: f64 = 1.5;
    /// Marks within one power of ten, from few to many.
    const STEPS: [&[f64]; 4] = [
        &[1.0],
        &[1.0, 2.0, 5.0],
        &[1.0, 1.5, 2.0, 3.0, 4.0, 5.0, 7.0],
        &[1.0, 1.2, 1.4, 1.6, 1.8, 2.0, 2.5, 3.0, 3.5, 4.0, 4.5, 5.0, 6.0, 7.0, 8.0, 9.0],
    ];
    if high < NEARLY_STRAIGHT * low {
        return steps(low, high);
    }
    let powers = low.log10().floor() as i32..=high.log10().floor() as i32;
    let within = |steps: &[f64]| -> Vec<f64> {
        let all = powers.clone().flat_map(|power| steps.iter().map(move |step| (step, power)));
        all.map(|(step, power)| step * 10f64.powi(power))
            .filter(|mark| (low..=high).contains(mark))
            .collect()
    };
    STEPS.into_iter().map(within).find(|marks| marks.len() >= 3).unwrap_or_else(|| within(STEPS[3]))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_axis_has_three_marks_or_more_however_short_it_is() {
        assert_eq!(marks(8.0, 12_000.0), [10.0, 100.0, 1000.0, 10_000.0]);
        assert_eq!(marks(150.0, 1200.0), [200.0, 500.0, 1000.0]);
        for low in [1.0, 1.3, 33.0, 870.0, 5.1e6] {
            assert!(marks(low / 1.4, low * 1.4).len() >= 3, "{low}");
        }
        for high in [0.07, 1.0, 3.3, 61_000.0, 5e9] {
            assert!((3..=6).contains(&steps(0.0, high).len()), "{high}: {:?}", steps(0.0, high));
        }
    }

    #[test]
    fn places_are_within_the_ends() {
        let scale = Scale::logarithmic([1.0, 1000.0], [0.0, 300.0]);
        assert!((scale.place(10.0) - 100.0).abs() < 1e-9);
        assert_eq!((scale.place(0.0), scale.place(1e9)), (0.0, 300.0));
        assert_eq!(Scale::straight([0.0, 0.0], [0.0, 10.0]).place(0.0), 0.0);
    }
}
