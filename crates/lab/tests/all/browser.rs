//! The report in a browser, as people use it: on a phone, in dark mode, by keyboard, and to
//! download its figures.

use std::fs;
use std::path::{Path, PathBuf};

use crate::chromium::Page;
use crate::fixtures;
use duality_lab::record::{Heading, Outcome, Record, Records, results};
use duality_lab::tell::answer::Answer;
use duality_lab::tell::report::{self, RawLines};
use duality_lab::tell::share::{CardFile, Share};
use duality_load::{Fate, Spans, Warning, WarningKind};
use serde_json::{Value, json};
use tempfile::TempDir;

/// A report with its results beside it, open in a browser.
fn open(heading: &Heading, cells: &Records, width: u32) -> Option<(TempDir, Page)> {
    let (directory, path) = written(heading, cells);
    let page = Page::open(&path, &directory.path().join("profile"), width)?;
    Some((directory, page))
}

fn written(heading: &Heading, cells: &Records) -> (TempDir, PathBuf) {
    let directory = tempfile::tempdir().unwrap();
    let results = directory.path().join("results.jsonl");
    let first = Record::Experiment(Box::new(heading.clone()));
    let lines = cells.cells.iter().map(|cell| Record::Cell(cell.clone()));
    let text: Vec<String> = [first]
        .into_iter()
        .chain(lines)
        .map(|line| serde_json::to_string(&line).unwrap())
        .collect();
    fs::write(&results, text.join("\n") + "\n").unwrap();
    let path = directory.path().join("report.html");
    let raw = RawLines::read(&[results]).unwrap();
    report::write(&path, &Answer::of(heading, cells), &raw).unwrap();
    (directory, path)
}

/// Fourteen subjects with long names, long warnings and a crowd.
fn crowded() -> (Heading, Records) {
    let names: Vec<String> = (0..14).map(|place| format!("workpool-priority-{place}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let heading = fixtures::heading(&names, &[100, 1000, 15_000], 1);
    let cells = names.iter().enumerate().flat_map(|(place, name)| {
        [100, 1000, 15_000].map(|concurrency| {
            let rate = 40_000.0 + 1500.0 * place as f64;
            let mut measured = fixtures::measured(concurrency, rate, 20.0, 9.0);
            measured.warnings = vec![Warning::new(
                WarningKind::Other,
                "A warning of many words about one of the cells. ".repeat(4),
            )];
            let spans = Spans { mean: 2.5, min: 1.0, max: 4.0 };
            let fate = Fate {
                members: 5000,
                open: 4990,
                cut: 10,
                cut_after_seconds: Some(spans),
                ..Fate::default()
            };
            measured.crowd = [("slow-readers".to_owned(), fate)].into();
            fixtures::cell(name, concurrency, 0, Outcome::Measured(Box::new(measured)))
        })
    });
    (heading, Records { cells: cells.collect(), blocks: Vec::new() })
}

#[test]
fn a_phone_never_scrolls_the_page_sideways() {
    let (heading, cells) = crowded();
    let Some((_directory, mut page)) = open(&heading, &cells, 320) else { return };
    assert_eq!(page.value("innerWidth"), 320);
    assert_eq!(page.value("document.documentElement.scrollWidth"), 320);
    // Wider elements scroll within themselves.
    let table = "document.querySelector('#cells').closest('.scroll')";
    assert_eq!(page.value(&format!("{table}.scrollWidth > {table}.clientWidth")), true);
    let wide = "[...document.querySelectorAll('.plot svg')].every(svg => svg.clientWidth <= 320)";
    assert_eq!(page.value(wide), true);
    // Names at the ends of lines lie within the chart and do not touch.
    let names =
        "[...document.querySelectorAll('#throughput text.end')].map(name => name.getBBox())";
    let apart = format!(
        "{names}.sort((a, b) => a.y - b.y).every((box, at, all) =>
            box.x + box.width <= 461 && (!at || box.y >= all[at - 1].y + 0.75 * all[at - 1].height))"
    );
    assert_eq!(page.value(&apart), true, "{}", page.value(&format!("JSON.stringify({names})")));
}

/// The page of a run that is kept in `runs/`.
fn kept(run: &str, width: u32) -> Option<(TempDir, Page)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../runs").join(run);
    let (heading, records) = results::read(&[path.join("results.jsonl")]).unwrap();
    open(&heading, &records, width)
}

#[test]
fn the_first_screen_has_the_headline_the_map_and_the_chart_that_proves_it() {
    let (heading, records) = fixtures::comparison();
    for (width, height) in [(1280, 800), (390, 844)] {
        let pages = [open(&heading, &records, width), kept("2026-11-21-vm/services/http", width)];
        for (_directory, mut page) in pages.into_iter().flatten() {
            for part in [".headline", "#map", ".sight figure .plot svg"] {
                let bottom =
                    format!("document.querySelector('{part}').getBoundingClientRect().bottom");
                let bottom = page.value(&bottom).as_f64().unwrap();
                assert!(bottom <= f64::from(height), "{part} ends at {bottom}, at {width}");
            }
        }
    }
}

