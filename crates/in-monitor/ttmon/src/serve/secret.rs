//! The token of the user's own service. It is generated once, stored in a file that only the user can read, and printed by `ttmon token`.

use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

use ttmon_serve::Token;

use super::{paths, token};
use crate::failure::Failure;

const FILE: &str = "token";
/// Random bytes of a token, which has two characters per byte.
const RANDOM_BYTES: usize = 24;

/// The token file of this user's service; `None` without a runtime directory.
fn place() -> Option<PathBuf> {
    paths::runtime().map(|directory| directory.join(FILE))
}

/// The existing token, or a new one. `None` if it cannot be stored; the service then has no token.
pub(super) fn own() -> Option<Token> {
    own_at(&place()?)
}

fn own_at(path: &Path) -> Option<Token> {
    if let Ok(token) = Token::read(path) {
        return Some(token);
    }
    let text = random().ok()?;
    ttmon_os::Directory::create(path.parent()?).ok()?;
    ttmon_os::write_secret(path, format!("{text}\n").as_bytes()).ok()?;
    Token::read(path).ok()
}

// Uses the random generator of the kernel.
fn random() -> io::Result<String> {
    let mut bytes = [0; RANDOM_BYTES];
    File::open("/dev/urandom")?.read_exact(&mut bytes)?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

/// `ttmon token`: returns the token of `--token-file` or the environment, or else the token of this user's service.
pub(crate) fn print(file: Option<&Path>) -> Result<String, Failure> {
    if let Some(token) = token(file)? {
        return Ok(format!("{}\n", token.reveal()));
    }
    let path = place().ok_or_else(|| Failure::new("no token: XDG_RUNTIME_DIR is not set; name a file with --token-file"))?;
    match Token::read(&path) {
        Ok(token) => Ok(format!("{}\n", token.reveal())),
        Err(_) if !path.exists() => {
            let remedy = "start `ttmon serve`, or for the service of the system: sudo ttmon token";
            Err(Failure::new(format!("no token: {} does not exist; {remedy}", path.display())))
        }
        Err(error) => Err(Failure::new(format!("no token: {error}"))),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    #[test]
    fn token_is_made_once_and_for_its_user_alone() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("ttmon/token");
        let made = own_at(&path).unwrap().reveal().to_owned();
        assert_eq!(made.len(), 2 * RANDOM_BYTES);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        assert_eq!(own_at(&path).unwrap().reveal(), made);
        // A token that other users can read is replaced.
        fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).unwrap();
        assert_ne!(own_at(&path).unwrap().reveal(), made);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
        // An invalid token is replaced too.
        fs::write(&path, "short").unwrap();
        assert_eq!(own_at(&path).unwrap().reveal().len(), 2 * RANDOM_BYTES);
        let nowhere = directory.path().join("ttmon/token/below/token");
        assert!(own_at(&nowhere).is_none());
    }
}
