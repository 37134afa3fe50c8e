//! The part of the guestbook that the fuzz targets drive: from a form to the page that shows its
//! remark.

use minijinja::{Environment, context};

use super::{form, remark, templates, variables_of};
use crate::store::{Remark, Visit};

/// The values of two fields of a form; `None` if the form is malformed.
#[must_use]
pub fn form(body: &[u8], names: [&str; 2]) -> Option<[Option<String>; 2]> {
    form::parse(body, names).ok()
}

/// The remark made of a guest's input, if it is accepted.
#[must_use]
pub fn remark(guest: &str, text: &str) -> Option<Remark> {
    remark::check(guest, text).ok()
}

/// The built-in page, for many renderings.
pub struct Page(Environment<'static>);

impl Page {
    /// Compiles the page.
    ///
    /// # Panics
    ///
    /// The built-in page is broken.
    #[must_use]
    pub fn built_in() -> Self {
        Page::of(templates::BUILT_IN).expect("it is well-formed")
    }

    /// Compiles an operator's template. `None` if it is malformed.
    #[must_use]
    pub fn of(source: &str) -> Option<Self> {
        templates::environment("page", source.to_owned()).ok().map(Page)
    }

    /// The page that shows a remark. `None` if the template is broken.
    #[must_use]
    pub fn with(&self, remark: &Remark) -> Option<String> {
        let visit = Visit { visitors: 7, remarks: vec![remark.clone()] };
        self.render(&variables_of(&visit))
    }

    /// The page that asks the guest to correct a remark.
    #[must_use]
    pub fn refusing(&self, guest: &str, text: &str) -> Option<String> {
        self.render(&context! { refusal => "no", guest, text })
    }

    /// # Panics
    ///
    /// The page is longer than the bound.
    fn render(&self, variables: &minijinja::Value) -> Option<String> {
        let page = templates::render(&self.0, "page", variables).ok()?;
        assert!(page.len() <= templates::LONGEST_PAGE);
        Some(page)
    }
}
