//! The report page: that it is whole, loads nothing, escapes what it shows, and draws in a browser.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::{env, fs};

use crate::fixtures;
use crate::trials;
use duality_lab::judge::summary::Summary;
use duality_lab::record::{Cell, Outcome, Records};
use duality_lab::tell::answer::Answer;
use duality_lab::tell::report::RawLines;
use duality_lab::tell::report::markdown::{self, Table};
use duality_lab::tell::share::Share;
use duality_lab::tell::{recommendation, report};
use duality_load::{Warning, WarningKind};

#[test]
fn it_loads_nothing() {
    let (heading, cells) = fixtures::comparison();
    let page = report::render(&Answer::of(&heading, &cells), &RawLines::default());
    let markup = without_scripts(&page);
    assert!(!markup.contains("http://") && !markup.contains("https://"), "{markup}");
    assert!(!markup.contains("src=") && !markup.contains("<link"), "{markup}");
    assert!(!page.contains("<script src"));
}

#[test]
fn reasons_and_warnings_stand_beside_their_cells() {
    let (heading, cells) = fixtures::comparison();
    let markup =
        without_scripts(&report::render(&Answer::of(&heading, &cells), &RawLines::default()));
    assert!(markup.contains("select(2) cannot watch descriptors above 1023"));
    assert!(markup.contains("fork: EAGAIN at 773 processes"));
    assert!(markup.contains("999 of 1000 connections were never served."));
    assert!(!markup.contains("partial:"));
}

/// The fuzz target `results` found this case: the file may come from any author.
#[test]
fn numbers_beyond_all_bounds_are_no_obstacle() {
    let (mut heading, mut cells) = fixtures::comparison();
    heading.design.repeats = usize::MAX;
    for cell in &mut cells.cells {
        if let Outcome::Measured(measured) = &mut cell.outcome {
            measured.errors = [("io", u64::MAX), ("reset", u64::MAX)]
                .map(|(kind, count)| (kind.to_owned(), count))
                .into();
        }
    }
    assert!(
        report::render(&Answer::of(&heading, &cells), &RawLines::default())
            .contains("partial: 108 of")
    );
}

#[test]
fn a_partial_experiment_says_so() {
    let (heading, mut records) = fixtures::comparison();
    records.cells.truncate(37);
    let markup =
        without_scripts(&report::render(&Answer::of(&heading, &records), &RawLines::default()));
    assert!(markup.contains("partial: 37 of 108 cells"));
    assert!(markup.contains("not run"));
    assert!(
        report::render(&Answer::of(&heading, &Records::default()), &RawLines::default())
            .contains("No recommendation: the experiment is not complete")
    );
}

#[test]
fn what_it_shows_is_escaped() {
    let mut heading = fixtures::heading(&["<b>&"], &[1], 1);
    heading.machine.cpu = "</script><script>alert(1)</script>".into();
    let reason = "<img onerror=alert(1)>".to_owned();
    let cells = vec![fixtures::cell("<b>&", 1, 0, Outcome::Failed { reason })];
    let cells = Records { cells, blocks: Vec::new() };
    let page = report::render(&Answer::of(&heading, &cells), &RawLines::default());
    assert!(
        !page.contains("<b>&") && !page.contains("<img onerror") && !page.contains("<script>alert")
    );
    assert!(page.contains("&lt;img onerror=alert(1)&gt;"));
}

