//! The race so far, from the journal, and what it means for a session.

use super::Journal;
use super::display::Display;
use crate::judge::question::Question;
use crate::judge::race::{self, BLOCKS_OF_A_SESSION, BLOCKS_OF_A_TOLD_SESSION, Lane};
use crate::judge::summary::Summary;
use crate::record::{Block, Design, Heading, Records};

/// The race at a number of connections, by the records so far.
pub(super) fn lane(journal: &Journal, concurrency: usize) -> Lane {
    let Journal { heading, records, .. } = journal;
    let here = Records {
        cells: records
            .cells
            .iter()
            .filter(|cell| cell.concurrency == concurrency)
            .cloned()
            .collect(),
        blocks: records.blocks_at(concurrency).into_iter().cloned().collect(),
    };
    let design = Design { concurrency: vec![concurrency], ..heading.design.clone() };
    let disqualified = Summary::disqualified_by(&Heading { design, ..heading.clone() }, &here);
    race::lane(Question { heading, records: &here, disqualified: &disqualified }, concurrency)
}

/// Whether the race looks at its blocks at a number of connections now.
pub(super) fn looks_now(journal: &Journal, concurrency: usize) -> bool {
    let here = |block: &&Block| block.concurrency == concurrency && block.invalid.is_none();
    let blocks = journal.records.blocks.iter().filter(here).count();
    race::looks(blocks).last() == Some(blocks)
}

/// The most blocks of a session.
pub(super) fn most_blocks(lane: &Lane) -> usize {
    if lane.is_told { BLOCKS_OF_A_TOLD_SESSION } else { BLOCKS_OF_A_SESSION }
}

/// Tells of the subjects that have left the race since `before`.
pub(super) fn tell(display: &mut Display, before: &Lane, now: &Lane) {
    for (name, out) in now.out.iter().filter(|(name, _)| !before.is_out(name)) {
        display.out(now.concurrency, name, out);
    }
}
