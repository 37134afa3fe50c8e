//! The page of a run of regimes in a browser: its plots, what can be chosen, and a phone.

use std::path::{Path, PathBuf};

use crate::chromium::Page;
use duality_lab::regimes::derive::RecordedRequest;
use duality_lab::regimes::plan::Plan;
use duality_lab::regimes::record::{Cell, Heading, Measured, Outcome};
use duality_lab::regimes::summary::Summary;
use duality_lab::tell::answers;
use duality_lab::tell::render::html::html;
use tempfile::TempDir;

fn write(path: &Path, heading: &Heading, cells: &[Cell]) {
    let sheet = answers::regimes::sheet(&Summary::of(heading, cells));
    std::fs::write(path, html(&sheet)).unwrap();
}

/// Three subjects under two loads, of which one was not measured.
fn written() -> (TempDir, PathBuf) {
    let text = "[regimes]\nsubjects = ['threads', 'a pool with a rather long name', 'gcd']\nrepeats = 1\n\
                [[regime]]\nwait = '10us..1ms'\n[[regime]]\nwait = '2us'\n";
    let heading = Heading::of(&Plan::read(text).unwrap());
    let requests = |scale: u64| -> Vec<RecordedRequest> {
        let row = |number: u64| {
            let (t2, blocks, clients) = (1000 * scale * (number + 5), 5 + number, 1 + number / 3);
            RecordedRequest::read(&format!("0,{t2},0,{blocks},1,{clients}")).unwrap()
        };
        (0..400).map(row).collect()
    };
    let mut cells = Vec::new();
    for (scale, (subject, _)) in heading.subjects.iter().enumerate() {
        for regime in &heading.regimes {
            let measured = Measured::of(&requests(scale as u64 + 1), 1000.0, Some(20.0));
            let outcome = match subject.as_str() {
                "gcd" => Outcome::Missing { reason: "<libdispatch> is missing".to_owned() },
                _ => Outcome::Measured(Box::new(measured)),
            };
            cells.push(Cell {
                subject: subject.clone(),
                regime: regime.name.clone(),
                repeat: 0,
                outcome,
            });
        }
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.html");
    write(&path, &heading, &cells);
    (directory, path)
}

fn open(width: u32) -> Option<(TempDir, Page)> {
    let (directory, path) = written();
    let page = Page::open(&path, &directory.path().join("profile"), width)?;
    Some((directory, page))
}

#[test]
fn all_subjects_are_overlaid_and_layers_regimes_and_subjects_can_be_chosen() {
    let Some((directory, mut page)) = open(1280) else { return };
    for plot in 0..3 {
        let lines = page.value(&format!("document.querySelectorAll('#plot{plot} path').length"));
        assert_eq!(lines, 2, "plot {plot} has a line for each that was measured");
    }
    assert_eq!(page.value("document.querySelectorAll('circle').length"), 0);
    // A regime, by its link.
    let path = directory.path().join("report.html");
    page.go("about:blank");
    page.go(&format!("file://{}#regime=2us", path.display()));
    assert_eq!(page.value("document.querySelector('#choice').selectedIndex"), 2);
    let chosen = "[...document.querySelectorAll('.chosen')].map(table => table.hidden).join()";
    assert_eq!(page.value(chosen), "true,false");
    let rows = "document.querySelectorAll('.chosen:not([hidden]) tbody tr').length";
    assert_eq!(page.value(rows), 3);
    page.value("document.querySelector('[data-layer=points]').click()");
    let points = page.value("document.querySelectorAll('#plot0 circle.points').length");
    assert!(points.as_u64().unwrap() > 100, "{points}");
    page.value("document.querySelector('#none').click()");
    assert_eq!(page.value("document.querySelectorAll('#plot0 path').length"), 0);
    page.value("document.querySelector('#legend input').click()");
    assert_eq!(page.value("document.querySelectorAll('#plot0 path').length"), 1);
}

/// The plan that has most regimes, with rates of six digits.
#[test]
fn the_table_of_fifteen_regimes_fits_a_laptop_and_keeps_its_last_column_in_sight() {
    let plan = include_str!("../../../../plans/truppel.toml");
    let heading = Heading::of(&Plan::read(plan).unwrap());
    let request = RecordedRequest::read("0,1000,0,5,1,1").unwrap();
    let cells: Vec<Cell> = heading
        .subjects
        .iter()
        .flat_map(|(subject, _)| heading.regimes.iter().map(move |regime| (subject, regime)))
        .map(|(subject, regime)| Cell {
            subject: subject.clone(),
            regime: regime.name.clone(),
            repeat: 0,
            outcome: Outcome::Measured(Box::new(Measured::of(&[request], 123_456.0, None))),
        })
        .collect();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("report.html");
    write(&path, &heading, &cells);
    for width in [1280, 360] {
        let profile = directory.path().join(width.to_string());
        let Some(mut page) = Page::open(&path, &profile, width) else { return };
        let hidden = page.value(
            "(box => box.scrollWidth - box.clientWidth)(document.querySelector('#rates').parentElement)",
        );
        assert!(width < 1280 || hidden == 0, "{hidden} px of the table are hidden");
        let right = page.value(
            "document.querySelector('#rates tbody td:last-child').getBoundingClientRect().right",
        );
        assert!(right.as_f64().unwrap() <= f64::from(width), "`kept` ends at {right} of {width}");
    }
}

#[test]
fn a_phone_never_scrolls_the_page_of_regimes_sideways() {
    let Some((_directory, mut page)) = open(360) else { return };
    assert_eq!(page.value("document.documentElement.scrollWidth"), 360);
    assert_eq!(
        page.value(
            "[...document.querySelectorAll('svg.plot')].every(svg => svg.clientWidth <= 360)"
        ),
        true
    );
    // Text of other authors is escaped.
    assert_eq!(page.value("document.body.textContent.includes('<libdispatch> is missing')"), true);
}
