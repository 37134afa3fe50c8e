//! The files that stand for the pages of a recording, which has no bodies: one for each size.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use duality_trace::{Head, Sizes, Trace};

/// About how many bytes of a reply are its head, where a recording counts it.
const OF_HEAD: u64 = 200;

/// A longer reply is made as long as this. Many replies of many megabytes would measure how fast
/// memory is.
const LONGEST: u64 = 4 << 20;

/// How long the body of a class's reply is.
pub(super) fn length(head: &Head, class: usize) -> u64 {
    let reply = head.classes[class].reply;
    let body = match head.sizes {
        Sizes::Body => reply,
        Sizes::Wire => reply.saturating_sub(OF_HEAD),
    };
    body.min(LONGEST)
}

/// What a class asks for: its path, if the recording has it, or the file of its size.
pub(super) fn path(head: &Head, class: usize) -> String {
    match &head.classes[class].path {
        Some(path) => path.clone(),
        None => format!("/{}", name(length(head, class))),
    }
}

/// Writes the files that a replay of `trace` asks for into `folder`, which is made if need be. A
/// file that is there with the right length is left alone. Returns how many files there are.
///
/// # Errors
///
/// When a file cannot be written.
pub fn write_files(trace: &Trace, folder: &Path) -> io::Result<usize> {
    fs::create_dir_all(folder)?;
    let head = &trace.head;
    let classes = (0..head.classes.len()).filter(|class| head.classes[*class].path.is_none());
    let lengths: BTreeSet<u64> = classes.map(|class| length(head, class)).collect();
    for &length in &lengths {
        let path = folder.join(name(length));
        if fs::metadata(&path).is_ok_and(|found| found.len() == length) {
            continue;
        }
        fs::write(&path, vec![b'x'; usize::try_from(length).unwrap_or(0)])?;
    }
    Ok(lengths.len())
}

/// The name of the file of a length.
fn name(length: u64) -> String {
    format!("s{length}")
}

#[cfg(test)]
mod tests {
    use duality_trace::Class;

    use super::*;
    use crate::pattern::trace::plan::tests::trace;

    #[test]
    fn each_size_has_a_file_and_each_path_is_kept() {
        let mut trace = trace(&[(0, &[(0, 1024), (5, 1024), (5, 64)], 0)]);
        let folder = std::env::temp_dir().join(format!("duality-files-{}", std::process::id()));
        assert_eq!(write_files(&trace, &folder).unwrap(), 2);
        assert_eq!(write_files(&trace, &folder).unwrap(), 2);
        for class in 0..trace.head.classes.len() {
            let path = path(&trace.head, class);
            let found = fs::metadata(folder.join(&path[1..])).unwrap();
            assert_eq!(found.len(), length(&trace.head, class));
        }
        fs::remove_dir_all(&folder).unwrap();
        let class = &mut trace.head.classes[0];
        *class = Class { path: Some("/a?b".to_owned()), reply: 1 << 40, ..class.clone() };
        assert_eq!((path(&trace.head, 0).as_str(), length(&trace.head, 0)), ("/a?b", LONGEST));
        trace.head.sizes = Sizes::Wire;
        assert_eq!(length(&trace.head, 1), if trace.head.classes[1].reply == 64 { 0 } else { 824 });
    }
}
