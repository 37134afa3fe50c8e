//! Templates: the built-in one, and those of a directory, which are read again when their files
//! change.
//!
//! The operator writes the templates, so their content is trusted. But a mistake in a template must
//! not stop the server. Templates are compiled on a separate stack, because the parser recurses.
//! Their steps and the length of their pages are bounded. An error in a template is reported once,
//! on standard error, and its page gets 500.

use std::{
    collections::HashMap,
    io::{self, Write},
    path::Path,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    thread,
};

use duality_runtime::{
    fs::{Kind, Metadata, Root},
    task,
};
use minijinja::{AutoEscape, Environment, Value};

/// The template that needs no directory.
pub(super) const BUILT_IN: &str = include_str!("template.html");

/// The most bytes in a template's file.
const LONGEST_FILE: u64 = 256 << 10;

/// The most bytes in a rendered page.
pub(super) const LONGEST_PAGE: usize = 1 << 20;

/// The most steps of a template. The built-in one takes about 300 for 20 remarks.
const STEPS: u64 = 100_000;

/// The most nested macros and recursive loops, since tasks may have small stacks. A macro counts as
/// 4.
const DEPTH: usize = 40;

/// The parser's stack. The deepest template that the parser allows takes less than a quarter of it.
const PARSER_STACK: usize = 4 << 20;

/// The most templates that are kept compiled. The bound matters on file systems where one file has
/// many names.
const KEPT: usize = 256;

/// All templates of a service.
pub(super) struct Templates {
    root: Option<Root>,
    built_in: Arc<Template>,
    kept: Mutex<HashMap<Box<str>, Kept>>,
}

/// A template, and the second in which its file was last checked.
struct Kept {
    checked: u64,
    file: Found,
    template: Arc<Template>,
}

/// The result of a search for a template's file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Found {
    Nothing,
    File(Metadata),
    /// The file could not be checked or read. A later attempt may succeed although the file is the
    /// same.
    Failure(io::ErrorKind),
}

impl Templates {
    /// The templates of `directory`, and the built-in one as `guestbook` if the directory has no
    /// such file.
    ///
    /// # Errors
    ///
    /// The directory cannot be opened.
    pub(super) fn open(directory: Option<&Path>) -> io::Result<Self> {
        let root = directory.map(|path| {
            Root::open(path).map_err(|error| {
                let (path, remedy) = (path.display(), "give a directory of NAME.html files");
                let message = format!("cannot read templates in {path}: {error}; {remedy}");
                io::Error::new(error.kind(), message)
            })
        });
        let built_in = Arc::new(Template::compile("the built-in page", BUILT_IN.to_owned())?);
        Ok(Templates { root: root.transpose()?, built_in, kept: Mutex::default() })
    }

    /// Whether there may be a template of this name.
    pub(super) fn may_have(&self, name: &str) -> bool {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_".contains(&byte);
        name == super::PAGE
            || self.root.is_some() && (1..=64).contains(&name.len()) && name.bytes().all(plain)
    }

    /// The template called `name`, as of the second `now`. [`may_have`](Self::may_have) must have
    /// accepted the name.
    pub(super) async fn find(&self, name: &str, now: u64) -> Option<Arc<Template>> {
        let Some(root) = &self.root else {
            return (name == super::PAGE).then(|| Arc::clone(&self.built_in));
        };
        let earlier = match self.lock().get_mut(name) {
            Some(kept) if kept.checked == now => return Some(Arc::clone(&kept.template)),
            Some(kept) => {
                // This task checks the file. Meanwhile other tasks use the template as it is.
                kept.checked = now;
                Some((kept.file, Arc::clone(&kept.template)))
            }
            None => None,
        };
        let path = format!("{name}.html");
        let (file, failure) = match root.stat(&path).await {
            Ok(metadata) => (Found::File(metadata), None),
            Err(error) if error.kind() == io::ErrorKind::NotFound => (Found::Nothing, None),
            Err(error) => (Found::Failure(error.kind()), Some(error)),
        };
        if let Some((before, template)) = earlier
            && before == file
        {
            return Some(template);
        }
        let read = match (file, failure) {
            (_, Some(error)) => Err(error),
            (Found::File(metadata), _) => read(root, &path, metadata).await,
            _ if name == super::PAGE => Ok(Arc::clone(&self.built_in)),
            _ => {
                self.lock().remove(name);
                return None;
            }
        };
        let (file, template) = match read {
            Ok(template) => (file, template),
            Err(error) => (Found::Failure(error.kind()), Arc::new(Template::broken(&path, &error))),
        };
        let mut kept = self.lock();
        if kept.len() >= KEPT {
            kept.clear();
        }
        kept.insert(name.into(), Kept { checked: now, file, template: Arc::clone(&template) });
        Some(template)
    }

