//! Command lines, configurations and patches against what they come to.

mod expressions;
mod profiles;
mod tools;

use std::{
    collections::BTreeMap,
    io,
    path::{Path, PathBuf},
};

use super::{
    AcpServer, Invocation, Launch, LaunchError, LaunchModel, PermissionMode, Sessions,
    Surroundings, invocation, launch,
};

/// A process in `/work` with these variables and files.
struct Machine {
    environment: BTreeMap<String, String>,
    files: BTreeMap<PathBuf, Vec<u8>>,
}

impl Machine {
    fn new(variables: &[(&str, &str)], files: &[(&str, &str)]) -> Machine {
        let variable = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let file = |(path, text): &(&str, &str)| (PathBuf::from(path), text.as_bytes().to_vec());
        Machine {
            environment: variables.iter().map(variable).collect(),
            files: files.iter().map(file).collect(),
        }
    }

    fn run<T>(&self, look: impl FnOnce(Surroundings<'_>) -> T) -> T {
        let read = |path: &Path| match self.files.get(path) {
            Some(bytes) if bytes == b"(a directory)" => Err(io::Error::other("it is a directory")),
            Some(bytes) => Ok(bytes.clone()),
            None => Err(io::Error::from(io::ErrorKind::NotFound)),
        };
        look(Surroundings {
            environment: &self.environment,
            directory: Path::new("/project"),
            read: &read,
        })
    }

    fn launch(&self, arguments: &[&str]) -> Result<Launch, LaunchError> {
        let invocation = invoke(arguments)?;
        self.run(|surroundings| launch(&invocation, surroundings))
    }

    fn refusal(&self, arguments: &[&str]) -> String {
        self.launch(arguments).expect_err("refused").to_string()
    }
}

fn invoke(arguments: &[&str]) -> Result<Invocation, super::UsageError> {
    let arguments: Vec<String> = arguments.iter().map(|&argument| argument.to_owned()).collect();
    invocation(&arguments)
}

/// Form A with this configuration and these variables.
fn form_a(configuration: &str, variables: &[(&str, &str)]) -> Result<Launch, LaunchError> {
    Machine::new(variables, &[("/project/c.yml", configuration)]).launch(&["c.yml"])
}

/// The shape of the baseline's bundled default, in words of our own.
pub(super) const BUNDLED: &str = "
- {id: server, name: '@deepseek-ai/dsh-sdk-jsonrpc-server'}
- {id: core, name: '@deepseek-ai/dsh-agent-spine-demo', config: {workspaceContext: {maxBytes: 65536}}}
- {id: llm, name: '@deepseek-ai/dsh-llm-deepseek'}
- id: sessions
  name: '@deepseek-ai/dsh-session-persistence-jsonl'
  config:
    root: !!js process.env.DSH_SESSION_ROOT ?? './.sessions'
- {id: checkpoints, name: '@deepseek-ai/dsh-session-checkpoint-policy'}
- {id: subprocess, name: '@deepseek-ai/dsh-subprocess-local'}
- id: bash
  name: '@deepseek-ai/dsh-bash-local'
  config:
    cwd: !!js process.env.DSH_CWD ?? process.cwd()
- id: files
  name: '@deepseek-ai/dsh-fs-local'
  config:
    cwd: !!js process.env.DSH_CWD ?? process.cwd()
";

/// The shape of the coding agent's composition.
const CODING: &str = "
- id: sdk-server
  name: '@deepseek-ai/dsh-sdk-jsonrpc-server'
  config:
    maxTokensAsSuccess: !!js 'process.env.DSH_MAX_TOKENS_AS_SUCCESS === undefined ? true : JSON.parse(process.env.DSH_MAX_TOKENS_AS_SUCCESS)'
- id: core
  name: '@deepseek-ai/dsh-agent-spine-demo'
  config:
    persona: !!js process.env.DSH_SYSTEM_PROMPT ?? 'You write code.'
    workspaceContext: false
    toolBash: {enableRunInBackground: false}
    toolJobs: false
    skills: {enabled: false}
- id: llm
  name: '@deepseek-ai/dsh-llm-deepseek'
  config:
    defaultContextWindow: !!js Number(process.env.DSH_CONTEXT_WINDOW ?? 1000000)
    maxTokens: 32000
    thinking: enabled
    reasoningEffort: max
- {id: sessions, name: '@deepseek-ai/dsh-session-persistence-jsonl', config: {compression: none}}
- {id: bash, name: '@deepseek-ai/dsh-bash-local', config: {timeoutMs: 60000}}
- {id: files, name: '@deepseek-ai/dsh-fs-local'}
- {id: tool-fs, name: '@deepseek-ai/dsh-tool-fs'}
- {id: todo, name: '@deepseek-ai/dsh-tool-todo', config: {allowParallelInProgress: true}}
- {id: spawn, name: '@deepseek-ai/dsh-subagent-spawn-in-process'}
- {id: subagent, name: '@deepseek-ai/dsh-tool-subagent', config: {provider: spawn, enableRunInBackground: false}}
";

/// S-203 to S-205, C-45.
#[test]
fn command_lines_are_told_apart() {
    let configuration = |argument: Option<&str>| Invocation::Configuration {
        argument: argument.map(str::to_owned),
    };
    let profile = |name: &'static str, patches: &[&str]| Invocation::Profile {
        name,
        patches: patches.iter().map(|&patch| patch.to_owned()).collect(),
    };
    let check = |line: &str, expected: Result<Invocation, &str>| {
        let arguments: Vec<&str> = line.split_whitespace().collect();
        let found = invoke(&arguments).map_err(|error| error.to_string());
        assert_eq!(found, expected.map_err(str::to_owned), "{line}");
    };
    check("", Ok(configuration(None)));
    check("a.yml", Ok(configuration(Some("a.yml"))));
    check("sdk", Ok(profile("sdk", &[])));
    check("sdk-minimal --patch a.yml", Ok(profile("sdk-minimal", &["a.yml"])));
    check("--patch a.yml --profile sdk --patch=b.yml", Ok(profile("sdk", &["a.yml", "b.yml"])));
    check("--profile=sdk --profile sdk", Ok(profile("sdk", &[])));
    check("--version", Ok(Invocation::Version));
    check("--profile sdk --help", Ok(Invocation::Help));
    check(
        "--profile nosuch",
        Err("unknown profile \"nosuch\"; known are `acp`, `sdk`, `sdk-minimal`"),
    );
    check(
        "--profile sdk-minmal",
        Err("unknown profile \"sdk-minmal\"; did you mean `sdk-minimal`?"),
    );
    check("--profile", Err("--profile needs the name of a profile"));
    check("--profile=", Err("--profile needs the name of a profile"));
    check("--patch", Err("--patch needs the path of a patch"));
    check("--patch a.yml", Err("--patch needs a --profile to change"));
    check(
        "--profile sdk --profile sdk-minimal",
        Err("--profile is given twice; one profile is run"),
    );
    check(
        "--nope",
        Err("unknown option \"--nope\"; known are `--profile`, `--patch`, `--version`, `--help`"),
    );
    check("--patches a.yml sdk", Err("unknown option \"--patches\"; did you mean `--patch`?"));
    check("--version=2", Ok(Invocation::Version));
    check("a.yml b.yml", Err("the argument \"b.yml\" is one too many; one configuration is run"));
    check("--profile sdk a.yml", Err("the argument \"a.yml\" is one too many beside a profile"));
}

