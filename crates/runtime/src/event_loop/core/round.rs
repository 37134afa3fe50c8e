//! The round of a loop: turns for ready tasks, then events, then timers.

use std::io;
use std::mem::ManuallyDrop;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::NonNull;
use std::task::Context;
use std::time::{Duration, Instant};

use duality_fiber::Fiber;
use duality_poller::{Direction, Event, Poller};

use super::Core;
use crate::drain;
use crate::event_loop::ready_tasks::ReadyTasks;
use crate::event_loop::tasks::Task;
use crate::event_loop::{report, waker};
use crate::remote::{Message, TaskName};
use crate::threads;
use crate::visibility::thread_slots::{self, ThreadSlot};
use crate::wait::{Ambient, earlier, set_ambient};
use crate::{cold_path, visibility};

/// What the rounds of a loop use again and again.
pub(crate) struct Round {
    slot: &'static ThreadSlot,
    events: Vec<Event>,
    woken: Vec<TaskName>,
    fired: Vec<u32>,
}

impl Core {
    pub(crate) fn run_until_done(&self, root: TaskName) {
        let mut round = self.begin_rounds();
        loop {
            self.run_ready(round.slot);
            if !self.tasks.contains(root) {
                return;
            }
            self.await_events(&mut round.events);
            self.pass_on(&mut round);
        }
    }

    pub(crate) fn begin_rounds(&self) -> Round {
        let slot = thread_slots::here();
        self.slot.set(slot);
        self.now.set(self.clock.at(threads::now()));
        // A drain that was requested before the loop had its inbox has not interrupted the loop.
        self.drain_began.set(drain::requested_before_wakeup().then(|| self.now()));
        Round { slot, events: Vec::with_capacity(256), woken: Vec::new(), fired: Vec::new() }
    }

    /// Wakes the tasks of events that have come, of timers that are due, and of a drain.
    #[inline(always)]
    fn pass_on(&self, round: &mut Round) {
        self.dispatch(&round.events, &mut round.woken);
        self.timers.borrow_mut().expire(self.now(), &mut round.fired);
        for slot in round.fired.drain(..) {
            self.tasks.wake_slot(slot);
        }
        self.gathered.expire(self.now());
        if self.report_state.is_asked() {
            report::answer(self);
        }
        if drain::requested() && !self.draining() {
            self.drain_began.set(Some(self.now()));
            self.wake_readers();
            self.gathered.wake_at_drain();
        }
    }

