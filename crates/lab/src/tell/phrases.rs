//! The sentences that a screen can say, as one list. docs/report.md has a row for each. A test
//! checks this, so a new sentence needs a row.

/// Declares the sentences. Each `{}` takes a part.
macro_rules! phrases {
    ($($name:ident = $template:literal,)*) => {
        /// A sentence of a screen.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Phrase {
            $(
                #[doc = $template]
                $name,
            )*
        }

        impl Phrase {
            /// All sentences.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// The sentence, with `{}` for each part.
            pub fn template(self) -> &'static str {
                match self {
                    $(Self::$name => $template,)*
                }
            }
        }
    };
}

phrases! {
    // The headline.
    TooEarly = "Cannot tell yet: {} are measured. Go on with --resume.",
    Best = "Use {} is best{}.",
    Unbeaten = "Use {} is unbeaten{}.",
    OneSide = "Use {}{}; {}.",
    BestSoFar = "Try {}: it is best so far{}.",
    NoneEverywhere = "No choice is good at every load: see the map.",
    OneOfEachSet = "Try {}{}: no other is in each best set.",
    Family = "Use {}{}: which is best, this run cannot tell.",
    OneOf = "Use one of {}{}: which is best, this run cannot tell.",
    NoneBetter = "Choose by something else than speed: none is better for sure{}.",
    NothingCompared = "Nothing was measured that can be compared.",
    EachIsOut = "No choice: each architecture is out. The map says why.",
    OnlyOne = "Nothing to choose: only {} was measured and is sound.",
    CannotTell = "Cannot tell which is best: {}.",
    Change = "Yes: change from {} to {}{}.",
    CannotTellChange = "Cannot tell whether a change from {} pays: {}.",
    KeepTheBest = "No: keep {}. Every alternative is worse for sure{}.",
    KeepForGain = "No: keep {}. No alternative gains more than {}{}.",
    Below = "Cannot tell below {}{}: {} may gain as much beside {}.",
    Way = "{} in place of {}: {}.",
    // The headline of builds.
    Slower = "{} is slower than {}: {}{}.",
    Faster = "{} is faster than {}: {}{}.",
    NoChange = "No change above {}: {} is level with {}.",
    NotToldApart = "{} is not told apart from {}: a change of up to {} may be hidden.",
    WorseByFault = "{} is worse than {}: it {}{}.",
    CannotTellBuilds = "Cannot tell whether {} is slower than {}: {}.",
    SomeSlower = "Slower: {} of {}.",
    SomeOfEach = "Slower: {} of {}; faster: {}.",
    SomeFaster = "Faster: {} of {}.",
    // What follows in the headline.
    TakesMore = "{} take at least {} more processor time than the best{}.",
    TakesTimes = "{} take at least {} times the processor time of the best{}.",
    WaitsMore = "{} have at least {} more {} latency than the best{}.",
    WaitsTimes = "{} have at least {} times the {} latency of the best{}.",
    ServesFewer = "{} serve at least {} fewer requests/s than the best{}.",
    Differ = "Their own figures differ by {} at most.",
    SavesTime = "It saves at least {} of the processor time.",
    SavesLatency = "It saves at least {} of the {} latency.",
    ServesMore = "It serves at least {} more requests/s.",
    Longer = "Measure longer (--budget).",
    Oftener = "Measure more often (--repeats).",
    // Why nothing can be told.
    AllOutAtBusiest = "each architecture is out at the busiest load",
    AloneAtBusiest = "only one is sound at the busiest load",
    NotComplete = "the run is not complete; go on with --resume",
    TooLittle = "too little was measured; give it {}",
    TooDisturbed = "the machine was disturbed; measure again when it is quiet",
    ControlDiffers = "a server differed from itself; measure again",
    TooNoisy = "the noise was too large; give it {}",
    // What a reader must know first.
    WrongReplies = "Disqualified for wrong replies: {}.",
    FailedRequests = "Disqualified for failed requests: {}.",
    Ended = "Failed while it was measured: {}.",
    SomeFailed = "Requests failed: {}.",
    Grows = "{} grows by {} a request at {}.",
    Stops = "{} stops: in {} of {} slices no connection got a reply for 50 ms or more, up to {}.",
    Tail = "{} has a p99.9 latency of {} at {}; the others have {}.",
    AnyWillDo = "At your traffic ({} requests/s) any choice will do: each architecture takes under \
                 {} of a processor. The choice begins to matter at about {} times your traffic, {}.",
    // Loads without a verdict.
    NoVerdict = "no verdict: {}",
    NoneRecommended = "the best set is {}, and none of it is recommended: {}",
    NoOrder = "it is not known which of the best set is best: {}",
    OneOfSet = "{} is in the best set ({}), and it is not known which is best: {}",
    NotToldFromToday = "{} not told from {}: {}",
    NoDifference = "no difference above {} was found",
    // What is out by a limit.
    Excluded = "Excluded: {}.",
    NoneKeeps = "No architecture keeps {} at {}.",
    // Remarks beneath the map.
    Partial = "partial: {}",
    NetworkRules = "The network sets the rate at {}, so processor time decides. A round trip takes \
                    {}, and at most {} requests are in the servers at a time",
    Steal = "hypervisor steal in {} of {} {}",
    ClientWaited = "the load generator without a processor in {} of {} {}",
    QuotaRanOut = "no CPU quota left in {} of {} {}",
    OtherProcesses = "other processes (up to {} of a processor{}) in {} of {} {}",
    Unmeasured = "not measured everywhere: {}",
    // Kinds of warnings.
    Interrupted = "interrupted",
    ServerGone = "the server went away",
    Standstill = "no reply for a long time",
    NoLatencies = "no latency was measured",
    Unserved = "connections without a reply",
    Overdue = "requests unanswered at the end",
    SentLate = "requests sent late",
    RequestsFailed = "requests failed",
    AcceptQueue = "the accept queue overflowed",
    Quota = "the CPU quota ran out",
    Unreachable = "addresses that could not be reached",
    DelayedAcknowledgement = "replies held up by a delayed acknowledgement",
    SharedProcessors = "server and load generator shared processors",
    Invalid = "the load generator could not do its work",
    MissingRepeats = "repeats that failed",
    Noisy = "repeats that differ much",
    Unsteady = "figures that changed within a window",
    Other = "other warnings",
}