/// S-203, C-43.
#[test]
fn a_start_without_configuration_says_usage() {
    let forms = "usage: transom <configuration.yml> (or DSH_CORDIS_CONFIG), or --profile <name> [--patch <path>]…";
    let refusal = |variables, arguments: &[&str]| Machine::new(variables, &[]).refusal(arguments);
    assert_eq!(refusal(&[], &[]), forms);
    assert_eq!(refusal(&[("DSH_CORDIS_CONFIG", "")], &[""]), forms);
    assert_eq!(
        refusal(&[], &["no.yml"]),
        format!("{forms}; the configuration \"no.yml\" does not exist")
    );
    assert_eq!(
        refusal(&[("DSH_CORDIS_CONFIG", "/none.yml")], &[]),
        format!("{forms}; the configuration \"/none.yml\" does not exist")
    );
}

/// S-203: the variable wins, and a relative path is below the process directory.
#[test]
fn the_variable_names_the_configuration_before_the_argument_does() {
    let files = [("/project/sub/a.yml", BUNDLED), ("/b.yml", CODING)];
    let composition = |variables: &[(&str, &str)], arguments: &[&str]| {
        Machine::new(variables, &files).launch(arguments).unwrap().composition
    };
    assert_eq!(
        composition(&[("DSH_CORDIS_CONFIG", "sub/a.yml")], &["/nonexistent.yml"]),
        "/project/sub/a.yml"
    );
    assert_eq!(composition(&[("DSH_CORDIS_CONFIG", "")], &["/b.yml"]), "/b.yml");
}

