//! Recordings of the published runtime, which has the standard surface (row 51): which are played, and what else they need
//! than those of the automation surface. How one is played stands in the module above.

use std::{path::Path, thread, time::Instant};

use serde_json::{Value, json};
use transom_frame::SessionId;
use transom_harness::ports::Page;

use crate::support::{recording::Step, wire::PATIENCE};

recordings! {
    pub_bom_prompt = "pub-bom-prompt.jsonl",
    pub_cancel_edges = "pub-cancel-edges.jsonl",
    pub_cancel_hang = "pub-cancel-hang.jsonl",
    pub_cancel_immediate = "pub-cancel-immediate.jsonl",
    pub_cancel_tool = "pub-cancel-tool.jsonl",
    pub_eof_during_prompt = "pub-eof-during-prompt.jsonl",
    pub_eof_during_tool = "pub-eof-during-tool.jsonl",
    pub_eof_immediate = "pub-eof-immediate.jsonl",
    pub_ext_cancel_request = "pub-ext-cancel-request.jsonl",
    pub_ext_close_inflight = "pub-ext-close-inflight.jsonl",
    pub_ext_config_options = "pub-ext-config-options.jsonl",
    pub_ext_list_paging = "pub-ext-list-paging.jsonl",
    pub_ext_session_lifecycle = "pub-ext-session-lifecycle.jsonl",
    pub_framing_batch = "pub-framing-batch.jsonl",
    pub_framing_empty_array = "pub-framing-empty-array.jsonl",
    pub_framing_empty_object = "pub-framing-empty-object.jsonl",
    pub_framing_invalid_json = "pub-framing-invalid-json.jsonl",
    pub_framing_no_trailing_newline = "pub-framing-no-trailing-newline.jsonl",
    pub_framing_number = "pub-framing-number.jsonl",
    pub_framing_split_utf8 = "pub-framing-split-utf8.jsonl",
    pub_framing_string = "pub-framing-string.jsonl",
    pub_framing_tolerant = "pub-framing-tolerant.jsonl",
    pub_handshake = "pub-handshake.jsonl",
    pub_initialize_versions = "pub-initialize-versions.jsonl",
    pub_late_update = "pub-late-update.jsonl",
    pub_model_errors = "pub-model-errors.jsonl",
    pub_multi_session = "pub-multi-session.jsonl",
    pub_no_credential = "pub-no-credential.jsonl",
    pub_no_initialize = "pub-no-initialize.jsonl",
    pub_overlap = "pub-overlap.jsonl",
    pub_permission_allow = "pub-permission-allow.jsonl",
    pub_permission_cancelled = "pub-permission-cancelled.jsonl",
    pub_permission_error = "pub-permission-error.jsonl",
    pub_permission_method_not_found = "pub-permission-method-not-found.jsonl",
    pub_permission_never_policy = "pub-permission-never-policy.jsonl",
    pub_permission_pending_cancel = "pub-permission-pending-cancel.jsonl",
    pub_permission_reject = "pub-permission-reject.jsonl",
    pub_permission_two_calls = "pub-permission-two-calls.jsonl",
    pub_permission_unknown_option = "pub-permission-unknown-option.jsonl",
    pub_prompt_content = "pub-prompt-content.jsonl",
    pub_prompt_errors = "pub-prompt-errors.jsonl",
    pub_prompt_output_rule = "pub-prompt-output-rule.jsonl",
    pub_prompt_plain = "pub-prompt-plain.jsonl",
    pub_prompt_thought_only = "pub-prompt-thought-only.jsonl",
    pub_same_write = "pub-same-write.jsonl",
    pub_sdk_0_25_1_client = "pub-sdk-0.25.1-client.jsonl",
    pub_sdk_2_4_0_client = "pub-sdk-2.4.0-client.jsonl",
    pub_session_new_errors = "pub-session-new-errors.jsonl",
    pub_sigint = "pub-sigint.jsonl",
    pub_sigterm = "pub-sigterm.jsonl",
    pub_stop_filter = "pub-stop-filter.jsonl",
    pub_stop_length = "pub-stop-length.jsonl",
    pub_unknown_methods = "pub-unknown-methods.jsonl",
}

/// Recordings that are not played, and why.
pub(super) const LEFT_OUT: [(&str, &str); 2] = [
    (
        "pub-ext-image-prompt.jsonl",
        "its model takes images, and the provider of the others none: `acp_standard` tells it",
    ),
    (
        "pub-ext-mcp-stdio.jsonl",
        "it needs MCP servers, which this host cannot bridge: `acp_standard` tells what is refused",
    ),
];

/// Options of the door.
pub(super) fn options(file: &str) -> Value {
    match file {
        "pub-ext-list-paging.jsonl" => json!({"surface": "standard", "sessionListPageSize": 2}),
        _ => json!({"surface": "standard"}),
    }
}

/// Whether what the client says ends a turn, of which the text until then is shown.
pub(super) fn stops(said: &str) -> bool {
    ["session/cancel", "$/cancel_request", "session/close"]
        .iter()
        .any(|method| said.contains(method))
}

/// What the client says back to back goes out in one write, so that nothing comes between; only what stops a turn is said
/// some time later.
pub(super) fn at_once(steps: Vec<Step>) -> Vec<Step> {
    let mut joined: Vec<Step> = Vec::new();
    for step in steps {
        match (joined.last_mut(), step) {
            (Some(Step::Write(before)), Step::Write(said)) if !stops(&said) => {
                before.push_str(&said);
            }
            (_, step) => joined.push(step),
        }
    }
    joined
}

/// Waits until a command has made this file.
pub(super) fn await_file(path: &Path) {
    let end = Instant::now() + PATIENCE;
    while !path.exists() {
        assert!(Instant::now() < end, "there is no {path:?}");
        thread::yield_now();
    }
}

/// Waits until the log has the beginnings of so many answers that were left hanging: what was said before was said
/// some time after its prompt.
pub(super) fn await_partials(store: &Path, count: usize) {
    if count == 0 {
        return;
    }
    let end = Instant::now() + PATIENCE;
    while partials(store) < count {
        assert!(Instant::now() < end, "{count} answers have not begun");
        thread::yield_now();
    }
}

fn partials(store: &Path) -> usize {
    let reader = transom_store::open_read_only(store).expect("the store");
    let sessions = reader.list().expect("its sessions");
    let events = |id: &SessionId| {
        let page = Page { from: 0, limit: u64::MAX, bytes_max: u64::MAX };
        reader.read(id, page).expect("its events")
    };
    let is_one = |event: &str| event.contains("text-delta") && event.contains("partial");
    sessions.iter().flat_map(|session| events(&session.id)).filter(|event| is_one(event)).count()
}
