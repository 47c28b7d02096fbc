use std::io::Write as _;
use std::path::PathBuf;

use super::*;

/// A file of this content in a folder of its own.
fn file(name: &str, content: &[u8]) -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join(name);
    std::fs::write(&path, content).unwrap();
    (folder, path)
}

fn open(content: &str) -> Result<Traces, FileError> {
    Traces::from_bytes("sample.json", content.as_bytes(), InputTokens::Inclusive)
}

fn all(traces: &mut Traces) -> Vec<Run> {
    std::iter::from_fn(|| traces.next_run().unwrap()).collect()
}

fn error(content: &str) -> String {
    let message = refusal(open(content));
    assert!(!message.contains('\n'), "{message}");
    message
}

/// The error with which reading ends, at once or after some runs.
fn refusal(opened: Result<Traces, FileError>) -> String {
    let mut traces = match opened {
        Err(error) => return error.to_string(),
        Ok(traces) => traces,
    };
    loop {
        match traces.next_run() {
            Err(error) => return error.to_string(),
            Ok(run) => assert!(run.is_some(), "no error in {traces:?}"),
        }
    }
}

/// A span of trace `t` with these attributes; times in milliseconds.
fn span(id: &str, parent: &str, from_to: (u64, u64), attributes: &[(&str, &str)]) -> String {
    let list: Vec<String> = attributes
        .iter()
        .map(|(key, value)| match value.parse::<i64>() {
            Ok(number) => format!(r#"{{"key":"{key}","value":{{"intValue":"{number}"}}}}"#),
            Err(_) => format!(r#"{{"key":"{key}","value":{{"stringValue":"{value}"}}}}"#),
        })
        .collect();
    let (from, to) = from_to;
    format!(
        r#"{{"traceId":"t","spanId":"{id}","parentSpanId":"{parent}","name":"span","startTimeUnixNano":"{from}000000","endTimeUnixNano":"{to}000000","attributes":[{}],"status":{{}}}}"#,
        list.join(",")
    )
}

fn export(spans: &[String]) -> String {
    format!(
        r#"{{"resourceSpans":[{{"resource":{{"attributes":[{{"key":"service.name","value":{{"stringValue":"shop"}}}}]}},"scopeSpans":[{{"spans":[{}]}}]}}]}}"#,
        spans.join(",")
    )
}

const AGENT: &[(&str, &str)] = &[
    ("gen_ai.operation.name", "invoke_agent"),
    ("gen_ai.agent.name", "clerk"),
];
const TOOL: &[(&str, &str)] = &[
    ("gen_ai.operation.name", "execute_tool"),
    ("gen_ai.tool.name", "look_up"),
];

fn chat(input: &'static str, output: &'static str) -> Vec<(&'static str, &'static str)> {
    vec![
        ("gen_ai.operation.name", "chat"),
        ("gen_ai.request.model", "m"),
        ("gen_ai.usage.input_tokens", input),
        ("gen_ai.usage.output_tokens", output),
    ]
}

#[test]
fn spans_out_of_order_become_turns_in_order_with_their_calls() {
    let spans = [
        span("3", "1", (30, 40), &chat("150", "7")),
        span("2", "1", (10, 20), &chat("100", "5")),
        span("4", "1", (21, 29), TOOL),
        span("1", "", (0, 50), AGENT),
    ];
    let mut traces = open(&export(&spans)).unwrap();
    assert_eq!(traces.format(), Format::Otlp);
    let runs = all(&mut traces);
    assert_eq!(runs.len(), 1);
    let turns = &runs[0].turns;
    let inputs: Vec<_> = turns.iter().map(|turn| turn.input_tokens).collect();
    assert_eq!(inputs, [Some(100), Some(150)]);
    assert_eq!(turns[0].latency, Some(10_000));
    assert_eq!((turns[0].call_count(), turns[1].call_count()), (1, 0));
    assert_eq!(runs[0].all_calls()[0].latency, Some(8_000));
    assert_eq!(traces.names().get(runs[0].source), "shop/clerk:m");
}

#[test]
fn attribute_names_of_earlier_conventions_mean_the_same() {
    let old = [
        ("llm.request.type", "chat"),
        ("gen_ai.system", "openai"),
        ("gen_ai.response.model", "m"),
        ("gen_ai.usage.prompt_tokens", "100"),
        ("gen_ai.usage.completion_tokens", "5"),
        ("gen_ai.usage.cache_read_input_tokens", "40"),
        ("gen_ai.usage.cost", "0.25 "),
    ];
    let old = old.map(|(key, value)| (key, value.trim()));
    let runs = all(&mut open(&export(&[span("2", "", (10, 20), &old)])).unwrap());
    let turn = runs[0].turns[0];
    assert_eq!(
        (turn.input_tokens, turn.output_tokens),
        (Some(100), Some(5))
    );
    assert_eq!(turn.cached_tokens, Some(40));
    assert_eq!(
        turn.cost.map(|cost| cost.to_string()).as_deref(),
        Some("0.25")
    );
}

#[test]
fn a_span_exported_twice_counts_once_with_its_later_end() {
    let spans = [
        span("2", "", (10, 15), &[("gen_ai.operation.name", "chat")]),
        span("2", "", (10, 20), &chat("100", "5")),
    ];
    let mut traces = open(&export(&spans)).unwrap();
    let runs = all(&mut traces);
    assert_eq!(runs[0].turns.len(), 1);
    assert_eq!(runs[0].turns[0].output_tokens, Some(5));
    assert!(traces.remarks()[0].contains("1 spans exported twice"));
}

#[test]
fn different_spans_of_one_id_both_count_with_a_remark() {
    let spans = [
        span("2", "", (10, 15), &chat("100", "5")),
        span("2", "", (30, 40), &chat("150", "7")),
    ];
    let mut traces = open(&export(&spans)).unwrap();
    let runs = all(&mut traces);
    assert_eq!(runs[0].turns.len(), 2);
    assert!(traces.remarks()[0].contains("1 spans have the id of another span"));
}

#[test]
fn each_agent_of_a_trace_is_a_run_and_one_that_only_hands_on_is_none() {
    let spans = [
        span("boss", "", (0, 90), AGENT),
        span("a", "boss", (1, 40), AGENT),
        span("b", "boss", (1, 50), AGENT),
        span("a1", "a", (2, 10), &chat("10", "1")),
        span("b1", "b", (3, 10), &chat("20", "1")),
        span("a2", "a", (11, 20), &chat("30", "1")),
    ];
    let runs = all(&mut open(&export(&spans)).unwrap());
    let turns: Vec<_> = runs.iter().map(|run| run.turns.len()).collect();
    assert_eq!(turns, [2, 1]);
    assert_ne!(runs[0].run_id, runs[1].run_id);
}

#[test]
fn interleaved_traces_are_told_apart_and_exports_may_be_one_a_line() {
    let of = |trace: &str, id: &str, from: u64| {
        span(id, "", (from, from + 1), &chat("10", "1")).replace("\"t\"", &format!("\"{trace}\""))
    };
    let lines = [
        export(&[of("x", "1", 10), of("y", "1", 11)]),
        export(&[of("x", "2", 12)]),
    ];
    let runs = all(&mut open(&lines.join("\n")).unwrap());
    let turns: Vec<_> = runs
        .iter()
        .map(|run| (run.run_id.as_str(), run.turns.len()))
        .collect();
    assert_eq!(turns, [("x", 2), ("y", 1)]);
}

/// As [`span`], in this trace.
fn span_of(trace: &str, id: &str, from: u64) -> String {
    span(id, "", (from, from + 1), &chat("10", "1")).replace("\"t\"", &format!("\"{trace}\""))
}

/// Runs of OTLP lines with room for so many spans.
fn within(most: usize, lines: &[String]) -> Stream {
    let text = lines.join("\n");
    let content: Content = Box::new(move || Ok(Box::new(Cursor::new(text.clone()))));
    Stream::new(
        "f.jsonl",
        Box::new(move |out| otlp::read_within(most, "f.jsonl", &content, out)),
    )
}

#[test]
fn spans_of_finished_traces_are_let_go_so_that_a_file_may_have_any_number() {
    let lines: Vec<String> = (0..50)
        .map(|at| {
            export(&[
                span_of(&format!("t{at}"), "1", 10 * at),
                span_of(&format!("t{at}"), "2", 10 * at + 1),
            ])
        })
        .collect();
    let mut one_by_one = within(50, &lines);
    let runs: Vec<Run> = std::iter::from_fn(|| one_by_one.next_run().unwrap()).collect();
    assert_eq!(runs.len(), 50);
    assert!(runs.iter().all(|run| run.turns.len() == 2));
}

#[test]
fn more_spans_at_a_time_than_the_limit_are_refused_with_the_limit() {
    let open: Vec<String> = (0..6)
        .map(|at| export(&[span_of(["a", "b", "c"][at % 3], &at.to_string(), at as u64)]))
        .collect();
    let message = within(3, &open).next_run().unwrap_err().to_string();
    assert!(
        message.starts_with("f.jsonl:4: found more than 3 spans of traces that are unfinished"),
        "{message}"
    );
    assert!(message.contains("split the file by trace"), "{message}");
    let message = within(2, &open).next_run().unwrap_err().to_string();
    assert!(message.contains("more than 2 traces"), "{message}");
}

#[test]
fn runs_come_in_the_order_of_their_start_whatever_the_order_of_the_file() {
    let lines: Vec<String> = [("late", "1", 30), ("early", "1", 10), ("middle", "1", 20)]
        .map(|(trace, id, from)| export(&[span_of(trace, id, from)]))
        .to_vec();
    let runs = all(&mut open(&lines.join("\n")).unwrap());
    let order: Vec<&str> = runs.iter().map(|run| run.run_id.as_str()).collect();
    assert_eq!(order, ["early", "middle", "late"]);
}

#[test]
fn the_service_of_spans_may_stand_behind_them() {
    let text = export(&[span_of("a", "1", 1), span_of("b", "1", 2)]);
    let (resource, spans) = text.split_once(r#","scopeSpans""#).unwrap();
    let resource = resource.split_once(r#"[{"#).unwrap().1;
    let spans = spans.strip_suffix("}]}").unwrap();
    let turned = format!(r#"{{"resourceSpans":[{{"scopeSpans"{spans},{resource}}}]}}"#);
    let mut traces = open(&format!("{text}\n{}", turned.replace("shop", "mill"))).unwrap();
    let runs = all(&mut traces);
    assert_eq!(runs.len(), 2);
    let mut traces = open(&turned.replace("shop", "mill")).unwrap();
    let sources: Vec<String> = all(&mut traces)
        .iter()
        .map(|run| traces.names().get(run.source).to_owned())
        .collect();
    assert_eq!(sources, ["mill:m", "mill:m"]);
}

#[test]
fn a_failed_request_is_a_retry_and_a_stream_without_usage_a_turn_without_tokens() {
    let failed = span(
        "1",
        "",
        (1, 2),
        &[("gen_ai.operation.name", "chat"), ("error.type", "timeout")],
    );
    let silent = span("2", "", (3, 4), &[("gen_ai.operation.name", "chat")]);
    let runs = all(&mut open(&export(&[failed, silent])).unwrap());
    assert_eq!((runs[0].turns.len(), runs[0].failed_requests), (1, 1));
    assert_eq!(runs[0].turns[0].input_tokens, None);
    assert_eq!(runs[0].turns[0].usage(), None);
}

#[test]
fn null_means_the_same_as_absent_in_every_format() {
    let span = span("1", "", (1, 2), &chat("10", "1"))
        .replace(r#""parentSpanId":"""#, r#""parentSpanId":null"#)
        .replace(r#""status":{}"#, r#""status":null"#);
    let nothing = r#"{"resourceSpans":[{"resource":null,"scopeSpans":null},{"resource":{"attributes":null},
        "scopeSpans":[{"spans":null},{"spans":[{"attributes":null,"name":null}]}]}]}"#;
    for (text, runs, turns) in [
        (format!("{nothing}\n{}", export(&[span])), 1, 1),
        (
            r#"{"info":null,"simulations":[{"id":"a","messages":null}]}"#.to_owned(),
            1,
            0,
        ),
        (r#"{"simulations":null}"#.to_owned(), 0, 0),
        (
            r#"{"messages":null,"info":{"config":null}}"#.to_owned(),
            1,
            0,
        ),
    ] {
        let read = all(&mut open(&text).unwrap());
        let number: usize = read.iter().map(|run| run.turns.len()).sum();
        assert_eq!((read.len(), number), (runs, turns), "{text}");
    }
}

#[test]
fn a_broken_attribute_names_its_span() {
    let spans = [span("77", "", (1, 2), &chat("-5", "1"))];
    let message = error(&export(&spans));
    assert!(
        message.contains("span 77: `gen_ai.usage.input_tokens` is -5"),
        "{message}"
    );
}

const TRAJECTORY: &str = r#"{
  "info": {"exit_status": "Submitted", "config": {"model": {"model_name": "vendor/m"}}},
  "messages": [
    {"role": "system", "content": "rules"},
    {"role": "user", "content": "task"},
    {"role": "assistant", "content": "look\n\n```bash\nls\n```", "extra": {"response": {"usage":
      {"prompt_tokens": 100, "completion_tokens": 20, "cost": 0.0012,
       "prompt_tokens_details": {"cached_tokens": 60}, "completion_tokens_details": {"reasoning_tokens": 3}}}}},
    {"role": "user", "content": "<returncode>2</returncode>\n<output>\nno\n</output>"},
    {"role": "assistant", "content": "```bash\nls\n```\nor\n```bash\npwd\n```", "extra": {"response": {"usage": null}}},
    {"role": "user", "content": "one command, please"},
    {"role": "assistant", "content": "```bash\necho done\n```", "extra": {}},
    {"role": "user", "content": "the patch"}
  ],
  "trajectory_format": "mini-swe-agent-1", "instance_id": "task-9"
}"#;

#[test]
fn a_trajectory_is_a_run_with_its_commands_as_calls() {
    let mut traces = open(TRAJECTORY).unwrap();
    assert_eq!(traces.format(), Format::MiniSwe);
    let runs = all(&mut traces);
    let run = &runs[0];
    assert_eq!(
        (run.run_id.as_str(), run.final_answer),
        ("task-9", Some(true))
    );
    let calls: Vec<_> = run.turns.iter().map(Turn::call_count).collect();
    assert_eq!(
        calls,
        [1, 0, 1],
        "two commands in a message are a format error"
    );
    assert_eq!(run.turns[0].cached_tokens, Some(60));
    assert_eq!(run.turns[0].reasoning_tokens, Some(3));
    assert_eq!(
        run.turns[0].cost.map(|cost| cost.to_string()).as_deref(),
        Some("0.0012")
    );
    assert_eq!(run.turns[1].input_tokens, None, "missing is not 0");
    assert!(run.all_calls()[0].error);
    assert_eq!(run.all_calls()[1].result, None);
    assert_eq!(traces.names().get(run.source), "mini-swe-agent:vendor/m");
}

#[test]
fn a_trajectory_of_the_second_version_names_actions_and_return_codes() {
    let text = r#"{"messages": [
        {"role": "assistant", "content": [{"type": "text", "text": "both"}],
         "extra": {"actions": [{"command": "a"}, {"command": "b"}], "cost": 0.5}},
        {"role": "tool", "content": "x", "extra": {"returncode": 0}},
        {"role": "tool", "content": "y", "extra": {"returncode": 1}},
        {"role": "exit", "content": "", "extra": {}}],
        "info": {"exit_status": "LimitsExceeded"}}"#;
    let runs = all(&mut open(text).unwrap());
    let errors: Vec<_> = runs[0].all_calls().iter().map(|call| call.error).collect();
    assert_eq!(errors, [false, true]);
    assert_eq!(runs[0].final_answer, Some(false));
    assert_eq!(runs[0].run_id, "sample");
}

const RESULTS: &str = r#"{"timestamp": "t", "info": {"agent_info": {"llm": "m"}, "environment_info": {"domain_name": "shop"}},
 "tasks": [], "simulations": [{"id": "s1", "task_id": 3, "termination_reason": "max_steps", "messages": [
  {"role": "assistant", "content": "Hello", "tool_calls": null, "cost": 0.0, "usage": null},
  {"role": "user", "content": "hi", "cost": 0.1, "tool_calls": [{"id": "u", "name": "own", "arguments": {}}]},
  {"role": "tool", "id": "u", "content": "user's own"},
  {"role": "assistant", "content": null, "cost": 0.0002, "usage": {"prompt_tokens": 30, "completion_tokens": 4},
   "raw_data": {"usage": {"prompt_tokens": 30, "completion_tokens": 4, "prompt_tokens_details": {"cached_tokens": 16}}},
   "tool_calls": [{"id": "a", "name": "find", "arguments": {"q": 1}}, {"id": "b", "name": "find", "arguments": {"q": 1}}],
   "generation_time_seconds": 1.5},
  {"role": "tool", "tool_messages": [{"role": "tool", "id": "b", "content": "Error", "error": true}, {"role": "tool", "id": "a", "content": "ok", "error": false}]},
  {"role": "assistant", "content": "bye", "cost": 0.0, "usage": null}
 ]}]}"#;

#[test]
fn a_simulation_keeps_the_agents_turns_and_its_own_calls() {
    let mut traces = open(RESULTS).unwrap();
    assert_eq!(traces.format(), Format::Tau2);
    let runs = all(&mut traces);
    let run = &runs[0];
    assert_eq!(run.turns.len(), 2, "the greeting is no turn");
    assert_eq!(run.turns[0].cached_tokens, Some(16));
    assert_eq!(run.turns[0].latency, Some(1_500_000));
    assert_eq!(run.turns[1].cost, None, "0 without usage is not recorded");
    let calls = run.all_calls();
    assert_eq!(calls.len(), 2);
    assert_eq!(calls[0].args, calls[1].args);
    assert_eq!((calls[0].error, calls[1].error), (false, true));
    assert_eq!(run.final_answer, Some(false));
    assert_eq!(traces.names().get(run.source), "tau2/shop:m");
}

#[test]
fn simulations_may_stand_before_the_info_that_tells_whose_they_are() {
    let (before, simulations) = RESULTS.split_once(r#""tasks": [], "#).unwrap();
    let info = before.trim().trim_start_matches('{').trim_end_matches(',');
    let turned = format!("{{{},{info}}}", simulations.strip_suffix('}').unwrap());
    let other = turned.replace(r#""llm": "m""#, r#""llm": "n""#);
    let mut traces = open(&format!("{RESULTS}{turned}{other}")).unwrap();
    let runs = all(&mut traces);
    let sources: Vec<&str> = runs
        .iter()
        .map(|run| traces.names().get(run.source))
        .collect();
    assert_eq!(sources, ["tau2/shop:m", "tau2/shop:m", "tau2/shop:n"]);
}

#[test]
fn runs_before_a_broken_one_are_read_and_it_is_named_by_its_line() {
    let good = &RESULTS[RESULTS.find("[{\"id\"").unwrap() + 1..RESULTS.len() - 2];
    let text = format!("{{\"info\": {{}}, \"simulations\": [\n{good},\n{good},\n{{\"id\": 5}}]}}");
    let line = text.lines().count();
    let mut traces = open(&text).unwrap();
    assert!(traces.next_run().unwrap().is_some());
    assert!(traces.next_run().unwrap().is_some());
    let message = traces.next_run().unwrap_err().to_string();
    assert!(
        message.starts_with(&format!("sample.json:{line}: ")),
        "{message}"
    );
    assert_eq!(traces.next_run(), Ok(None), "nothing follows an error");
}

#[test]
fn whoever_asks_for_no_more_runs_leaves_no_parser_behind() {
    let lines: Vec<String> = (0..200)
        .map(|at| export(&[span_of(&format!("t{at}"), "1", at)]))
        .collect();
    let content = Arc::new(lines.join("\n"));
    let still_read = Arc::downgrade(&content);
    let opened: Content = Box::new(move || Ok(Box::new(Cursor::new(content.as_bytes().to_vec()))));
    let mut runs = Stream::new("f", Box::new(move |out| otlp::read("f", &opened, out)));
    assert!(runs.next_run().unwrap().is_some());
    drop(runs);
    while still_read.upgrade().is_some() {
        std::thread::yield_now();
    }
}

#[test]
fn gzip_is_accepted_in_every_format_and_a_truncated_one_is_refused() {
    for text in [
        TRAJECTORY,
        RESULTS,
        &export(&[span("1", "", (1, 2), &chat("1", "1"))]),
    ] {
        let mut gz = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gz.write_all(text.as_bytes()).unwrap();
        let bytes = gz.finish().unwrap();
        let (_folder, path) = file("x.gz", &bytes);
        let mut traces = Traces::open(&path, InputTokens::Inclusive).unwrap();
        assert_eq!(all(&mut traces).len(), 1);
        std::fs::write(&path, &bytes[..bytes.len() - 12]).unwrap();
        let message = refusal(Traces::open(&path, InputTokens::Inclusive));
        assert!(message.contains("a truncated gzip file"), "{message}");
    }
}

const LINE: &str = r#"{"source":"s","run_id":"r","turns":[{"input_tokens":10,"cached_tokens":40,"output_tokens":1}]}"#;

#[test]
fn fewer_input_tokens_than_cached_ones_contradict_the_inclusive_convention() {
    let message = error(&format!("\n{LINE}\n"));
    assert!(
        message
            .contains("sample.json:2: run r, turns[0]: found 10 input tokens, 40 of them cached"),
        "{message}"
    );
    assert!(message.contains("--input-tokens exclusive"), "{message}");
}

#[test]
fn exclusive_input_tokens_get_the_cached_ones_on_top() {
    let (_folder, path) = file("x.jsonl", LINE.as_bytes());
    let mut traces = Traces::open(&path, InputTokens::Exclusive).unwrap();
    assert_eq!(all(&mut traces)[0].turns[0].input_tokens, Some(50));
}

#[test]
fn an_object_of_no_known_format_is_refused_with_what_is_known() {
    let message = error(r#"{"a": 1, "b": [2]}"#);
    assert!(
        message.contains("an object with the keys `a`, `b`"),
        "{message}"
    );
    assert!(
        message.contains("`resourceSpans`") && message.contains("`simulations`"),
        "{message}"
    );
}

#[test]
fn broken_documents_name_the_line() {
    for (text, part) in [
        (
            "{\"resourceSpans\": [\n{\"scopeSpans\": 3}]}",
            "sample.json:2: ",
        ),
        ("{\"simulations\": [\n\n", "sample.json:"),
        ("{\"messages\": 1}", "a trajectory of mini-swe-agent"),
        ("nonsense", "sample.json:1: "),
    ] {
        let message = error(text);
        assert!(message.contains(part), "{message}");
    }
}
