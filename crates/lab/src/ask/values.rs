//! The limits on values of settings, and the checks of these limits.
//!
//! A check takes a value, and returns the mistake and the remedy. The caller knows the key and adds
//! it to the error.

use std::collections::BTreeSet;
use std::fmt::Display;
use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, de};

use crate::Mistake;
use crate::units::{parse_duration, parse_place};

/// The most values of a list.
const MOST_VALUES: usize = 100;
/// The most connections.
const MOST_CONNECTIONS: usize = 1_000_000;
/// The most repeats of a cell.
const MOST_REPEATS: usize = 1000;
/// The most blocks of a session.
const MOST_BLOCKS: usize = 100_000;
/// The most bytes of a text.
pub(super) const LONGEST_TEXT: usize = 4096;
/// The longest warm-up, window or period, and its name.
const LONGEST: (Duration, &str) = (Duration::from_secs(24 * 60 * 60), "a day");

/// The shortest window. In less time, a server is not in a steady state, and a tick of the machine
/// is a tenth of the window.
const SHORTEST_WINDOW: Duration = Duration::from_millis(50);
/// The shortest useful warm-up. 0 means no warm-up.
const SHORTEST_WARM_UP: Duration = Duration::from_millis(10);

/// The result of a check: nothing, or the problem and its remedy.
pub(super) type Checked = Result<(), Mistake>;

/// Accepts every value of the type.
pub(super) fn any<T>(_: &T) -> Checked {
    Ok(())
}

/// A text that can be an argument of a process.
pub(super) fn text(text: &str) -> Checked {
    match text {
        "" => Err("an empty text says nothing: leave it out".into()),
        long if long.len() > LONGEST_TEXT => Err(too_long()),
        odd => without_nul(odd),
    }
}

/// The error of a text that is too long.
pub(super) fn too_long() -> Mistake {
    format!("longer than {LONGEST_TEXT} bytes: give a shorter one").into()
}

/// Refuses a NUL, which no argument of a process can hold.
pub(super) fn without_nul(text: &str) -> Checked {
    if text.contains('\0') { Err("a NUL is in it: leave it out".into()) } else { Ok(()) }
}

/// A path, as a text.
pub(super) fn path(path: &Path) -> Checked {
    text(&path.to_string_lossy())
}

/// Texts, which may repeat.
pub(super) fn texts(texts: &[String]) -> Checked {
    size(texts)?;
    texts.iter().try_for_each(|each| text(each))
}

/// Texts without repetition.
pub(super) fn names(names: &[String]) -> Checked {
    distinct(names)?;
    names.iter().try_for_each(|name| text(name))
}

/// Values without repetition.
pub(super) fn distinct<T: Ord + Display>(values: &[T]) -> Checked {
    size(values)?;
    let mut seen = BTreeSet::new();
    match values.iter().find(|value| !seen.insert(*value)) {
        None => Ok(()),
        Some(twice) => Err(format!("{twice} is there twice: leave one out").into()),
    }
}

/// Refuses a list that is empty or too long.
pub(super) fn size<T>(values: &[T]) -> Checked {
    match values.len() {
        0 => Err("nothing is in this list: name at least one, or leave it out".into()),
        length if length > MOST_VALUES => {
            Err(format!("{length} values: give at most {MOST_VALUES}").into())
        }
        _ => Ok(()),
    }
}

/// A place in a recording.
pub(super) fn place(place: &str) -> Checked {
    parse_place(place).map(drop)
}

/// How many times as fast a recording is replayed.
pub(super) fn speed(speed: &f64) -> Checked {
    match (0.001..=1e6).contains(speed) {
        true => Ok(()),
        false => Err("a speed is between 0.001 and 1000000, and 1 is as recorded".into()),
    }
}

/// Within how many percent subjects are level.
pub(super) fn margin(percent: &f64) -> Checked {
    match (0.1..=100.0).contains(percent) {
        true => Ok(()),
        false => Err("a margin is between 0.1 and 100 percent, such as 5".into()),
    }
}

