//! The checklist of the agent loop (`agent-loop.md` §21), row by row, against the real binary. A row that no peer of a
//! binary can bring about, or only in part, is tested beside the code; the table says where.

mod asks;
mod cancel;
mod children;
mod delegation;
mod images;
mod model;
mod order;
mod recovery;
mod stage;
mod store;
mod toolbox;
mod tools;

use std::{fs, path::Path};

use crate::support::process::workspace;

const ROWS: u32 = 42;

/// Row, file and test of what stands beside the code.
const ELSEWHERE: [(u32, &str, &str); 21] = [
    // What is appended by the host itself.
    (
        5,
        "host/transom-harness/src/vocabulary/tests.rs",
        "minus_zero_is_refused_and_nothing_else_is",
    ),
    // The host mints the ids of messages; a peer cannot send one twice.
    (7, "host/transom-harness/src/agent/tests/order.rs", "a_pending_id_is_not_taken_twice"),
    // No door injects; here it is the end of a job that does.
    (
        9,
        "host/transom-harness/src/agent/tests/order.rs",
        "injected_input_waits_for_somebody_elses_wake",
    ),
    // The order of its events; that the real program blocks a turn is shown among the hooks.
    (
        11,
        "host/transom-harness/src/agent/tests/hooks.rs",
        "a_hook_that_rejects_a_step_blocks_the_turn",
    ),
    // Which of two reads ends first is a matter of the disk.
    (
        24,
        "host/transom-harness/src/agent/tests/tools.rs",
        "results_stand_in_the_order_of_the_calls",
    ),
    // Lines of a peer do not arrive in one tick.
    (
        27,
        "host/transom-harness/src/agent/tests/cancel.rs",
        "a_cancel_right_behind_the_prompt_leaves_no_step",
    ),
    // Every word of an answer, and an answerer that fails.
    (
        29,
        "host/transom-harness/src/agent/tests/asks.rs",
        "each_word_has_its_result_and_one_pair_of_events",
    ),
    // A log that is cut anywhere, not only where a kill may cut it.
    (33, "host/transom-harness/src/restore/tests.rs", "a_log_cut_anywhere_is_closed_once"),
    (
        34,
        "host/transom-harness/src/restore/tests.rs",
        "a_call_that_ran_is_told_apart_from_one_that_did_not",
    ),
    // Sessions of JSON lines that go on: no door resumes one yet.
    (
        35,
        "host/transom-store/src/tests/mending.rs",
        "a_torn_tail_is_passed_over_and_cut_off_when_the_session_goes_on",
    ),
    (
        35,
        "host/transom-store/src/tests/mending.rs",
        "damage_before_the_end_of_a_turn_is_refused_by_its_line",
    ),
    (
        36,
        "host/transom-store/src/tests/mending.rs",
        "a_log_without_a_header_of_this_version_is_refused",
    ),
    (36, "host/transom-harness/src/restore/tests.rs", "what_may_be_ignored_is"),
    (36, "host/transom-harness/src/restore/tests.rs", "a_header_of_another_format_is_refused"),
    // How many deltas fall into one batch is a matter of time.
    (
        37,
        "host/transom-store/src/tests/jsonl.rs",
        "three_deltas_of_a_batch_are_one_row_and_two_are_not",
    ),
    // A directory at the root of the file system.
    (38, "host/transom-store/src/jsonl/layout/tests.rs", "a_working_directory_is_a_slug"),
    (38, "host/transom-store/src/jsonl/layout/tests.rs", "an_id_is_a_segment"),
    (39, "host/transom-process/src/tests/environment.rs", "row_39_sees_path_and_language"),
    // Tools of this host never give an empty result.
    (
        41,
        "host/transom-model/src/deepseek/body/tests.rs",
        "results_become_messages_of_their_own_behind_the_text",
    ),
    (41, "host/transom-model/src/deepseek/body/tests.rs", "empty_members_are_left_out"),
    // A policy is switched by doors that may, which the doors of this version may not.
    (
        42,
        "host/transom-harness/src/agent/tests/permissions.rs",
        "a_switch_is_three_events_a_message_and_one_new_snapshot",
    ),
];

/// The names of the tests in a source.
fn tests(source: &Path) -> Vec<String> {
    let text = fs::read_to_string(source);
    let text = text.unwrap_or_else(|error| panic!("{}: {error}", source.display()));
    let behind_marks = text.split("#[test]").skip(1);
    let signatures = behind_marks.filter_map(|rest| rest.split_once("fn ")?.1.split_once('('));
    signatures.map(|(name, _)| name.to_owned()).collect()
}

#[test]
fn every_row_has_a_test() {
    let here = workspace().join("tests/it/loop_rows");
    let files = fs::read_dir(&here).expect("the rows").map(|file| file.expect("a file").path());
    let here: Vec<_> = files.flat_map(|file| tests(&file)).collect();
    for row in 1..=ROWS {
        let name = format!("row_{row:02}_");
        let is_here = here.iter().any(|test| test.starts_with(&name));
        let is_elsewhere = ELSEWHERE.iter().any(|(known, ..)| *known == row);
        assert!(is_here || is_elsewhere, "row {row} has no test");
    }
    for (row, file, test) in ELSEWHERE {
        assert!((1..=ROWS).contains(&row), "there is no row {row}");
        let known = tests(&workspace().join(file));
        assert!(known.iter().any(|known| known == test), "row {row}: {file} has no test {test}");
    }
}
