//! What this machine can do to hold a shell back, and what it cannot (P-53, P-58), in words an operator can act on.

use std::{borrow::Cow, path::PathBuf};

use serde::{Serialize, Serializer, ser::SerializeMap};

use crate::{
    confine::plan::Layers,
    places::{Confinement, Network},
};

/// The verdict of the probe. Serialized as P-58 writes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// The version of Landlock that works here.
    pub landlock_abi: Option<u32>,
    /// Filters on system calls work.
    pub seccomp: bool,
    /// Commands get a file tree of their own.
    pub mounts: bool,
    /// What confined commands reach.
    pub network: Reach,
    /// The host runs as root; a service user would be better.
    pub root: bool,
    /// How much of the whole that is.
    pub enforcement: Enforcement,
    /// What stays open.
    pub gaps: Vec<Gap>,
    /// Standard roots that do not exist here (P-52); not serialized where there are none.
    pub absent: Vec<PathBuf>,
}

/// What confined commands reach over sockets.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Reach {
    /// Nothing, not even each other.
    None,
    /// Other commands of the same session.
    Loopback,
    /// Everything, be it by the operator's wish or because nothing here can prevent it.
    Open,
}

/// How much is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Enforcement {
    /// All that this program knows to hold back.
    Full,
    /// Enough to run commands, with gaps.
    Partial,
    /// Too little: no command is called confined.
    None,
}

/// Something that stays open.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Its name (P-53).
    pub name: &'static str,
    /// What would close it, or why it could not be found out.
    pub remedy: Cow<'static, str>,
}

const OFF: Gap = Gap {
    name: "off",
    remedy: Cow::Borrowed("confinement is switched off; remove `off = true` from [confine]"),
};
const LANDLOCK: Gap = Gap {
    name: "landlock",
    remedy: Cow::Borrowed("run a kernel with Landlock (5.13 or newer, `lsm=` with `landlock`)"),
};
const SECCOMP: Gap = Gap {
    name: "seccomp",
    remedy: Cow::Borrowed(
        "run on x86-64, aarch64 or riscv64 with a kernel that has seccomp filters",
    ),
};
const METADATA: Gap = Gap {
    name: "metadata",
    remedy: Cow::Borrowed(
        "modes, owners and times of files outside the roots can be changed; allow mount namespaces \
             (unprivileged user namespaces, or root with CAP_SYS_ADMIN)",
    ),
};
const TRUNCATE: Gap = Gap {
    name: "truncate",
    remedy: Cow::Borrowed("files outside the roots can be emptied; run Linux 6.2 or newer"),
};
const REFER: Gap = Gap {
    name: "refer",
    remedy: Cow::Borrowed(
        "renames between directories fail even in a root; run Linux 5.19 or newer",
    ),
};
const GUARDED: Gap = Gap {
    name: "guarded",
    remedy: Cow::Borrowed(
        "guarded files below a root can be changed by shells; allow mount namespaces",
    ),
};
const SECRETS: Gap = Gap {
    name: "secrets",
    remedy: Cow::Borrowed(
        "personal secrets below a root can be read by shells; allow mount namespaces, or keep them elsewhere",
    ),
};
const SIGNALS: Gap = Gap {
    name: "signals",
    remedy: Cow::Borrowed(
        "shells can signal this user's other processes; run Linux 6.12 or newer, or the host as a service user",
    ),
};
const UNIX_SOCKETS: Gap = Gap {
    name: "unix-sockets",
    remedy: Cow::Borrowed(
        "sockets in the file system can be connected to; seccomp would prevent it",
    ),
};

impl Report {
    pub(crate) fn new(
        layers: &Layers,
        settings: &Confinement,
        root: bool,
        absent: Vec<PathBuf>,
    ) -> Report {
        let usable =
            (layers.landlock.is_some() || layers.mounts) && layers.seccomp && !settings.off;
        let gaps = if settings.off { vec![OFF] } else { gaps(layers, settings) };
        let enforcement = match (usable, gaps.is_empty()) {
            (true, true) => Enforcement::Full,
            (true, false) => Enforcement::Partial,
            (false, _) => Enforcement::None,
        };
        let network = match settings.network {
            Network::Deny if usable && layers.loopback => Reach::Loopback,
            Network::Deny if usable => Reach::None,
            Network::Deny | Network::Allow => Reach::Open,
        };
        Report {
            landlock_abi: layers.landlock,
            seccomp: layers.seccomp,
            mounts: layers.mounts,
            network,
            root,
            enforcement,
            gaps,
            absent,
        }
    }

    /// Says of a gap that what it would take is another thing than usual. Without a name: of all that the machine
    /// is to blame for, of which one line is enough.
    pub(crate) fn explain(&mut self, name: Option<&str>, why: &str) {
        for gap in &mut self.gaps {
            if name.is_none_or(|name| gap.name == name) {
                gap.remedy = Cow::Owned(why.to_owned());
            }
        }
    }

    /// Whether commands can be confined at all.
    pub fn is_usable(&self) -> bool {
        self.enforcement != Enforcement::None
    }
}

fn gaps(layers: &Layers, settings: &Confinement) -> Vec<Gap> {
    let Layers { landlock, seccomp, mounts, .. } = *layers;
    let older_than = |abi: u32| landlock.is_some_and(|found| found < abi);
    let table = [
        (landlock.is_none(), LANDLOCK),
        (!seccomp, SECCOMP),
        (!mounts, METADATA),
        (older_than(3) && !mounts && !seccomp, TRUNCATE),
        (older_than(2), REFER),
        (!mounts, GUARDED),
        (!mounts, SECRETS),
        (landlock.is_none_or(|abi| abi < 6), SIGNALS),
        (!seccomp && settings.unix_sockets == Network::Deny, UNIX_SOCKETS),
    ];
    table.into_iter().filter(|(open, _)| *open).map(|(_, gap)| gap).collect()
}

impl Serialize for Report {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Landlock {
            abi: u32,
        }
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("landlock", &self.landlock_abi.map(|abi| Landlock { abi }))?;
        map.serialize_entry("seccomp", &self.seccomp)?;
        map.serialize_entry("mounts", &self.mounts)?;
        map.serialize_entry("network", &self.network)?;
        map.serialize_entry("root", &self.root)?;
        map.serialize_entry("enforcement", &self.enforcement)?;
        map.serialize_entry("gaps", &self.gaps.iter().map(|gap| gap.name).collect::<Vec<_>>())?;
        if !self.absent.is_empty() {
            map.serialize_entry("absent", &self.absent)?;
        }
        map.end()
    }
}
