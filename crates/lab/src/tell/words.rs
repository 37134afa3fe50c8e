//! Text of which some words stand out.

/// A text in pieces.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Words(pub Vec<Word>);

/// A piece of text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Word {
    /// The text.
    pub text: String,
    /// How the text stands out.
    pub manner: Manner,
}

/// How a piece of text stands out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Like most text.
    #[default]
    Plain,
    /// It matters more than its neighbours.
    Strong,
    /// A term where it is defined.
    Term,
    /// Code, or a command.
    Code,
    /// A label that warns.
    Label,
    /// It leads to a place.
    Link(String),
}

impl Words {
    /// A text that stands out as a whole.
    pub fn of(manner: Manner, text: impl Into<String>) -> Self {
        Self::default().and(manner, text)
    }

    /// The text with one more piece.
    #[must_use]
    pub fn and(mut self, manner: Manner, text: impl Into<String>) -> Self {
        let text = text.into();
        if !text.is_empty() {
            self.0.push(Word { text, manner });
        }
        self
    }

    /// The text with a plain piece.
    #[must_use]
    pub fn then(self, text: impl Into<String>) -> Self {
        self.and(Manner::Plain, text)
    }

    /// The text with pieces of this program's own words, in which `*` is around terms.
    #[must_use]
    pub fn terms(self, text: &str) -> Self {
        let manners = [Manner::Plain, Manner::Term].into_iter().cycle();
        let pieces = text.split('*').zip(manners);
        pieces.fold(self, |words, (text, manner)| words.and(manner, text))
    }

    /// The text alone.
    pub fn text(&self) -> String {
        self.0.iter().map(|word| word.text.as_str()).collect()
    }
}

impl From<String> for Words {
    fn from(text: String) -> Self {
        Self::default().then(text)
    }
}

impl From<&str> for Words {
    fn from(text: &str) -> Self {
        Self::from(text.to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn terms_are_between_stars() {
        let words = Words::default().terms("a *cell* is one").then(", *not two");
        let manners: Vec<_> = words.0.iter().map(|word| &word.manner).collect();
        assert_eq!(manners, [&Manner::Plain, &Manner::Term, &Manner::Plain, &Manner::Plain]);
        assert_eq!(words.text(), "a cell is one, *not two");
    }
}
