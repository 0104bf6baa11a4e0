//! The serving end of TLS. Its files are read again once they have changed, so that a renewed
//! certificate needs no restart; connections and sessions go on.
//!
//! They are looked at when a client comes, and when the user asks for it: nothing ticks meanwhile.

use std::cell::RefCell;
use std::fmt;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use rustls::ServerConfig;
use rustls::pki_types::CertificateDer;
use rustls::server::WebPkiClientVerifier;
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};
use tokio_rustls::TlsAcceptor;
use toolbus_proto::x509::Parts;

use super::{Identity, Inside, TlsError, TlsStream, ring, roots};
use crate::causes::causes;
use crate::time::rfc3339;

/// However many clients come, files are looked at no more often.
pub const LOOKED_EVERY: Duration = Duration::from_secs(1);

/// What a serving end needs. Cheap to clone; all clones show the same certificate.
#[derive(Clone)]
pub struct ServerTls(Rc<Identified>);

/// The files of a serving end, as the user names them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ServerFiles {
    /// What their paths are relative to.
    pub folder: PathBuf,
    /// The certificate, and those between it and its root.
    pub cert: PathBuf,
    /// Its private key.
    pub key: PathBuf,
    /// Who vouches for the clients that are let in; `None` lets in all.
    pub client_ca: Option<PathBuf>,
}

/// What is spoken with, and where it came from.
struct Identified {
    files: ServerFiles,
    inside: Inside,
    /// Whose it is, as the log says it.
    whose: Option<String>,
    state: RefCell<InForce>,
}

struct InForce {
    acceptor: TlsAcceptor,
    certificate: CertificateDer<'static>,
    /// What the files looked like when they were last read, whatever came of it.
    read: Vec<Option<FileLook>>,
    looked_at: Instant,
}

/// What a file looks like from outside: one that was written has another look.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FileLook {
    modified: (i64, i64),
    bytes: u64,
    file: u64,
}

impl ServerTls {
    /// Reads the files. With `client_ca` only clients that it vouches for are let in.
    pub fn load(
        identity: Identity<'_>,
        client_ca: Option<&Path>,
        inside: Inside,
    ) -> Result<ServerTls, TlsError> {
        let files = ServerFiles {
            folder: PathBuf::new(),
            cert: identity.cert.into(),
            key: identity.key.into(),
            client_ca: client_ca.map(Path::to_owned),
        };
        ServerTls::open(files, inside, None)
    }

    /// Reads the files, which are those of `whose`, as in `front.web`.
    pub fn open(
        files: ServerFiles,
        inside: Inside,
        whose: Option<String>,
    ) -> Result<ServerTls, TlsError> {
        // Before they are read: what changes meanwhile is found the next time.
        let read = files.looks();
        let (acceptor, certificate) = files.read(inside)?;
        let state = InForce { acceptor, certificate, read, looked_at: Instant::now() };
        Ok(ServerTls(Rc::new(Identified { files, inside, whose, state: RefCell::new(state) })))
    }

    /// Are these its files, and is that spoken inside?
    pub fn is_of(&self, files: &ServerFiles, inside: Inside) -> bool {
        self.0.files == *files && self.0.inside == inside
    }

    /// Does every client need a certificate?
    pub fn asks_for_certificates(&self) -> bool {
        self.0.files.client_ca.is_some()
    }

    /// Reads the files again, whatever they look like. What cannot be used leaves the old in force.
    pub fn renew(&self) {
        self.0.look(true);
    }

    /// Tells the user of a certificate that has ended: no client will believe it.
    pub fn warn_if_ended(&self) {
        let Some(until) = ends(&self.0.state.borrow().certificate) else { return };
        if until < SystemTime::now() {
            let (cert, day) = (self.0.files.cert.display(), day(until));
            tracing::warn!("{}the certificate in `{cert}` ended on {day}", self.0.prefix());
        }
    }

    /// What shakes hands with a client that comes now.
    pub(in crate::transport) fn acceptor(&self) -> Handshakes {
        if self.0.is_to_be_looked_at() {
            self.0.look(false);
        }
        Handshakes(self.0.state.borrow().acceptor.clone())
    }
}

/// Shakes hands as a serving end, on any thread.
#[derive(Clone)]
pub(in crate::transport) struct Handshakes(TlsAcceptor);

