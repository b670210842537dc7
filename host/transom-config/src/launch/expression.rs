//! The expressions of configurations (`!!js`, S-206): the few forms that shipped files use, and no more.
//! Whatever JavaScript would go on with silently, for example a number that is none, is refused here.

use serde_json::Value;

use super::Surroundings;

/// Characters of an expression: far above any shipped one.
const CHARACTERS_MAX: usize = 4096;

/// Parentheses and calls within each other.
const DEPTH_MAX: usize = 64;

/// What expressions may look at.
#[derive(Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) surroundings: Surroundings<'a>,
    /// The directory of `dshHomePath(…)`; form B only.
    pub(super) home: Option<&'a std::path::Path>,
}

/// The value of an expression.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Outcome {
    Undefined,
    Json(Value),
}

impl Outcome {
    fn is_nullish(&self) -> bool {
        matches!(self, Outcome::Undefined | Outcome::Json(Value::Null))
    }

    /// As JSON, which knows no `undefined`.
    pub(super) fn into_json(self) -> Value {
        match self {
            Outcome::Undefined => Value::Null,
            Outcome::Json(value) => value,
        }
    }

    /// What counts as true in JavaScript.
    pub(super) fn is_true(&self) -> bool {
        match self {
            Outcome::Undefined | Outcome::Json(Value::Null) => false,
            Outcome::Json(Value::Bool(value)) => *value,
            Outcome::Json(Value::Number(number)) => number.as_f64() != Some(0.0),
            Outcome::Json(Value::String(text)) => !text.is_empty(),
            Outcome::Json(Value::Array(_) | Value::Object(_)) => true,
        }
    }
}

/// Evaluates an expression, or says what in it is not supported or has no value.
pub(super) fn evaluate(text: &str, scope: Scope<'_>) -> Result<Outcome, String> {
    if text.chars().count() > CHARACTERS_MAX {
        return Err(format!("the expression is longer than {CHARACTERS_MAX} characters"));
    }
    let tokens = tokens(text)?;
    let mut parser = Parser { tokens: &tokens, scope, depth: 0, live: true };
    let outcome = parser.conditional()?;
    match parser.tokens.first() {
        None => Ok(outcome),
        Some(token) => Err(format!("{} is not expected after {text:?} so far", token.show())),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Name(String),
    Text(String),
    Number(f64),
    Mark(&'static str),
}

impl Token {
    fn show(&self) -> String {
        match self {
            Token::Name(name) => format!("`{name}`"),
            Token::Text(text) => format!("the text {text:?}"),
            Token::Number(number) => format!("the number {number}"),
            Token::Mark(mark) => format!("`{mark}`"),
        }
    }
}

/// Longer marks stand before those that they begin with.
const MARKS: &[&str] = &[
    "===", "!==", "==", "!=", "??", "&&", "||", "?.", "!", "?", ":", "(", ")", "[", "]", ".", ",",
    "-",
];

fn tokens(text: &str) -> Result<Vec<Token>, String> {
    let mut tokens = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let (token, after) = if first == '\'' || first == '"' {
            quoted(rest, first)?
        } else if first.is_ascii_digit() {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '.' || c == '_'))
                .unwrap_or(rest.len());
            let (digits, after) = rest.split_at(end);
            let number = digits
                .replace('_', "")
                .parse()
                .map_err(|_| format!("{digits:?} is not a number"))?;
            (Token::Number(number), after)
        } else if first.is_ascii_alphabetic() || first == '_' || first == '$' {
            let end = rest
                .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_' || c == '$'))
                .unwrap_or(rest.len());
            let (name, after) = rest.split_at(end);
            (Token::Name(name.to_owned()), after)
        } else {
            let Some((mark, after)) =
                MARKS.iter().find_map(|mark| Some((*mark, rest.strip_prefix(mark)?)))
            else {
                return Err(format!("{first:?} is not supported in expressions"));
            };
            (Token::Mark(mark), after)
        };
        tokens.push(token);
        rest = after.trim_start();
    }
    Ok(tokens)
}

fn quoted(text: &str, quote: char) -> Result<(Token, &str), String> {
    let mut value = String::new();
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == quote {
            let after = text.get(at + quote.len_utf8()..).unwrap_or_default();
            return Ok((Token::Text(value), after));
        }
        if character != '\\' {
            value.push(character);
            continue;
        }
        match characters.next() {
            Some((_, 'n')) => value.push('\n'),
            Some((_, 't')) => value.push('\t'),
            Some((_, escaped @ ('\\' | '\'' | '"'))) => value.push(escaped),
            Some((_, other)) => {
                return Err(format!("the escape \\{other} is not supported in expressions"));
            }
            None => break,
        }
    }
    Err(format!("the text {text} has no end"))
}

/// Parses and evaluates in one go. What is not reached is parsed all the same, but not `live`: its values
/// are not looked at.
struct Parser<'t, 's> {
    tokens: &'t [Token],
    scope: Scope<'s>,
    depth: usize,
    live: bool,
}