impl Phrase {
    /// The sentence with its parts.
    pub(super) fn told(self, parts: &[&str]) -> String {
        let mut pieces = self.template().split("{}");
        let mut clauses = pieces.next().unwrap_or_default().to_owned();
        let mut parts = parts.iter();
        for piece in pieces {
            clauses += parts.next().expect("each {} has a part");
            clauses += piece;
        }
        assert!(parts.next().is_none(), "each part has a {{}}: {self:?}");
        clauses
    }

    /// Whether a text is this sentence, with some parts. A text may end early, before the full
    /// stop or where the sentence goes on to details.
    pub fn is_in(self, text: &str) -> bool {
        let mut rest = text;
        let template = self.template().trim_end_matches('.');
        for (place, piece) in template.split("{}").enumerate() {
            let at =
                if place == 0 { rest.starts_with(piece).then_some(0) } else { rest.find(piece) };
            let Some(at) = at else { return false };
            rest = &rest[at + piece.len()..];
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sentence_takes_its_parts_in_order() {
        let sentence = Phrase::Change.told(&["threads", "epoll", " at 10 connections"]);
        assert_eq!(sentence, "Yes: change from threads to epoll at 10 connections.");
        assert!(Phrase::Change.is_in(&sentence) && !Phrase::Below.is_in(&sentence));
        assert_eq!(Phrase::Longer.told(&[]), Phrase::Longer.template());
    }
}