    /// No holder of the lock can panic half-way, so data behind a poisoned lock is sound.
    fn lock(&self) -> MutexGuard<'_, HashMap<Box<str>, Kept>> {
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Reads and compiles a file.
///
/// # Errors
///
/// The file could not be read. The next attempt may succeed.
async fn read(root: &Root, path: &str, metadata: Metadata) -> io::Result<Arc<Template>> {
    let wrong = |what: &str| Ok(Arc::new(Template::broken(path, &io::Error::other(what))));
    if metadata.kind != Kind::File {
        return wrong("it is not a file");
    }
    if metadata.length > LONGEST_FILE {
        return wrong("its file is longer than 256 KiB");
    }
    // The bound on files is far below the range of usize.
    let bytes = root.open_file(path).await?.read_at(0, metadata.length as usize).await?;
    let Ok(source) = String::from_utf8(bytes) else {
        return wrong("it is not in UTF-8");
    };
    let name = path.to_owned();
    task::offload(move || Template::compile(&name, source).map(Arc::new)).await
}

/// A template, ready to be rendered or known to be broken.
pub(super) struct Template {
    /// The template's name in messages.
    name: String,
    compiled: Option<Environment<'static>>,
    /// Whether its page depends on the store.
    shows_store: bool,
    /// Whether its failure has been reported on standard error.
    told: AtomicBool,
}

/// The template failed, and the reason is on standard error.
#[derive(Debug)]
pub(super) struct Broken;

impl Template {
    /// Compiles a template. A text with an error becomes a broken template.
    ///
    /// # Errors
    ///
    /// The parser's thread cannot be started.
    fn compile(name: &str, source: String) -> io::Result<Self> {
        let compiled = thread::scope(|scope| {
            let parser = thread::Builder::new().stack_size(PARSER_STACK);
            let parser = parser.spawn_scoped(scope, || environment(name, source))?;
            parser.join().map_err(|_| io::Error::other("the parser of templates panicked"))
        })?;
        let environment = match compiled {
            Ok(environment) => environment,
            Err(error) => return Ok(Template::broken(name, &error)),
        };
        let shows_store = environment.get_template(name).is_ok_and(|template| {
            let variables = template.undeclared_variables(false);
            ["visitors", "remarks"].iter().any(|&name| variables.contains(name))
        });
        let (name, told) = (name.to_owned(), AtomicBool::new(false));
        Ok(Template { name, compiled: Some(environment), shows_store, told })
    }

    fn broken(name: &str, error: &dyn std::error::Error) -> Self {
        let (name, told) = (name.to_owned(), AtomicBool::new(false));
        let template = Template { name, compiled: None, shows_store: false, told };
        template.tell(error);
        template
    }

    /// Whether it shows visitors or remarks.
    pub(super) fn shows_store(&self) -> bool {
        self.shows_store
    }

    /// The page that the template makes of `variables`.
    pub(super) fn render(&self, variables: &Value) -> Result<String, Broken> {
        let environment = self.compiled.as_ref().ok_or(Broken)?;
        render(environment, &self.name, variables).map_err(|error| {
            self.tell(&error);
            Broken
        })
    }