impl Parser<'_, '_> {
    fn conditional(&mut self) -> Result<Outcome, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err(format!("the expression is nested more than {DEPTH_MAX} deep"));
        }
        let test = self.choice()?;
        let outcome = if self.take("?") {
            let first = self.branch(test.is_true(), Self::conditional)?;
            self.expect(":")?;
            let second = self.branch(!test.is_true(), Self::conditional)?;
            if test.is_true() { first } else { second }
        } else {
            test
        };
        self.depth -= 1;
        Ok(outcome)
    }

    /// `??`, or `||` and `&&`; JavaScript wants parentheses where they meet.
    fn choice(&mut self) -> Result<Outcome, String> {
        let mut outcome = self.both()?;
        let mut nullish = false;
        loop {
            if self.take("??") {
                nullish = true;
                let takes = outcome.is_nullish();
                let right = self.branch(takes, Self::equality)?;
                if takes {
                    outcome = right;
                }
            } else if self.peek("||") || self.peek("&&") {
                if nullish {
                    return Err("`??` beside `||` or `&&` needs parentheses".to_owned());
                }
                self.tokens = self.tokens.get(1..).unwrap_or_default();
                let takes = !outcome.is_true();
                let right = self.branch(takes, Self::both)?;
                if takes {
                    outcome = right;
                }
                if self.peek("??") {
                    return Err("`??` beside `||` or `&&` needs parentheses".to_owned());
                }
            } else {
                return Ok(outcome);
            }
        }
    }

    fn both(&mut self) -> Result<Outcome, String> {
        let mut outcome = self.equality()?;
        while self.take("&&") {
            let takes = outcome.is_true();
            let right = self.branch(takes, Self::equality)?;
            if takes {
                outcome = right;
            }
            if self.peek("??") {
                return Err("`??` beside `||` or `&&` needs parentheses".to_owned());
            }
        }
        Ok(outcome)
    }

    fn equality(&mut self) -> Result<Outcome, String> {
        let mut left = self.unary()?;
        loop {
            let Some(Token::Mark(mark @ ("===" | "!==" | "==" | "!="))) = self.tokens.first()
            else {
                return Ok(left);
            };
            let mark = *mark;
            self.tokens = self.tokens.get(1..).unwrap_or_default();
            let right = self.unary()?;
            if self.live
                && [&left, &right]
                    .iter()
                    .any(|side| matches!(side, Outcome::Json(Value::Array(_) | Value::Object(_))))
            {
                return Err(format!(
                    "`{mark}` compares undefined, null, texts, numbers and booleans only"
                ));
            }
            let equal = match mark {
                "===" | "!==" => same(&left, &right),
                _ if left.is_nullish() || right.is_nullish() => {
                    left.is_nullish() && right.is_nullish()
                }
                _ if self.live => {
                    return Err(format!("`{mark}` converts what it compares; write `{mark}=`"));
                }
                _ => false,
            };
            left = Outcome::Json(Value::Bool(equal == mark.starts_with('=')));
        }
    }

    fn unary(&mut self) -> Result<Outcome, String> {
        let mut negations = 0_u32;
        while self.take("!") {
            negations += 1;
        }
        if self.take("-") {
            let Some(Token::Number(number)) = self.next() else {
                return Err("`-` stands before numbers only".to_owned());
            };
            return number_value(-number);
        }
        let outcome = self.primary()?;
        Ok(match negations {
            0 => outcome,
            _ => Outcome::Json(Value::Bool(outcome.is_true() == negations.is_multiple_of(2))),
        })
    }

    fn primary(&mut self) -> Result<Outcome, String> {
        let token = self.next().ok_or("the expression ends where a value is expected")?;
        match token {
            Token::Text(text) => Ok(Outcome::Json(Value::String(text))),
            Token::Number(number) => number_value(number),
            Token::Mark("(") => {
                let outcome = self.conditional()?;
                self.expect(")")?;
                Ok(outcome)
            }
            Token::Mark(mark) => Err(format!("`{mark}` stands where a value is expected")),
            Token::Name(name) => match name.as_str() {
                "undefined" => Ok(Outcome::Undefined),
                "null" => Ok(Outcome::Json(Value::Null)),
                "true" => Ok(Outcome::Json(Value::Bool(true))),
                "false" => Ok(Outcome::Json(Value::Bool(false))),
                "process" => self.process(),
                "Number" => {
                    let argument = self.argument()?;
                    if self.live { to_number(&argument) } else { Ok(Outcome::Undefined) }
                }
                "JSON" => {
                    self.expect(".")?;
                    match self.next() {
                        Some(Token::Name(method)) if method == "parse" => {}
                        _ => return Err("of `JSON`, only `JSON.parse(…)` is supported".to_owned()),
                    }
                    let argument = self.argument()?;
                    if self.live { parse_json(&argument) } else { Ok(Outcome::Undefined) }
                }
                "dshHomePath" => {
                    let argument = self.argument()?;
                    self.home_path(&argument)
                }
                _ => Err(format!(
                    "`{name}` is not supported in expressions; supported are process.env.NAME, process.cwd(), \
                     process.platform, Number(…), JSON.parse(…), literals, comparisons, ??, ||, && and ? :"
                )),
            },
        }
    }

    fn process(&mut self) -> Result<Outcome, String> {
        self.expect(".")?;
        let Some(Token::Name(member)) = self.next() else {
            return Err("`process.` needs a member".to_owned());
        };
        match member.as_str() {
            "env" => {
                let name = if self.take("[") {
                    let Some(Token::Text(name)) = self.next() else {
                        return Err(
                            "`process.env[` needs the name of a variable in quotation marks"
                                .to_owned(),
                        );
                    };
                    self.expect("]")?;
                    name
                } else {
                    self.expect(".")?;
                    let Some(Token::Name(name)) = self.next() else {
                        return Err("`process.env.` needs the name of a variable".to_owned());
                    };
                    name
                };
                let value = self.scope.surroundings.environment.get(&name);
                Ok(value.map_or(Outcome::Undefined, |value| {
                    Outcome::Json(Value::String(value.clone()))
                }))
            }
            "cwd" => {
                self.expect("(")?;
                self.expect(")")?;
                let directory = self.scope.surroundings.directory.display().to_string();
                Ok(Outcome::Json(Value::String(directory)))
            }
            "platform" => {
                let platform = if cfg!(target_os = "macos") { "darwin" } else { "linux" };
                Ok(Outcome::Json(Value::from(platform)))
            }
            _ => Err(format!("`process.{member}` is not supported in expressions")),
        }
    }

    fn home_path(&self, argument: &Outcome) -> Result<Outcome, String> {
        let Some(home) = self.scope.home else {
            return Err(
                "`dshHomePath` belongs to profiles, which have a home; name the path".to_owned()
            );
        };
        match argument {
            Outcome::Json(Value::String(below)) => {
                Ok(Outcome::Json(Value::String(home.join(below).display().to_string())))
            }
            _ if !self.live => Ok(Outcome::Undefined),
            _ => Err("`dshHomePath` needs a text".to_owned()),
        }
    }

    /// `( expression )`.
    fn argument(&mut self) -> Result<Outcome, String> {
        self.expect("(")?;
        let outcome = self.conditional()?;
        self.expect(")")?;
        Ok(outcome)
    }

    fn branch(
        &mut self,
        taken: bool,
        parse: impl FnOnce(&mut Self) -> Result<Outcome, String>,
    ) -> Result<Outcome, String> {
        let live = self.live;
        self.live = live && taken;
        let outcome = parse(self);
        self.live = live;
        outcome
    }

    fn next(&mut self) -> Option<Token> {
        let (first, rest) = self.tokens.split_first()?;
        self.tokens = rest;
        Some(first.clone())
    }

    fn peek(&self, mark: &str) -> bool {
        matches!(self.tokens.first(), Some(Token::Mark(found)) if *found == mark)
    }

    fn take(&mut self, mark: &str) -> bool {
        let found = self.peek(mark);
        if found {
            self.tokens = self.tokens.get(1..).unwrap_or_default();
        }
        found
    }

    fn expect(&mut self, mark: &str) -> Result<(), String> {
        if self.take(mark) {
            return Ok(());
        }
        Err(match self.tokens.first() {
            Some(token) => format!("{} stands where `{mark}` is expected", token.show()),
            None => format!("the expression ends where `{mark}` is expected"),
        })
    }
}

