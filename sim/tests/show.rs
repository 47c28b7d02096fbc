mod common;
use holdback_scenarios::{Loader, library};
#[test]
fn show() {
    for name in library::incident_names() {
        let study = Loader::default().study(name).unwrap();
        println!("== {name}");
        for s in &study.scenarios {
            for p in &study.policies {
                let r = common::record(s, p);
                println!(
                    "{} | {} | {} {} {} steps {} mc {} tc {} ref {} skip {} den {} unread {} ev {} billed {} ledger {} over {:?} kills {} rep {} ckpt {} in {} out {} dur {} late {}",
                    s.name,
                    p.name,
                    r.outcome.as_str(),
                    r.cause.as_str(),
                    r.limiter.map_or("-", |l| l.as_str()),
                    r.steps,
                    r.model_calls,
                    r.tool_calls,
                    r.refused_calls,
                    r.skipped_calls,
                    r.denied_calls,
                    r.unread_results,
                    r.evidence,
                    r.billed,
                    r.ledger,
                    r.overspend.map(|o| o.to_string()),
                    r.kills,
                    r.repaid_calls,
                    r.checkpoints,
                    r.input_tokens,
                    r.output_tokens,
                    r.duration / 1000,
                    r.late
                );
            }
        }
    }
    for name in library::study_names() {
        let study = Loader::default().study(name).unwrap();
        println!("== {name}");
        for s in &study.scenarios {
            let c = common::campaign(s, &study.policies, 200);
            for (p, cell) in study.policies.iter().zip(&c.cells) {
                let t = &cell.tally;
                let n = t.runs as f64;
                let causes: Vec<String> = t
                    .causes
                    .iter()
                    .map(|((o, c), n)| format!("{}:{}={n}", o.as_str(), c.as_str()))
                    .collect();
                println!(
                    "{:26} {:36} ans {:5.3} part {:5.3} cost {:.3} mc {:.1} tc {:.1} ev {:.2} ent {:.2} ckpt {:.1} kills {} repaid {} over {:.3} den {:.2} refd {:.2} late {} | {}",
                    s.name,
                    p.name,
                    t.answered as f64 / n,
                    t.partial as f64 / n,
                    t.sums.billed.to_f64() / n,
                    t.sums.model_calls as f64 / n,
                    t.sums.tool_calls as f64 / n,
                    t.sums.evidence as f64 / n,
                    t.sums.evidence_entries as f64 / n,
                    t.sums.checkpoints as f64 / n,
                    t.sums.kills,
                    t.sums.repaid_calls,
                    t.overspent as f64 / n,
                    t.sums.denied_calls as f64 / n,
                    t.sums.refused_calls as f64 / n,
                    t.late,
                    causes.join(" ")
                );
            }
        }
    }
    let d = library::default_study();
    for s in library::scenarios() {
        let c = common::campaign(&s, &d.policies, 200);
        for (p, cell) in d.policies.iter().zip(&c.cells) {
            let t = &cell.tally;
            let n = t.runs as f64;
            let causes: Vec<String> = t
                .causes
                .iter()
                .map(|((o, c), n)| format!("{}:{}={n}", o.as_str(), c.as_str()))
                .collect();
            println!(
                "X {:26} {:36} ans {:5.3} part {:5.3} cost {:.3} mc {:.1} tc {:.1} ev {:.2} over {:.3} ledg {:.3} den {:.2} dur {} | {}",
                s.name,
                p.name,
                t.answered as f64 / n,
                t.partial as f64 / n,
                t.sums.billed.to_f64() / n,
                t.sums.model_calls as f64 / n,
                t.sums.tool_calls as f64 / n,
                t.sums.evidence as f64 / n,
                t.overspent as f64 / n,
                t.sums.ledger.to_f64() / n,
                t.sums.denied_calls as f64 / n,
                t.sums.duration_us / 1000000 / t.runs,
                causes.join(" ")
            );
        }
    }
}
