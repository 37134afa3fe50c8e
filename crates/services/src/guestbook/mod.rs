//! The guestbook: http with a page to sign. A [`Store`] counts guests and keeps their remarks.
//!
//! | request | reply |
//! | --- | --- |
//! | `GET /guestbook` | counts a visitor, and shows the counter and the newest 20 remarks |
//! | `POST /guestbook` | keeps a remark (`guest-name`, `guest-remarks`); 303 to `/guestbook` |
//! | `GET /NAME` | the template `NAME.html`, if the templates directory has one |
//! | anything else | the files, as the [http] service does |
//!
//! `guestbook.html` in the templates directory takes the place of the built-in page. Templates are
//! in the language of [minijinja](https://docs.rs/minijinja), without `include`. Their variables:
//!
//! * `visitors`: the number of visitors, this one included. `remarks`: the newest remarks, newest
//!   first, each with `guest` and `text`. A template that mentions neither does not count the
//!   visitor or use the store.
//! * `refusal`: why the posted remark is not accepted. Then `guest` and `text` are set as typed,
//!   and `visitors` and `remarks` are not.
//!
//! The reply to a remark that is not accepted is 422 and the page, so that the guest can correct
//! it. Such a remark is not stored. 303 means that the remark is kept. Without the store the reply
//! is 503, and the remark may or may not have been kept. A client that leaves while its request
//! waits for the store frees its place within a second. A form can only be posted from a page of
//! this host: see [`Guestbook::serve`].

mod form;
#[cfg(fuzzing)]
pub(crate) mod fuzzing;
mod remark;
mod templates;

use std::{io, path::Path};

use duality_runtime::{log, net::TcpStream, task};
use minijinja::{Value, context};

use crate::{
    Entry, Setting, Setup, SetupError, clock,
    http::{self, Answer, Asked, Http, Offer, Pages, Reply, status},
    store::{self, Calls, Store, Visit},
};
use templates::{Template, Templates};

/// The guestbook, as the registry lists it.
pub const ENTRY: Entry = Entry {
    name: "guestbook",
    summary: "http with a page that visitors sign",
    protocol: "as http; form fields guest-name and guest-remarks",
    open: |setup| Ok(Guestbook::open(setup)?.http.handler()),
    settings: &[
        Setting::Root,
        Setting::Templates,
        Setting::RedisCalls,
        Setting::Store,
        Setting::Durable,
        Setting::HeadTime,
        Setting::BodyTime,
        Setting::IdleTime,
        Setting::WriteTime,
        Setting::HalfClosed,
    ],
    keeps: true,
    stack: store::STACK,
    logs_requests: true,
    ..Entry::PLAIN
};

/// The guestbook's page, and the name of its template.
const PAGE: &str = "guestbook";

/// Remarks that the page shows.
const SHOWN: usize = 20;

/// The most bytes in a form. The longest remark fits, even if each character has four bytes and
/// each byte is escaped.
const LONGEST_FORM: usize = 16 << 10;

/// A guestbook, shared by all its connections; a clone is the same guestbook.
#[derive(Clone)]
pub struct Guestbook {
    http: Http,
}

impl Guestbook {
    /// A guestbook in `store`, in front of the files that `config` names. `templates` is the
    /// directory of its templates.
    ///
    /// # Errors
    ///
    /// The root or the templates directory cannot be opened.
    pub fn new(config: http::Config, templates: Option<&Path>, store: Store) -> io::Result<Self> {
        Self::serving(config, templates, store, false)
    }

    fn serving(
        config: http::Config,
        templates: Option<&Path>,
        store: Store,
        serves_half_closed: bool,
    ) -> io::Result<Self> {
        let templates = Templates::open(templates)?;
        let pages = Guestpages { templates, store, serves_half_closed };
        Ok(Guestbook { http: Http::with_pages(config, pages)? })
    }

    /// The guestbook that `setup` asks for.
    fn open(setup: &Setup) -> Result<Self, SetupError> {
        let store = setup.open_store(ENTRY.name)?;
        Self::serving(setup.http(), setup.templates.as_deref(), store, setup.half_closed)
            .map_err(|error| SetupError::Choice { flags: "--root or --templates", error })
    }

    /// Answers the requests on one connection until either side ends it.
    ///
    /// A page of another site can make a browser post a form without the guest's knowledge. So a
    /// form of another site gets 403. The browser names the origin of a form in `Sec-Fetch-Site`,
    /// or in `Origin`, which must have the host of `Host`. A proxy in front must not change `Host`.
    /// A client that sends neither field is not a browser.
    ///
    /// # Errors
    ///
    /// The errors of [`Http::serve`].
    pub fn serve(&self, stream: TcpStream) -> impl Future<Output = io::Result<()>> + Send + use<> {
        self.http.serve(stream)
    }

