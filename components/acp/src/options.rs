//! What the operator fixes for a connection before it begins: the options of the door.
//! They are not part of the packed state: a changed option takes effect with a swap (decision 53).

use transom_guest::{Fault, FaultKind, Framing, Setup, jsonrpc::string, options};

/// Bytes of an option that is a text.
const TEXT_BYTES_MAX: usize = 256;

/// Every option.
const NAMES: [&str; 8] = [
    "agentName",
    "agentVersion",
    "childPermissions",
    "images",
    "model",
    "provider",
    "sessionListPageSize",
    "surface",
];

/// Sessions in one answer to `session/list` where nothing is said (A-95).
const PAGE_SIZE: u64 = 100;

/// As many as the host gives in one answer.
const PAGE_SIZE_MAX: u64 = 200;

/// What of the protocol is offered (A-1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Surface {
    Automation,
    Standard,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Options {
    /// `agentInfo.name` (A-28).
    pub(crate) agent_name: String,
    /// `agentInfo.version`.
    pub(crate) agent_version: String,
    /// The route of every session; the host's own default where absent (A-95).
    pub(crate) provider: Option<String>,
    pub(crate) model: Option<String>,
    /// Prompts may hold images where the model takes them: where it is said so on the automation surface (decision 39),
    /// and unless it is said otherwise on the standard one (A-110).
    pub(crate) images: bool,
    /// What a session asks that works for a client's is put to the client (A-61).
    pub(crate) child_permissions: bool,
    says_images: bool,
    pub(crate) page_size: u64,
    pub(crate) surface: Surface,
}

impl Options {
    /// Reads options strictly: what a user could believe was accepted is accepted or refused by name.
    pub(crate) fn read(setup: &Setup) -> Result<Options, Fault> {
        if setup.framing != Framing::Lines {
            let detail = format!("the acp door speaks over lines, not over {:?}", setup.framing);
            return Err(refused(detail));
        }
        let mut options = Options {
            agent_name: "transom".to_owned(),
            agent_version: env!("CARGO_PKG_VERSION").to_owned(),
            provider: None,
            model: None,
            images: false,
            child_permissions: true,
            says_images: false,
            page_size: PAGE_SIZE,
            surface: Surface::Automation,
        };
        options::read(&setup.options, |name, value| options.take(name, value))?;
        let surface = options.surface;
        Ok(options.on(surface))
    }

    /// The same for a connection of this surface.
    pub(crate) fn on(self, surface: Surface) -> Options {
        let images = if self.says_images { self.images } else { surface == Surface::Standard };
        Options { images, surface, ..self }
    }

    fn take(&mut self, name: &str, value: &str) -> Result<(), String> {
        let words = || match string(Some(value)) {
            Some(text) if !text.is_empty() && text.len() <= TEXT_BYTES_MAX => Ok(text.into_owned()),
            Some(_) | None => Err(format!(
                "option {name} is {value}; it must be a text of 1 to {TEXT_BYTES_MAX} bytes"
            )),
        };
        match name {
            "agentName" => self.agent_name = words()?,
            "agentVersion" => self.agent_version = words()?,
            "provider" => self.provider = Some(words()?),
            "model" => self.model = Some(words()?),
            "images" => {
                self.says_images = true;
                self.images = truth(name, value)?;
            }
            "childPermissions" => self.child_permissions = truth(name, value)?,
            "sessionListPageSize" => {
                let size = value.parse().ok().filter(|size| (1..=PAGE_SIZE_MAX).contains(size));
                self.page_size = size.ok_or_else(|| {
                    format!(
                        "option {name} is {value}; it must be a number from 1 to {PAGE_SIZE_MAX}"
                    )
                })?;
            }
            "surface" => {
                self.surface = match string(Some(value)).as_deref() {
                    Some("automation") => Surface::Automation,
                    Some("standard") => Surface::Standard,
                    Some(_) | None => {
                        let known = r#""automation" or "standard""#;
                        return Err(format!("option surface is {value}; it must be {known}"));
                    }
                };
            }
            unknown => {
                let known = NAMES.join(", ");
                return Err(format!("option {unknown} is unknown; known are {known}"));
            }
        }
        Ok(())
    }
}

fn truth(name: &str, value: &str) -> Result<bool, String> {
    match value {
        "true" => Ok(true),
        "false" => Ok(false),
        _ => Err(format!("option {name} is {value}; it must be true or false")),
    }
}

fn refused(detail: String) -> Fault {
    Fault::new(FaultKind::Unsupported, detail)
}