/// JavaScript's `===` for the values that expressions have; numbers are equal by value.
fn same(left: &Outcome, right: &Outcome) -> bool {
    match (left, right) {
        (Outcome::Json(Value::Number(left)), Outcome::Json(Value::Number(right))) => {
            left.as_f64() == right.as_f64()
        }
        _ => left == right,
    }
}

fn number_value(number: f64) -> Result<Outcome, String> {
    // Whole numbers stay whole: settings ask for them.
    if number.fract() == 0.0 && number.abs() <= 9_007_199_254_740_991.0 {
        return Ok(Outcome::Json(Value::from(number as i64)));
    }
    match serde_json::Number::from_f64(number) {
        Some(number) => Ok(Outcome::Json(Value::Number(number))),
        None => Err(format!("{number} is not a number that a setting can have")),
    }
}

fn to_number(argument: &Outcome) -> Result<Outcome, String> {
    match argument {
        Outcome::Json(Value::Number(_)) => Ok(argument.clone()),
        Outcome::Json(Value::String(text)) => match text.trim().parse::<f64>() {
            Ok(number) if number.is_finite() => number_value(number),
            _ => Err(format!("Number(…) is given {text:?}, which is not a number")),
        },
        Outcome::Undefined => Err("Number(…) is given undefined, which is not a number".to_owned()),
        Outcome::Json(value) => Err(format!("Number(…) is given {value}, which is not a number")),
    }
}

fn parse_json(argument: &Outcome) -> Result<Outcome, String> {
    match argument {
        Outcome::Json(Value::String(text)) => serde_json::from_str(text)
            .map(Outcome::Json)
            .map_err(|_| format!("JSON.parse(…) is given {text:?}, which is not JSON")),
        Outcome::Undefined => Err("JSON.parse(…) is given undefined, which is not JSON".to_owned()),
        Outcome::Json(value) => Ok(Outcome::Json(value.clone())),
    }
}
