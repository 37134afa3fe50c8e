//! The files that stand for the pages of a recording, which has no bodies. There is one file for
//! each size.

use std::collections::BTreeSet;
use std::fs;
use std::io;
use std::path::Path;

use duality_trace::{Head, Sizes, Trace};

/// The approximate number of bytes of a reply's head, if a recording counts the head.
const OF_HEAD: u64 = 200;

/// A longer reply is cut to this length. Many replies of many megabytes would measure the speed of
/// memory.
const LONGEST: u64 = 4 << 20;

/// The length of the body of a class's reply.
pub(super) fn length(head: &Head, class: usize) -> u64 {
    let reply = head.classes[class].reply;
    let body = match head.sizes {
        Sizes::Body => reply,
        Sizes::Wire => reply.saturating_sub(OF_HEAD),
    };
    body.min(LONGEST)
}

/// The path for a class: its recorded path, or the file of its size.
pub(super) fn path(head: &Head, class: usize) -> String {
    match &head.classes[class].path {
        Some(path) => path.clone(),
        None => format!("/{}", name(length(head, class))),
    }
}

/// Writes the files that a replay of `trace` asks for into `folder`, which is created if it does
/// not exist. An existing file with the right length stays. Returns the number of files.
///
/// # Errors
///
/// If a file cannot be written.
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

/// The name of the file with a length.
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