/// S-219, first row; S-208.
#[test]
fn the_bundled_default_is_understood() {
    let found = form_a(BUNDLED, &[("DSH_SESSION_ROOT", "/s"), ("DSH_CWD", "proj")]).unwrap();
    let environment = BTreeMap::from([("DSH_CWD", "proj"), ("DSH_SESSION_ROOT", "/s")])
        .into_iter()
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect();
    let expected = Launch {
        composition: "/project/c.yml".to_owned(),
        serves_sdk: true,
        acp: None,
        max_tokens_as_success: false,
        attachments: false,
        tools: vec!["bash", "job_kill", "job_list", "job_output", "skill"],
        jobs: true,
        shell_timeout_ms: 120_000,
        subagent_depth_max: 3,
        subagents_continuable: false,
        sessions: Some(Sessions::JsonLines { root: "/s".into(), compressed: true }),
        workspace: "/project/proj".into(),
        model: LaunchModel {
            has_adapter: true,
            model: None,
            base_url: None,
            key_variable: "DEEPSEEK_API_KEY".to_owned(),
            context_window: None,
            max_tokens: None,
            reasoning_effort: None,
        },
        system_prompt: None,
        names_harness: true,
        runtime_context: true,
        workspace_instructions_bytes_max: Some(65536),
        permission_mode: PermissionMode::DangerFullAccess,
        environment,
        notices: vec!["not part of this host: workspace instructions in the prompt".to_owned()],
    };
    assert_eq!(found, expected);

    let bare = form_a(BUNDLED, &[]).unwrap();
    let sessions = Sessions::JsonLines { root: "/project/.sessions".into(), compressed: true };
    assert_eq!((bare.sessions, bare.workspace), (Some(sessions), PathBuf::from("/project")));
}

/// A-97, P-8: the ACP server of the reference's own example.
#[test]
fn a_configuration_of_the_acp_server_is_understood() {
    let spine = "- {id: spine, name: '@deepseek-ai/dsh-agent-spine-demo'}\n";
    let acp = "- {id: acp, name: '@deepseek-ai/dsh-acp', config: {provider: deepseek-official, model: m}}\n";
    let found = form_a(&format!("{spine}{acp}"), &[]).unwrap();
    let model = Some("m".to_owned());
    let route = AcpServer { provider: Some("deepseek-official".to_owned()), model };
    assert_eq!((found.serves_sdk, found.acp), (false, Some(route)));
    assert_eq!(found.permission_mode, PermissionMode::WorkspaceWrite);

    let free = [("DSH_PERMISSION_MODE", "danger-full-access")];
    let found = form_a(&format!("{spine}{acp}"), &free).unwrap();
    assert_eq!(found.permission_mode, PermissionMode::DangerFullAccess);
    let policy = "- {id: p, name: '@deepseek-ai/dsh-sandbox-policy', config: {mode: read-only}}\n";
    let found = form_a(&format!("{spine}{acp}{policy}"), &[]).unwrap();
    assert_eq!(found.permission_mode, PermissionMode::ReadOnly);

    let without = form_a(acp, &[]).expect_err("nobody to serve");
    assert!(without.to_string().contains("the ACP server has no agent to serve"), "{without}");
    // One peer speaks on standard input and output.
    let sdk = "- {id: sdk, name: '@deepseek-ai/dsh-sdk-jsonrpc-server'}\n";
    let both = form_a(&format!("{spine}{acp}{sdk}"), &[]).unwrap();
    assert_eq!((both.serves_sdk, both.acp), (true, None));
    let notice = "the ACP server beside the SDK's";
    assert!(both.notices.iter().any(|said| said.contains(notice)), "{:?}", both.notices);
}