impl Handshakes {
    pub(in crate::transport) async fn accept(
        &self,
        stream: TcpStream,
        patience: Duration,
    ) -> Result<TlsStream, TlsError> {
        match timeout(patience, self.0.accept(stream)).await {
            Ok(Ok(stream)) => Ok(stream.into()),
            Ok(Err(source)) => Err(TlsError::Handshake { source }),
            Err(_) => Err(TlsError::TimedOut { patience }),
        }
    }
}

impl fmt::Debug for Handshakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Handshakes")
    }
}

impl Identified {
    fn is_to_be_looked_at(&self) -> bool {
        self.state.borrow().looked_at + LOOKED_EVERY <= Instant::now()
    }

    /// Reads the files if they have changed, or if that is asked for.
    fn look(&self, is_asked: bool) {
        let looks = self.files.looks();
        let mut state = self.state.borrow_mut();
        state.looked_at = Instant::now();
        let have_changed = looks != state.read;
        if !have_changed && !is_asked {
            return;
        }
        state.read = looks;
        match self.files.read(self.inside) {
            Ok((acceptor, certificate)) => {
                let is_new = certificate != state.certificate;
                // Who is known by its session goes on by it, unless something is another.
                if is_new || have_changed {
                    state.acceptor = acceptor;
                    state.certificate = certificate;
                }
                drop(state);
                if is_new {
                    self.tell_of_new();
                }
            }
            // It was told when they came to look like this.
            Err(_) if !have_changed => {}
            Err(error) => {
                drop(state);
                let (prefix, cert) = (self.prefix(), self.files.cert.display());
                tracing::warn!(
                    "{prefix}the certificate in `{cert}` cannot be used; the old one stays"
                );
                tracing::info!("{prefix}{}", causes(&error));
            }
        }
    }

    fn tell_of_new(&self) {
        let until = last_day(&self.state.borrow().certificate);
        let until = until.map(|day| format!(", until {day}")).unwrap_or_default();
        tracing::info!("{}new certificate{until}", self.prefix());
    }

    /// What its lines in the log begin with.
    fn prefix(&self) -> String {
        self.whose.as_ref().map(|whose| format!("{whose}: ")).unwrap_or_default()
    }
}

impl ServerFiles {
    fn looks(&self) -> Vec<Option<FileLook>> {
        let paths = [&self.cert, &self.key].into_iter().chain(&self.client_ca);
        paths.map(|path| FileLook::at(&self.folder.join(path))).collect()
    }

    fn read(&self, inside: Inside) -> Result<(TlsAcceptor, CertificateDer<'static>), TlsError> {
        let ServerFiles { folder, cert, key, client_ca } = self;
        let (certs, key) = Identity { cert, key }.read_in(folder)?;
        let certificate = certs[0].clone();
        let builder = ServerConfig::builder_with_provider(ring())
            .with_safe_default_protocol_versions()
            .map_err(TlsError::Setup)?;
        let builder = match client_ca {
            None => builder.with_no_client_auth(),
            Some(ca) => {
                let roots = Arc::new(roots(folder, ca)?);
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(roots, ring()).build().map_err(
                        |_| TlsError::NothingIn { path: ca.into(), what: "certificate" },
                    )?;
                builder.with_client_cert_verifier(verifier)
            }
        };
        let unfit = |source| TlsError::Unfit { path: cert.into(), source };
        let mut config = builder.with_single_cert(certs, key).map_err(unfit)?;
        config.alpn_protocols = inside.protocols();
        Ok((Arc::new(config).into(), certificate))
    }
}

impl FileLook {
    /// That of the file at this path, if there is one.
    pub fn at(path: &Path) -> Option<FileLook> {
        let there = fs::metadata(path).ok()?;
        let modified = (there.mtime(), there.mtime_nsec());
        Some(FileLook { modified, bytes: there.size(), file: there.ino() })
    }
}

/// The day on which a certificate ends, as `2027-01-01`, if it can be read.
pub fn last_day(certificate: &CertificateDer<'_>) -> Option<String> {
    ends(certificate).map(day)
}

/// When a certificate ends, if it can be read.
fn ends(certificate: &CertificateDer<'_>) -> Option<SystemTime> {
    let seconds = Parts::read(certificate)?.not_after;
    UNIX_EPOCH.checked_add(Duration::from_secs(u64::try_from(seconds).unwrap_or(0)))
}

/// `2027-01-01`.
fn day(time: SystemTime) -> String {
    let mut told = rfc3339(time);
    told.truncate("2027-01-01".len());
    told
}

impl fmt::Debug for ServerTls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerTls")
    }
}
