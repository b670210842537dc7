//! Every key against what its change reaches.

use std::{collections::BTreeMap, path::Path};

use super::{Effect, REACHES};
use crate::manifest::{Manifest, Overrides, keys::MANIFEST};

const EVERYTHING: &str = include_str!("../../../../../tests/messages/config/valid/everything.toml");

fn with(text: &str, sets: &[&str]) -> Manifest {
    let overrides = Overrides::new(Path::new("/"), &BTreeMap::new(), sets.iter().copied());
    Manifest::parse_layers(&[(Path::new("transom.toml"), text.as_bytes())], &overrides).unwrap()
}

fn listed(old: &Manifest, new: &Manifest) -> Vec<String> {
    old.changes(new).iter().map(ToString::to_string).collect()
}

#[test]
fn every_key_of_a_manifest_has_its_reach() {
    let mut keys: Vec<_> = MANIFEST.leaves().into_iter().map(|(path, _)| path).collect();
    let mut reaches: Vec<_> = REACHES.iter().map(|(key, _)| (*key).to_owned()).collect();
    keys.sort();
    reaches.sort();
    assert_eq!(keys, reaches);
}

/// A change of each key, made in the manifest that has all of them, is the only one and reaches what the table says.
#[test]
fn a_change_of_any_key_is_told_with_its_effect() {
    let swap = |component: &str| Effect::Swap(component.to_owned());
    let cases = [
        ("agent.coder.component=notes", Effect::Restart),
        ("agent.coder.command=['x']", Effect::Restart),
        ("agent.coder.cwd=/x", Effect::Restart),
        ("agent.coder.permission=reject", Effect::Restart),
        ("agent.coder.env.LANG=x", Effect::Restart),
        ("agent.coder.keep-environment=[]", Effect::Restart),
        ("agent.coder.without-environment=[]", Effect::Restart),
        ("agent.coder.start-ms=5", Effect::Restart),
        ("agent.coder.dispose-eof-grace-ms=5", Effect::Restart),
        ("agent.coder.dispose-grace-ms=5", Effect::Restart),
        ("component.sdk.source=/x.wasm", swap("sdk")),
        ("component.sdk.policy=/x.toml", swap("sdk")),
        ("component.sdk.swap=drain", Effect::Live),
        ("component.sdk.watch=true", Effect::Live),
        ("confine.off=false", Effect::Live),
        ("confine.required=false", Effect::Live),
        ("confine.network=deny", Effect::Live),
        ("confine.unix-sockets=deny", Effect::Live),
        ("confine.temp=shared", Effect::Live),
        ("confine.write=[]", Effect::Live),
        ("confine.hide=['vault']", Effect::Live),
        ("confine.show=[]", Effect::Live),
        ("confine.guard=['a', 'b']", Effect::Live),
        ("confine.guard-git=true", Effect::Live),
        ("control.listen=/x.sock", Effect::Restart),
        ("door.sdk.component=notes", Effect::Restart),
        ("door.notes-2.listen=/x.sock", Effect::Restart),
        ("door.sdk.options.a=1", swap("sdk")),
        ("door.notes-2.options.a=1", swap("notes")),
        ("door.sdk.route-map.a=scripted", Effect::Live),
        ("door.frames.answers=never", Effect::Restart),
        ("door.notes-2.policy=/x.toml", swap("notes")),
        ("door.frames.policy=/x.toml", Effect::Restart),
        ("door.sdk.limits.unit-bytes-max=5", Effect::NewConnections),
        ("door.sdk.limits.nesting-max=5", Effect::NewConnections),
        ("door.sdk.limits.pending-requests-max=5", Effect::NewConnections),
        ("door.sdk.limits.unwritten-bytes-rest=5", Effect::NewConnections),
        ("door.sdk.limits.unwritten-bytes-stop=5000", Effect::NewConnections),
        ("door.sdk.limits.live-notices-max=50", Effect::NewConnections),
        ("door.sdk.limits.connections-max=50", Effect::Restart),
        ("door.sdk.limits.sessions-max=5", Effect::NewConnections),
        ("hook=[{ name = 'x', event = 'result', command = ['x'] }]", Effect::Restart),
        ("jobs.delivery=notify", Effect::Live),
        ("jobs.per-session-max=5", Effect::Live),
        ("jobs.host-max=5", Effect::Live),
        ("metrics.listen='127.0.0.2:1'", Effect::Restart),
        ("model.provider=scripted", Effect::Live),
        ("model.model=x", Effect::Live),
        ("model.context-window=5", Effect::Live),
        ("model.script=/x.json", Effect::Live),
        ("model.base-url='http://x'", Effect::Live),
        ("permissions.preset=read-only", Effect::Live),
        ("permissions.policy=ask", Effect::Live),
        ("permissions.ceiling=read-only", Effect::Live),
        ("permissions.children=never", Effect::Live),
        ("permissions.default=ask", Effect::Live),
        ("permissions.workspaces=['/x']", Effect::Live),
        ("permissions.rule=[{ tool = 'x', decision = 'deny' }]", Effect::Live),
        ("probation.calls=5", Effect::Live),
        ("probation.faults=5", Effect::Live),
        ("probation.seconds=50", Effect::Live),
        ("recovery.crashes=5", Effect::Live),
        ("recovery.seconds=5", Effect::Live),
        ("recovery.backoff-ms-max=500", Effect::Live),
        ("store.path=/x.db", Effect::Restart),
        ("store.durability=process", Effect::Restart),
        ("subagents.judge.description=x", Effect::Restart),
        ("subagents.coder.agent=other", Effect::Restart),
        ("subagents.scout.persona=x", Effect::Restart),
        ("subagents.judge.persona-file=/x.md", Effect::Restart),
        ("subagents.judge.tools=['read']", Effect::Restart),
        ("subagents.judge.without-tools=[]", Effect::Restart),
        ("subagents.scout.continuable=false", Effect::Restart),
        ("subagents.judge.provider=deepseek-official", Effect::Restart),
        ("subagents.judge.model=x", Effect::Restart),
        ("subagents.judge.depth-max=1", Effect::Restart),
        ("subagents.judge.output-schema.type=string", Effect::Restart),
        ("tools.enabled=['read']", Effect::Restart),
        ("tools.keep-environment=[]", Effect::Restart),
        ("tools.shell-timeout-ms=5", Effect::Restart),
        ("tools.subagent-depth-max=5", Effect::Restart),
        ("tools.subagent-mode=one-shot", Effect::Restart),
        ("tools.subagents-live-max=5", Effect::Restart),
    ];
    let old = with(EVERYTHING, &[]);
    let mut told = vec!["control.off".to_owned(), "door.*.carrier".to_owned()];
    for (set, effect) in cases {
        let changes = old.changes(&with(EVERYTHING, &[set]));
        let [change] = changes.as_slice() else { panic!("{set}: {changes:?}") };
        let path = set.split('=').next().unwrap();
        assert!(path.starts_with(&change.path), "{set}: {change:?}");
        assert_eq!(change.effect, effect, "{set}: {change:?}");
        assert_ne!(change.old, change.new, "{set}");
        told.push(match change.path.split('.').collect::<Vec<_>>().as_slice() {
            [kind @ ("agent" | "door" | "component" | "subagents"), _, rest @ ..] => {
                format!("{kind}.*.{}", rest.join("."))
            }
            path => path.join("."),
        });
    }
    told.sort();
    told.dedup();
    let mut keys: Vec<_> = REACHES.iter().map(|(key, _)| *key).collect();
    keys.sort_unstable();
    assert_eq!(told, keys, "each key has a case");

    // These two take another key with them.
    assert_eq!(
        listed(&old, &with(EVERYTHING, &["control.off=true"])),
        [
            "control.listen: run/control.sock → nothing, after a restart",
            "control.off: false → true, after a restart",
        ]
    );
    assert_eq!(
        listed(&old, &with(EVERYTHING, &["door.sdk.carrier=unix", "door.sdk.listen=/x"])),
        [
            "door.sdk.carrier: stdio → unix, after a restart",
            "door.sdk.listen: nothing → /x, after a restart",
        ]
    );
}