/// S-219, second row; S-208.
#[test]
fn the_coding_agent_is_understood() {
    let found =
        form_a(CODING, &[("DSH_SYSTEM_PROMPT", "Be brief."), ("DSH_CONTEXT_WINDOW", "128000")])
            .unwrap();
    assert_eq!(found.tools, ["bash", "edit", "read", "subagent", "todo_write", "write"]);
    assert!(found.notices.is_empty(), "{:?}", found.notices);
    // P-83, P-85.
    assert_eq!((found.jobs, found.shell_timeout_ms), (false, 60_000));
    assert!(found.max_tokens_as_success);
    assert_eq!(found.system_prompt.as_deref(), Some("Be brief."));
    assert_eq!(found.model.context_window, Some(128_000));
    assert_eq!(
        (found.model.max_tokens, found.model.reasoning_effort.as_deref()),
        (Some(32_000), Some("max"))
    );
    assert_eq!(found.workspace_instructions_bytes_max, None);
    assert_eq!(
        found.sessions,
        Some(Sessions::JsonLines { root: "/project/.sessions".into(), compressed: false })
    );
    let off = form_a(CODING, &[("DSH_MAX_TOKENS_AS_SUCCESS", "false")]).unwrap();
    assert!(!off.max_tokens_as_success);
}

/// S-219, third row: what is missing is named (decision 37).
#[test]
fn the_minimal_composition_is_understood() {
    let minimal = "
- {id: server, name: '@deepseek-ai/dsh-sdk-jsonrpc-server', config: {maxTokensAsSuccess: false}}
- id: core
  name: '@deepseek-ai/dsh-agent-spine-demo'
  config:
    includeHarnessIdentity: false
    includeRuntimeContext: false
    workspaceContext: false
    skills: {enabled: false}
    toolBash: false
    toolJobs: false
- {id: pty, name: '@deepseek-ai/dsh-terminal'}
- {id: terminal, name: '@deepseek-ai/dsh-terminal-bash', config: {timeoutMs: 300000}}
- {id: bash, name: '@deepseek-ai/dsh-tool-bash-persistent', config: {timeoutMs: 300000, description: Runs commands.}}
- {id: files, name: '@deepseek-ai/dsh-fs-local'}
- {id: editor, name: '@deepseek-ai/dsh-tool-str-replace-editor', config: {maxOutputChars: 16000}}
";
    let found = form_a(minimal, &[]).unwrap();
    assert_eq!(found.tools, ["bash", "str_replace_editor"]);
    assert_eq!(
        found.notices,
        [
            "entry `bash`: without effect here: description",
            "not part of this host: a shell that keeps its state between calls of `bash`",
        ]
    );
    assert_eq!((found.model.has_adapter, found.sessions), (false, None));
    assert!(!found.runtime_context && !found.names_harness);
    // P-83; the file's own deadline.
    assert_eq!((found.jobs, found.shell_timeout_ms), (false, 300_000));
}

