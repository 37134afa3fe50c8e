//! The flags about the requests of an http load, and its correct replies.

use std::fs::File;
use std::io::Read;
use std::num::NonZeroU32;
use std::path::{Path, PathBuf};

use duality_lab::Mistake;
use duality_load::{
    Expectation, ExpectedBody, Header, Listed, Method, Report, Request, Script, Statuses, Target,
    Values,
};

use super::super::{Blame, Failure, Party, heading};

#[derive(clap::Args)]
pub(super) struct RequestFlags {
    /// A header of each request, such as 'Accept: text/html'; may be given again
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", help_heading = heading::REQUESTS)]
    headers: Vec<Header>,
    /// The method [default: GET, or POST where there is a body]
    #[arg(long, help_heading = heading::REQUESTS)]
    method: Option<Method>,
    /// The body of each request
    #[arg(long, value_name = "TEXT", conflicts_with = "body_file", help_heading = heading::REQUESTS)]
    body: Option<String>,
    /// The file with the body of each request
    #[arg(long, value_name = "FILE", help_heading = heading::REQUESTS)]
    body_file: Option<PathBuf>,
    /// A cookie, such as session=abc; may be given again
    #[arg(long, value_name = "NAME=VALUE", help_heading = heading::REQUESTS)]
    cookie: Vec<String>,
    /// Credentials for basic authentication
    #[arg(long, value_name = "NAME:PASSWORD", value_parser = Header::basic, help_heading = heading::REQUESTS)]
    user: Option<Header>,
    /// Requests to choose from: lines of [WEIGHT] [METHOD] URL
    ///
    /// Each request is chosen at random, by its weight and --seed. Headers of a request, and a body
    /// as @FILE, follow on lines of their own, as in vegeta; a blank line ends them. A URL is a
    /// /PATH, or one of the target. The target may be left out if the file names it.
    #[arg(long, value_name = "FILE", help_heading = heading::REQUESTS)]
    urls: Option<PathBuf>,
    /// Values for {{column}} in URLs, headers and bodies
    ///
    /// The file has comma-separated values, and the names of the columns in its first line. Each
    /// connection has one row; further connections start again with the first row.
    #[arg(long, value_name = "FILE.csv", help_heading = heading::REQUESTS)]
    values: Option<PathBuf>,
    /// The server's Unix socket; the target names the host and the path only
    #[arg(long, value_name = "SOCKET", help_heading = heading::REQUESTS)]
    unix: Option<PathBuf>,
    /// Replace each connection after this many requests
    #[arg(long, value_name = "N", help_heading = heading::REQUESTS)]
    pub(super) requests_per_connection: Option<NonZeroU32>,
    /// Statuses of correct replies, such as 200,304 or 2xx [default: 200]
    #[arg(long, value_name = "STATUS,…", help_heading = heading::CHECKS)]
    expect_status: Option<Statuses>,
    /// Bodies of correct replies: same, any or /EXPRESSION/ [default: same]
    ///
    /// same is the body of the first reply to the same request with the same status. An expression
    /// uses the syntax of the regex crate, and must match within the body.
    #[arg(long, value_name = "BODY", help_heading = heading::CHECKS)]
    expect_body: Option<ExpectedBody>,
}

impl RequestFlags {
    /// The target of a command line: its `TARGET`, with the requests that these flags describe.
    pub(super) fn target(&self, target: Option<&str>) -> Result<Target, Failure> {
        let common = self.common()?;
        let listed = self.listed(&common)?;
        let base = self.base(target, listed.as_deref())?;
        if !self.shape_requests() {
            return Ok(base);
        }
        let requests: Vec<(u32, Request)> = match &listed {
            Some(listed) => {
                self.check_hosts(&base, listed)?;
                listed.iter().map(|listed| (listed.weight, listed.request.clone())).collect()
            }
            None => {
                let path = base.page().map_or("/", |page| page.path.as_str()).to_owned();
                vec![(1, Request { path, ..common })]
            }
        };
        let script = Script::new(&requests, self.table()?, self.expectation());
        let script = script.map_err(|(index, problem)| {
            let failure = Failure::misuse(problem);
            match &listed {
                Some(listed) => failure.at(self.line(listed[index].line)),
                None => failure,
            }
        })?;
        base.with_script(script).blame(Party::User)
    }

