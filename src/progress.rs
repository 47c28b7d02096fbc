//! Progress on stderr: one live line on a terminal, nothing in a pipe.

use std::io::IsTerminal;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use holdback_sim::campaign::Listener;
use indicatif::{HumanCount, ProgressBar, ProgressDrawTarget, ProgressState, ProgressStyle};

/// Set when the user interrupts.
static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on an interrupt stops the work at the next chance instead of ending the process.
pub(crate) fn catch_interrupts() {
    // Without a handler an interrupt simply ends the process, and nothing is half written either.
    let _ = ctrlc::set_handler(|| INTERRUPTED.store(true, Ordering::Relaxed));
}

/// The user has interrupted.
pub(crate) fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// The progress of a study.
pub(crate) struct Progress {
    bar: ProgressBar,
    started: Instant,
}

impl Progress {
    /// Progress over `total` runs, shown on a terminal unless `quiet`.
    pub(crate) fn new(total: u64, quiet: bool) -> Progress {
        let shown = !quiet && std::io::stderr().is_terminal();
        let target = if shown {
            ProgressDrawTarget::stderr_with_hz(8)
        } else {
            ProgressDrawTarget::hidden()
        };
        let bar = ProgressBar::with_draw_target(Some(total), target);
        if let Ok(style) = ProgressStyle::with_template(
            "{msg:24!} [{bar:24}] {human_pos}/{human_len} runs, {rate}/s, {eta} left",
        ) {
            let rate = |state: &ProgressState, to: &mut dyn std::fmt::Write| {
                // A progress bar that cannot be written is no failure.
                let _ = write!(to, "{}", HumanCount(state.per_sec() as u64));
            };
            bar.set_style(style.with_key("rate", rate).progress_chars("=> "));
        }
        Progress {
            bar,
            started: Instant::now(),
        }
    }

    /// Names what is being done.
    pub(crate) fn scenario(&self, name: &str) {
        self.bar.set_message(name.to_owned());
    }

    /// More runs than expected will be made.
    pub(crate) fn extend(&self, runs: u64) {
        self.bar.inc_length(runs);
    }

    /// Takes the line away and tells how long it took.
    pub(crate) fn finish(self) -> (u64, Duration) {
        let done = self.bar.position();
        self.bar.finish_and_clear();
        (done, self.started.elapsed())
    }
}

impl Listener for Progress {
    fn done(&self, runs: u64) {
        self.bar.inc(runs);
    }

    fn stopped(&self) -> bool {
        interrupted()
    }
}
