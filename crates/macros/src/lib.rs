//! The attributes `#[duality::main]` and `#[duality::test]`. Use them through the crate `duality`.
//!
//! An attribute needs a crate of its own: a macro by example cannot be one.

#![forbid(unsafe_code)]

mod function;
mod options;

use std::fmt::Write as _;

use proc_macro::{Span, TokenStream};

use self::function::{Function, INNER};
use self::options::Options;

/// A mistake of the user, and its place.
struct Mistake {
    place: Span,
    text: String,
}

type Result<T> = std::result::Result<T, Mistake>;

impl Mistake {
    fn at(place: Span, text: impl Into<String>) -> Self {
        Self { place, text: text.into() }
    }

    /// The mistake as an error of the compiler.
    fn into_tokens(self) -> TokenStream {
        let error: TokenStream =
            format!("::core::compile_error! {{ {:?} }}", self.text).parse().expect("it is Rust");
        error
            .into_iter()
            .map(|mut token| {
                token.set_span(self.place);
                token
            })
            .collect()
    }
}

/// Runs an `async fn main` in a world.
///
/// ```ignore
/// use duality::time::{Duration, sleep};
///
/// #[duality::main]
/// async fn main() -> std::io::Result<()> {
///     sleep(Duration::from_millis(1)).await;
///     Ok(())
/// }
/// ```
///
/// | option | meaning |
/// | --- | --- |
/// | `world = "block"` | tasks are kernel threads, which sleep as they wait (default) |
/// | `world = "park"` | tasks are user-level threads of one loop |
/// | `world = "suspend"` | tasks are state machines of one loop |
/// | `world = "reactor"` | tasks run in blocks; another kernel thread watches what they wait for |
///
/// A program that serves has `Service::main` instead.
#[proc_macro_attribute]
pub fn main(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_main(options, item).unwrap_or_else(Mistake::into_tokens)
}

/// Makes an `async fn` a test, which runs in every world.
///
/// ```ignore
/// #[duality::test]
/// async fn a_task_returns() {
///     let task = duality::task::spawn(async { 7 }).unwrap();
///     assert_eq!(task.await, Ok(7));
/// }
/// ```
///
/// The names of these tests are `a_task_returns::block`, `::park`, `::suspend` and `::reactor`.
///
/// | option | meaning |
/// | --- | --- |
/// | `world = "park"` | one test, in this world: `block`, `park`, `suspend` or `reactor` |
/// | `start_paused = true` | virtual time: an hour passes at once when nothing else can happen |
/// | `simulate = 0..100` | one test, in the simulated world, with these seeds |
///
/// Virtual time needs a loop, so such a test runs in the worlds park and suspend. The clock is that
/// of `duality::time::now`, and not that of `Instant::now`. `duality::time::clock` moves it.
///
/// A simulation needs the feature `simulate`. The function may have one parameter: the network, of
/// type `duality::simulate::Net`.
///
/// ```ignore
/// #[duality::test(simulate = 0..100)]
/// async fn an_hour_passes(net: duality::simulate::Net) {
///     duality::time::sleep(duality::time::Duration::from_secs(3600)).await;
/// }
/// ```
///
/// Attributes such as `#[should_panic]` apply to each of the tests. The function may return a
/// `Result`.
#[proc_macro_attribute]
pub fn test(options: TokenStream, item: TokenStream) -> TokenStream {
    expand_test(options, item).unwrap_or_else(Mistake::into_tokens)
}

const WORLDS: [(&str, &str); 4] =
    [("block", "Block"), ("park", "Park"), ("suspend", "Suspend"), ("reactor", "Reactor")];

/// The worlds with a loop, which can stop its clock.
const LOOPS: [&str; 2] = ["park", "suspend"];

fn expand_main(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(options, &["world"])?;
    let function = Function::parse(item)?;
    function.refuse_parameters("main has no parameters")?;
    let (world, _) = options.world.unwrap_or(("block".to_owned(), Span::call_site()));
    let run = format!("::duality::run_in({}, {INNER}())", path_of(&world));
    Ok(function.replaced_by("", &run))
}

fn expand_test(options: TokenStream, item: TokenStream) -> Result<TokenStream> {
    let options = Options::parse(options, &["world", "start_paused", "simulate"])?;
    let function = Function::parse(item)?;
    const TEST: &str = "#[cfg(test)] #[::core::prelude::v1::test]";
    if let Some(seeds) = &options.simulate {
        if options.world.is_some() || options.is_paused {
            let text = "a simulation has a world and a clock of its own: give `simulate` alone";
            return Err(Mistake::at(Span::call_site(), text));
        }
        let has_net = function.has_parameters();
        let body = if has_net { INNER.to_owned() } else { format!("|_| {INNER}()") };
        let run = format!("::duality::simulate::seeds({seeds}).in_both_waits().run({body});");
        return Ok(function.replaced_by_unit(TEST, &run));
    }
    function
        .refuse_parameters("only a test with `simulate = SEEDS` has a parameter, of type Net")?;
    let has_clock = |world: &str| !options.is_paused || LOOPS.contains(&world);
    let run = if options.is_paused { "run_paused_in" } else { "run_in" };
    if let Some((world, place)) = &options.world {
        if !has_clock(world) {
            let text = "only a loop can stop its clock: choose the world park or suspend, or \
                        leave `world` out";
            return Err(Mistake::at(*place, text));
        }
        let run = format!("::duality::{run}({}, {INNER}())", path_of(world));
        return Ok(function.replaced_by(TEST, &run));
    }
    let mut tests = String::new();
    for (world, _) in WORLDS.iter().filter(|(world, _)| has_clock(world)) {
        let name = function.name();
        let attributes = function.attributes();
        let path = path_of(world);
        // The type stands where other names are in scope. `#[should_panic]` wants none.
        let returns = match function.returns_nothing() {
            true => "",
            false => "-> impl ::std::process::Termination",
        };
        let call = format!("::duality::{run}({path}, super::{name}())");
        write!(tests, "{TEST} {attributes} fn {world}() {returns} {{ {call} }}")
            .expect("a string has room");
    }
    Ok(function.followed_by_tests(&tests))
}

fn path_of(world: &str) -> String {
    let known = WORLDS.iter().find(|(name, _)| *name == world);
    format!("::duality::World::{}", known.expect("options are checked").1)
}
