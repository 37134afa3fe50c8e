//! A guest's remark: a name, and a few lines of text.

use crate::store::Remark;

/// Characters in a guest's name.
const LONGEST_NAME: usize = 64;

/// Characters in a remark.
const LONGEST_TEXT: usize = 1000;

/// Makes a remark of a guest's input.
///
/// Browsers send a line's end as CR and LF. The remark has LF.
///
/// # Errors
///
/// Why the remark is refused, as a sentence for the guest.
pub(super) fn check(guest: &str, text: &str) -> Result<Remark, &'static str> {
    let text = text.replace("\r\n", "\n");
    let (guest, text) = (guest.trim(), text.trim());
    let refusal = if guest.is_empty() {
        "Please say who you are."
    } else if text.is_empty() {
        "Please leave a remark."
    } else if guest.chars().nth(LONGEST_NAME).is_some() {
        "The name is too long: 64 characters at most."
    } else if text.chars().nth(LONGEST_TEXT).is_some() {
        "The remark is too long: 1,000 characters at most."
    } else if guest.chars().any(char::is_control)
        || text.chars().any(|character| character.is_control() && character != '\n')
    {
        "There are control characters in it."
    } else {
        return Ok(Remark { guest: guest.to_owned(), text: text.to_owned() });
    };
    Err(refusal)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn remarks_are_trimmed_and_kept() {
        let remark = check(" Ada\t", "\n one\r\ntwo\n\n").unwrap();
        assert_eq!((remark.guest.as_str(), remark.text.as_str()), ("Ada", "one\ntwo"));
        assert!(check(&"é".repeat(LONGEST_NAME), &"é".repeat(LONGEST_TEXT)).is_ok());
    }

    #[test]
    fn what_is_no_remark_is_refused_with_the_reason() {
        for (guest, text, reason) in [
            ("", "text", "who you are"),
            (" \t\n", "text", "who you are"),
            ("Ada", "\r\n", "leave a remark"),
            (&"a".repeat(LONGEST_NAME + 1), "text", "64 characters"),
            ("Ada", &"a".repeat(LONGEST_TEXT + 1), "1,000 characters"),
            ("A\nda", "text", "control"),
            ("Ada", "a\0b", "control"),
            ("Ada", "a\rb", "control"),
            ("Ada", "a\u{85}b", "control"),
            ("Ada", "a\u{1b}[2Jb", "control"),
        ] {
            let refusal = check(guest, text).unwrap_err();
            assert!(refusal.contains(reason), "{guest:?} {text:?}: {refusal}");
        }
    }
}
