//! Text with placeholders, `{{column}}`, for the values of a row.

use duality_trace::Mistake;

/// The most characters of a placeholder in a message.
const SHOWN: usize = 40;

/// Bytes with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Template {
    pieces: Vec<Segment>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Segment {
    Text(Box<[u8]>),
    /// The value of a column, by its number.
    Column(usize),
}

impl Template {
    /// Text without placeholders.
    pub(super) fn plain(text: &[u8]) -> Self {
        Self { pieces: vec![Segment::Text(text.into())] }
    }

    /// Reads the placeholders in `text`. Blanks around a name do not count.
    ///
    /// # Errors
    ///
    /// A placeholder names no column, or has no end.
    pub(super) fn parse(text: &[u8], columns: &[String]) -> Result<Self, Mistake> {
        let mut pieces = Vec::new();
        let mut rest = text;
        while let Some(open) = find(rest, b"{{") {
            // Of more than two braces, the last two begin the placeholder. A brace cannot be in a
            // name.
            let braces = rest[open..].iter().take_while(|byte| **byte == b'{').count();
            let start = open + braces;
            let length = find(&rest[start..], b"}}")
                .ok_or("`{{` begins a placeholder, and `}}` is missing")?;
            let name = String::from_utf8_lossy(&rest[start..start + length]);
            let column = columns.iter().position(|column| column == name.trim());
            let Some(column) = column else {
                let shown: String = name.trim().chars().take(SHOWN).collect();
                return Err(format!(
                    "there is no column {shown:?}: the columns are {}",
                    columns.join(", ")
                )
                .into());
            };
            if start > 2 {
                pieces.push(Segment::Text(rest[..start - 2].into()));
            }
            pieces.push(Segment::Column(column));
            rest = &rest[start + length + 2..];
        }
        if !rest.is_empty() || pieces.is_empty() {
            pieces.push(Segment::Text(rest.into()));
        }
        Ok(Self { pieces })
    }

    /// The text between the placeholders.
    pub(super) fn texts(&self) -> impl Iterator<Item = &[u8]> {
        self.pieces.iter().filter_map(|piece| match piece {
            Segment::Text(text) => Some(&**text),
            Segment::Column(_) => None,
        })
    }

    /// The columns of the placeholders, by number.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> {
        self.pieces.iter().filter_map(|piece| match piece {
            Segment::Text(_) => None,
            Segment::Column(column) => Some(*column),
        })
    }

    /// The length of the text with the values of `row`.
    pub(super) fn length(&self, row: &[Box<[u8]>]) -> usize {
        self.bytes(row).map(<[u8]>::len).sum()
    }

    /// Appends the text with the values of `row`.
    pub(super) fn render(&self, row: &[Box<[u8]>], output: &mut Vec<u8>) {
        self.bytes(row).for_each(|bytes| output.extend_from_slice(bytes));
    }

    fn bytes<'a>(&'a self, row: &'a [Box<[u8]>]) -> impl Iterator<Item = &'a [u8]> {
        self.pieces.iter().map(|piece| match piece {
            Segment::Text(text) => &**text,
            Segment::Column(column) => &*row[*column],
        })
    }
}

fn find(text: &[u8], pair: &[u8; 2]) -> Option<usize> {
    text.windows(2).position(|bytes| bytes == pair)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn columns() -> Vec<String> {
        ["id", "name"].map(str::to_owned).into()
    }

    fn rendered(text: &str) -> Result<String, Mistake> {
        let row: Vec<Box<[u8]>> = vec![b"7".to_vec().into(), b"Zo\xc3\xab".to_vec().into()];
        let template = Template::parse(text.as_bytes(), &columns())?;
        let mut output = Vec::new();
        template.render(&row, &mut output);
        assert_eq!(template.length(&row), output.len());
        Ok(String::from_utf8(output).unwrap())
    }

    #[test]
    fn placeholders_are_replaced() {
        for (text, expected) in [
            ("", ""),
            ("/", "/"),
            ("/{{id}}", "/7"),
            ("{{id}}{{ name }}", "7Zoë"),
            (r#"{"a":{"b":{{id}}}}"#, r#"{"a":{"b":7}}"#),
            ("{{{id}}}", "{7}"),
            ("{id} }} {", "{id} }} {"),
        ] {
            assert_eq!(rendered(text).unwrap(), expected, "{text}");
        }
    }

    #[test]
    fn a_placeholder_that_is_none_is_told() {
        for (text, message) in [
            ("{{age}}", "no column \"age\": the columns are id, name"),
            ("{{}}", "no column \"\""),
            ("{{id}", "`}}` is missing"),
            ("{{", "`}}` is missing"),
            ("{{i\nd}}", r#"no column "i\nd""#),
        ] {
            let problem = rendered(text).unwrap_err().to_string();
            assert!(problem.contains(message) && !problem.contains('\n'), "{problem}");
        }
    }

    proptest! {
        #[test]
        fn what_has_no_placeholder_stays(text: Vec<u8>) {
            if find(&text, b"{{").is_none() {
                let template = Template::parse(&text, &columns()).unwrap();
                let mut output = Vec::new();
                template.render(&[], &mut output);
                prop_assert_eq!(output, text);
            }
        }

        #[test]
        fn any_text_is_read_or_refused(text in "[{}a-d ]{0,30}") {
            if let Ok(template) = Template::parse(text.as_bytes(), &["a".to_owned()]) {
                let braces: usize = template.columns().count();
                let kept: usize = template.texts().map(<[u8]>::len).sum();
                prop_assert!(kept + 5 * braces <= text.len());
            }
        }
    }
}