    /// One turn, of the ready task that `draw` chooses, and what follows turns in a round. The time
    /// is `now`. Never waits.
    #[cold]
    #[inline(never)]
    pub(crate) fn step(
        &self,
        round: &mut Round,
        now: Instant,
        draw: impl FnOnce(ReadyTasks<'_>) -> usize,
    ) {
        self.clock.stand_at(now);
        self.now.set(now);
        let ready = self.tasks.ready();
        if ready > 0 {
            if ready > 1 {
                self.tasks.ready.bring_forward(draw(ReadyTasks(&self.tasks)));
            }
            self.pace.begin_turn(self.tasks.taken());
            self.give_turns(round.slot, self.tasks.turns());
        }
        let waited = self.poller.borrow_mut().wait(Some(Duration::ZERO), &mut round.events);
        waited.expect("the poller of a simulation does not fail");
        self.pass_on(round);
        if self.inbox.has_messages() {
            self.read_inbox();
        }
    }

    /// The time of the next timer.
    pub(crate) fn next_expiry(&self) -> Option<Instant> {
        earlier(self.timers.borrow_mut().next_expiry(), self.gathered.next())
    }

    /// Collects events before the loop pauses, so that no peer waits for what its tasks have done.
    ///
    /// A ring keeps the file of a closed socket for as long as a request names it, and the peer
    /// sees no end until then. The first wait passes the cancellations on, the second one has the
    /// kernel carry them out.
    pub(crate) fn pause(&self) {
        if self.poller.borrow_mut().ring().is_none() {
            return;
        }
        let (mut events, mut woken) = (Vec::new(), Vec::new());
        for _ in 0..2 {
            let waited = self.poller.borrow_mut().wait(Some(Duration::ZERO), &mut events);
            waited.expect("a poller fails only when it is used wrongly");
            self.dispatch(&events, &mut woken);
        }
    }

    /// Runs the tasks that are ready now, and newly ready tasks up to the limit of a round. All
    /// others wait for the next round, so that descriptors and timers have their turn.
    fn run_ready(&self, slot: &ThreadSlot) {
        let (before, given) = (self.tasks.taken(), self.tasks.turns());
        let ready = self.tasks.ready();
        self.pace.begin_round(before, ready);
        self.tasks.prefetch_first();
        self.give_turns(slot, given);
    }

    /// Gives the turns that the round has.
    ///
    /// Inlined into both callers, of which the one of simulations is cold. Otherwise each turn, or
    /// each round, would cost a call more.
    #[inline(always)]
    fn give_turns(&self, slot: &ThreadSlot, given: usize) {
        let run = || while self.give_turn() {};
        // The panic hook has reported the panic. The task's connection closes, and the other tasks
        // go on.
        while catch_unwind(AssertUnwindSafe(run)).is_err() {
            set_ambient(Ambient::Never);
            self.end(self.running());
        }
        self.tasks.set_idle();
        slot.end_turns(self.tasks.turns().wrapping_sub(given) as u64);
    }

    /// Gives the next ready task its turn, if the round has one left.
    #[inline(always)]
    fn give_turn(&self) -> bool {
        if !self.has_turn() {
            cold_path();
            if !self.pace.prolong(self.tasks.taken()) {
                return false;
            }
        }
        let Some(task) = self.begin_turn() else { return false };
        // SAFETY: the task ends after its turn, below.
        let has_ended = match unsafe { task.fiber() } {
            Some(fiber) => {
                // The next fibers of the round are resumed from the place where this one waits.
                cold_path();
                fiber.resume()
            }
            None => {
                // The drop of a waker does nothing, but is a call through its table.
                let waker = ManuallyDrop::new(waker::of(task.name()));
                // SAFETY: the task ends after its turn, below. Turns are given one at a time, so no
                // other code polls the task.
                unsafe { task.poll(&mut Context::from_waker(&waker)) }.is_ready()
            }
        };
        if has_ended {
            // The running task is not the resumed one, if the resumed one has passed the processor
            // on.
            self.end(self.running());
        }
        true
    }

    #[inline]
    fn has_turn(&self) -> bool {
        self.pace.has_turn(self.tasks.taken())
    }

    /// Begins the turn of the next ready task.
    #[inline]
    fn begin_turn(&self) -> Option<&Task> {
        let task = self.tasks.next()?;
        self.show(task);
        task.begin_turn(self.report_state.clock());
        Some(task)
    }

    /// Ends the turn of the running fiber, and begins the next fiber's without a switch to the loop
    /// in between. [`Core::give_turn`] does the same for a single turn. `None` if the loop must go
    /// on, as at the end of a round.
    #[inline(always)]
    pub(crate) fn next_fiber(&self) -> Option<NonNull<Fiber>> {
        if !self.has_turn() {
            return None;
        }
        let task = self.begin_turn()?;
        // SAFETY: the task ends after its turn, which the caller begins now.
        let fiber = unsafe { task.fiber() };
        Some(NonNull::from(fiber.expect("tasks of a loop whose tasks are fibers are fibers")))
    }

    fn await_events(&self, events: &mut Vec<Event>) {
        let idle_from = (self.tasks.ready() == 0).then(threads::now);
        if let Some(from) = idle_from {
            self.pace.run_dry(self.tasks.taken(), from);
        }
        let waited = match idle_from {
            None => self.poller.borrow_mut().wait(Some(Duration::ZERO), events),
            Some(from) => self.await_first_event(from, events),
        };
        waited.expect("a poller fails only when it is used wrongly");
        let now = threads::now();
        self.now.set(self.clock.at(now));
        self.pace.look(now);
        if let Some(from) = idle_from {
            self.idle.set(self.idle.get() + (now - from));
        }
        self.report_state.tick(now);
        visibility::count(|counters| {
            counters.poller_rounds.add(1);
            counters.descriptors_watched.add(self.sources.borrow().len() as u64);
            counters.poller_events.add(events.len() as u64);
            counters.idle_ns.add(idle_from.map_or(0, |from| (now - from).as_nanos() as u64));
        });
    }

    /// Waits until there is an event, or a timer is due: first by busy polling, then asleep.
    fn await_first_event(&self, from: Instant, events: &mut Vec<Event>) -> io::Result<()> {
        let expiry = self.next_expiry();
        let mut poller = self.poller.borrow_mut();
        if self.clock.stands() {
            return self.await_without_time(expiry, &mut **poller, events);
        }
        let mut now = from;
        while now - from < self.options.busy_poll {
            poller.wait(Some(Duration::ZERO), events)?;
            now = threads::now();
            if !events.is_empty() || expiry.is_some_and(|expiry| expiry <= self.clock.at(now)) {
                return Ok(());
            }
        }
        let left = expiry.map(|expiry| expiry.saturating_duration_since(self.clock.at(now)));
        poller.wait(left, events)
    }

    /// Waits until there is an event. Without one, moves the clock, which stands, to the first
    /// timer.
    #[cold]
    fn await_without_time(
        &self,
        expiry: Option<Instant>,
        poller: &mut dyn Poller,
        events: &mut Vec<Event>,
    ) -> io::Result<()> {
        // A ring passes its requests on in the first wait, and the kernel carries them out in the
        // second one.
        for _ in 0..2 {
            poller.wait(Some(Duration::ZERO), events)?;
            if !events.is_empty() {
                return Ok(());
            }
        }
        match expiry.filter(|_| !self.clock.is_held()) {
            Some(expiry) => {
                self.clock.move_on(|_| expiry);
                Ok(())
            }
            None => poller.wait(None, events),
        }
    }

    fn dispatch(&self, events: &[Event], woken: &mut Vec<TaskName>) {
        self.sources.borrow_mut().note(events, woken);
        self.gathered.wake_ready(events);
        for (index, &name) in woken.iter().enumerate() {
            self.tasks.prefetch_woken(woken, index);
            self.wake(name);
        }
        woken.clear();
        if events.iter().any(|event| event.token == self.inbox_token) {
            self.read_inbox();
        }
    }

    fn read_inbox(&self) {
        for message in self.inbox.take() {
            match message {
                Message::Wake(name) => self.wake(name),
                Message::Close(watcher, token, descriptor) if watcher == self.id() => {
                    self.close(descriptor, token, true);
                }
                Message::Close(..) => {} // An earlier loop's descriptor: the close is enough.
            }
        }
        let armed =
            self.poller.borrow_mut().arm(self.inbox.event(), self.inbox_token, Direction::Read);
        armed.expect("the inbox's eventfd stays registered for the life of the loop");
    }

    fn wake_readers(&self) {
        let readers = self.sources.borrow_mut().take_readers();
        readers.into_iter().for_each(|task| self.wake(task));
    }
}
