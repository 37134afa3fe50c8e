//! Labels that never collide: how wide a text is, and where it may stand.
//!
//! The browser chooses the font, so widths are upper bounds: those of DejaVu Sans, which is wider
//! than the fonts of most systems.

use textwrap::core::display_width;

/// How much wider bold letters are.
pub const BOLD: f64 = 1.13;
/// The least room between two labels.
pub const GAP: f64 = 5.0;

/// What is lost where numbers are added.
const ROUNDING: f64 = 1e-6;

/// The most that a text of letters of this size is wide.
pub fn width(text: &str, size: f64) -> f64 {
    size * text.chars().map(advance).sum::<f64>()
}

/// The advance of a letter, as a share of the size of letters.
fn advance(letter: char) -> f64 {
    match letter {
        'f' | 'i' | 'j' | 'l' | ' ' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | '/' | '-' => 0.37,
        'r' | 't' | '(' | ')' | '[' | ']' => 0.42,
        'm' | 'w' | 'M' | 'W' | '%' | '@' | '+' | '=' | '<' | '>' | '~' | '≥' | '…' => 1.0,
        letter if display_width(letter.encode_utf8(&mut [0; 4])) > 1 => 1.1,
        letter if letter.is_uppercase() || !letter.is_ascii() => 0.8,
        _ => 0.65,
    }
}

/// The text, cut where it would be wider than `room`.
pub fn cut(text: &str, size: f64, room: f64) -> String {
    if width(text, size) <= room {
        return text.to_owned();
    }
    let mut kept = String::new();
    let mut left = room / size - advance('…');
    for letter in text.chars() {
        left -= advance(letter);
        if left < 0.0 {
            break;
        }
        kept.push(letter);
    }
    kept + "…"
}

/// The places of labels on a line from `from` to `to`, the most important first. Each label has the
/// middle that it wants, and a length. A label that would leave the line is moved inwards. A label
/// without room beside the ones before it has no place.
pub fn spread(labels: &[(f64, f64)], [from, to]: [f64; 2]) -> Vec<Option<f64>> {
    let mut taken: Vec<[f64; 2]> = Vec::new();
    let place = |&(wanted, length): &(f64, f64)| {
        let half = length / 2.0;
        let middle = wanted.min(to - half).max(from + half);
        let [left, right] = [middle - half, middle + half];
        let is_free = right <= to + ROUNDING
            && taken.iter().all(|[from, to]| right + GAP <= *from || to + GAP <= left);
        is_free.then(|| {
            taken.push([left, right]);
            middle
        })
    };
    labels.iter().map(place).collect()
}

/// Moves the sorted places `wanted` apart, until neighbours have a `gap`. Stays within `low` and
/// `high` if there is room.
pub fn apart(wanted: &[f64], gap: f64, [low, high]: [f64; 2]) -> Vec<f64> {
    let mut places = wanted.to_vec();
    for at in 0..places.len() {
        let least = if at == 0 { low } else { places[at - 1] + gap };
        places[at] = places[at].max(least);
    }
    for at in (0..places.len()).rev() {
        let most = if at + 1 == places.len() { high } else { places[at + 1] - gap };
        places[at] = places[at].min(most);
    }
    places
}

#[cfg(test)]
pub(super) mod tests {
    use proptest::prelude::*;

    use super::*;

    /// A text of a drawing, and its box: left, right, top and bottom.
    pub(in crate::tell) type Placed = (String, [f64; 4]);

    /// All texts of a drawing, with the most room that each may take.
    pub(in crate::tell) fn texts(svg: &str, size: f64) -> Vec<Placed> {
        let placed = |element: &str| {
            let (tag, rest) = element.split_once('>').unwrap();
            let text = rest.split_once("</text>").unwrap().0.replace("&lt;", "<");
            let of = |name: &str| {
                let value = tag.split_once(&format!(" {name}=\""))?.1.split_once('"')?.0;
                Some(value.to_owned())
            };
            let at = |name: &str| of(name).unwrap().parse::<f64>().unwrap();
            let wide = width(&text, size);
            let left = match of("text-anchor").as_deref() {
                Some("end") => at("x") - wide,
                Some("middle") => at("x") - wide / 2.0,
                _ => at("x"),
            };
            // Letters of this size reach so far above and below their line.
            let (top, bottom) = (at("y") - 0.75 * size, at("y") + 0.25 * size);
            (text, [left, left + wide, top, bottom])
        };
        svg.split("<text").skip(1).map(placed).collect()
    }

    /// The first pair of texts that collide, or a text that is not within the picture.
    pub(in crate::tell) fn collision(svg: &str, size: f64) -> Option<String> {
        let view = svg.split_once("viewBox=\"0 0 ")?.1.split_once('"')?.0;
        let (wide, tall) = view.split_once(' ')?;
        let (wide, tall): (f64, f64) = (wide.parse().unwrap(), tall.parse().unwrap());
        let all = texts(svg, size);
        for (at, (text, [left, right, top, bottom])) in all.iter().enumerate() {
            if *left < -0.1 || *right > wide + 0.1 || *top < -0.1 || *bottom > tall + 0.1 {
                return Some(format!("{text:?} leaves the picture: {left} {right} {top} {bottom}"));
            }
            let hits = |other: &&Placed| {
                let [from, to, above, below] = other.1;
                left + 0.1 < to && from + 0.1 < *right && top + 0.1 < below && above + 0.1 < *bottom
            };
            if let Some((other, _)) = all[at + 1..].iter().find(hits) {
                return Some(format!("{text:?} and {other:?}"));
            }
        }
        None
    }

    proptest! {
        #[test]
        fn no_two_labels_overlap_and_each_stays_on_the_line(
            labels in prop::collection::vec((-50.0..900.0_f64, 0.0..200.0_f64), 0..40),
            from in -20.0..20.0_f64,
            length in 0.0..800.0_f64,
        ) {
            let to = from + length;
            let places = spread(&labels, [from, to]);
            let mut shown: Vec<[f64; 2]> = places.iter().zip(&labels).filter_map(|(place, (_, length))| {
                place.map(|middle| [middle - length / 2.0, middle + length / 2.0])
            }).collect();
            shown.sort_by(|one, other| one[0].total_cmp(&other[0]));
            prop_assert!(shown.iter().all(|[left, right]| *left >= from - 2e-6 && *right <= to + 2e-6));
            prop_assert!(shown.windows(2).all(|pair| pair[1][0] - pair[0][1] >= GAP - 2e-6));
            // A line that has room for a label shows one.
            prop_assert!(!shown.is_empty() || labels.iter().all(|(_, label)| *label >= length - 2e-6));
        }

        #[test]
        fn a_cut_text_fits_and_a_short_text_stays_whole(text in "\\PC{0,40}", room in 15.0..300.0_f64) {
            let kept = cut(&text, 12.5, room);
            prop_assert!(width(&kept, 12.5) <= room, "{kept}");
            prop_assert!(kept == text || width(&text, 12.5) > room);
        }
    }

    #[test]
    fn labels_are_apart_and_stay_within() {
        let places = apart(&[10.0, 11.0, 12.0, 95.0, 99.0], 12.0, [5.0, 100.0]);
        assert!(places.windows(2).all(|pair| pair[1] - pair[0] >= 11.999), "{places:?}");
        assert!(places[0] >= 5.0 && places[4] <= 100.0, "{places:?}");
        // Names with room stay where they are.
        assert_eq!(apart(&[20.0, 60.0], 12.0, [0.0, 100.0]), [20.0, 60.0]);
    }
}
