//! What our two ends show and whom they believe, made of the certificates of one folder.

use std::time::Duration;

use toolbus_proto::tool::{Failure, FailureKind};

use super::certificates::{CertificatesError, Folder, Identity};
use crate::bus::back::{causes, hinted};
use crate::transport::quic::{self, Clients, Idle, QuicClient, QuicServer, TlsSetupError};

/// What is spoken inside.
pub const ALPN: &[u8] = b"orchestra-plugin";

/// How long a hub may be silent before it counts as gone, unless said otherwise.
pub const IDLE_TIMEOUT: Duration = Duration::from_secs(15);

/// A calling end.
pub fn client(identity: &Identity, idle: Idle) -> Result<QuicClient, TlsSetupError> {
    QuicClient::new(ALPN, std::slice::from_ref(&identity.ca), Some(shown(identity)), idle)
}

/// A serving end.
pub fn server(identity: &Identity, clients: Clients) -> Result<QuicServer, TlsSetupError> {
    let roots = std::slice::from_ref(&identity.ca);
    QuicServer::new(ALPN, roots, shown(identity), clients, Idle::PATIENT)
}

/// The certificate of this name, made if it has to be. Files are waited for elsewhere.
pub async fn load(folder: &Folder, name: &str) -> Result<Identity, CertificatesError> {
    let (folder, name) = (folder.clone(), name.to_owned());
    let loaded = tokio::task::spawn_blocking(move || folder.identity(&name)).await;
    let identity =
        loaded.unwrap_or_else(|panicked| std::panic::resume_unwind(panicked.into_panic()))?;
    for warning in &identity.warnings {
        tracing::warn!("{warning}");
    }
    Ok(identity)
}

/// Certificates that cannot be used, as callers are told.
pub fn unfit(error: &CertificatesError) -> Failure {
    let failure = Failure::new(FailureKind::Unavailable, causes(error));
    hinted(failure, Some(error.hint()))
}

fn shown(identity: &Identity) -> quic::Identity {
    quic::Identity { chain: vec![identity.certificate.clone()], key: identity.key.clone_key() }
}
