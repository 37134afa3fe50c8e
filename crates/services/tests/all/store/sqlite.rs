//! Tests the store in a file: what it keeps, processes that share it, and the loss of the file.

#![expect(clippy::print_stdout, reason = "what a child process tells its parent")]

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

use duality_runtime::block_on;
use duality_services::store::{LONGEST_REMARK, Location, MOST_REMARKS, Options, Store};
use tempfile::TempDir;

use super::contract::{self, remark};
use super::worlds::{World, in_every_world};

in_every_world! { given:
    what_is_kept_is_found
    tasks_count_together
    a_lost_file_is_unavailable_until_it_is_back
}

fn store(path: &Path) -> Store {
    Store::new(&Location::sqlite(path), Options::default()).unwrap()
}

fn what_is_kept_is_found(world: World) {
    let directory = TempDir::new().unwrap();
    contract::what_is_kept_is_found(world, &Location::sqlite(directory.path().join("store.db")));
}

fn tasks_count_together(world: World) {
    let directory = TempDir::new().unwrap();
    contract::tasks_count_together(world, &Location::sqlite(directory.path().join("store.db")));
}

fn a_lost_file_is_unavailable_until_it_is_back(world: World) {
    let directory = TempDir::new().unwrap();
    let (path, elsewhere) = (directory.path().join("store.db"), directory.path().join("away.db"));
    let store = store(&path);
    world.run(async move {
        store.add_entry("ann", "1").await.unwrap();
        fs::rename(&path, &elsewhere).unwrap();
        let lost = store.add_entry("bob", "2").await.unwrap_err().to_string();
        assert!(lost.contains("store.db") && lost.contains("is unavailable"), "{lost}");
        assert!(!lost.contains('\n'), "{lost}");
        store.find_entry("ann").await.unwrap_err();
        store.visit(1).await.unwrap_err();
        assert!(!path.exists(), "an empty store must not take the place of a lost one");
        fs::rename(&elsewhere, &path).unwrap();
        store.add_entry("bob", "2").await.unwrap();
        assert_eq!(store.find_entry("bob").await.unwrap().as_deref(), Some("2"));
    });
}

#[test]
fn what_is_read_and_written_has_bounds() {
    let directory = TempDir::new().unwrap();
    let store = store(&directory.path().join("store.db"));
    block_on(async {
        store.add_remark(&remark("a", &"x".repeat(LONGEST_REMARK))).await.unwrap_err();
        store.add_entry("a", &"1".repeat(LONGEST_REMARK)).await.unwrap_err();
        for number in 0..=MOST_REMARKS {
            store.add_remark(&remark("", &number.to_string())).await.unwrap();
        }
        assert_eq!(store.visit(usize::MAX).await.unwrap().remarks.len(), MOST_REMARKS);
    });
}

#[test]
fn what_cannot_be_a_store_is_refused_with_its_name_and_a_remedy() {
    let directory = TempDir::new().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path
    };
    let foreign = directory.path().join("foreign.db");
    rusqlite::Connection::open(&foreign).unwrap().execute_batch("CREATE TABLE bills (x)").unwrap();
    for (path, expected) in [
        (directory.path().join("no/such/place.db"), "a directory that is there"),
        (directory.path().to_owned(), "name a file"),
        (write("text.txt", &"no database ".repeat(100)), "no SQLite database"),
        (foreign, "another program"),
        ("/proc/store.db".into(), "can be written"),
    ] {
        let error = Store::new(&Location::sqlite(&path), Options::default());
        let error = error.err().unwrap().to_string();
        assert!(error.contains(expected) && error.contains(path.to_str().unwrap()), "{error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn a_corrupt_file_is_unavailable() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store.db");
    let store = store(&path);
    // The first page, with the schema, stays.
    let mut bytes = fs::read(&path).unwrap();
    bytes[4096..].fill(0xa5);
    fs::write(&path, bytes).unwrap();
    block_on(async {
        let error = store.visit(1).await.unwrap_err().to_string();
        assert!(error.contains("damaged"), "{error}");
        store.add_entry("ann", "1").await.unwrap_err();
        store.find_entry("ann").await.unwrap_err();
    });
}

