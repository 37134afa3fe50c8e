//! Surveys of a loop from another kernel thread. A survey shows each task with its stage, its wait
//! and, if it has a stack, the place of the stack. It disturbs no task.

use std::sync::Arc;
use std::sync::mpsc::channel as std_channel;
use std::time::{Duration, Instant};

use duality_poller::Kind;
use duality_runtime::event_loop::{EventLoop, LoopWorld};
use duality_runtime::sync::{Mutex, Notify, channel};
use duality_runtime::visibility::{self, Survey, Wait};
use duality_runtime::{task, time};

/// Longer than any operation of these tests takes, if it works.
const PATIENCE: Duration = Duration::from_secs(20);

const STAGES: [(&str, Wait); 7] = [
    ("root", Wait::Join),
    ("notify", Wait::Notify),
    ("sleep", Wait::Time),
    ("lock", Wait::Lock),
    ("receive", Wait::Receive),
    ("send", Wait::Send),
    ("offload", Wait::Offload),
];

// One test, since a survey asks all the loops of the process.
#[test]
fn every_task_is_told_with_what_it_waits_for() {
    for world in [LoopWorld::Suspend, LoopWorld::Park { stack_size: 128 * 1024 }] {
        let has_stacks = world != LoopWorld::Suspend;
        let (go, gone) = std_channel::<()>();
        let release = Arc::new(Notify::new());
        let released = release.clone();
        let serving = std::thread::spawn(move || {
            let poller = Kind::Epoll.open().unwrap();
            EventLoop::new(poller, world).unwrap().run(tasks(released, gone))
        });
        let survey = survey_until(|survey| {
            let tasks = survey.answered.first().map_or(&[][..], |report| &report.longest);
            STAGES.iter().all(|&(stage, wait)| {
                tasks.iter().any(|task| (task.stage.as_deref(), task.wait) == (Some(stage), wait))
            })
        });
        let report = &survey.answered[0];
        assert_eq!((report.tasks, survey.silent.len()), (STAGES.len(), 0), "{survey:?}");
        for told in &report.longest {
            assert_eq!(told.due.is_some(), told.wait == Wait::Time, "{told:?}");
            assert_eq!(told.trace.is_some(), has_stacks && !told.is_ready, "{told:?}");
        }
        assert!(report.longest.is_sorted_by(|one, next| one.waited >= next.waited), "{survey:?}");
        if has_stacks {
            let asleep = report.longest.iter().find(|told| told.wait == Wait::Time).unwrap();
            let names = visibility::name_frames(asleep.trace.as_ref().unwrap()).join("\n");
            assert!(names.contains("a_function_that_sleeps"), "{names}");
        }
        // The survey shows only as many tasks as requested, and counts the others.
        let few = visibility::survey(2, PATIENCE);
        assert_eq!((few.answered[0].longest.len(), few.answered[0].tasks), (2, STAGES.len()));
        drop(go);
        release.notify_one();
        assert_eq!(serving.join().unwrap(), 5, "what each task was there for, it did");
    }
}

fn survey_until(mut is_enough: impl FnMut(&Survey) -> bool) -> Survey {
    let deadline = Instant::now() + PATIENCE;
    loop {
        let survey = visibility::survey(1000, PATIENCE);
        if is_enough(&survey) {
            return survey;
        }
        assert!(Instant::now() < deadline, "{survey:?}");
    }
}

/// The root task: has one task wait for each kind of wait, ends the tasks, and returns how many
/// ended in order.
async fn tasks(release: Arc<Notify>, gone: std::sync::mpsc::Receiver<()>) -> usize {
    task::stage("root").await;
    let lock = Arc::new(Mutex::new(()));
    let (to_full, mut from_full) = channel::bounded(1);
    to_full.send(0).await.unwrap();
    let (to_empty, mut from_empty) = channel::bounded::<u8>(1);
    let sleeper = task::spawn(a_function_that_sleeps()).unwrap();
    let holder = task::spawn({
        let lock = lock.clone();
        async move {
            task::stage("notify").await;
            let _held = lock.lock().await;
            release.notified().await;
        }
    });
    let locker = task::spawn(async move {
        task::stage("lock").await;
        lock.lock().await;
    });
    let receiver = task::spawn(async move {
        task::stage("receive").await;
        from_empty.recv().await
    });
    let sender = task::spawn(async move {
        task::stage("send").await;
        to_full.send(1).await.is_ok()
    });
    let offloader = task::spawn(async move {
        task::stage("offload").await;
        task::offload(move || gone.recv().is_err()).await
    });
    let mut in_order = usize::from(holder.unwrap().await.is_ok());
    in_order += usize::from(locker.unwrap().await.is_ok());
    drop(to_empty);
    in_order += usize::from(receiver.unwrap().await == Ok(None));
    assert_eq!(from_full.recv().await, Some(0));
    in_order += usize::from(sender.unwrap().await == Ok(true));
    in_order += usize::from(offloader.unwrap().await == Ok(true));
    drop(sleeper);
    in_order
}

#[inline(never)]
async fn a_function_that_sleeps() {
    task::stage("sleep").await;
    time::sleep(Duration::from_secs(3600)).await;
}
