//! Files that root makes in a directory of another user's.

use std::fs;
use std::io;
use std::marker::PhantomData;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// While this lives, this thread opens and makes files as their directory's owner does: with that user's rights, so that a
/// link the user planted leads nowhere the user could not go, and what is made belongs to the user.
#[derive(Debug)]
pub struct AsOwner {
    before: (u32, u32),
    /// The identity is this thread's.
    _thread: PhantomData<*const ()>,
}

impl AsOwner {
    /// As the owner of the nearest directory above `path`, or `path` itself, that is there. `None` where this process is not
    /// root, or root is the owner.
    ///
    /// # Errors
    /// The kernel's; `PermissionDenied` if the identity could not be changed.
    pub fn of(path: &Path) -> io::Result<Option<Self>> {
        let Some(owner) = path.ancestors().find_map(|each| fs::metadata(each).ok()) else { return Ok(None) };
        if !rustix::process::geteuid().is_root() || owner.uid() == 0 {
            return Ok(None);
        }
        let before = (set_user(u32::MAX), set_group(u32::MAX));
        // The group first: without root's identity it could not be changed.
        set_group(owner.gid());
        set_user(owner.uid());
        let changed = Self { before, _thread: PhantomData };
        if (set_user(u32::MAX), set_group(u32::MAX)) == (owner.uid(), owner.gid()) {
            Ok(Some(changed))
        } else {
            Err(io::ErrorKind::PermissionDenied.into())
        }
    }
}

impl Drop for AsOwner {
    fn drop(&mut self) {
        set_user(self.before.0);
        set_group(self.before.1);
    }
}

/// Returns the one before. An identity that cannot be, such as the largest number, changes nothing.
fn set_user(id: u32) -> u32 {
    // SAFETY: touches no memory, and no more than this thread's identity for files.
    (unsafe { libc::setfsuid(id) }) as u32
}

fn set_group(id: u32) -> u32 {
    // SAFETY: as above.
    (unsafe { libc::setfsgid(id) }) as u32
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::{PermissionsExt, chown, symlink};

    use super::*;

    #[test]
    fn what_root_makes_in_a_users_directory_is_the_users_and_links_lead_nowhere_else() {
        let name = "what_root_makes_in_a_users_directory_is_the_users_and_links_lead_nowhere_else";
        if !rustix::process::geteuid().is_root() {
            return eprintln!("SKIPPED {name}: only root can make files for other users");
        }
        let place = tempfile::tempdir().unwrap();
        fs::set_permissions(place.path(), fs::Permissions::from_mode(0o755)).unwrap();
        let (home, secret) = (place.path().join("home"), place.path().join("secret"));
        fs::create_dir(&home).unwrap();
        chown(&home, Some(4242), Some(4243)).unwrap();
        fs::write(&secret, "root's").unwrap();
        symlink(&secret, home.join("planted")).unwrap();
        let wanted = home.join("a/b");
        {
            let _user = AsOwner::of(&wanted).unwrap().expect("another user's directory");
            fs::create_dir_all(&wanted).unwrap();
            fs::write(wanted.join("file"), "").unwrap();
            let error = fs::write(home.join("planted"), "overwritten").unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::PermissionDenied);
        }
        for path in [home.join("a"), wanted.clone(), wanted.join("file")] {
            let made = fs::metadata(path).unwrap();
            assert_eq!((made.uid(), made.gid()), (4242, 4243));
        }
        assert_eq!(fs::read_to_string(&secret).unwrap(), "root's");
        fs::write(place.path().join("own"), "").unwrap();
        assert_eq!(fs::metadata(place.path().join("own")).unwrap().uid(), 0);
        assert!(AsOwner::of(&place.path().join("new/place")).unwrap().is_none());
    }
}
