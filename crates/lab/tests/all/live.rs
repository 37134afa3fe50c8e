//! The live page in a browser, as states come: with scripts and without.

use std::fs;
use std::path::PathBuf;
use std::thread;

use duality_lab::live::{Bar, Cell, Page, Rates, Row, State, Table};
use tempfile::TempDir;

use crate::chromium::Page as Browser;

/// A browser at a page that has been published.
fn open(page: &Page) -> Option<(TempDir, Browser)> {
    let folder = tempfile::tempdir().unwrap();
    let blank = folder.path().join("blank.html");
    fs::write(&blank, "<!doctype html>").unwrap();
    let mut browser = Browser::open(&blank, &folder.path().join("profile"), 390)?;
    browser.go(&page.url());
    Some((folder, browser))
}

/// A map of one cell: how much worse `threads` is, with an interval of this radius.
fn state(radius: Option<f64>) -> State {
    let cell = match radius {
        None => Cell::plain("·"),
        Some(radius) => Cell {
            text: format!("+39 [{:.0} to {:.0}]", 39.0 - radius, 39.0 + radius),
            bar: Some(Bar {
                from: 0.5 - radius / 100.0,
                to: 0.5 + radius / 100.0,
                mark: Some(0.5),
            }),
            ..Cell::default()
        },
    };
    let mut rates = Rates::default();
    [1.0, 2.0, 4.0].into_iter().for_each(|rate| rates.push(rate));
    State {
        title: "http: <two> architectures".to_owned(),
        now: "block 3 at 10 connections".to_owned(),
        spark: rates.spark(),
        tables: vec![Table {
            title: "The map so far".to_owned(),
            caption: "Percent worse than the best.".to_owned(),
            columns: ["connections", "10"].map(str::to_owned).to_vec(),
            rows: vec![Row { name: "threads".to_owned(), cells: vec![cell] }],
        }],
        ..State::default()
    }
}

/// Waits until an expression is true on the page.
fn wait_for(browser: &mut Browser, expression: &str) {
    let waiting = format!(
        "new Promise(done => {{ const look = () => {expression} ? done(true) : \
         setTimeout(look, 20); look(); }})"
    );
    assert_eq!(browser.value(&waiting), true);
}

fn report(folder: &TempDir) -> PathBuf {
    let path = folder.path().join("report.html");
    fs::write(&path, "<!doctype html><h1>The verdict</h1>").unwrap();
    path
}

#[test]
fn the_map_fills_and_the_end_leads_to_the_report() {
    let page = Page::start().unwrap();
    page.publish(state(None));
    let Some((folder, mut browser)) = open(&page) else { return };
    let cell = "document.querySelector('td')";
    wait_for(&mut browser, &format!("{cell}?.textContent === '·'"));
    assert_eq!(
        browser.value("document.querySelector('h1').textContent"),
        "http: <two> architectures"
    );
    let width = format!("{cell}.querySelector('i').style.width");
    for (radius, text, expected) in
        [(30.0, "+39 [9 to 69]", "60%"), (10.0, "+39 [29 to 49]", "20%")]
    {
        page.publish(state(Some(radius)));
        wait_for(&mut browser, &format!("{cell}.textContent === '{text}'"));
        let shown = browser.value(&width);
        let shown = shown.as_str().unwrap().trim_end_matches('%').parse::<f64>().unwrap();
        let expected = expected.trim_end_matches('%').parse::<f64>().unwrap();
        assert!((shown - expected).abs() < 0.1, "{shown}");
    }
    let line = "document.querySelector('.spark polyline').getAttribute('points')";
    assert_eq!(browser.value(line), "0,0.8 1,0.55 2,0.050000000000000044");
    // A phone never scrolls the page sideways.
    assert_eq!(browser.value("document.documentElement.scrollWidth"), 390);
    page.lead_to(&report(&folder));
    let finishing = page.clone();
    let finishing = thread::spawn(move || finishing.finish());
    wait_for(&mut browser, "document.getElementById('now').textContent.startsWith('Over.')");
    wait_for(&mut browser, "document.querySelector('#report a') !== null");
    finishing.join().unwrap();
    // The page has the report, whatever became of the command.
    browser.follow("#report a");
    assert_eq!(browser.value("document.querySelector('h1').textContent"), "The verdict");
}

#[test]
fn without_scripts_each_load_of_the_page_has_the_state() {
    let page = Page::start().unwrap();
    page.publish(state(Some(30.0)));
    let Some((folder, mut browser)) = open(&page) else { return };
    browser.forbid_scripts();
    browser.go(&page.url());
    let text = "document.querySelector('td').textContent";
    assert_eq!(browser.value(text), "+39 [9 to 69]");
    let reloads = "document.querySelector('meta[http-equiv=refresh]')?.content ?? null";
    assert_eq!(browser.value(reloads), "2");
    page.publish(state(Some(10.0)));
    browser.go(&page.url());
    assert_eq!(browser.value(text), "+39 [29 to 49]");
    let path = report(&folder);
    let told = path.display().to_string();
    page.lead_to(&path);
    let finishing = page.clone();
    let finishing = thread::spawn(move || finishing.finish());
    while browser.value("document.getElementById('now').textContent.startsWith('Over.')") != true {
        browser.go(&page.url());
    }
    assert_eq!(browser.value("document.querySelector('#report code').textContent"), told.as_str());
    assert_eq!(browser.value(reloads), serde_json::Value::Null);
    finishing.join().unwrap();
}
