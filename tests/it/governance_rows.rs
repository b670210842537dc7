//! The checklist of permissions, confinement and jobs (`permissions-and-jobs.md` §23), row by row, against the real
//! program; and what somebody would try who wants to get around it.
//!
//! The tests need `bash`, `git`, `python3` and the tools of util-linux. They hold on machines with fewer layers of
//! confinement too: what is missing must then stand in the program's own report.

mod attacks;
mod bench;
mod confiner;
mod escalation;
mod files;
mod hooks;
mod jobs;
mod load;
mod presets;
mod rules;

use crate::support::process::workspace;

/// What the program cannot be brought to do from outside, or only in part, and the test beside the code that shows
/// it: row, file, function.
const ELSEWHERE: [(u32, &str, &str); 9] = [
    // Ten thousand writes during swaps.
    (17, "host/transom-tools/src/tests/fence/race.rs", "row_17_nothing_outside_ever_changes"),
    // Layers that are missing on purpose.
    (
        20,
        "host/transom-process/tests/confine/network.rs",
        "without_a_network_of_its_own_a_session_has_none",
    ),
    (
        22,
        "host/transom-tools/src/tests/judging.rs",
        "row_22_a_shell_without_a_confiner_is_asked_about",
    ),
    // A launcher that fails, or whose file is removed.
    (
        23,
        "host/transom-process/tests/confine/launcher.rs",
        "a_launcher_that_fails_says_where_and_runs_nothing",
    ),
    (
        23,
        "host/transom-process/tests/confine/launcher.rs",
        "a_launcher_whose_file_is_removed_goes_on_working",
    ),
    // Rules for tools of servers, which nothing offers yet.
    (11, "host/transom-tools/src/tests/judging.rs", "row_11_the_first_rule_that_matches_decides"),
    (
        14,
        "host/transom-tools/src/tests/judging.rs",
        "row_14_what_others_carry_out_is_asked_about_under_read_only",
    ),
    // Notices in every state of the loop.
    (
        27,
        "host/transom-harness/src/agent/tests/jobs.rs",
        "an_end_wakes_an_idle_owner_three_times_in_a_row",
    ),
    // Left-over groups of a host whose guard died with it.
    (
        30,
        "host/transom-process/src/tests/leftover.rs",
        "a_noted_leader_that_is_still_the_same_is_ended_with_its_session",
    ),
];

const ROWS: u32 = 30;

/// Every row has a test here, and what the table promises exists.
#[test]
fn every_row_has_a_test() {
    let here = [
        include_str!("governance_rows/presets.rs"),
        include_str!("governance_rows/escalation.rs"),
        include_str!("governance_rows/rules.rs"),
        include_str!("governance_rows/files.rs"),
        include_str!("governance_rows/confiner.rs"),
        include_str!("governance_rows/jobs.rs"),
    ];
    let has_test = |text: &str, name: &str| {
        let mut lines = text.lines().map(str::trim).peekable();
        let mut is_test = false;
        lines.any(|line| {
            let found = is_test && line.starts_with(name);
            is_test = line.starts_with("#[test]")
                || line.starts_with("#[tokio::test")
                || (is_test && line.starts_with('#'));
            found
        })
    };
    for row in 1..=ROWS {
        let name = format!("fn row_{row:02}_");
        let is_here = here.iter().any(|text| has_test(text, &name));
        let is_elsewhere = ELSEWHERE.iter().any(|(known, ..)| *known == row);
        assert!(is_here || is_elsewhere, "row {row} has no test");
    }
    for (row, file, function) in ELSEWHERE {
        assert!((1..=ROWS).contains(&row), "there is no row {row}");
        let text = std::fs::read_to_string(workspace().join(file));
        let text = text.unwrap_or_else(|error| panic!("row {row}: {file}: {error}"));
        let found =
            ["fn ", "async fn "].iter().any(|word| has_test(&text, &format!("{word}{function}(")));
        assert!(found, "row {row}: {file} has no test {function}");
    }
}
