//! Expressions (S-206) against their values, and what is refused instead of going on silently.

use std::{collections::BTreeMap, io, path::Path};

use serde_json::json;

use crate::launch::{
    Surroundings,
    expression::{Outcome, Scope, evaluate},
};

fn value(text: &str) -> Result<Outcome, String> {
    let environment =
        [("SET", "x"), ("EMPTY", ""), ("YES", "true"), ("N", " 12 "), ("LIST", "[1]")]
            .map(|(name, value)| (name.to_owned(), value.to_owned()));
    let environment = BTreeMap::from(environment);
    let read = |_: &Path| Err(io::Error::from(io::ErrorKind::NotFound));
    let surroundings =
        Surroundings { environment: &environment, directory: Path::new("/project"), read: &read };
    evaluate(text, Scope { surroundings, home: Some(Path::new("/home/.dsh")) })
}

#[test]
fn an_expression_has_the_value_that_javascript_gives_it() {
    let check = |text: &str, expected: serde_json::Value| {
        assert_eq!(value(text), Ok(Outcome::Json(expected)), "{text}");
    };
    check("process.env.SET ?? 'else'", json!("x"));
    check("process.env.UNSET ?? './.sessions'", json!("./.sessions"));
    check("process.env.EMPTY ?? 'else'", json!(""));
    check("process.env.EMPTY || 'else'", json!("else"));
    check("process.env['SET']", json!("x"));
    check("process.env.UNSET ?? process.env.UNSET2 ?? process.cwd()", json!("/project"));
    check("process.env.UNSET ?? null", json!(null));
    check("Number(process.env.N ?? 5)", json!(12));
    check("Number(process.env.UNSET ?? 1_000)", json!(1000));
    check("Number('1.5')", json!(1.5));
    check("-3", json!(-3));
    check("JSON.parse(process.env.LIST)", json!([1]));
    check("process.env.YES === undefined ? true : JSON.parse(process.env.YES)", json!(true));
    check("process.env.UNSET === undefined ? true : JSON.parse(process.env.UNSET)", json!(true));
    check("process.env.UNSET == null", json!(true));
    check("process.env.SET != undefined && process.env.EMPTY === ''", json!(true));
    check("undefined === null", json!(false));
    check("(process.env.SET ?? 'y') === 'x' ? 'never' : 'ask'", json!("never"));
    check("!process.env.UNSET", json!(true));
    check("!!process.env.EMPTY", json!(false));
    check("process.platform === 'win32'", json!(false));
    check("false ? 1 : true ? 2 : 3", json!(2));
    check("1 === 1.0", json!(true));
    check(r#"'it\'s ' === "it's ""#, json!(true));
    check("dshHomePath('sessions')", json!("/home/.dsh/sessions"));
    assert_eq!(value("process.env.UNSET"), Ok(Outcome::Undefined));
    assert_eq!(value("undefined"), Ok(Outcome::Undefined));
}

#[test]
fn an_expression_that_has_no_value_is_refused() {
    let check = |text: &str, expected: &str| {
        let found = value(text).expect_err(text);
        assert!(found.starts_with(expected), "{text}: {found}");
    };
    check("", "the expression ends where a value is expected");
    check("1 +", "'+' is not supported in expressions");
    check("1 2", "the number 2 is not expected after");
    check("'open", "the text 'open has no end");
    check(r"'\u0041'", "the escape \\u is not supported");
    check("`x`", "'`' is not supported");
    check("(1", "the expression ends where `)` is expected");
    check("1 ? 2", "the expression ends where `:` is expected");
    check("process", "the expression ends where `.` is expected");
    check("process.exit(1)", "`process.exit` is not supported");
    check("process.env", "the expression ends where `.` is expected");
    check("process.cwd", "the expression ends where `(` is expected");
    check("require('fs')", "`require` is not supported in expressions; supported are");
    check("JSON.stringify(1)", "of `JSON`, only `JSON.parse(…)` is supported");
    check("Number('abc')", "Number(…) is given \"abc\", which is not a number");
    check("Number(process.env.UNSET)", "Number(…) is given undefined");
    check("Number('')", "Number(…) is given \"\"");
    check("Number('Infinity')", "Number(…) is given \"Infinity\"");
    check("Number(null)", "Number(…) is given null");
    check("JSON.parse('sometimes')", "JSON.parse(…) is given \"sometimes\", which is not JSON");
    check("JSON.parse(process.env.UNSET)", "JSON.parse(…) is given undefined");
    check(
        "JSON.parse('[]') === 1",
        "`===` compares undefined, null, texts, numbers and booleans only",
    );
    check("'1' == 1", "`==` converts what it compares; write `===`");
    check("1 ?? 2 || 3", "`??` beside `||` or `&&` needs parentheses");
    check("1 || 2 ?? 3", "`??` beside `||` or `&&` needs parentheses");
    check("- 'a'", "`-` stands before numbers only");
    check("1.2.3", "\"1.2.3\" is not a number");
    check("dshHomePath(1)", "`dshHomePath` needs a text");
    check(&"(".repeat(100), "the expression is nested more than 64 deep");
    check(&"1".repeat(5000), "the expression is longer than 4096 characters");
    check(&format!("1{}", "0".repeat(400)), "inf is not a number that a setting can have");
}

/// What is not chosen is not looked at, but must still be an expression.
#[test]
fn only_the_chosen_side_is_evaluated() {
    assert_eq!(value("true ? 1 : JSON.parse('x')"), Ok(Outcome::Json(json!(1))));
    assert_eq!(value("1 ?? Number('x')"), Ok(Outcome::Json(json!(1))));
    assert_eq!(value("false && Number('x')"), Ok(Outcome::Json(json!(false))));
    assert!(value("true ? 1 : require('x')").is_err());
}
