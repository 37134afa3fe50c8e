//! A sheet: an answer as data, before it has a form. A file of `answers/` makes the sheets of one
//! question, and a file of `render/` writes any sheet in one form.
//!
//! ```text
//!   findings ── answers/QUESTION.rs ─▶ Sheet ── render/FORM.rs ─▶ text, a page
//!                                      ├ Block ─ Part: a sentence, a table, a list
//!                                      └ Block ─ Part: a table, a chart, a note
//! ```

use super::chart::Chart;

/// An answer.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The title of the page. The terminal does not show it.
    pub title: String,
    /// The parts, by what belongs together. The terminal has a blank line between two blocks.
    pub blocks: Vec<Block>,
    /// Whether readers watch the page while the answer comes about.
    pub watch: Option<Watch>,
}

/// The state of what a page shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Watch {
    /// It goes on. The page reloads itself.
    GoesOn,
    /// It has ended.
    HasEnded,
}

/// A form that shows some blocks only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Text for a terminal.
    Terminal,
    /// A page of HTML.
    Page,
}

/// Parts that belong together.
#[derive(Clone, Debug)]
pub struct Block {
    /// The only form that shows the block. `None` for all forms.
    pub only: Option<Form>,
    /// The parts.
    pub parts: Vec<Part>,
}

/// A part of an answer.
#[derive(Clone, Debug)]
pub enum Part {
    /// The heading of the parts up to the next heading.
    Heading(String),
    /// The answer in one sentence, which stands out on a page.
    Answer(String),
    /// A paragraph.
    Sentence(String),
    /// A remark on what stands beside it, in smaller letters.
    Note(String),
    /// What a reader of the figures must know first.
    Warning(String),
    /// A sentence that leads to another page. The terminal does not show it.
    Link {
        /// The sentence.
        text: String,
        /// The address, beside this page.
        to: String,
    },
    /// Lines that are not folded.
    Verbatim(String),
    /// A command, as words of a shell.
    Command(Vec<String>),
    /// Items beneath a heading.
    List(String, Vec<String>),
    /// The meanings of colours.
    Key(Vec<(String, String)>),
    /// Rows of cells.
    Table(Table),
    /// A chart. The terminal does not show it.
    Figure(Figure),
}

/// Rows of cells.
#[derive(Clone, Debug, Default)]
pub struct Table {
    /// What the cells are. May be empty.
    pub title: String,
    /// The columns. If none has a name, the table has no header.
    pub columns: Vec<Column>,
    /// The rows. A row may end before the last column.
    pub rows: Vec<Vec<Cell>>,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// A second line in small letters. The terminal does not show it.
    pub note: String,
    /// How much the cell stands out.
    pub tone: Tone,
    /// The address to which the cell leads on a page. May be empty.
    pub to: String,
}

/// How a cell stands out from others.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Tone {
    /// Like most cells.
    #[default]
    Plain,
    /// It is good news.
    Good,
    /// It is bad news.
    Bad,
    /// It says little.
    Soft,
    /// It is what the others are compared with.
    Strong,
    /// It is the best of its column.
    Best,
    /// Nothing is sure of it.
    Unsure,
    /// It is out, and the text says why.
    Out,
    /// It is worse for sure: how much, from 1 to 4.
    Heat(u8),
}

/// A column of a table.
#[derive(Clone, Debug)]
pub struct Column {
    /// The name.
    pub name: String,
    /// The side at which cells are flush.
    pub side: Side,
    /// Whether something changes between the column before and this one. A page draws a rule there.
    pub is_turn: bool,
}

/// The side at which the cells of a column are flush.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Words.
    Left,
    /// Figures.
    Right,
}

/// A chart with its title and remarks.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The title. May be empty.
    pub title: String,
    /// The chart.
    pub chart: Chart,
    /// Remarks beneath the chart.
    pub notes: Vec<String>,
}

impl Sheet {
    /// A sheet without parts.
    pub fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), blocks: Vec::new(), watch: None }
    }

    /// Adds a block. A block without parts is left out.
    pub fn add(&mut self, parts: impl IntoIterator<Item = Part>) {
        self.push(None, parts);
    }

    /// Adds a block that one form alone shows.
    pub fn add_only(&mut self, form: Form, parts: impl IntoIterator<Item = Part>) {
        self.push(Some(form), parts);
    }

    fn push(&mut self, only: Option<Form>, parts: impl IntoIterator<Item = Part>) {
        let parts: Vec<Part> = parts.into_iter().collect();
        if !parts.is_empty() {
            self.blocks.push(Block { only, parts });
        }
    }

    /// The blocks that a form shows.
    pub fn blocks_of(&self, form: Form) -> impl Iterator<Item = &Block> {
        self.blocks.iter().filter(move |block| block.only.is_none_or(|only| only == form))
    }
}

impl Table {
    /// A table without a title.
    pub fn new<C: Into<Cell>>(
        columns: impl IntoIterator<Item = Column>,
        rows: impl IntoIterator<Item = Vec<C>>,
    ) -> Self {
        let rows = rows.into_iter().map(|row| row.into_iter().map(Into::into).collect());
        Self { title: String::new(), columns: columns.into_iter().collect(), rows: rows.collect() }
    }

    /// The table with a title.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// Whether a column has a name.
    pub fn has_header(&self) -> bool {
        self.columns.iter().any(|column| !column.name.is_empty())
    }
}

impl From<String> for Cell {
    fn from(text: String) -> Self {
        Self { text, ..Self::default() }
    }
}

/// A column of words.
pub fn left(name: impl Into<String>) -> Column {
    Column { name: name.into(), side: Side::Left, is_turn: false }
}

/// A column of figures.
pub fn right(name: impl Into<String>) -> Column {
    Column { name: name.into(), side: Side::Right, is_turn: false }
}
