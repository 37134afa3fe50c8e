//! What the object that `duality simulate` preloads asks. It is the crate `duality-outside` without
//! a simulation of its own; its module `asked` has the other end.

use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::time::Duration;

use duality_runtime::preloaded;

use super::Inherited;

/// There is no answer: the thread does not simulate.
const NONE: i64 = -1;

/// Has the preloaded object answered by the simulations of this process. False if it is not loaded.
#[must_use]
pub fn join_object() -> bool {
    preloaded::join(answer)
}

fn answer(question: u32, bytes: &mut [u8], number: u64) -> i64 {
    let time = |time: Option<u64>| time.and_then(|time| i64::try_from(time).ok()).unwrap_or(NONE);
    let path = |bytes: &[u8]| Path::new(std::ffi::OsStr::from_bytes(bytes)).to_owned();
    let outcome = |error: io::Error| i64::from(error.raw_os_error().unwrap_or(libc::EIO));
    match question {
        0 => time(super::elapsed()),
        1 => time(super::time_of_day()),
        2 => i64::from(super::fill_random(bytes)),
        3 => match super::look_up(&String::from_utf8_lossy(bytes)) {
            Some(std::net::IpAddr::V4(address)) => i64::from(address.to_bits()),
            _ => NONE,
        },
        4 => super::process_id().map_or(NONE, i64::from),
        5 => super::processors().map_or(NONE, |count| count as i64),
        6 => i64::from(super::sleep(Duration::from_nanos(number))),
        7 => match super::inherit() {
            Some(Inherited { elapsed, day, seed }) => {
                for (place, word) in bytes.chunks_mut(8).zip([elapsed, day, seed]) {
                    place.copy_from_slice(&word.to_le_bytes());
                }
                1
            }
            None => NONE,
        },
        8 => {
            let mut words = bytes.as_chunks().0.iter().map(|word| u64::from_le_bytes(*word));
            let mut word = || words.next().unwrap_or(0);
            super::adopt(Inherited { elapsed: word(), day: word(), seed: word() });
            0
        }
        9 => match super::sync(&path(bytes)) {
            Some(Ok(())) => 0,
            Some(Err(error)) => outcome(error),
            None => NONE,
        },
        10 => match super::write(&path(bytes), number as usize) {
            Ok(count) => count as i64,
            Err(error) => -outcome(error),
        },
        11 => {
            super::refuse(String::from_utf8_lossy(bytes).into_owned());
            0
        }
        12 => i64::from(super::fill_from_device(bytes)),
        _ => NONE,
    }
}