#[test]
fn the_same_manifest_has_no_changes_wherever_its_rules_stand() {
    let old = with(EVERYTHING, &[]);
    assert_eq!(old.changes(&old), []);
    let moved = format!("# One more line.\n{EVERYTHING}");
    assert_eq!(old.changes(&with(&moved, &[])), []);
}

#[test]
fn rules_are_told_one_by_one() {
    // P-34.
    let rule = |tool: &str, decision: &str| {
        format!("[[permissions.rule]]\ntool = '{tool}'\ndecision = '{decision}'\n")
    };
    let door = "[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n";
    let check = |old: &[String], new: &[String], expected: &[&str]| {
        let manifest = |rules: &[String]| with(&format!("{door}{}", rules.concat()), &[]);
        assert_eq!(listed(&manifest(old), &manifest(new)), expected, "{old:?}\n→\n{new:?}");
    };
    let (bash, read) = (rule("bash", "ask"), rule("read", "deny"));
    check(
        std::slice::from_ref(&bash),
        &[bash.clone(), read.clone()],
        &["permissions.rule: nothing → deny read (transom.toml:7), at once"],
    );
    check(
        &[bash.clone(), read.clone()],
        &[bash.replace("'ask'", "'allow'"), read.clone()],
        &[
            "permissions.rule: ask bash (transom.toml:4) → nothing, at once",
            "permissions.rule: nothing → allow bash (transom.toml:4), at once",
        ],
    );
    // The first that matches decides, so an order is a change too.
    check(
        &[bash.clone(), read.clone()],
        &[read, bash],
        &["permissions.rule: ask bash; deny read → deny read; ask bash, at once"],
    );
}