    /// Answers 503 to a connection beyond the limit, as [`Http::refuse`] does.
    ///
    /// # Errors
    ///
    /// The connection broke.
    pub async fn refuse(&self, stream: TcpStream) -> io::Result<()> {
        self.http.refuse(stream).await
    }
}

/// The pages that a guestbook has beside the files.
struct Guestpages {
    templates: Templates,
    store: Store,
    /// Whether a client that has shut down its sending side is waited for, however long it takes.
    serves_half_closed: bool,
}

impl Pages for Guestpages {
    fn offer(&self, path: &str) -> Option<Offer> {
        let post = (path == PAGE).then_some(LONGEST_FORM);
        self.templates.may_have(path).then_some(Offer { post })
    }

    fn screen(&self, asked: &Asked<'_>) -> Result<(), Reply> {
        if !is_from_here(asked)? {
            return Err(Reply::explained(&status::FORBIDDEN));
        }
        match asked.field("Content-Type")? {
            Some(content_type) if form::is_form(content_type) => Ok(()),
            // RFC 9110, section 12.5.1: in a reply, `Accept` says which types may be sent.
            _ => Err(Reply::explained(&status::UNSUPPORTED_MEDIA_TYPE).with("Accept", form::TYPE)),
        }
    }

    fn answer<'p>(&'p self, asked: Asked<'p>) -> Answer<'p> {
        Box::pin(async move {
            let template = self.templates.find(asked.path, clock::seconds()).await?;
            let client = asked.client(self.serves_half_closed);
            let store = self.store.on_behalf_of(client);
            let reply = match asked.is_post {
                true => sign(asked.body, &template, store).await,
                false => show(asked.path, &template, store).await,
            };
            task::stage("http: reply").await;
            Some(reply)
        })
    }
}

async fn show(path: &str, template: &Template, store: Calls<'_>) -> Reply {
    let variables = if path == PAGE || template.shows_store() {
        task::stage("guestbook: visit").await;
        match store.visit(SHOWN).await {
            Ok(visit) => variables_of(&visit),
            Err(_) => return missed(),
        }
    } else {
        context! {}
    };
    page(&status::OK, template, &variables)
}

async fn sign(body: &[u8], template: &Template, store: Calls<'_>) -> Reply {
    let Ok([guest, text]) = form::parse(body, ["guest-name", "guest-remarks"]) else {
        return Reply::explained(&status::BAD_REQUEST);
    };
    let (guest, text) = (guest.unwrap_or_default(), text.unwrap_or_default());
    let remark = match remark::check(&guest, &text) {
        Ok(remark) => remark,
        Err(refusal) => {
            let variables = context! { refusal, guest, text };
            return page(&status::UNPROCESSABLE_CONTENT, template, &variables);
        }
    };
    task::stage("guestbook: sign").await;
    match store.add_remark(&remark).await {
        Ok(()) => Reply::explained(&status::SEE_OTHER).with("Location", "/guestbook"),
        Err(_) => missed(),
    }
}

/// The reply if the store failed. The store has told the operator.
fn missed() -> Reply {
    Reply::explained(&status::SERVICE_UNAVAILABLE).with("Retry-After", "1")
}

/// Writes a line to standard error, if there is one.
fn tell(message: std::fmt::Arguments<'_>) {
    log::warn(format_args!("guestbook: {message}"));
}

fn variables_of(visit: &Visit) -> Value {
    let remarks: Vec<Value> = visit
        .remarks
        .iter()
        .map(|remark| context! { guest => remark.guest, text => remark.text })
        .collect();
    context! { visitors => visit.visitors, remarks }
}

fn page(status: &'static status::Status, template: &Template, variables: &Value) -> Reply {
    match template.render(variables) {
        Ok(text) => Reply::html(status, text),
        Err(templates::Broken) => Reply::explained(&status::INTERNAL_SERVER_ERROR),
    }
}

/// Whether a form comes from a page of this host, or from a client that is not a browser.
fn is_from_here(asked: &Asked<'_>) -> Result<bool, Reply> {
    if let Some(site) = asked.field("Sec-Fetch-Site")? {
        // "none": the request does not come from a page.
        return Ok(matches!(site, b"same-origin" | b"none"));
    }
    let Some(origin) = asked.field("Origin")? else {
        return Ok(true);
    };
    let host = asked.field("Host")?.unwrap_or_default();
    let origin = origin.strip_prefix(b"http://").or_else(|| origin.strip_prefix(b"https://"));
    Ok(origin.is_some_and(|origin| origin.eq_ignore_ascii_case(host)))
}