/// S-141.
#[test]
fn a_composition_without_server_is_legal() {
    let found = form_a("- {id: llm, name: '@deepseek-ai/dsh-llm-deepseek'}", &[]).unwrap();
    assert!(!found.serves_sdk);
    assert!(form_a("[]", &[]).is_ok_and(|launch| !launch.serves_sdk));
}

/// S-137, C-44, C-55: every refusal names the entry, and all of them come at once.
#[test]
fn a_wrong_configuration_is_refused_with_its_complaint() {
    let check = |configuration: &str, variables: &[(&str, &str)], expected: &[&str]| {
        let found = form_a(configuration, variables).expect_err(configuration).to_string();
        let expected: Vec<_> =
            expected.iter().map(|line| format!("/project/c.yml:{line}")).collect();
        assert_eq!(found, expected.join("\n"), "{configuration}");
    };
    const SUPPORTED: &str = "supported are process.env.NAME, process.cwd(), process.platform, Number(…), \
                             JSON.parse(…), literals, comparisons, ??, ||, && and ? :";
    check(
        "- {id: odd, name: '@acme/nothing-like-it'}",
        &[],
        &[
            "1:3: entry `odd` names the unknown package @acme/nothing-like-it; its features are not part of this host",
        ],
    );
    check(
        "- {name: '@deepseek-ai/dsh-bash-locla'}\n- {id: x, name: ./own.ts}",
        &[],
        &[
            "1:3: entry `@deepseek-ai/dsh-bash-locla` names the unknown package @deepseek-ai/dsh-bash-locla; did you mean @deepseek-ai/dsh-bash-local?",
            "2:3: entry `x` names the unknown package ./own.ts; its features are not part of this host",
        ],
    );
    check(
        CODING,
        &[("DSH_MAX_TOKENS_AS_SUCCESS", "sometimes")],
        &[
            "5:25: entry `sdk-server`: `maxTokensAsSuccess`: JSON.parse(…) is given \"sometimes\", which is not JSON",
        ],
    );
    check(
        CODING,
        &[("DSH_MAX_TOKENS_AS_SUCCESS", "\"sometimes\""), ("DSH_CONTEXT_WINDOW", "many")],
        &[
            "5:25: entry `sdk-server`: `maxTokensAsSuccess` is \"sometimes\"; it must be true or false",
            "17:27: entry `llm`: `defaultContextWindow`: Number(…) is given \"many\", which is not a number",
        ],
    );
    check(
        "a: [",
        &[],
        &["2:1: not YAML: while parsing a node, did not find expected node content"],
    );
    check("", &[], &["1:1: the file is empty; a list of entries `- id: …` is expected"]);
    check("id: a", &[], &["1:1: a list of entries `- id: …` is expected here"]);
    check("- a", &[], &["1:3: an entry must be a mapping with `id` and `name`"]);
    check("- id: a", &[], &["1:3: entry `a` has no `name`; add the name of its package"]);
    check("- {id: a, name: ''}", &[], &["1:17: `name` must be a text"]);
    check(
        "- {id: a, nmae: b}",
        &[],
        &["1:11: unknown key `nmae` of an entry; did you mean `name`?"],
    );
    check("- {id: a, id: b}", &[], &["1:11: `id` stands here a second time; say it once"]);
    check(
        "- {id: a, name: '@deepseek-ai/dsh-bash-local', config: [1]}",
        &[],
        &["1:56: entry `a`: `config` must be a mapping"],
    );
    check(
        "- {id: a, name: '@deepseek-ai/dsh-bash-local', config: {cwd: 5}}",
        &[],
        &["1:62: entry `a`: `cwd` is 5; it must be a text"],
    );
    check(
        "- {id: a, name: '@deepseek-ai/dsh-bash-local', config: {cwd: !!js 'require(\"fs\")'}}",
        &[],
        &[&format!(
            "1:62: entry `a`: `cwd`: `require` is not supported in expressions; {SUPPORTED}"
        )],
    );
    check(
        "- {id: a, name: '@deepseek-ai/dsh-bash-local', disabled: !!js 'no'}",
        &[],
        &[&format!(
            "1:58: entry `a`: `disabled`: `no` is not supported in expressions; {SUPPORTED}"
        )],
    );
    check(
        "- {id: a, name: b, config: {cwd: !own x}}",
        &[],
        &["1:34: the tag !own is unknown here; `!!js` before an expression is the only one"],
    );
    check(
        "- {id: a, name: '@deepseek-ai/dsh-sandbox-policy', config: {mode: workspace}}",
        &[],
        &[
            "1:67: entry `a`: `mode` is \"workspace\"; known are `read-only`, `workspace-write`, `danger-full-access`",
        ],
    );
    check(
        "- {id: a, name: '@deepseek-ai/dsh-session-persistence-sqlite'}",
        &[],
        &["1:3: entry `a`: `path` is missing; name the database"],
    );
    check(
        "- {id: s, name: '@deepseek-ai/dsh-sdk-jsonrpc-server'}",
        &[],
        &[
            " the SDK server has no agent to serve; add an entry with @deepseek-ai/dsh-agent-spine-demo or @deepseek-ai/dsh-agent-loop",
        ],
    );
    check(
        "- {id: g, name: '@deepseek-ai/cordis-plugin-group', config: [{id: x, name: '@deepseek-ai/nix'}]}",
        &[],
        &[
            "1:62: entry `x` names the unknown package @deepseek-ai/nix; its features are not part of this host",
        ],
    );
}