#[test]
fn a_lock_that_is_held_is_unavailable_to_writers_alone() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store.db");
    let options = Options { turn_limit: Duration::from_millis(20), ..Options::default() };
    let store = Store::new(&Location::sqlite(&path), options).unwrap();
    let other = rusqlite::Connection::open(&path).unwrap();
    block_on(async {
        store.add_entry("ann", "1").await.unwrap();
        other.execute_batch("BEGIN IMMEDIATE").unwrap();
        let error = store.add_entry("ann", "2").await.unwrap_err().to_string();
        assert!(error.contains("locked"), "{error}");
        assert_eq!(store.find_entry("ann").await.unwrap().as_deref(), Some("1"));
        other.execute_batch("COMMIT").unwrap();
        store.add_entry("ann", "2").await.unwrap();
    });
}

/// The stack is as small as the architectures' default.
#[test]
fn a_small_stack_carries_every_call() {
    let directory = TempDir::new().unwrap();
    let store = store(&directory.path().join("store.db"));
    let calls = async move {
        for number in 0..2000 {
            store.add_remark(&remark("ann", &"x".repeat(1000))).await.unwrap();
            store.add_entry(&number.to_string(), "1").await.unwrap();
        }
        assert_eq!(store.visit(MOST_REMARKS).await.unwrap().visitors, 1);
        assert_eq!(store.find_entry("7").await.unwrap().as_deref(), Some("1"));
    };
    let thread = thread::Builder::new().stack_size(128 << 10);
    thread.spawn(|| block_on(calls)).unwrap().join().unwrap();
}

#[test]
fn many_may_set_it_up_at_once() {
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store.db");
    thread::scope(|scope| {
        for _ in 0..8 {
            scope.spawn(|| block_on(store(&path).visit(1)).unwrap());
        }
    });
    assert_eq!(block_on(store(&path).visit(1)).unwrap().visitors, 9);
}

/// The variable that names the file to the child processes of the test below.
const FILE_OF_WRITER: &str = "DUALITY_TEST_STORE_OF_WRITER";

/// Several processes write, print acknowledged writes, and are killed meanwhile.
#[test]
fn what_was_acknowledged_survives_a_kill() {
    const WRITERS: usize = 4;
    /// The test kills each process after so many acknowledgements.
    const LIFE: usize = 30;
    if let Some(path) = std::env::var_os(FILE_OF_WRITER) {
        write_for_ever(&store(Path::new(&path)));
    }
    let directory = TempDir::new().unwrap();
    let path = directory.path().join("store.db");
    let keeper = store(&path);
    let writer = |_| {
        Command::new(std::env::current_exe().unwrap())
            .args([
                "--exact",
                "store::sqlite::what_was_acknowledged_survives_a_kill",
                "--nocapture",
            ])
            .env(FILE_OF_WRITER, &path)
            .stdout(Stdio::piped())
            .spawn()
            .unwrap()
    };
    let mut writers: Vec<_> = (0..WRITERS).map(writer).collect();
    let acknowledged: Vec<Vec<String>> = thread::scope(|scope| {
        let readers: Vec<_> = writers
            .iter_mut()
            .map(|writer| {
                scope.spawn(|| {
                    let lines = BufReader::new(writer.stdout.take().unwrap()).lines();
                    let mut kept: Vec<_> = lines
                        .map_while(Result::ok)
                        .filter_map(|line| line.strip_prefix("kept ").map(str::to_owned))
                        .inspect({
                            let mut left = LIFE;
                            move |_| {
                                left = left.saturating_sub(1);
                                if left == 0 {
                                    // Sends SIGKILL. Writes that the process printed before its end
                                    // count too.
                                    writer.kill().unwrap();
                                }
                            }
                        })
                        .collect();
                    kept.sort();
                    kept
                })
            })
            .collect();
        readers.into_iter().map(|reader| reader.join().unwrap()).collect()
    });
    for writer in &mut writers {
        writer.wait().unwrap();
    }
    for name in acknowledged.iter().flatten() {
        let found = block_on(keeper.find_entry(name)).unwrap();
        assert_eq!(found.as_deref(), Some("1"), "{name} was acknowledged and is lost");
    }
    assert!(acknowledged.iter().all(|kept| kept.len() >= LIFE));
    assert!(block_on(keeper.visit(0)).unwrap().visitors > (WRITERS * LIFE) as u64);
}

fn write_for_ever(store: &Store) -> ! {
    for number in 0.. {
        let name = format!("{}-{number}", std::process::id());
        block_on(store.visit(1)).unwrap();
        block_on(store.add_entry(&name, "1")).unwrap();
        println!("kept {name}");
    }
    unreachable!("it is killed long before")
}
