//! Generates clients and servers for tonic, and takes the chat server of tokio-tungstenite out of
//! its crate.

use std::env;
use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use tonic_build::manual::{Builder, Method, MethodBuilder, Service};

fn main() -> Result<(), Box<dyn Error>> {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rerun-if-changed=Cargo.lock");
    generate_for_tonic();
    let folder = PathBuf::from(env::var("OUT_DIR")?);
    fs::write(folder.join("chat.rs"), chat()?)?;
    Ok(())
}

/// A service with each of the four kinds of calls, and one that greets. Neither needs protoc.
fn generate_for_tonic() {
    let method = |name: &str, route: &str| method_of(name, route, "super::Number", "super::Number");
    let counting = Service::builder()
        .name("Counting")
        .package("counting")
        .method(method("next", "Next").build())
        .method(method("sum", "Sum").client_streaming().build())
        .method(method("up_to", "UpTo").server_streaming().build())
        .method(method("sums", "Sums").client_streaming().server_streaming().build())
        .build();
    let greeter = Service::builder()
        .name("Greeter")
        .package("helloworld")
        .method(
            method_of("say_hello", "SayHello", "super::HelloRequest", "super::HelloReply").build(),
        )
        .build();
    Builder::new().compile(&[counting, greeter]);
}

fn method_of(name: &str, route: &str, input: &str, output: &str) -> MethodBuilder {
    Method::builder()
        .name(name)
        .route_name(route)
        .input_type(input)
        .output_type(output)
        .codec_path("tonic_prost::ProstCodec")
}

/// The example `server` of tokio-tungstenite. Only its address, an argument of the command line, is
/// replaced, and its `main` can be called.
fn chat() -> Result<String, Box<dyn Error>> {
    let metadata = Command::new(env::var("CARGO")?)
        .args(["metadata", "--format-version=1", "--locked", "--offline"])
        // Crates for other systems are not there.
        .arg(format!("--filter-platform={}", env::var("TARGET")?))
        .output()?;
    let metadata = String::from_utf8(metadata.stdout)?;
    let manifest = metadata
        .split('"')
        .find(|text| text.contains("/tokio-tungstenite-") && text.ends_with("/Cargo.toml"))
        .ok_or("cargo metadata names no tokio-tungstenite: run `cargo fetch`")?;
    let example = Path::new(manifest).with_file_name("examples").join("server.rs");
    let source = fs::read_to_string(example)?;
    let address = "env::args().nth(1)";
    if source.matches(address).count() != 1 {
        return Err("tokio-tungstenite's example takes its address in another way".into());
    }
    let source = source.replace(address, "Some(\"0.0.0.0:80\".to_owned())");
    // What is included begins with items, not with the documentation of a file.
    let items = source.lines().filter(|line| !line.starts_with("//!"));
    let items = items.collect::<Vec<_>>().join("\n");
    Ok(format!(
        "{items}\n\n/// Runs the program.\npub fn run() -> Result<(), IoError> {{ main() }}\n"
    ))
}