#[test]
fn doors_and_components_come_and_go() {
    let one = "[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n";
    let door = "[door.more]\ncomponent = 'more'\ncarrier = 'unix'\nlisten = '/more.sock'\n";
    let component = |name: &str| format!("[component.{name}]\nsource = '/{name}.wasm'\n");
    let check = |old: &str, new: &str, expected: &[&str]| {
        assert_eq!(listed(&with(old, &[]), &with(new, &[])), expected, "{old}\n→\n{new}");
    };
    let more = format!("{one}{door}{}", component("more"));
    check(
        one,
        &more,
        &[
            "component.more: nothing → /more.wasm, at once",
            "door.more: nothing → unix /more.sock, after a restart",
        ],
    );
    check(
        &more,
        one,
        &[
            "component.more: /more.wasm → nothing, at once",
            "door.more: unix /more.sock → nothing, after a restart",
        ],
    );
    // A component of the operator's takes the place of a built-in one, and the other way round.
    let own = format!("{one}{}", component("sdk"));
    check(one, &own, &["component.sdk: nothing → /sdk.wasm, by a swap of `sdk`"]);
    check(&own, one, &["component.sdk: /sdk.wasm → nothing, by a swap of `sdk`"]);
    // Nobody uses it.
    let idle = format!("{one}{}", component("idle"));
    let changed = idle.replace("/idle.wasm", "/other.wasm");
    check(&idle, &changed, &["component.idle.source: /idle.wasm → /other.wasm, at once"]);
}

#[test]
fn less_room_holds_for_new_connections_and_more_needs_a_restart() {
    let one = "[door.sdk]\ncomponent = 'sdk'\ncarrier = 'stdio'\n";
    let room = |number: u64| with(one, &[&format!("door.sdk.limits.connections-max={number}")]);
    let effect =
        |old: &Manifest, new: &Manifest| old.changes(new).pop().map(|change| change.effect);
    assert_eq!(effect(&room(5), &room(4)), Some(Effect::NewConnections));
    assert_eq!(effect(&room(4), &room(5)), Some(Effect::Restart));
    assert_eq!(effect(&room(4), &with(one, &[])), Some(Effect::Restart));
    assert_eq!(effect(&room(4), &room(4)), None);
}

#[test]
fn a_long_value_is_shortened_and_still_compared_whole() {
    let text = |last: &str| format!("model.model={}{last}", "é".repeat(200));
    let one = with(EVERYTHING, &[&text("a")]);
    let changes = one.changes(&with(EVERYTHING, &[&text("b")]));
    let [change] = changes.as_slice() else { panic!("{changes:?}") };
    assert_eq!(change.old, Some(format!("{}…", "é".repeat(79))));
    assert_eq!(change.new, change.old);
}
