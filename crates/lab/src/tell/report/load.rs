//! The user's own load on the page: the times of its requests, and the number of users that there
//! is room for.

use crate::record::{Cell, Recording};
use crate::tell::chart::Chart;
use crate::tell::chart::columns::Columns;
use crate::tell::replay::{self, Headroom};
use crate::tell::sheet::{Figure, Part, Table, left, names, right};

/// The number of users that each subject has room for.
pub(super) fn headroom(headroom: &[Headroom]) -> [Part; 3] {
    let row = |one: &Headroom| {
        let share = match one.users_of_a_processor {
            0.0 => "–".to_owned(),
            _ => format!("{:.2e} %", 100.0 * one.share_as_recorded),
        };
        vec![one.subject.clone(), share, one.told()]
    };
    let columns = [names("Architecture"), right("Share as recorded"), left("Times your users")];
    [
        Part::subheading("Headroom"),
        Part::note(
            "Headroom is the multiple of your users at which a server uses one whole processor. A \
             request is taken to cost what it costs at the largest number of users measured. The \
             table also has the smallest number of users at which a server reached a limit.",
        ),
        Part::Table(Table::new(columns, headroom.iter().map(row))),
    ]
}

/// The recording, and whether it was sent as planned.
pub(super) fn recording(recording: &Recording, cells: &[Cell]) -> Vec<Part> {
    let inferred = recording.inferred.iter().map(|told| ("inferred", told.clone()));
    let columns = Columns {
        about: "Requests over the length of the recording".to_owned(),
        counted: "requests",
        counts: recording.arrivals.clone(),
    };
    let mut parts = vec![
        Part::subheading("Your load"),
        Part::note("The replayed recording, and the times of its requests."),
        Part::Figure(Figure::new("", Chart::Columns(columns), Vec::new())),
        named(replay::figures(recording).into_iter().chain(inferred)),
    ];
    if !recording.warnings.is_empty() {
        parts.push(Part::Warnings(recording.warnings.clone()));
    }
    parts.extend([
        Part::subheading("Planned against sent"),
        Part::note(
            "These figures are of the worst window. The first request of a connection is due at \
             its recorded time. A later request is due when its think time after the last reply \
             is over.",
        ),
        named(replay::sent(cells).into_iter()),
    ]);
    parts
}

/// Values, each with its name.
fn named(values: impl Iterator<Item = (&'static str, String)>) -> Part {
    let rows = values.map(|(name, value)| vec![name.to_owned(), value]);
    Part::Table(Table::new([names(""), left("")], rows))
}