#[test]
fn it_draws_all_charts_in_a_browser() {
    let Some(chromium) = chromium() else {
        let why = "no chromium on PATH (cargo xtask test installs it)";
        let _ = writeln!(std::io::stderr(), "skipped: {why}");
        return;
    };
    let (heading, cells) = fixtures::comparison();
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("report.html");
    report::write(&path, &Answer::of(&heading, &cells), &RawLines::default()).unwrap();
    let page = dump(&chromium, &path, folder.path());

    let summary = Summary::of(&heading, &cells);
    for sentence in recommendation::recommend(&summary, &heading, &cells).sentences {
        let sentence = sentence.replace('&', "&amp;");
        assert!(page.contains(&sentence), "not on the page: {sentence}");
    }
    for chart in
        ["throughput", "service-time", "measured-load", "latency", "cpu", "memory", "behind-100"]
    {
        let drawn = format!(r#"<div class="plot" id="{chart}"><svg class="chart"#);
        assert!(page.contains(&drawn), "no chart: {chart}");
    }
}

/// A latency of an invalid window is drawn hollow and is no part of a line. A rate of blocks is
/// sound, whatever disturbed the window.
#[test]
fn invalid_cells_are_not_drawn_like_valid_ones() {
    let mut trial =
        trials::trial(&["threads", "epoll"], &[10, 100, 1000], |_, _| trials::busy(12.0));
    let of_epoll = |cell: &&mut Cell| (&*cell.subject, cell.concurrency) == ("epoll", 100);
    for cell in trial.records.cells.iter_mut().filter(of_epoll) {
        let Outcome::Measured(measured) = &mut cell.outcome else { panic!() };
        measured.invalid.insert("starved".to_owned(), "It had no processor.".to_owned());
    }
    let page = report::render(&Answer::of(&trial.heading, &trial.records), &RawLines::default());
    let doubtful = |id: &str| {
        let chart = page.split_once(&format!("id=\"{id}\"")).unwrap().1;
        chart.split_once("</figure>").unwrap().0.matches("point doubtful").count()
    };
    let charts = ["throughput", "cpu", "memory", "latency", "service-time", "measured-load"];
    assert_eq!(charts.map(doubtful), [0, 0, 0, 1, 1, 1]);
    assert!(page.contains("epoll,100,") && page.contains(",false\r\n"));
    let table = markdown::tables(&trial.heading, &trial.records, &[Table::P99]);
    assert!(table.contains(" ✗ |"), "{table}");
}

#[test]
fn a_page_is_small() {
    let (heading, records) = fixtures::comparison();
    let page = report::render(&Answer::of(&heading, &records), &RawLines::default());
    assert!(page.len() < 300_000, "{} bytes", page.len());
}

#[test]
fn the_map_has_a_row_for_each_subject_and_a_mark_for_what_is_not_sure() {
    let trial =
        trials::trial(&["threads", "uring", "epoll"], &[10, 100, 1000], |name, count| {
            match (name, count) {
                ("epoll", 10) => trials::busy(12.0),
                (_, 10) => trials::busy(15.0),
                ("threads", 100) => trials::busy(15.0),
                _ => trials::busy(12.0),
            }
        });
    let answer = Answer::of(&trial.heading, &trial.records);
    let page = report::render(&answer, &RawLines::default());
    assert!(page.contains(&answer.recommendation.headline), "{page}");
    let table = page.split_once("id=\"map\"").unwrap().1.split_once("</table>").unwrap().0;
    let rows: Vec<&str> = table.split("<tr").skip(2).collect();
    assert_eq!(rows.len(), 3, "{table}");
    let first = ["<td class=\"left \">epoll<", "<td class=\"best\">best<"];
    assert!(first.iter().all(|part| rows[0].contains(part)), "{}", rows[0]);
    // Rows are sorted by their worst load.
    assert!(table.contains(">threads<") && table.contains("class=\"heat2\">+2"), "{table}");
    let marks: usize = rows.iter().map(|row| row.matches(['=', '?']).count()).sum();
    assert!(marks > 3, "at 1,000 connections nothing is sure: {table}");
}

/// A pool's hundred workers hold a hundred connections, whatever the load counts.
#[test]
fn a_replay_counts_its_loads_in_users_and_what_a_server_holds_in_connections() {
    let names = ["threads", "pool", "epoll"];
    let mut trial = trials::trial(&names, &[300, 3000], trials::clear).of_recording();
    let pool = trial.heading.design.carriers.get_mut("pool").unwrap();
    pool.holds = Some(100);
    for cell in trial.records.cells.iter_mut().filter(|cell| cell.subject == "threads") {
        let Outcome::Measured(measured) = &mut cell.outcome else { panic!() };
        measured.errors.insert("reset".to_owned(), 3);
        let told = "7 of 3000 connections were never served.".to_owned();
        measured.warnings = vec![Warning::new(WarningKind::Unserved, told)];
    }
    let answer = Answer::of(&trial.heading, &trial.records);
    let page = report::render(&answer, &RawLines::default());
    let text = answer.render_text(None);
    for told in [&page, &text] {
        assert!(told.contains("its 100 connections at a time are held by about 200"), "{told}");
        assert!(told.contains("it is the best at 300 and 3,000 times your users."), "{told}");
        let mut counts = fixtures::in_connections(told);
        counts.sort_unstable();
        counts.dedup();
        assert_eq!(counts, ["its 100 connections", "of 3000 connections"], "{told}");
    }
    for part in
        ["<h3 id=\"behind-300-title\">300 times your users</h3>", ">times your users, log scale<"]
    {
        assert!(page.contains(part), "{part}: {page}");
    }
    for none in ["open connections", "number of connections", "numbers of connections"] {
        assert!(!page.contains(none), "{none}: {page}");
    }
    let table = markdown::tables(&trial.heading, &trial.records, &[Table::Rate]);
    assert!(table.starts_with("Requests/s"), "{table}");
    assert!(table.contains("|  | 300 times your users | 3,000 times your users |"), "{table}");
}

#[test]
fn a_card_in_markdown_has_the_map_and_what_it_was_made_from() {
    let trial = trials::trial(&["a|b*c", "epoll"], &[10, 100, 1000], |name, count| match name {
        "epoll" if count == 10 => trials::busy(30.0),
        "epoll" => trials::busy(10.0),
        _ => trials::busy(16.0),
    });
    let folder = tempfile::tempdir().unwrap();
    let results = folder.path().join("results.jsonl");
    fs::write(&results, "").unwrap();
    let answer = Answer::of(&trial.heading, &trial.records);
    let card = Share::of(&answer, &results).unwrap().markdown();
    let first =
        format!("**{}**\n", answer.recommendation.headline.replace('*', "\\*").replace('|', "\\|"));
    assert!(card.starts_with(&first), "{card}");
    assert!(card.contains("\n| epoll | 🟧 +"), "{card}");
    assert!(card.contains("| 🟩 best | 🟩 best |\n"), "{card}");
    assert!(card.contains("\n| a\\|b*c | 🟩 best | 🟧 +"), "{card}");
    assert!(card.contains("The lead passes from a\\|b\\*c to epoll between 10 and 100"), "{card}");
    assert!(card.contains("```sh\nduality compare"), "{card}");
    let empty = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855";
    assert!(card.contains(&format!("SHA-256 `{empty}` of results.jsonl.")), "{card}");
    let rule = "| --- | ---: | ---: | ---: |";
    assert!(card.contains(rule), "{card}");
}

/// The page's markup after its scripts have run, without the scripts' own text.
fn dump(chromium: &Path, page: &Path, folder: &Path) -> String {
    let output = Command::new(chromium)
        .args(["--headless", "--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"])
        .args(["--disable-background-networking", "--disable-component-update", "--disable-sync"])
        .arg(format!("--user-data-dir={}", folder.join("profile").display()))
        .args(["--virtual-time-budget=5000", "--dump-dom"])
        .arg(format!("file://{}", page.display()))
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    without_scripts(&String::from_utf8(output.stdout).unwrap())
}

fn chromium() -> Option<PathBuf> {
    let path = env::var_os("PATH")?;
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let candidates = env::split_paths(&path).flat_map(|folder| names.map(|name| folder.join(name)));
    candidates
        .into_iter()
        .find(|candidate| fs::metadata(candidate).is_ok_and(|found| found.is_file()))
}

fn without_scripts(page: &str) -> String {
    let mut markup = String::new();
    let mut rest = page;
    while let Some((before, script)) = rest.split_once("<script") {
        markup.push_str(before);
        rest = script.split_once("</script>").map_or("", |(_, after)| after);
    }
    markup + rest
}
