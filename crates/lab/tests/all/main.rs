//! The tests of experiments: how they are judged, and what is told of them. They are one program:
//! to link one for each file takes longer than to run them.

mod browser;
mod chromium;
mod comparison;
mod contradictions;
mod first_line;
mod fixtures;
mod guide;
mod headline;
mod kept_runs;
mod lane;
mod live;
mod noise;
mod race;
mod recommendation;
mod regimes;
mod report;
mod screen;
mod sequential;
mod slices;
mod small;
mod soundness;
mod trials;
mod verdict;
