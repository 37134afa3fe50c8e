//! Child processes.

use std::process::Stdio;

use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::process::{Child, Command};
use tokio::time::timeout;

use crate::common::{Found, MOMENT};

fn shell(script: &str) -> Command {
    let mut command = Command::new("sh");
    command.arg("-c").arg(script).stdin(Stdio::piped());
    command
}

pub(crate) async fn outputs_and_statuses() -> Found {
    let output =
        shell("echo $1 $WORD; echo wrong >&2; exit 3").env("WORD", "said").output().await?;
    let text = |bytes: Vec<u8>| String::from_utf8(bytes);
    let (out, err) = (text(output.stdout)?, text(output.stderr)?);
    let status = shell("kill -9 $$").status().await?;
    assert!(Command::new("/no/such/program").spawn().is_err());
    Ok(format!("{:?} {} {} {status}", output.status.code(), out.trim(), err.trim()))
}

/// More than a pipe holds goes through a child, both ways at once.
pub(crate) async fn much_goes_through_a_child() -> Found {
    let mut child = Command::new("cat").stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = child.stdin.take().ok_or("a pipe")?;
    let written = tokio::spawn(async move {
        for number in 0..50_000 {
            input.write_all(format!("{number}\n").as_bytes()).await?;
        }
        input.shutdown().await
    });
    let mut lines = BufReader::new(child.stdout.take().ok_or("a pipe")?).lines();
    let mut sum = 0_u64;
    while let Some(line) = lines.next_line().await? {
        sum += line.parse::<u64>()?;
    }
    written.await??;
    Ok(format!("{sum} {} {:?}", child.wait().await?.success(), child.id()))
}

fn sleeper() -> std::io::Result<Child> {
    Command::new("sleep").arg("3600").stdout(Stdio::piped()).kill_on_drop(true).spawn()
}

pub(crate) async fn children_are_killed() -> Found {
    let mut child = sleeper()?;
    assert!(timeout(MOMENT, child.wait()).await.is_err());
    assert!(child.try_wait()?.is_none() && child.id().is_some());
    child.kill().await?;
    let status = child.wait().await?;
    // The end of a killed child closes its pipe.
    let mut dropped = sleeper()?;
    let output = dropped.stdout.take().ok_or("a pipe")?;
    drop(dropped);
    let rest = BufReader::new(output).lines().next_line().await?;
    Ok(format!("{status} {rest:?} {}", child.start_kill().is_ok()))
}
