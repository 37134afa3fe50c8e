//! A sentence of an answer, and the question of a reader that it answers.

use std::borrow::Borrow;
use std::fmt;
use std::ops::Deref;

use serde::Serialize;

/// What a reader asks after the headline. The page has a section for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What is the choice, and how sure is it?
    Sure,
    /// Why is it so?
    Why,
    /// What about latency, memory and throughput?
    Costs,
    /// What was measured?
    Measured,
    /// What was excluded, and why?
    Excluded,
}

/// A sentence. In data, it is the text alone.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Sentence {
    pub(super) text: String,
    /// What the sentence answers.
    #[serde(skip)]
    pub answers: Section,
    /// Whether the first screen says it, too.
    #[serde(skip)]
    pub is_on_screen: bool,
}

impl Sentence {
    /// The sentence, for the first screen, too.
    pub(super) fn on_screen(self) -> Self {
        Self { is_on_screen: true, ..self }
    }
}

impl Section {
    /// Sentences that answer the question.
    pub(super) fn answered(
        self,
        texts: impl IntoIterator<Item = String>,
    ) -> impl Iterator<Item = Sentence> {
        texts.into_iter().map(move |text| Sentence { text, answers: self, is_on_screen: false })
    }
}

impl Deref for Sentence {
    type Target = str;

    fn deref(&self) -> &str {
        &self.text
    }
}

impl Borrow<str> for Sentence {
    fn borrow(&self) -> &str {
        &self.text
    }
}

impl fmt::Display for Sentence {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.text)
    }
}