/// The labels of drawings that collide or leave their picture. The boxes are those of the browser's
/// own font.
fn collisions(page: &mut Page, drawings: &str) -> Value {
    page.value(&format!(
        "[...document.querySelectorAll('{drawings}')].flatMap(svg => {{
            const {{ width, height }} = svg.viewBox.baseVal;
            const all = [...svg.querySelectorAll('text')].map(text => [text.textContent, text.getBBox()]);
            const out = all.filter(([, box]) => box.x < -1 || box.x + box.width > width + 1
                || box.y < -1 || box.y + box.height > height + 3);
            // A box of the browser has room above and below the letters.
            const hits = (a, b) => a.x < b.x + b.width && b.x < a.x + a.width
                && a.y + 0.2 * a.height < b.y + 0.85 * b.height
                && b.y + 0.2 * b.height < a.y + 0.85 * a.height;
            return [...out.map(one => one[0]), ...all.flatMap(([text, box], at) =>
                all.slice(at + 1).filter(other => hits(box, other[1])).map(other => text + ' / ' + other[0]))];
        }})"
    ))
}

#[test]
fn no_labels_collide_and_all_are_within_their_picture() {
    let (crowd, of_crowd) = crowded();
    let (heading, records) = fixtures::comparison();
    let pages = [
        open(&crowd, &of_crowd, 390),
        open(&heading, &records, 1280),
        kept("2026-11-21-vm/services/http", 1280),
        kept("2026-11-24-vm/knot/haboob", 1280),
    ];
    for (_directory, mut page) in pages.into_iter().flatten() {
        page.value("document.querySelectorAll('details').forEach(one => { one.open = true; })");
        assert_eq!(collisions(&mut page, ".plot svg"), json!([]));
    }
}

#[test]
fn a_card_is_a_picture_without_collisions_and_a_png_of_it() {
    for (heading, records) in [crowded(), fixtures::comparison()] {
        let (directory, _) = written(&heading, &records);
        let results = directory.path().join("results.jsonl");
        let answer = Answer::of(&heading, &records);
        let share = Share::of(&answer, &results).unwrap();
        let write = |name: &str| {
            let path = directory.path().join(name);
            let card: CardFile = path.to_str().unwrap().parse().unwrap();
            card.write(&share).map(|()| path)
        };
        let drawn = write("card.svg").unwrap();
        let Some(mut page) = Page::open(&drawn, &directory.path().join("profile"), 1280) else {
            return;
        };
        assert_eq!(collisions(&mut page, "svg"), json!([]));
        let text = page.value("document.documentElement.textContent");
        let text = text.as_str().unwrap();
        for part in ["duality compare http", "Imaginary CPU", "best", "SHA-256"] {
            assert!(text.contains(part), "{part}: {text}");
        }
        drop(page);
        let png = fs::read(write("card.png").unwrap()).unwrap();
        // The magic number, and the width.
        assert!(png.starts_with(b"\x89PNG") && png[16..20] == 1200_u32.to_be_bytes());
    }
}

#[test]
fn the_theme_is_the_systems_until_somebody_chooses_and_the_choice_is_kept() {
    let (heading, cells) = fixtures::comparison();
    let Some((directory, mut page)) = open(&heading, &cells, 1280) else { return };
    let paper = "getComputedStyle(document.body).backgroundColor";
    let ink = "getComputedStyle(document.querySelector('#throughput text')).fill";
    let light = page.value(paper);
    let light_ink = page.value(ink);
    page.prefer("dark");
    let dark = page.value(paper);
    assert_ne!(light, dark);
    // The plots follow.
    assert_ne!(light_ink, page.value(ink));
    page.value("document.getElementById('theme').focus()");
    page.press("Enter");
    assert_eq!(page.value(paper), light);
    assert_eq!(page.value(ink), light_ink);
    // What a page keeps may reach the next one a moment later.
    let again = format!("file://{}", directory.path().join("report.html").display());
    let is_kept = (0..100).any(|_| {
        page.go(&again);
        page.value(paper) == light
    });
    assert!(is_kept);
    assert_eq!(page.value("matchMedia('(prefers-color-scheme: dark)').matches"), true);
}

#[test]
fn keys_alone_skip_sort_and_look_things_up() {
    let (heading, cells) = fixtures::comparison();
    let Some((_directory, mut page)) = open(&heading, &cells, 1280) else { return };
    page.press("Tab");
    assert_eq!(page.value("document.activeElement.textContent"), "Skip to the figures");
    page.press("Enter");
    assert_eq!(page.value("location.hash"), "#cells");

    page.value("document.querySelectorAll('#cells thead button')[2].focus()");
    let ring = "getComputedStyle(document.activeElement).outlineStyle";
    let sort = "document.querySelectorAll('#cells th')[2].getAttribute('aria-sort')";
    let rates = "[...document.querySelectorAll('#cells tbody tr')]
        .map(row => row.cells[2].dataset.value).filter(value => value).map(Number)";
    assert_eq!(page.value(sort), "none");
    for (order, sign) in [("ascending", "<="), ("descending", ">=")] {
        page.press("Enter");
        assert_eq!(page.value(sort), order);
        let sorted = format!(
            "(rates => rates.every((rate, at) => !at || rates[at - 1] {sign} rate))({rates})"
        );
        assert_eq!(page.value(&sorted), true, "{order}");
    }
    assert_eq!(page.value(ring), "solid");

    let first = "document.querySelector('td button[data-name=epoll][data-concurrency=\"1000\"]')";
    page.value(&format!("{first}.focus()"));
    page.press("Enter");
    assert_eq!(page.value("document.getElementById('raw').open"), true);
    page.press("Escape");
    assert_eq!(page.value("document.getElementById('raw').open"), false);
    assert_eq!(page.value(&format!("document.activeElement === {first}")), true);
}