#[test]
fn what_is_switched_off_asks_for_nothing() {
    let configuration = "
- {id: odd, name: '@acme/nothing', disabled: true}
- {id: pwsh, name: '@deepseek-ai/dsh-tool-pwsh', disabled: !!js process.platform !== 'win32'}
- id: group
  name: '@deepseek-ai/cordis-plugin-group'
  disabled: !!js process.env.NO_TOOLS
  config:
    - {id: bash, name: '@deepseek-ai/dsh-bash-local'}
    - {id: tool, name: '@deepseek-ai/dsh-tool-bash', config: {enableRunInBackground: false}}
";
    assert_eq!(form_a(configuration, &[]).unwrap().tools, ["bash"]);
    let off = form_a(configuration, &[("NO_TOOLS", "1")]).unwrap();
    assert_eq!((off.tools.len(), off.notices.len()), (0, 0));
}

/// S-208: variables that a file does not mention.
#[test]
fn variables_speak_where_the_file_is_silent() {
    let llm = "- {id: llm, name: '@deepseek-ai/dsh-llm-deepseek'}";
    let variables = [
        ("DSH_MODEL", "m"),
        ("DSH_SYSTEM_PROMPT", "p"),
        ("DSH_CWD", "/c"),
        ("DSH_CONTEXT_WINDOW", "9"),
    ];
    let found = form_a(llm, &variables).unwrap();
    assert_eq!(
        (found.model.model.as_deref(), found.system_prompt.as_deref()),
        (Some("m"), Some("p"))
    );
    assert_eq!((found.workspace, found.model.context_window), (PathBuf::from("/c"), Some(9)));

    let refused = form_a(llm, &[("DSH_CONTEXT_WINDOW", "-1")]).unwrap_err().to_string();
    assert_eq!(
        refused,
        "/project/c.yml: DSH_CONTEXT_WINDOW is \"-1\"; it must be a whole number above 0"
    );
}

