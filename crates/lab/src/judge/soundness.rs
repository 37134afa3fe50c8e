//! How far the figures of a row can be trusted: noise, outliers, and the steadiness of windows.
//! docs/method.md has the definitions.
//!
//! The figures keep odd values. The row's warnings mark them.

use duality_load::{Warning, WarningKind};

use crate::format::listed;
use crate::record::Measured;
use crate::statistics::{self, NOISE, outliers, trend};

/// Warnings about odd repeats of a row with these `rates`, in sentences.
pub(crate) fn marks(repeats: &[&Measured], rates: &[f64]) -> Vec<Warning> {
    let mut marks = Vec::new();
    if let Some(variation) = statistics::variation(rates).filter(|variation| *variation > NOISE) {
        let percent = 100.0 * variation;
        let text = format!("Noisy: requests/s vary by {percent:.1} % from repeat to repeat.");
        marks.push(Warning::new(WarningKind::Noisy, text));
    }
    let odd = outliers(rates);
    if !odd.is_empty() {
        let rates: Vec<String> =
            odd.iter().map(|&place| crate::format::grouped(rates[place])).collect();
        let (plural, are) = if odd.len() == 1 { ("an outlier", "is") } else { ("outliers", "are") };
        let text = format!(
            "{} requests/s {are} {plural} among {} repeats, and counted.",
            listed(&rates),
            repeats.len()
        );
        marks.push(Warning::new(WarningKind::Outliers, text));
    }
    marks.extend(unsteady(repeats).map(|text| Warning::new(WarningKind::Unsteady, text)));
    marks
}

/// The trend within the windows, if at least half of the windows have a trend, and all trends have
/// one direction.
fn unsteady(repeats: &[&Measured]) -> Option<String> {
    let trends: Vec<f64> =
        repeats.iter().filter_map(|repeat| trend(&repeat.slices_requests_per_second)).collect();
    let in_one_direction =
        trends.iter().all(|share| *share > 0.0) || trends.iter().all(|share| *share < 0.0);
    if trends.is_empty() || 2 * trends.len() < repeats.len() || !in_one_direction {
        return None;
    }
    let share = statistics::median(&trends)?;
    let moved = if share < 0.0 { "fell" } else { "rose" };
    Some(format!(
        "Not in a steady state: requests/s {moved} by {:.0} % from the first to the last third of the window (in {} of {} \
         repeats); a longer --warm-up or --window may help.",
        100.0 * share.abs(),
        trends.len(),
        repeats.len()
    ))
}