    /// The flag to give if replies were wrong only because other replies were expected.
    pub(super) fn hint(&self, report: &Report) -> &'static str {
        let has = |kind: &str| report.errors.contains_key(kind);
        if !["http", "h2"].iter().any(|scheme| report.target.starts_with(scheme)) {
            ""
        } else if has("wrong-bytes") && self.expect_body.is_none() {
            "; where bodies may differ, give --expect-body any"
        } else if has("wrong-status") {
            "; where another status is correct, give it to --expect-status"
        } else {
            ""
        }
    }

    /// Whether a flag says something about requests or replies.
    fn shape_requests(&self) -> bool {
        let Self { headers, method, body, body_file, cookie, user, urls, values, .. } = self;
        let is_list = !headers.is_empty() || !cookie.is_empty();
        let is_body = body.is_some() || body_file.is_some();
        let is_file = urls.is_some() || values.is_some();
        let is_expected = self.expect_status.is_some() || self.expect_body.is_some();
        is_list || is_body || is_file || is_expected || method.is_some() || user.is_some()
    }

    /// The server, and the path if there is no file of URLs.
    fn base(&self, target: Option<&str>, listed: Option<&[Listed]>) -> Result<Target, Failure> {
        let named = listed.and_then(|listed| listed.iter().find_map(|one| one.authority.as_ref()));
        let text = match (target, named) {
            (Some(target), _) => target.to_owned(),
            (None, Some(authority)) => format!("http://{authority}/"),
            (None, None) => {
                let problem = "no URL names the server: give the target too, as in \
                               `duality load --urls FILE http://127.0.0.1:8080`";
                return Err(Failure::misuse(format!("{}: {problem}", self.urls_file())));
            }
        };
        let read = match &self.unix {
            None => text.parse(),
            Some(socket) => Target::at_unix_socket(&text, socket),
        };
        let base: Target = read.blame(Party::User)?;
        let path = base.page().map_or("/", |page| page.path.as_str());
        if listed.is_some() && path != "/" {
            return Err(Failure::misuse(format!(
                "{base}: the paths are in {}: leave out {path}",
                self.urls_file()
            )));
        }
        Ok(base)
    }

    /// The common part of all requests. The path of this request has no meaning.
    fn common(&self) -> Result<Request, Failure> {
        let body = match (&self.body, &self.body_file) {
            (Some(text), _) => Some(text.clone().into_bytes()),
            (None, Some(path)) => {
                let read = read_file(path, Request::LONGEST_BODY);
                Some(read.map_err(|problem| Failure::misuse(format!("--body-file {problem}")))?)
            }
            (None, None) => None,
        };
        let implied = if body.is_some() { "POST" } else { "GET" };
        let implied = || implied.parse().expect("GET and POST are methods");
        let mut headers = self.headers.clone();
        if !self.cookie.is_empty() {
            let cookie = Header::new("Cookie", &self.cookie.join("; "));
            headers.push(cookie.blame_at(Party::User, "--cookie")?);
        }
        headers.extend(self.user.clone());
        let method = self.method.clone().unwrap_or_else(implied);
        Ok(Request { method, headers, body, ..Request::get("/") })
    }

    /// The requests of the file of URLs, if there is one.
    fn listed(&self, common: &Request) -> Result<Option<Vec<Listed>>, Failure> {
        let Some(path) = &self.urls else { return Ok(None) };
        let text = read_file(path, Listed::MOST_BYTES)
            .and_then(|bytes| {
                String::from_utf8(bytes)
                    .map_err(|_| format!("{}: not UTF-8", path.display()).into())
            })
            .map_err(|problem| Failure::misuse(format!("--urls {problem}")))?;
        let mut read = |path: &str| read_file(Path::new(path), Request::LONGEST_BODY);
        let listed = Listed::parse(&text, common, &mut read);
        listed.map(Some).blame_at(Party::User, self.urls_file())
    }

    fn table(&self) -> Result<Option<Values>, Failure> {
        let Some(path) = &self.values else { return Ok(None) };
        let table = read_file(path, Values::MOST_BYTES).and_then(|bytes| {
            Values::parse(&bytes).map_err(|problem| format!("{}: {problem}", path.display()).into())
        });
        table.map(Some).map_err(|problem| Failure::misuse(format!("--values {problem}")))
    }

    /// The statuses that the user names.
    pub(super) fn expected_statuses(&self) -> Option<Statuses> {
        self.expect_status
    }

    fn expectation(&self) -> Expectation {
        Expectation {
            statuses: self.expect_status.unwrap_or_default(),
            body: self.expect_body.clone().unwrap_or_default(),
        }
    }

    /// All URLs must name one server, since each connection carries all of them.
    fn check_hosts(&self, base: &Target, listed: &[Listed]) -> Result<(), Failure> {
        let plain = |authority: &str| {
            let authority = authority.to_ascii_lowercase();
            authority.strip_suffix(":80").map(str::to_owned).unwrap_or(authority)
        };
        let host = base.page().map_or(String::new(), |page| plain(&page.host));
        let is_another = |one: &&Listed| {
            one.authority.as_ref().is_some_and(|authority| plain(authority) != host)
        };
        match listed.iter().find(is_another) {
            None => Ok(()),
            Some(Listed { line, authority, .. }) => Err(Failure::misuse(format!(
                "{}: {} is not the server of {base}: make one load for each server",
                self.line(*line),
                authority.as_deref().unwrap_or_default()
            ))),
        }
    }

    fn urls_file(&self) -> String {
        format!("--urls {}", self.urls.as_deref().unwrap_or(Path::new("")).display())
    }

    /// The place of a line of the file of URLs.
    fn line(&self, number: usize) -> String {
        format!("{}: line {number}", self.urls_file())
    }
}

/// Reads a file of at most `most` bytes. A mistake names the file.
fn read_file(path: &Path, most: usize) -> Result<Vec<u8>, Mistake> {
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(most as u64 + 1).read_to_end(&mut bytes));
    match read {
        Err(error) => Err(format!("{}: {error}", path.display()).into()),
        Ok(length) if length > most => {
            Err(format!("{}: it is longer than {} MiB", path.display(), most >> 20).into())
        }
        Ok(_) => Ok(bytes),
    }
}