    fn tell(&self, error: &dyn std::error::Error) {
        if self.told.swap(true, Ordering::Relaxed) {
            return;
        }
        let mut message = error.to_string();
        if let Some(cause) = error.source() {
            message = format!("{message}: {cause}");
        }
        let (name, message) = (&self.name, message.replace('\n', " "));
        super::tell(format_args!(
            "the template {name} cannot be shown: {message}; its page is answered by 500 until \
             that is put right"
        ));
    }
}

/// Compiles a template, with bounds on its steps and depth. The parser recurses.
pub(super) fn environment(
    name: &str,
    source: String,
) -> Result<Environment<'static>, minijinja::Error> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    environment.set_fuel(Some(STEPS));
    environment.set_recursion_limit(DEPTH);
    environment.add_template_owned(name.to_owned(), source)?;
    Ok(environment)
}

/// The page that a template makes of `variables`.
pub(super) fn render(
    environment: &Environment<'_>,
    name: &str,
    variables: &Value,
) -> Result<String, minijinja::Error> {
    let mut page = Page(Vec::with_capacity(8 << 10));
    environment.get_template(name)?.render_captured_to(variables, &mut page)?;
    // minijinja writes UTF-8.
    String::from_utf8(page.0).map_err(|error| {
        minijinja::Error::new(minijinja::ErrorKind::WriteFailure, error.to_string())
    })
}

/// The output so far.
struct Page(Vec<u8>);

impl Write for Page {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        if self.0.len() + bytes.len() > LONGEST_PAGE {
            return Err(io::Error::other(format!("it renders more than {LONGEST_PAGE} bytes")));
        }
        self.0.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use minijinja::context;

    use super::*;

    fn render(source: &str) -> Result<String, Broken> {
        let template = Template::compile("test", source.to_owned()).unwrap();
        let remarks = [context! { guest => "<b>", text => "a & \"b\"" }];
        template.render(&context! { visitors => 7, remarks })
    }

    #[test]
    fn what_guests_write_is_escaped_whatever_the_template_is_called() {
        let page = render("{% for r in remarks %}{{ r.guest }}{{ r.text }}{% endfor %}").unwrap();
        assert_eq!(page, "&lt;b&gt;a &amp; &quot;b&quot;");
        let built_in = render(BUILT_IN).unwrap();
        assert!(built_in.contains("<span id=\"visitors\">7</span>"), "{built_in}");
        assert!(built_in.contains("<bdi>&lt;b&gt;</bdi>"), "{built_in}");
    }

    #[test]
    fn a_template_that_shows_nothing_of_the_store_is_known() {
        let shows_store =
            |source: &str| Template::compile("test", source.to_owned()).unwrap().shows_store();
        assert!(shows_store(BUILT_IN));
        assert!(shows_store("{% if visitors > 3 %}many{% endif %}"));
        assert!(!shows_store("{% set remarks = [] %}{{ remarks }}{{ refusal }} visitors"));
    }

    #[test]
    fn no_template_takes_the_server_down() {
        for source in [
            "{% for",
            "{{ visitors.a.b }}",
            "{{ nothing() }}",
            "{% include 'other.html' %}",
            "{% for a in range(9999) %}{% for b in range(9999) %}{% endfor %}{% endfor %}",
            "{% for a in range(9999) %}{{ 'x' * 1000 }}{% endfor %}",
            "{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
            "{% for x in [[1]] recursive %}{{ loop([[1]]) }}{% endfor %}",
            &format!("{}1{}", "{{ (".to_owned() + &"(".repeat(10_000), ")".repeat(10_001)),
            &"{% if 1 %}".repeat(10_000),
        ] {
            // The thread's stack is as small as a task's may be. The parser has its own stack.
            thread::scope(|scope| {
                let small = thread::Builder::new().stack_size(96 << 10);
                small.spawn_scoped(scope, || assert!(render(source).is_err(), "{source}")).unwrap();
            });
        }
    }
}
