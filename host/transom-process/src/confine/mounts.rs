//! The file tree as a confined command sees it (P-54): everything read-only, the roots writable, guarded files
//! read-only within them, hidden ones covered. All paths stay what they are.

use std::{
    collections::BTreeMap,
    fs::{self, DirBuilder, File, OpenOptions, Permissions},
    io,
    os::{
        fd::OwnedFd,
        unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt, symlink},
    },
    path::{Path, PathBuf},
};

use nix::mount::{MntFlags, MsFlags, mount, umount2};

use crate::confine::{
    files::{DEVICES_READ, DEVICES_WRITE},
    plan::Plan,
    system,
};

/// Covers nothing but their own bare existence.
const CLOSED: u32 = 0o000;

/// A cover under which something is shown: it can be walked through, not listed.
const PASSABLE: u32 = 0o111;

/// What happens at one path.
enum Mount {
    /// It stays as it was before everything became read-only.
    Writable(OwnedFd),
    /// It stays visible below a cover, read-only.
    Shown(OwnedFd),
    /// It becomes read-only again within something writable.
    Guarded,
    /// It becomes a mount of its own, as it is, so that it cannot be renamed away from over what it holds.
    Pinned,
    /// It is hidden.
    Covered(OwnedFd),
}

/// Builds the tree in the mount namespace that this process has just got for itself.
pub(crate) fn build(plan: &Plan) -> io::Result<()> {
    let inside = std::env::current_dir()?;
    // Nothing done here may reach the tree that others see.
    mount(None::<&str>, "/", None::<&str>, MsFlags::MS_REC | MsFlags::MS_PRIVATE, None::<&str>)?;

    // A map by path, in which what contains something comes before it: so each mount finds its place made.
    let mut mounts = BTreeMap::new();
    for (path, source) in covers(plan)? {
        mounts.insert(path, Mount::Covered(source));
    }
    if plan.landlock.is_none() {
        for device in
            DEVICES_READ.iter().chain(&DEVICES_WRITE).map(Path::new).filter(|path| path.exists())
        {
            mounts.insert(device.into(), Mount::Shown(system::copy_tree(device)?));
        }
    }
    for path in &plan.shown {
        match system::copy_tree(path) {
            Ok(tree) => drop(mounts.insert(path.clone(), Mount::Shown(tree))),
            Err(error) if gone(&error) => {}
            Err(error) => return Err(error),
        }
    }
    for path in plan.guarded.iter().chain(&plan.hidden) {
        // Up to the outermost root: whoever could rename one of these would put another in its place, or find under
        // its new name what is hidden under this one.
        let outermost = |parent: &&Path| {
            plan.writable.iter().any(|root| parent.starts_with(root) && root != parent)
        };
        for parent in path.ancestors().skip(1).take_while(outermost) {
            mounts.entry(parent.to_owned()).or_insert(Mount::Pinned);
        }
    }
    for path in &plan.guarded {
        mounts.entry(path.clone()).or_insert(Mount::Guarded);
    }
    for path in &plan.writable {
        // Within another root it is writable anyhow, and one mount less for renames to stumble over.
        if !within_writable(&mounts, path) {
            match system::copy_tree(path) {
                Ok(tree) => drop(mounts.insert(path.clone(), Mount::Writable(tree))),
                Err(error) if gone(&error) && *path != plan.workspace => {}
                Err(error) => return Err(error),
            }
        }
    }

    // Whoever may write everywhere has no tree to be protected, only covers.
    if !mounts.contains_key(Path::new("/")) {
        system::seal_below(Path::new("/"))?;
    }
    mounts.remove(Path::new("/"));
    place(mounts)?;
    // The directory itself may have got something mounted over it.
    nix::unistd::chdir(&inside).map_err(io::Error::from)
}

/// Whether the innermost mount above this path leaves it writable.
fn within_writable(mounts: &BTreeMap<PathBuf, Mount>, path: &Path) -> bool {
    let above = path.ancestors().skip(1).find_map(|above| mounts.get(above));
    matches!(above, Some(Mount::Writable(_) | Mount::Pinned))
}

