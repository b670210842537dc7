//! Which files a confined command may open, as Landlock rules (P-52). Landlock knows grants only, and a grant holds for
//! everything below: to hide a path, everything beside the way to it is granted instead.

use std::{
    fs, io,
    os::fd::OwnedFd,
    path::{Path, PathBuf},
};

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, PathBeneath, Ruleset,
    RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError, Scope,
};
use nix::sys::stat::fstat;

use crate::confine::{plan::Plan, system};

/// Devices that may be read and written (P-44).
pub(crate) const DEVICES_WRITE: [&str; 3] = ["/dev/null", "/dev/zero", "/dev/full"];

/// Devices that may be read.
pub(crate) const DEVICES_READ: [&str; 2] = ["/dev/random", "/dev/urandom"];

/// How many rules a command may need. Beyond, a directory on the way to something hidden is so large that starting
/// a command would take longer than most commands.
const RULES_MAX: usize = 4096;

/// Restricts this process for good.
pub(crate) fn restrict(plan: &Plan) -> io::Result<()> {
    let Some(version) = plan.landlock else { return Ok(()) };
    let abi = ABI::from(i32::try_from(version).unwrap_or(i32::MAX));
    let mut rules = Rules::new(plan, abi)?;
    rules.grant_tree(plan)?;
    rules.grant_devices()?;
    // Nothing less than what the probe saw (P-61).
    rules.created.restrict_self().map(drop).map_err(io::Error::other)
}

/// Whether something in this directory, or in one that is made there, can be hidden with half the rules that there may
/// be: the rest is for what else is hidden.
pub(crate) fn hides(directory: &Path) -> bool {
    let mut left = RULES_MAX / 2;
    let resolved = directory.ancestors().find_map(|path| fs::canonicalize(path).ok());
    resolved.iter().flat_map(|path| path.ancestors()).all(|path| {
        // What cannot be listed takes none.
        let entries = fs::read_dir(path).map_or(0, |entries| entries.take(left + 1).count());
        let fits = entries <= left;
        left = left.saturating_sub(entries);
        fits
    })
}

struct Rules {
    created: RulesetCreated,
    abi: ABI,
    handled: BitFlags<AccessFs>,
    read: BitFlags<AccessFs>,
    count: usize,
}

impl Rules {
    fn new(plan: &Plan, abi: ABI) -> io::Result<Rules> {
        let mut handled = AccessFs::from_all(abi);
        if plan.unix_sockets {
            handled.remove(AccessFs::ResolveUnix);
        }
        Ok(Rules {
            created: create(plan, abi, handled).map_err(io::Error::other)?,
            abi,
            handled,
            read: AccessFs::from_read(abi),
            count: 0,
        })
    }

    /// Reading and executing everywhere but in hidden places and among devices; everything below the roots.
    fn grant_tree(&mut self, plan: &Plan) -> io::Result<()> {
        let root = Path::new("/");
        let mut shut = plan.hidden.clone();
        shut.push(PathBuf::from("/dev"));
        // Names stay visible everywhere, contents do not.
        self.grant(root, AccessFs::ReadDir.into())?;
        self.grant_beside(root, &shut)?;
        for path in &plan.shown {
            self.grant(path, self.read)?;
        }
        for path in &plan.writable {
            let granted = self.grant(path, self.handled)?;
            if !granted && *path == plan.workspace {
                let message = format!("workspace \"{}\" cannot be opened", path.display());
                return Err(io::Error::new(io::ErrorKind::NotFound, message));
            }
        }
        Ok(())
    }

    fn grant_devices(&mut self) -> io::Result<()> {
        let mut write =
            AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev;
        write &= self.handled;
        for device in DEVICES_WRITE {
            self.grant(Path::new(device), write)?;
        }
        for device in DEVICES_READ {
            self.grant(Path::new(device), AccessFs::ReadFile.into())?;
        }
        Ok(())
    }

    /// Grants reading of what a directory holds, except `shut` and what lies there.
    fn grant_beside(&mut self, directory: &Path, shut: &[PathBuf]) -> io::Result<()> {
        // What cannot be listed stays closed: stricter, and only where this user has no business.
        let Ok(entries) = fs::read_dir(directory) else { return Ok(()) };
        for entry in entries.flatten() {
            let path = entry.path();
            // A link grants nothing of its own: what it leads to has a place of its own.
            let Ok(kind) = entry.file_type() else { continue };
            if kind.is_symlink() || shut.contains(&path) {
                continue;
            }
            if kind.is_dir() && shut.iter().any(|shut| shut.starts_with(&path)) {
                self.grant_beside(&path, shut)?;
            } else {
                self.grant(&path, self.read)?;
            }
        }
        Ok(())
    }

    /// Whether the path could be opened. One that has gone meanwhile needs no grant.
    fn grant(&mut self, path: &Path, access: BitFlags<AccessFs>) -> io::Result<bool> {
        // All paths are resolved by now.
        let Ok(place) = system::reach(path) else { return Ok(false) };
        let access = self.fitting(&place, access)?;
        if access.is_empty() {
            return Ok(true);
        }
        self.count += 1;
        if self.count > RULES_MAX {
            let message = format!(
                "more than {RULES_MAX} rules are needed to hide what is hidden; move it out of a directory that full"
            );
            return Err(io::Error::new(io::ErrorKind::QuotaExceeded, message));
        }
        (&mut self.created).add_rule(PathBeneath::new(place, access)).map_err(io::Error::other)?;
        Ok(true)
    }

    /// What of this access there is for a file that is no directory.
    fn fitting(
        &self,
        place: &OwnedFd,
        access: BitFlags<AccessFs>,
    ) -> io::Result<BitFlags<AccessFs>> {
        let directory = fstat(place)?.st_mode & libc::S_IFMT == libc::S_IFDIR;
        Ok(if directory { access } else { access & AccessFs::from_file(self.abi) })
    }
}

fn create(
    plan: &Plan,
    abi: ABI,
    handled: BitFlags<AccessFs>,
) -> Result<RulesetCreated, RulesetError> {
    let mut ruleset = Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(handled)?;
    // A network of its own holds more than TCP, and lets the loopback be used.
    let ports = AccessNet::from_all(abi);
    if plan.offline && plan.join.is_none() && !ports.is_empty() {
        ruleset = ruleset.handle_access(ports)?;
    }
    let mut scopes = Scope::from_all(abi);
    if plan.unix_sockets {
        scopes.remove(Scope::AbstractUnixSocket);
    }
    if !scopes.is_empty() {
        ruleset = ruleset.scope(scopes)?;
    }
    ruleset.create()
}
