//! A sheet: an answer as data, before it has a form. A file of `answers/` makes the sheets of one
//! question, and a file of `render/` writes any sheet in one form.
//!
//! ```text
//!   findings ── answers/QUESTION.rs ─▶ Sheet ── render/FORM.rs ─▶ text, a page
//!                                      ├ Block ─ Part: a sentence, a table, a list
//!                                      └ Block ─ Part: a table, a chart, a note
//! ```

use serde::Serialize;

use super::chart::Chart;
use super::chart::plots::Plots;

pub use super::words::{Manner, Word, Words};

/// An answer.
#[derive(Clone, Debug)]
pub struct Sheet {
    /// The title of the page. The terminal does not show it.
    pub title: String,
    /// The parts, by what belongs together. The terminal has a blank line between two blocks.
    pub blocks: Vec<Block>,
    /// Whether readers watch the page while the answer comes about.
    pub watch: Option<Watch>,
    /// The id of the part to which a keyboard may skip.
    pub skip_to: Option<&'static str>,
    /// What files are called that a reader saves from the page. `None` if there are none.
    pub saved: Option<Saved>,
}

/// The origin of files that a reader saves from a page.
#[derive(Clone, Debug, Serialize)]
pub struct Saved {
    /// The beginning of each file's name.
    pub service: String,
    /// The lines beneath a saved chart.
    pub origin: [String; 2],
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
    /// What a reader sees first: the answer, and what proves it.
    Lead(Vec<Part>),
    /// Columns of parts, side by side where a page has room.
    Beside(Vec<Vec<Part>>),
    /// Parts that a page shows when the reader opens them, by this line.
    Details(String, Vec<Part>),
    /// The heading of the parts up to the next heading.
    Heading(Heading),
    /// A heading within the parts of a [`Heading`](Self::Heading).
    Subheading(Heading),
    /// The answer in one sentence, which stands out on a page.
    Answer(String),
    /// A paragraph.
    Sentence(Words),
    /// A remark on what stands beside it, in smaller letters.
    Note(Words),
    /// What a reader must know before the choice.
    Alarm(Words),
    /// What disturbed the measurement, briefly.
    Caution(Words),
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
    /// Items beneath a heading, which may be empty.
    List(String, Vec<Words>),
    /// Items that warn.
    Warnings(Vec<String>),
    /// Names, each with its value.
    Facts(Vec<(String, String)>),
    /// The meanings of colours.
    Key(Vec<(String, String)>),
    /// Rows of cells.
    Table(Table),
    /// A chart. The terminal does not show it.
    Figure(Figure),
    /// Plots in which the reader chooses, and a table for each choice. The terminal does not show
    /// them.
    Plots(Plots, Vec<Table>),
    /// A file that the reader can save. The terminal does not show it.
    Download {
        /// What is saved.
        text: String,
        /// The content, as CSV.
        csv: String,
    },
}

/// A heading.
#[derive(Clone, Debug)]
pub struct Heading {
    /// The text.
    pub text: String,
    /// The name by which links know the place. May be empty.
    pub id: String,
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
    /// The name by which links and the style know the table. May be empty.
    pub id: &'static str,
    /// A description of a table with a name, for readers that hear the page.
    pub about: &'static str,
}

/// A cell of a table.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Cell {
    /// The text.
    pub text: String,
    /// A second line in small letters. The terminal does not show it.
    pub note: String,
    /// How much the cell stands out.
    pub tone: Tone,
    /// The address to which the cell leads on a page. May be empty.
    pub to: String,
    /// A mark behind the text, which leads to the warnings. May be empty.
    pub mark: &'static str,
    /// What a page says of the cell when a reader points at it. May be empty.
    pub about: String,
    /// The value by which a reader sorts the rows.
    pub value: Option<f64>,
    /// The number of further columns that the cell takes, because it says why they are empty.
    pub spans: usize,
    /// The lines that the row comes from. A page shows their number, and them when it is chosen.
    pub raw: Option<RawLines>,
}

/// The lines of results that a row of a table comes from.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RawLines {
    /// The subject.
    pub name: String,
    /// The load.
    pub concurrency: usize,
    /// The lines, by repeat.
    pub lines: Vec<RawLine>,
}

/// A line of a results file.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RawLine {
    /// The file's name, with its directory if the experiment has several files.
    pub file: String,
    /// From 1.
    pub number: usize,
    /// The unchanged line. Empty if there are too many lines.
    pub text: String,
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
    /// Whether the cells name their rows. They stay in sight when the table is moved sideways.
    pub is_name: bool,
    /// Whether a reader of the page can sort the rows by this column.
    pub sorts: bool,
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
    /// The name of the chart and of its files. Empty if it cannot be saved.
    pub id: String,
    /// The title. May be empty.
    pub title: String,
    /// A remark above the chart. May be empty.
    pub caption: String,
    /// The chart.
    pub chart: Chart,
    /// The points as CSV. Empty if the chart cannot be saved.
    pub csv: String,
    /// Remarks beneath the chart.
    pub notes: Vec<String>,
}

impl Figure {
    /// A chart that cannot be saved.
    pub fn new(title: impl Into<String>, chart: Chart, notes: Vec<String>) -> Self {
        let [id, caption, csv] = [const { String::new() }; 3];
        Self { id, title: title.into(), caption, chart, csv, notes }
    }
}

impl Part {
    /// A heading to which links lead by its text.
    pub fn heading(text: impl Into<String>) -> Self {
        let text = text.into();
        Self::Heading(Heading { id: text.clone(), text })
    }

    /// A heading to which links lead by `id`.
    pub fn section(id: &str, text: impl Into<String>) -> Self {
        Self::Heading(Heading { id: id.to_owned(), text: text.into() })
    }

    /// A heading within a section.
    pub fn subheading(text: impl Into<String>) -> Self {
        Self::Subheading(Heading { id: String::new(), text: text.into() })
    }

    /// A heading within a section, to which links lead by `id`.
    pub fn place(id: &str, text: impl Into<String>) -> Self {
        Self::Subheading(Heading { id: id.to_owned(), text: text.into() })
    }

    /// A paragraph.
    pub fn sentence(text: impl Into<Words>) -> Self {
        Self::Sentence(text.into())
    }

    /// A remark.
    pub fn note(text: impl Into<Words>) -> Self {
        Self::Note(text.into())
    }

    /// Items beneath a heading, which may be empty.
    pub fn list<W: Into<Words>>(
        title: impl Into<String>,
        items: impl IntoIterator<Item = W>,
    ) -> Self {
        Self::List(title.into(), items.into_iter().map(Into::into).collect())
    }
}

impl Sheet {
    /// A sheet without parts.
    pub fn new(title: impl Into<String>) -> Self {
        let (title, blocks) = (title.into(), Vec::new());
        Self { title, blocks, watch: None, skip_to: None, saved: None }
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
        Self { columns: columns.into_iter().collect(), rows: rows.collect(), ..Self::default() }
    }

    /// The table with a title.
    #[must_use]
    pub fn titled(self, title: impl Into<String>) -> Self {
        Self { title: title.into(), ..self }
    }

    /// The table under a name that links and the style know.
    #[must_use]
    pub fn called(self, id: &'static str, about: &'static str) -> Self {
        Self { id, about, ..self }
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
    Column { side: Side::Left, ..right(name) }
}

/// A column of figures.
pub fn right(name: impl Into<String>) -> Column {
    let name = name.into();
    Column { name, side: Side::Right, is_turn: false, is_name: false, sorts: false }
}

/// A column of the names of rows.
pub fn names(name: impl Into<String>) -> Column {
    Column { is_name: true, ..left(name) }
}