fn place(mounts: BTreeMap<PathBuf, Mount>) -> io::Result<()> {
    let mut covers = Vec::new();
    for (path, kind) in mounts {
        let covered = covers.iter().any(|cover| path.starts_with(cover));
        match kind {
            Mount::Writable(tree) => {
                if covered {
                    make_place(&tree, &path, &covers)?;
                }
                system::attach_tree(tree, &path)?;
            }
            Mount::Shown(tree) => {
                system::seal_tree(&tree)?;
                make_place(&tree, &path, &covers)?;
                system::attach_tree(tree, &path)?;
            }
            Mount::Guarded | Mount::Pinned => match system::copy_tree(&path) {
                Ok(tree) => {
                    if matches!(kind, Mount::Guarded) {
                        system::seal_tree(&tree)?;
                    }
                    system::attach_tree(tree, &path)?;
                }
                Err(error) if gone(&error) => {}
                Err(error) => return Err(error),
            },
            Mount::Covered(source) => match system::attach_tree(source, &path) {
                Ok(()) => covers.push(path),
                Err(error) if gone(&error) => {}
                Err(error) => return Err(error),
            },
        }
    }
    // Last, because places were still being made in them.
    covers.iter().try_for_each(|cover| system::seal_only(cover))
}

/// What hidden paths are covered with: parts of one file system in memory, each without content.
fn covers(plan: &Plan) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    let mut wanted = Vec::new();
    for path in plan.hidden.iter().filter(|path| needs_cover(plan, path)) {
        if let Ok(found) = fs::symlink_metadata(path) {
            let passable =
                plan.writable.iter().chain(&plan.shown).any(|shown| shown.starts_with(path));
            wanted.push(match (found.is_dir(), passable) {
                (true, true) => (path.clone(), Cover::Directory(PASSABLE)),
                (true, false) => (path.clone(), Cover::Directory(CLOSED)),
                (false, _) => (path.clone(), Cover::File),
            });
        }
    }
    if plan.landlock.is_none() {
        wanted.push((PathBuf::from("/dev"), Cover::Devices));
    }
    if wanted.is_empty() {
        return Ok(Vec::new());
    }
    // Nobody else sees this tree, so any directory can lend its place for a moment.
    let desk = Path::new("/proc");
    let flags = MsFlags::MS_NOSUID | MsFlags::MS_NOEXEC;
    mount(Some("none"), desk, Some("tmpfs"), flags, Some("mode=0711,size=64k"))?;
    let made = make_covers(wanted, desk);
    umount2(desk, MntFlags::MNT_DETACH)?;
    made
}

/// Whether what is hidden is not already covered by something hidden above it.
fn needs_cover(plan: &Plan, path: &Path) -> bool {
    let above = path.ancestors().skip(1);
    let mut visible = above.map(|above| {
        let has = |paths: &[PathBuf]| paths.iter().any(|path| path == above);
        (has(&plan.writable) || has(&plan.shown), has(&plan.hidden))
    });
    visible.find(|(shown, hidden)| *shown || *hidden).is_none_or(|(shown, _)| shown)
}

/// What a cover looks like.
enum Cover {
    Directory(u32),
    File,
    /// The few names of `/dev` that programs rely on and that are no devices.
    Devices,
}

fn make_covers(wanted: Vec<(PathBuf, Cover)>, desk: &Path) -> io::Result<Vec<(PathBuf, OwnedFd)>> {
    let mut made = Vec::new();
    for (number, (path, cover)) in wanted.into_iter().enumerate() {
        let source = desk.join(number.to_string());
        match cover {
            Cover::Directory(mode) => make_directory(&source, mode)?,
            Cover::File => drop(make_file(&source, CLOSED)?),
            Cover::Devices => {
                make_directory(&source, 0o755)?;
                for (name, target) in
                    [("fd", ""), ("stdin", "/0"), ("stdout", "/1"), ("stderr", "/2")]
                {
                    symlink(format!("/proc/self/fd{target}"), source.join(name))?;
                }
            }
        }
        made.push((path, system::copy_tree(&source)?));
    }
    Ok(made)
}

/// Something to mount this tree on, below a cover.
fn make_place(tree: &OwnedFd, path: &Path, covers: &[PathBuf]) -> io::Result<()> {
    if !covers.iter().any(|cover| path.starts_with(cover)) {
        return Ok(());
    }
    let Some(parent) = path.parent() else { return Ok(()) };
    DirBuilder::new().recursive(true).mode(PASSABLE).create(parent)?;
    let kind = nix::sys::stat::fstat(tree)?;
    if kind.st_mode & libc::S_IFMT == libc::S_IFDIR {
        DirBuilder::new().recursive(true).mode(PASSABLE).create(path)
    } else {
        make_file(path, CLOSED).map(drop)
    }
}

fn make_directory(path: &Path, mode: u32) -> io::Result<()> {
    fs::create_dir(path)?;
    // The mask of the process does not count.
    fs::set_permissions(path, Permissions::from_mode(mode))
}

fn make_file(path: &Path, mode: u32) -> io::Result<File> {
    OpenOptions::new().write(true).create(true).truncate(false).mode(mode).open(path)
}

fn gone(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::ENOENT | libc::ENOTDIR))
}
