//! Conditional and range requests: whether a client gets the whole of a file, a part, or neither
//! (RFC 9110, sections 13 and 14).

use super::{
    date,
    range::{self, Asked, Part},
};

/// The fields that make a request conditional, with their values as they came.
///
/// If a list of entity tags continues in a second field, only the first field counts. Any other
/// field has one value, and is ignored if it comes twice. Then the client may get the whole file
/// although its copy is still good. It never gets a wrong file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Conditions<'b> {
    if_match: Option<&'b [u8]>,
    if_none_match: Option<&'b [u8]>,
    if_modified_since: Option<&'b [u8]>,
    if_unmodified_since: Option<&'b [u8]>,
    if_range: Option<&'b [u8]>,
    range: Option<&'b [u8]>,
}

/// The value of an ignored field: neither a date, nor a range, nor an entity tag.
const NOTHING: &[u8] = b"";

/// The values that conditions are compared with.
#[derive(Clone, Copy, Debug)]
pub(super) struct Validators<'p> {
    /// A strong entity tag, in its quotes.
    pub(super) entity_tag: &'p str,
    /// Seconds since 1 January 1970.
    pub(super) last_modified: u64,
}

/// The reply that the client gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Verdict {
    Whole,
    Part(Part),
    NotModified,
    PreconditionFailed,
    RangeNotSatisfiable,
}

impl<'b> Conditions<'b> {
    /// Keeps the field if it is a conditional field.
    pub(super) fn take(&mut self, name: &str, value: &'b [u8]) {
        let is = |known: &str| name.eq_ignore_ascii_case(known);
        let (field, is_list) = match name.len() {
            5 if is("range") => (&mut self.range, false),
            8 if is("if-match") => (&mut self.if_match, true),
            8 if is("if-range") => (&mut self.if_range, false),
            13 if is("if-none-match") => (&mut self.if_none_match, true),
            17 if is("if-modified-since") => (&mut self.if_modified_since, false),
            19 if is("if-unmodified-since") => (&mut self.if_unmodified_since, false),
            _ => return,
        };
        match field {
            None => *field = Some(value),
            Some(_) if is_list => {}
            Some(earlier) => *earlier = NOTHING,
        }
    }

    /// Judges a GET or HEAD of a file of `length` bytes. For a HEAD, `Range` has no meaning.
    ///
    /// The order is that of RFC 9110, section 13.2.2. A date that cannot be read is ignored.
    pub(super) fn judge(&self, is_get: bool, validators: Validators<'_>, length: u64) -> Verdict {
        let Validators { entity_tag, last_modified } = validators;
        if let Some(tags) = self.if_match {
            if !tags_match(tags, entity_tag, Comparison::Strong) {
                return Verdict::PreconditionFailed;
            }
        } else if self.if_unmodified_since.and_then(date::parse).is_some_and(|d| last_modified > d)
        {
            return Verdict::PreconditionFailed;
        }

        if let Some(tags) = self.if_none_match {
            if tags_match(tags, entity_tag, Comparison::Weak) {
                return Verdict::NotModified;
            }
        } else if self.if_modified_since.and_then(date::parse).is_some_and(|d| last_modified <= d) {
            return Verdict::NotModified;
        }

        match self.range {
            Some(range) if is_get && self.range_is_current(validators) => {
                match range::parse(range, length) {
                    Asked::Whole => Verdict::Whole,
                    Asked::Part(part) => Verdict::Part(part),
                    Asked::Nothing => Verdict::RangeNotSatisfiable,
                }
            }
            _ => Verdict::Whole,
        }
    }

    /// Whether the parts that the client already has belong to the current file.
    fn range_is_current(&self, validators: Validators<'_>) -> bool {
        match self.if_range {
            None => true,
            Some(tag @ ([b'"', ..] | [b'W', b'/', ..])) => tag == validators.entity_tag.as_bytes(),
            Some(date) => date::parse(date) == Some(validators.last_modified),
        }
    }
}

/// How entity tags are compared (RFC 9110, section 8.8.3.2). Ours are strong.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Comparison {
    /// The client's tag must be strong too.
    Strong,
    Weak,
}

