//! Finds the page that a target names: a built-in page, or a file beneath the root.

use std::{
    borrow::Cow,
    io,
    path::PathBuf,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
};

use duality_runtime::{
    fs::{Kind, Metadata, Root},
    log, reload,
};
use rustix::io::Errno;

use super::{
    cache::{Cache, Known},
    date,
    demo::Demo,
    limits::Config,
    mime,
    page::{self, Content, Page},
    reply::Reply,
    status::{self, Status},
    target::{self, Resolved},
};

/// What is known of a target without a wait.
pub enum Looked {
    /// The page, or the reply to send instead.
    Known(Result<Arc<Page>, Reply>),
    /// Nothing. The server has to look at the disk.
    Unknown(Errand),
}

/// The file to look for on disk.
pub struct Errand {
    path: String,
    query: String,
    now: u64,
    /// The page to compare with the disk, and its file's metadata.
    before: Option<(Arc<Page>, Metadata)>,
}

/// The pages of a service.
pub(super) enum Site {
    Demo(Demo),
    Directory(Directory),
}

/// Files on disk.
pub(super) struct Directory {
    path: PathBuf,
    root: Mutex<Root>,
    /// The number of reloads so far.
    reloads: AtomicU64,
    cache: Cache,
    cached_file: u64,
}

impl Site {
    /// The directory that `config` names, or the demonstration.
    pub(super) fn open(config: &Config) -> io::Result<Self> {
        let Some(path) = &config.root else {
            return Ok(Site::Demo(Demo::new()));
        };
        let root = Root::open(path).map_err(|error| {
            let path = path.display();
            let remedy = "give a directory that this user may read and search";
            io::Error::new(
                error.kind(),
                format!("cannot serve files beneath {path}: {error}; {remedy}"),
            )
        })?;
        let limits = &config.limits;
        let (cache, cached_file) = (Cache::new(limits.cache), limits.cached_file);
        let (path, root) = (path.clone(), Mutex::new(root));
        let reloads = AtomicU64::new(reload::requests());
        Ok(Site::Directory(Directory { path, root, reloads, cache, cached_file }))
    }

    /// The known reply to a target in the second `now`.
    pub(super) fn look(&self, target: &str, now: u64) -> Looked {
        let resolved = match target::resolve(target) {
            Ok(resolved) => resolved,
            Err(refusal) => return Looked::Known(Err(refusal.into())),
        };
        match self {
            Site::Demo(demo) => {
                Looked::Known(demo.find(&resolved.path).ok_or_else(|| (&status::NOT_FOUND).into()))
            }
            Site::Directory(directory) => directory.look(resolved, now),
        }
    }

    /// Looks at the disk.
    ///
    /// # Errors
    ///
    /// The reply to send instead of the page.
    pub(super) async fn run(&self, errand: Errand) -> Result<Arc<Page>, Reply> {
        match self {
            // `look` of a demonstration site returns no errand.
            Site::Demo(_) => Err((&status::NOT_FOUND).into()),
            Site::Directory(directory) => directory.run(errand).await,
        }
    }
}

impl Directory {
    fn look(&self, resolved: Resolved<'_>, now: u64) -> Looked {
        if self.reloads.load(Ordering::Relaxed) != reload::requests() {
            self.reload();
        }
        let Resolved { path, query } = resolved;
        let before = match self.cache.look_up(&path, now) {
            Known::Current(page) => return Looked::Known(Ok(page)),
            Known::ToCheck(page, before) => Some((page, before)),
            Known::Nothing => None,
        };
        let (path, query) = (path.into_owned(), query.to_owned());
        Looked::Unknown(Errand { path, query, now, before })
    }

    /// Opens the root again, which may be another directory now, and forgets all pages. If a page
    /// of the old root still comes into the cache, it is compared with the disk within a second.
    #[cold]
    fn reload(&self) {
        let requests = reload::requests();
        if self.reloads.swap(requests, Ordering::Relaxed) == requests {
            return;
        }
        match Root::open(&self.path) {
            Ok(root) => *self.root.lock().unwrap_or_else(PoisonError::into_inner) = root,
            Err(error) => {
                let path = self.path.display();
                log::warn(format_args!(
                    "cannot open {path} again: {error}; serving the files of the old root"
                ));
            }
        }
        self.cache.clear();
    }

    fn root(&self) -> Root {
        self.root.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    async fn run(&self, errand: Errand) -> Result<Arc<Page>, Reply> {
        let Errand { path, query, now, before } = errand;
        if let Some((page, before)) = before {
            if self.root().stat(&path).await.is_ok_and(|metadata| metadata == before) {
                return Ok(page);
            }
            self.cache.remove(&path);
        }
        self.read(&path, &query, now).await
    }

    async fn read(&self, path: &str, query: &str, now: u64) -> Result<Arc<Page>, Reply> {
        let file = self.root().open_file(path).await.map_err(|error| status_of(&error))?;
        let metadata = file.metadata().await.map_err(|error| status_of(&error))?;
        match metadata.kind {
            Kind::File => {}
            Kind::Directory => {
                let location = target::with_slash(path, query);
                return Err(Reply::from(&status::MOVED_PERMANENTLY).with("Location", location));
            }
            Kind::Other => return Err((&status::FORBIDDEN).into()),
        }
        // RFC 9110, section 8.8.2.1: no reply may say that a file was changed after it was sent.
        let last_modified = date::seconds_of(metadata.modified).min(now);
        let (content_type, tag) = (mime::content_type(path), page::entity_tag(&metadata));
        if metadata.length > self.cached_file {
            let (length, content) = (metadata.length, Content::File(file));
            return Ok(Arc::new(Page::new(content_type, tag, last_modified, length, content)));
        }
        // The bound on cached files is far below the range of usize.
        let body = file.read_at(0, metadata.length as usize).await;
        let body = body.map_err(|error| status_of(&error))?;
        let (length, content) = (body.len() as u64, Content::Memory(Cow::Owned(body)));
        let page = Arc::new(Page::new(content_type, tag, last_modified, length, content));
        self.cache.insert(path, &page, metadata, now);
        Ok(page)
    }
}

/// The status for a file that could not be opened or read.
fn status_of(error: &io::Error) -> &'static Status {
    match Errno::from_io_error(error) {
        Some(Errno::MFILE | Errno::NFILE | Errno::NOMEM) => return &status::SERVICE_UNAVAILABLE,
        // A circle of links, or a UNIX socket.
        Some(Errno::LOOP | Errno::NXIO) => return &status::FORBIDDEN,
        Some(Errno::NAMETOOLONG) => return &status::NOT_FOUND,
        _ => {}
    }
    match error.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => &status::NOT_FOUND,
        io::ErrorKind::PermissionDenied => &status::FORBIDDEN,
        io::ErrorKind::OutOfMemory => &status::SERVICE_UNAVAILABLE,
        _ => &status::INTERNAL_SERVER_ERROR,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_become_statuses() {
        for (error, code) in [
            (Errno::NOENT, 404),
            (Errno::NOTDIR, 404),
            (Errno::NAMETOOLONG, 404),
            (Errno::ACCESS, 403),
            (Errno::PERM, 403),
            (Errno::LOOP, 403),
            (Errno::NXIO, 403),
            (Errno::MFILE, 503),
            (Errno::NFILE, 503),
            (Errno::NOMEM, 503),
            (Errno::IO, 500),
        ] {
            assert_eq!(status_of(&error.into()).code, code, "{error:?}");
        }
        assert_eq!(status_of(&io::ErrorKind::PermissionDenied.into()).code, 403);
    }
}
