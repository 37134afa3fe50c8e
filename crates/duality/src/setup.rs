//! How an experiment's settings become a service's setup, and the setup a server's arguments.

use std::fs::{self, File};
use std::io;
use std::path::Path;

use duality_lab::ask::settings::{Misfit, Settings};
use duality_lab::names::did_you_mean;
use duality_services::store::RedisCalls;
use duality_services::{Entry, Setting, Setup};

/// The setup that an experiment asks for. Each cell has another store, so the store comes later.
///
/// # Errors
///
/// A [`Misfit`] if the experiment asks for something that does not exist.
pub(crate) fn of(settings: &Settings) -> Result<Setup, Misfit> {
    let redis_calls = settings.redis_calls.as_deref().map(|name| {
        RedisCalls::ALL.into_iter().find(|calls| calls.name() == name).ok_or_else(|| {
            let names = RedisCalls::ALL.map(RedisCalls::name);
            let meant = did_you_mean(name, names);
            let names = names.join(" or ");
            Misfit::new("redis-calls", format!("there is no `{name}`: choose {names}{meant}"))
        })
    });
    Ok(Setup {
        root: settings.root.clone(),
        templates: settings.templates.clone(),
        redis_calls: redis_calls.transpose()?,
        data: settings.data.clone(),
        data_size: settings.data_size,
        read_size: settings.read_size,
        upstreams: settings.upstream.clone().unwrap_or_default(),
        ..Setup::default()
    })
}

/// Refuses settings that the service called `name` does not have. The `entry` is `None` for a
/// service of the program's own.
///
/// # Errors
///
/// A [`Misfit`] that names the setting.
pub(crate) fn check(setup: &Setup, name: &str, entry: Option<&Entry>) -> Result<(), Misfit> {
    let is_senseless =
        |setting: &Setting| setup.has(*setting) && !entry.is_some_and(|entry| entry.has(*setting));
    match Setting::ALL.into_iter().find(is_senseless) {
        None => Ok(()),
        Some(setting) => Err(misfit(name, setting)),
    }
}

/// Finds missing or wrong files and directories. Otherwise each cell's server would find them.
///
/// # Errors
///
/// A [`Misfit`] that names the setting.
pub(crate) fn check_files(setup: &Setup) -> Result<(), Misfit> {
    let failure = |setting: Setting, path: &Path, remedy: &str, error: io::Error| {
        Misfit::new(setting.name(), format!("{}: {error}: {remedy}", path.display()))
    };
    for (setting, path) in [(Setting::Root, &setup.root), (Setting::Templates, &setup.templates)] {
        let Some(path) = path else { continue };
        let remedy = "name a directory that can be read";
        fs::read_dir(path).map_err(|error| failure(setting, path, remedy, error))?;
    }
    let Some(path) = &setup.data else { return Ok(()) };
    let opened = File::options().read(true).write(true).open(path);
    let remedy = "name a file that can be read and written";
    opened.map(drop).map_err(|error| failure(Setting::Data, path, remedy, error))
}

/// A misfit for a `setting` that the service called `name` does not have.
pub(crate) fn misfit(name: &str, setting: Setting) -> Misfit {
    Misfit::new(setting.name(), format!("the service `{name}` {}: leave it out", setting.absence()))
}

/// The arguments with these settings, except the store, for a server that is started as a child.
pub(crate) fn to_arguments(setup: &Setup) -> Vec<String> {
    let paths = [
        (Setting::Root, &setup.root),
        (Setting::Templates, &setup.templates),
        (Setting::Data, &setup.data),
    ];
    let paths = paths.into_iter().filter_map(|(setting, path)| {
        Some(format!("--{}={}", setting.name(), path.as_ref()?.display()))
    });
    let calls = setup.redis_calls;
    let calls = calls.map(|calls| format!("--{}={}", Setting::RedisCalls.name(), calls.name()));
    let sizes = [(Setting::DataSize, setup.data_size), (Setting::ReadSize, setup.read_size)];
    let sizes = sizes
        .into_iter()
        .filter_map(|(setting, size)| Some(format!("--{}={}", setting.name(), size?)));
    let upstreams = setup.upstreams.iter();
    let upstreams = upstreams.map(|name| format!("--{}={name}", Setting::Upstream.name()));
    paths.chain(calls).chain(sizes).chain(upstreams).collect()
}