#[test]
fn each_figure_leads_to_the_line_that_it_was_made_from() {
    let (heading, cells) = fixtures::comparison();
    let Some((directory, mut page)) = open(&heading, &cells, 1280) else { return };
    let results = fs::read_to_string(directory.path().join("results.jsonl")).unwrap();
    page.value(
        "document.querySelector('td button[data-name=epoll][data-concurrency=\"100\"]').click()",
    );
    let shown = page
        .value("[...document.querySelectorAll('#raw h3, #raw pre')].map(part => part.textContent)");
    let shown: Vec<String> = serde_json::from_value(shown).unwrap();
    assert_eq!(shown.len(), 6, "three repeats");
    for pair in shown.chunks(2) {
        let number: usize = pair[0].strip_prefix("results.jsonl, line ").unwrap().parse().unwrap();
        assert_eq!(results.lines().nth(number - 1), Some(pair[1].as_str()));
        assert!(pair[1].contains(r#""architecture":"epoll","concurrency":100,"#));
    }
}

#[test]
fn plots_and_figures_can_be_taken_along() {
    let (heading, cells) = fixtures::comparison();
    let Some((_directory, mut page)) = open(&heading, &cells, 1280) else { return };
    // The test catches downloads on their way.
    page.value(
        "window.taken = new Promise(done => { window.done = done; });
         HTMLAnchorElement.prototype.click = function () { done([this.download, this.href]); };",
    );
    let mut take = |button: &str| -> (String, String) {
        page.value("window.taken = new Promise(done => { window.done = done; }); 0");
        let taken =
            page.value(&format!("document.querySelector('{button}').click(); window.taken"));
        serde_json::from_value(taken).unwrap()
    };
    let (name, svg) = take("[data-chart=throughput][data-format=svg]");
    assert_eq!(name, "http-throughput.svg");
    assert!(svg.starts_with("data:image/svg+xml,%3Csvg"), "{}", &svg[..80]);
    // It says what is drawn, on which machine, and by which command.
    for part in ["Requests%20per%20second", "Medians.", "2%20CPUs", "duality%20compare"] {
        assert!(svg.contains(part), "{part}: {svg}");
    }
    let (name, png) = take("[data-chart=latency][data-format=png]");
    assert_eq!(name, "http-latency.png");
    // The magic number of PNG in base64, and more than an empty picture would take.
    assert!(png.starts_with("data:image/png;base64,iVBORw0KGgo") && png.len() > 10_000);
    let (name, csv) = take("[data-chart=memory][data-format=csv]");
    assert_eq!(name, "http-memory.csv");
    let csv = unescaped(&csv);
    assert!(csv.starts_with("architecture,connections,x,y,valid\r\niterative,1,1,"), "{csv}");
    // Nine subjects at four concurrencies, of which two have no figures.
    assert_eq!(csv.lines().count(), 1 + 9 * 4 - 2);
    let (name, csv) = take("button[data-format=csv]:not([data-chart])");
    assert_eq!(name, "http-cells.csv");
    let csv = unescaped(&csv);
    assert_eq!(csv.lines().count(), 1 + cells.cells.len());
    assert!(csv.contains("epoll,100,0,results.jsonl,"), "{csv}");
}

/// The text of a data: address.
fn unescaped(address: &str) -> String {
    let (kind, text) = address.split_once(',').unwrap();
    assert_eq!(kind, "data:text/csv;charset=utf-8");
    let mut bytes = Vec::new();
    let mut rest = text.bytes();
    while let Some(byte) = rest.next() {
        bytes.push(match byte {
            b'%' => {
                let digits: Vec<u8> = rest.by_ref().take(2).collect();
                u8::from_str_radix(std::str::from_utf8(&digits).unwrap(), 16).unwrap()
            }
            plain => plain,
        });
    }
    String::from_utf8(bytes).unwrap()
}

#[test]
fn what_became_of_the_crowd_is_told() {
    let (heading, cells) = crowded();
    let Some((_directory, mut page)) = open(&heading, &cells, 1280) else { return };
    let row = page.value(
        "[...document.querySelector('#crowd tbody tr').cells].map(cell => cell.textContent)",
    );
    let expected: Value = json!([
        "workpool-priority-0",
        "100",
        "slow readers",
        "5,000",
        "4,990",
        "0",
        "10",
        "2.5 s",
        "0",
        "0",
        "0",
    ]);
    assert_eq!(row, expected);
}
