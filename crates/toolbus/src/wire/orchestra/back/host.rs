//! A hub or plugin that runs elsewhere.

use std::time::Duration;

use toolbus_proto::tool::{Failure, FailureKind};

use crate::bus::back::{LocalFuture, causes, hinted};
use crate::transport::quic::{Connection, DialError, Dialler, Idle, Target};
use crate::wire::orchestra::caller::Reach;
use crate::wire::orchestra::certificates::Folder;
use crate::wire::orchestra::{HostPort, tls};

/// A peer that somebody else runs.
pub(in crate::wire::orchestra) struct Host {
    pub(in crate::wire::orchestra) target: Target,
    pub(in crate::wire::orchestra) folder: Folder,
    /// Whose certificate we show.
    pub(in crate::wire::orchestra) certificate: String,
    pub(in crate::wire::orchestra) idle: Idle,
    pub(in crate::wire::orchestra) patience: Duration,
    pub(in crate::wire::orchestra) dialler: Dialler,
}

impl Reach for Host {
    fn reach(&self) -> LocalFuture<'_, Result<Connection, Failure>> {
        Box::pin(async {
            // Looked at each time: certificates are renewed while we run.
            let identity = tls::load(&self.folder, &self.certificate).await;
            let identity = identity.map_err(|error| tls::unfit(&error))?;
            let client = tls::client(&identity, self.idle)
                .map_err(|error| Failure::new(FailureKind::Unavailable, causes(&error)))?;
            let dialled = self.dialler.dial(&self.target, &client, self.patience).await;
            dialled.map_err(|error| unreachable(&self.target, &error))
        })
    }
}

fn shown(Target { host, port, .. }: &Target) -> HostPort {
    HostPort::new(host, *port)
}

/// Why a peer cannot be called.
pub(super) fn unreachable(target: &Target, error: &DialError) -> Failure {
    let message = format!("cannot connect to {}: {}", shown(target), causes(error));
    hinted(Failure::new(FailureKind::Unavailable, message), error.hint())
}
