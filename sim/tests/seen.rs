//! A campaign knows which rare events it has exercised.

mod common;

use holdback_scenarios::library;
use holdback_sim::tally::Event;

/// Runs of each scenario, far fewer than the study asks for.
const RUNS: u64 = 400;

#[test]
fn the_default_study_sees_every_rare_event() {
    let study = library::default_study();
    let mut seen = vec![0_u64; Event::ALL.len()];
    for scenario in &study.scenarios {
        let campaign = common::campaign(scenario, &study.policies, RUNS);
        for cell in &campaign.cells {
            for (total, count) in seen.iter_mut().zip(&cell.tally.seen) {
                *total += count;
            }
        }
    }
    let unseen: Vec<&str> = Event::ALL
        .iter()
        .zip(&seen)
        .filter(|(_, count)| **count == 0)
        .map(|(event, _)| event.as_str())
        .collect();
    for (event, count) in Event::ALL.iter().zip(&seen) {
        println!("{:>8} {}", count, event.as_str());
    }
    assert!(unseen.is_empty(), "never seen: {}", unseen.join(", "));
}