/// How many users come at the same time.
pub(super) fn bunch(users: &usize) -> Checked {
    match (1..=1_000_000).contains(users) {
        true => Ok(()),
        false => Err("a bunch has 1 to 1000000 users, and 1 is as recorded".into()),
    }
}

/// Bytes a second that a client takes.
pub(super) fn client_rate(rate: &u64) -> Checked {
    match rate {
        0 => Err("a client takes at least 1 byte a second".into()),
        _ => Ok(()),
    }
}

/// Numbers of connections without repetition.
pub(super) fn concurrency(counts: &[usize]) -> Checked {
    distinct(counts)?;
    counts.iter().try_for_each(connections)
}

/// A number of connections.
pub(super) fn connections(count: &usize) -> Checked {
    number(*count, MOST_CONNECTIONS)
}

/// A number of repeats.
pub(super) fn repeats(count: &usize) -> Checked {
    number(*count, MOST_REPEATS)
}

/// A number of blocks. 0 is allowed.
pub(super) fn blocks(count: &usize) -> Checked {
    if *count > MOST_BLOCKS { Err(format!("at most {MOST_BLOCKS}").into()) } else { Ok(()) }
}

fn number(value: usize, most: usize) -> Checked {
    if (1..=most).contains(&value) {
        return Ok(());
    }
    Err(format!("{value} is out of range: give numbers from 1 to {most}").into())
}

/// A time of a cell.
pub(super) fn time(time: &Duration) -> Checked {
    let (longest, name) = LONGEST;
    if *time > longest {
        Err(format!("longer than {name}: give a shorter time").into())
    } else {
        Ok(())
    }
}

/// The length of a window.
pub(super) fn window(length: &Duration) -> Checked {
    time(length)?;
    check_window(*length)
}

/// The length of a warm-up.
pub(super) fn warm_up(length: &Duration) -> Checked {
    time(length)?;
    check_warm_up(*length)
}

/// Whether a window of this length measures anything.
///
/// # Errors
///
/// The advice in the error.
pub fn check_window(window: Duration) -> Result<(), Mistake> {
    let problem = match window {
        Duration::ZERO => "a window of no length measures nothing".to_owned(),
        short if short < SHORTEST_WINDOW => format!("{short:?} is too short to measure anything"),
        _ => return Ok(()),
    };
    Err(format!("{problem}: give {SHORTEST_WINDOW:?} or more, such as 1s").into())
}

/// Whether a warm-up of this length is allowed.
///
/// # Errors
///
/// The advice in the error.
pub fn check_warm_up(warm_up: Duration) -> Result<(), Mistake> {
    match warm_up {
        Duration::ZERO => Ok(()),
        short if short < SHORTEST_WARM_UP => Err(format!(
            "{short:?} warms nothing up: give {SHORTEST_WARM_UP:?} or more, or 0s for none"
        )
        .into()),
        _ => Ok(()),
    }
}

/// The shortest and the longest wait, as in `100us..2ms`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Waits {
    /// The shortest.
    pub shortest: Duration,
    /// The longest.
    pub longest: Duration,
}

impl FromStr for Waits {
    type Err = Mistake;

    fn from_str(text: &str) -> Result<Self, Mistake> {
        let (shortest, longest) =
            text.split_once("..").ok_or("give the shortest and the longest, as in 100us..2ms")?;
        Ok(Self { shortest: parse_duration(shortest)?, longest: parse_duration(longest)? })
    }
}

impl TryFrom<String> for Waits {
    type Error = Mistake;

    fn try_from(text: String) -> Result<Self, Mistake> {
        text.parse()
    }
}

/// Reads a time with its unit.
pub(super) fn duration<'de, D: Deserializer<'de>>(
    deserializer: D,
) -> Result<Option<Duration>, D::Error> {
    let text = String::deserialize(deserializer)?;
    parse_duration(&text).map(Some).map_err(de::Error::custom)
}