/// Whether a list of entity tags, or `*`, includes ours. The list ends at the first text that is
/// not a tag. A comma within the quotes is part of the tag.
fn tags_match(list: &[u8], ours: &str, comparison: Comparison) -> bool {
    if list.trim_ascii() == b"*" {
        return true;
    }
    let mut rest = list;
    loop {
        while let [b',' | b' ' | b'\t', tail @ ..] = rest {
            rest = tail;
        }
        let (weak, tag) = match rest {
            [b'W', b'/', tag @ ..] => (true, tag),
            tag => (false, tag),
        };
        let [b'"', opaque @ ..] = tag else {
            return false;
        };
        let Some(end) = opaque.iter().position(|&byte| byte == b'"') else {
            return false;
        };
        let comparable = !weak || comparison == Comparison::Weak;
        if comparable && &tag[..end + 2] == ours.as_bytes() {
            return true;
        }
        rest = &opaque[end + 1..];
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Sun, 06 Nov 1994 08:49:37 GMT.
    const MODIFIED: u64 = 784_111_777;
    const AT: &str = "Sun, 06 Nov 1994 08:49:37 GMT";
    const BEFORE: &str = "Sun, 06 Nov 1994 08:49:36 GMT";
    const AFTER: &str = "Mon, 07 Nov 1994 08:49:37 GMT";

    fn judge(is_get: bool, fields: &[(&str, &str)]) -> Verdict {
        let mut conditions = Conditions::default();
        for (name, value) in fields {
            conditions.take(name, value.as_bytes());
        }
        let validators = Validators { entity_tag: "\"a,b\"", last_modified: MODIFIED };
        conditions.judge(is_get, validators, 100)
    }

    #[test]
    fn conditions_are_judged() {
        use Verdict::{NotModified, PreconditionFailed, RangeNotSatisfiable, Whole};
        let part = |offset, length| Verdict::Part(Part { offset, length });
        let cases: &[(&[(&str, &str)], Verdict)] = &[
            (&[], Whole),
            (&[("If-None-Match", "\"a,b\"")], NotModified),
            (&[("If-None-Match", "W/\"a,b\"")], NotModified),
            (&[("If-None-Match", "\"x\", ,\t\"y\",W/\"a,b\"")], NotModified),
            (&[("if-none-match", "*")], NotModified),
            (&[("If-None-Match", "\"a\", \"b\"")], Whole),
            (&[("If-None-Match", "a,b")], Whole),
            (&[("If-None-Match", "\"a,b")], Whole),
            (&[("If-None-Match", "")], Whole),
            (&[("If-None-Match", "\"x\""), ("If-Modified-Since", AFTER)], Whole),
            (&[("If-Modified-Since", AT)], NotModified),
            (&[("If-Modified-Since", AFTER)], NotModified),
            (&[("If-Modified-Since", BEFORE)], Whole),
            (&[("If-Modified-Since", "soon")], Whole),
            (&[("If-Match", "\"a,b\"")], Whole),
            (&[("If-Match", "*")], Whole),
            (&[("If-Match", "W/\"a,b\"")], PreconditionFailed),
            (&[("If-Match", "\"x\"")], PreconditionFailed),
            (&[("If-Match", "\"a,b\""), ("If-Unmodified-Since", BEFORE)], Whole),
            (&[("If-Unmodified-Since", AT)], Whole),
            (&[("If-Unmodified-Since", BEFORE)], PreconditionFailed),
            (&[("If-Unmodified-Since", "soon")], Whole),
            (&[("Range", "bytes=0-9")], part(0, 10)),
            (&[("Range", "bytes=100-")], RangeNotSatisfiable),
            (&[("Range", "bytes=0-9"), ("If-None-Match", "*")], NotModified),
            (&[("Range", "bytes=0-9"), ("If-Range", "\"a,b\"")], part(0, 10)),
            (&[("Range", "bytes=0-9"), ("If-Range", "W/\"a,b\"")], Whole),
            (&[("Range", "bytes=0-9"), ("If-Range", "\"x\"")], Whole),
            (&[("Range", "bytes=0-9"), ("If-Range", AT)], part(0, 10)),
            (&[("Range", "bytes=0-9"), ("If-Range", AFTER)], Whole),
            (&[("If-Range", "\"x\"")], Whole),
            // A field of one value that comes twice is ignored.
            (&[("Range", "bytes=0-9"), ("Range", "bytes=0-9")], Whole),
            (&[("Range", "bytes=0-9"), ("If-Range", "\"a,b\""), ("If-Range", "\"a,b\"")], Whole),
            (&[("If-Modified-Since", AT), ("If-Modified-Since", BEFORE)], Whole),
            (&[("If-Unmodified-Since", BEFORE), ("If-Unmodified-Since", AT)], Whole),
            // A list may continue in a second field. It is safe to use only the first.
            (&[("If-None-Match", "\"a,b\""), ("If-None-Match", "\"x\"")], NotModified),
            (&[("If-Match", "\"a,b\""), ("If-Match", "\"x\"")], Whole),
            (&[("If-Match", "\"x\""), ("If-Match", "\"a,b\"")], PreconditionFailed),
        ];
        for (fields, verdict) in cases {
            assert_eq!(judge(true, fields), *verdict, "{fields:?}");
        }
        assert_eq!(judge(false, &[("Range", "bytes=0-9")]), Whole);
        assert_eq!(judge(false, &[("If-None-Match", "*")]), NotModified);
    }

    proptest! {
        #[test]
        fn any_list_is_read(list in "[W/\", a*]{0,20}") {
            tags_match(list.as_bytes(), "\"a\"", Comparison::Weak);
        }
    }
}