/// S-142.
#[test]
fn a_file_of_variables_stands_behind_the_environment() {
    let dotenv = "DSH_CWD=/from/file\nDSH_SESSION_ROOT=/from/file\nDEEPSEEK_API_KEY=k\n";
    let files = [("/project/c.yml", BUNDLED), ("/project/.env", dotenv)];
    let found = Machine::new(&[("DSH_CWD", "/inherited")], &files).launch(&["c.yml"]).unwrap();
    assert_eq!(found.workspace, PathBuf::from("/inherited"));
    assert_eq!(
        found.sessions,
        Some(Sessions::JsonLines { root: "/from/file".into(), compressed: true })
    );
    assert_eq!(found.environment["DEEPSEEK_API_KEY"], "k");

    let files = [("/project/c.yml", BUNDLED), ("/project/.env", "(a directory)")];
    let found = Machine::new(&[], &files).launch(&["c.yml"]).unwrap();
    assert_eq!(found.notices[0], "/project/.env is ignored: it cannot be read: it is a directory");
}

/// A checkout's own file is not the operator's word.
#[test]
fn a_file_of_variables_sends_no_key_anywhere_and_changes_no_shell() {
    let dotenv = "DEEPSEEK_BASE_URL=http://evil\nPATH=/evil\nLD_PRELOAD=/evil.so\nDSH_CORDIS_CONFIG=evil.yml\nDSH_PERMISSION_MODE=danger-full-access\n";
    let files = [("/project/c.yml", BUNDLED), ("/project/.env", dotenv)];
    let found =
        Machine::new(&[("DEEPSEEK_API_KEY", "inherited")], &files).launch(&["c.yml"]).unwrap();
    for name in
        ["DEEPSEEK_BASE_URL", "PATH", "LD_PRELOAD", "DSH_CORDIS_CONFIG", "DSH_PERMISSION_MODE"]
    {
        assert_eq!(found.environment.get(name), None, "{name}");
    }
    assert_eq!(found.model.base_url, None);
    let told = found.notices.join("\n");
    assert!(
        told.contains("DEEPSEEK_BASE_URL in /project/.env is ignored: the key was inherited"),
        "{told}"
    );
    assert!(told.contains("DSH_PERMISSION_MODE in /project/.env is ignored"), "{told}");
    assert!(told.contains("/project/.env sets LD_PRELOAD, PATH"), "{told}");

    // A key of its own may go where the same file says.
    let dotenv = "DEEPSEEK_BASE_URL=http://own\nDEEPSEEK_API_KEY=own\n";
    let files = [("/project/c.yml", BUNDLED), ("/project/.env", dotenv)];
    let found = Machine::new(&[], &files).launch(&["c.yml"]).unwrap();
    assert_eq!(found.environment["DEEPSEEK_BASE_URL"], "http://own");
}

#[test]
fn files_are_bounded_and_text() {
    let mut machine = Machine::new(&[], &[]);
    machine.files.insert("/project/c.yml".into(), b"- \xff".to_vec());
    assert_eq!(
        machine.refusal(&["c.yml"]),
        "/project/c.yml:1:3: the byte 0xff is not UTF-8; save the file as UTF-8"
    );
    machine.files.insert("/project/c.yml".into(), vec![b' '; 4 * 1024 * 1024 + 1]);
    assert_eq!(
        machine.refusal(&["c.yml"]),
        "/project/c.yml: has 4194305 bytes; 4194304 are read at most"
    );
}

#[test]
fn what_the_page_shows_is_accepted() {
    let page = include_str!("../../../../docs/launch.md");
    let mut shown = page.split("```yaml\n").skip(1).filter_map(|rest| rest.split("```").next());
    let configuration = shown.next().unwrap();
    let found = form_a(configuration, &[]).unwrap();
    assert_eq!(found.tools, ["bash", "job_kill", "job_list", "job_output", "skill"]);
    let machine = Machine::new(&[("DSH_HOME", "/h")], &[("/project/p.yml", shown.next().unwrap())]);
    let found = machine.launch(&["sdk", "--patch", "p.yml"]).unwrap();
    assert_eq!(
        found.tools,
        [
            "glob",
            "grep",
            "interrupt_agent",
            "job_kill",
            "job_list",
            "job_output",
            "list_agents",
            "read",
            "read_image",
            "send_message",
            "skill",
            "subagent",
            "todo_write",
        ]
    );
    assert_eq!(shown.next(), None);
}
