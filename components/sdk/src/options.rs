//! What the operator and the host fix for a connection before it begins: options and facts.
//! They are not part of the packed state: a changed option takes effect with a swap.

use transom_guest::{Fault, FaultKind, Framing, Setup, options};

use crate::message::string;

#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Options {
    /// Whose sessions the client hears of.
    pub(crate) scope: Scope,
    /// A child that ended at its length limit is reported as `ok` (S-119).
    pub(crate) max_tokens_as_success: bool,
    /// The end of the conversation is the end of the process.
    pub(crate) owns_process: bool,
    /// Base of a relative `cwd` (S-43).
    pub(crate) directory: String,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    /// Every session of the process (S-68).
    All,
    /// The sessions that this connection opened, and their descendants.
    Owned,
}

impl Options {
    /// Reads options strictly: what a user could believe was accepted is accepted or refused by name.
    pub(crate) fn read(setup: &Setup) -> Result<Options, Fault> {
        if setup.framing != Framing::Lines {
            let detail = format!("the sdk door speaks over lines, not over {:?}", setup.framing);
            return Err(refused(detail));
        }
        let owns_process = setup.fact("owns-process") == Some("true");
        let mut options = Options {
            // Over a shared carrier a client has no business with the sessions of others.
            scope: if owns_process { Scope::All } else { Scope::Owned },
            max_tokens_as_success: false,
            owns_process,
            directory: setup.fact("directory").unwrap_or("/").to_owned(),
        };

        options::read(&setup.options, |name, value| {
            match (name, string(Some(value)).as_deref(), value) {
                ("scope", Some("all"), _) => options.scope = Scope::All,
                ("scope", Some("owned"), _) => options.scope = Scope::Owned,
                ("scope", _, found) => {
                    return Err(format!(
                        "option scope is {found}; it must be \"all\" or \"owned\""
                    ));
                }
                ("maxTokensAsSuccess", _, "true") => options.max_tokens_as_success = true,
                ("maxTokensAsSuccess", _, "false") => options.max_tokens_as_success = false,
                ("maxTokensAsSuccess", _, found) => {
                    return Err(format!(
                        "option maxTokensAsSuccess is {found}; it must be true or false"
                    ));
                }
                (unknown, ..) => {
                    return Err(format!(
                        "option {unknown} is unknown; known are scope and maxTokensAsSuccess"
                    ));
                }
            }
            Ok(())
        })?;
        Ok(options)
    }
}

fn refused(detail: String) -> Fault {
    Fault::new(FaultKind::Unsupported, detail)
}
