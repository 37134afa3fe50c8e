//! Pages of HTML, from a template and in one style. A page is on disk completely or not at all.

use std::io::Write;
use std::path::Path;
use std::{fs, io};

use minijinja::{AutoEscape, Environment, Value};

/// A page from its template.
pub(crate) fn page(template: &'static str, values: Value) -> String {
    rendered(&environment(&[("page", template)]), "page", values)
}

/// Templates by name, beside the style and the script that all pages have.
pub(crate) fn environment(templates: &[(&'static str, &'static str)]) -> Environment<'static> {
    let mut environment = Environment::new();
    environment.set_auto_escape_callback(|_| AutoEscape::Html);
    let own = [("style", include_str!("style.css")), ("theme", include_str!("theme.js"))];
    for (name, template) in own.iter().chain(templates) {
        environment.add_template(name, template).expect("the templates are part of the program");
    }
    environment
}

/// A template with its values.
pub(crate) fn rendered(environment: &Environment<'_>, template: &str, values: Value) -> String {
    let template = environment.get_template(template);
    template
        .and_then(|template| template.render(values))
        .expect("the templates are part of the program, and use what they are given")
}

/// Data for a `<script type="application/json">`: no text in the data can end the element.
pub(crate) fn script_data(data: &impl serde::Serialize) -> Value {
    let json = serde_json::to_string(data).expect("it is plain data");
    Value::from_safe_string(json.replace('<', "\\u003c"))
}

/// Writes a file in one step, so that a full disk leaves the old file intact.
///
/// # Errors
///
/// Fails if the file cannot be written.
pub fn write_whole(path: &Path, contents: &(impl AsRef<[u8]> + ?Sized)) -> io::Result<()> {
    write_with_mode(path, contents.as_ref(), 0o644)
}

/// Writes a file that its user alone may read, as [`write_whole`] does.
///
/// # Errors
///
/// The file cannot be written.
pub fn write_private(path: &Path, contents: &(impl AsRef<[u8]> + ?Sized)) -> io::Result<()> {
    write_with_mode(path, contents.as_ref(), 0o600)
}

fn write_with_mode(path: &Path, contents: &[u8], mode: u32) -> io::Result<()> {
    let folder = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = tempfile::Builder::new()
        .prefix(".duality-")
        .tempfile_in(folder.unwrap_or(Path::new(".")))?;
    file.write_all(contents)?;
    // A temporary file is private. The finished file gets its permissions.
    let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
    file.as_file().set_permissions(mode)?;
    if is_device(path) {
        return fs::write(path, contents);
    }
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Whether a file cannot replace `path`, as with a pipe or /dev/stdout. A symbolic link elsewhere,
/// which another user may have planted, is not followed: the file replaces the link.
fn is_device(path: &Path) -> bool {
    let found = match path.starts_with("/dev") {
        true => fs::metadata(path),
        false => fs::symlink_metadata(path),
    };
    found.is_ok_and(|found| !found.is_file() && !found.is_symlink())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_symbolic_link_is_not_followed() {
        let folder = tempfile::tempdir().unwrap();
        let (theirs, planted) = (folder.path().join("theirs"), folder.path().join("page.html"));
        fs::write(&theirs, "theirs").unwrap();
        for target in [&*theirs, Path::new("/dev/full")] {
            std::os::unix::fs::symlink(target, &planted).unwrap();
            write_whole(&planted, "ours").unwrap();
            assert!(fs::symlink_metadata(&planted).unwrap().is_file());
            fs::remove_file(&planted).unwrap();
        }
        assert_eq!(fs::read_to_string(&theirs).unwrap(), "theirs");
    }

    #[test]
    fn data_cannot_end_its_element() {
        let data = script_data(&["</script><script>alert(1)</script>"]).to_string();
        assert!(!data.contains('<'), "{data}");
    }

    #[test]
    fn a_page_is_written_whole_or_not_at_all() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("page.html");
        write_whole(&path, "one").unwrap();
        write_whole(&path, "two").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "two");
        assert_eq!(fs::read_dir(folder.path()).unwrap().count(), 1);
        assert!(write_whole(&folder.path().join("absent/page.html"), "x").is_err());
        write_whole(Path::new("/dev/null"), "x").unwrap();
    }
}
