//! `skill`: instructions by name, from the workspace within the fence, and from the user's own directories (L-101).

use std::os::unix::fs::symlink;

use serde_json::json;
use transom_harness::ports::Asker;

use super::*;

fn skill(description: &str, instructions: &str) -> String {
    format!("---\ndescription: {description}\n---\n{instructions}\n")
}

fn bench() -> Bench {
    Bench::with(|options| {
        options.enabled = vec!["read".to_owned(), "skill".to_owned()];
        let home = options.directory.parent().unwrap();
        options.skills = vec![home.join("own/skills"), home.join("missing")];
        options.confinement.hide = vec![options.directory.join("secret")];
    })
}

impl Bench {
    fn own(&self, name: &str, content: &str) {
        let path = self.home.path().join("own/skills").join(name).join("SKILL.md");
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, content).unwrap();
    }

    fn described(&self) -> String {
        let asker = Asker {
            session: self.session.into(),
            cwd: Some(self.shown("")),
            root: None,
            images: true,
        };
        let specs = self.registry.specs_for(&asker);
        let names: Vec<_> = specs.iter().map(|spec| spec.name.as_str()).collect();
        assert_eq!(names, ["read", "skill"]);
        let told = specs[1].description.clone();
        let (_, told) = told.split_once("not how it is done.").unwrap();
        told.to_owned()
    }
}

#[tokio::test]
async fn skills_are_named_to_the_session_that_has_them() {
    let bench = bench();
    assert_eq!(bench.described(), " There are none in this session.");
    bench.own("make-tea", &skill("Tea", "own"));
    bench.put(".dsh/skills/zip/SKILL.md", skill("Zip", "z"));
    bench.put(".dsh/skills/make-tea/SKILL.md", skill("Tea as it is made here", "work"));
    bench.put(".agents/skills/other/SKILL.md", "---\nname: brew\ndescription: Brew\n---\nb");
    bench.put(
        ".dsh/skills/hidden/SKILL.md",
        "---\ndescription: d\ndisable-model-invocation: true\n---\nx",
    );
    for (name, content) in
        [("no-head", "x"), ("Bad_Name", "---\ndescription: d\n---\n"), ("long", "")]
    {
        bench.put(&format!(".dsh/skills/{name}/SKILL.md"), content);
    }
    bench.put(".dsh/skills/long/SKILL.md", skill("d", &"x".repeat(256 << 10)));
    bench.put(".dsh/skills/SKILL.md", skill("d", "x"));
    assert_eq!(
        bench.described(),
        "\nSkills of this session:\n- brew: Brew\n- make-tea: Tea as it is made here\n- zip: Zip"
    );
    assert!(
        !bench.registry.specs(&"main".into())[1].description.contains("zip"),
        "it is no other session's"
    );
    assert!(bench.registry.specs_need_disk(&"main".into()));
}

#[tokio::test]
async fn a_directory_has_so_many_skills_and_no_more() {
    let bench = bench();
    for number in 0..101 {
        let name = format!("skill-{number:03}");
        bench.own(&name, &skill("one of many", "own"));
    }
    bench.put(".dsh/skills/of-another/SKILL.md", skill("x", "y"));
    let described = bench.described();
    assert_eq!(described.matches("one of many").count(), 100);
    assert!(described.contains("skill-099") && !described.contains("skill-100"));
    assert!(described.contains("of-another"), "each directory counts for itself");
    let load = |name: &str| bench.call("skill", json!({ "name": name }));
    assert!(!load("skill-099").await.is_error);
    assert!(load("skill-100").await.is_error);
}

#[tokio::test]
async fn a_skill_is_loaded_with_where_its_files_are() {
    let bench = bench();
    bench.own("make-tea", &skill("Tea", "own"));
    bench.own("brew", &skill("Brew", "Boil.\n\nPour."));
    bench.put(".dsh/skills/make-tea/SKILL.md", skill("Tea", "Use scripts/boil."));
    let told = async |name: &str| bench.ok("skill", json!({ "name": name })).await;
    assert_eq!(
        told("make-tea").await,
        format!(
            "<skill_content name=\"make-tea\">\n<skill_resources>\nFiles that these instructions name by a relative path \
             stand in {}. Read them when they are needed.\n</skill_resources>\n\n<skill_instructions>\nUse scripts/boil.\n\
             </skill_instructions>\n</skill_content>",
            bench.shown(".dsh/skills/make-tea")
        )
    );
    assert!(
        told("brew").await.contains("<skill_instructions>\nBoil.\n\nPour.\n</skill_instructions>")
    );
}

#[tokio::test]
async fn what_is_not_there_or_not_for_models_is_refused() {
    let bench = bench();
    bench.put(
        ".dsh/skills/mine/SKILL.md",
        "---\ndescription: d\ndisable-model-invocation: true\n---\nx",
    );
    for (name, expected) in [
        ("../mine", "invalid skill name \"../mine\""),
        ("", "invalid skill name \"\""),
        ("gone", "skill \"gone\" is unknown or no longer available"),
        ("mine", "skill \"mine\" is not available for model invocation"),
    ] {
        let (message, _) = bench.error("skill", json!({ "name": name })).await;
        assert_eq!(message, expected);
    }
}

/// P-45: a link in a checkout of somebody else's shows nothing that `read` would not show.
#[tokio::test]
async fn a_skill_of_the_workspace_is_no_way_around_the_fence() {
    let bench = bench();
    bench.put("secret/SKILL.md", skill("Secret", "key"));
    bench.put("open/SKILL.md", skill("Open", "fine"));
    fs::create_dir_all(bench.path(".dsh/skills")).unwrap();
    symlink(bench.path("secret"), bench.path(".dsh/skills/secret")).unwrap();
    symlink(bench.path("open"), bench.path(".dsh/skills/open")).unwrap();
    fs::create_dir_all(bench.path(".dsh/skills/pipe")).unwrap();
    bench.fifo(".dsh/skills/pipe/SKILL.md");
    assert_eq!(bench.described(), "\nSkills of this session:\n- open: Open");
}
